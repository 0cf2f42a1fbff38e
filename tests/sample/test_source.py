"""What `--from` names, and which of its records a sample has."""

from __future__ import annotations

import bz2
import gzip
from typing import TYPE_CHECKING

import pytest

from hivesink.config.site import NO_SITE
from hivesink.errors import InvalidOption, WrongUsage
from hivesink.sample.source import FilesSource, TopicSource, source_of

if TYPE_CHECKING:
    from pathlib import Path

    from hivesink.sample.source import Sample


def _sample(path: Path, most: int = 1000) -> Sample:
    source = source_of(str(path), NO_SITE)
    assert isinstance(source, FilesSource)
    return source.sample(most, NO_SITE)


def _places(sample: Sample) -> list[str]:
    return [sample.position(row).rpartition("/")[2] for row in range(sample.batch.num_rows)]


def test_lines_are_those_that_hadoop_splits(tmp_path: Path) -> None:
    octets = b'\xef\xbb\xbf{"a": 1}\r\n\n{"a": 2}\r{"a": "\xff"}\n{"a": 3}'
    for name, data in (("a.json", octets), ("b.json.gz", gzip.compress(octets)), ("c.json.bz2", bz2.compress(octets))):
        (tmp_path / name).write_bytes(data)
    (tmp_path / "_hidden").write_bytes(b"{}")
    (tmp_path / ".hidden").write_bytes(b"{}")
    (tmp_path / "below").mkdir()
    (tmp_path / "empty.json").touch()
    sample = _sample(tmp_path)
    assert sample.records() == [b'{"a": 1}', b"", b'{"a": 2}', b'{"a": "\xff"}', b'{"a": 3}'] * 3
    assert _places(sample)[4:6] == ["a.json line 5", "b.json.gz line 1"]


def test_each_file_gives_a_like_share_and_the_others_what_it_lacks(tmp_path: Path) -> None:
    for name, lines in (("a", 1), ("b", 50), ("c", 50)):
        (tmp_path / name).write_text("".join(f"{number:09}\n" for number in range(lines)))
    assert [line.split()[0] for line in _places(_sample(tmp_path, 9))] == ["a"] + ["b"] * 4 + ["c"] * 4
    assert _sample(tmp_path, 1000).batch.num_rows == 101


def test_of_many_files_some_of_each_part_are_opened(tmp_path: Path) -> None:
    for number in range(250):
        (tmp_path / f"{number:03}").write_text("{}\n{}\n")
    names = [place.split()[0] for place in _places(_sample(tmp_path))]
    assert (len(names), names[-1]) == (168, "249")


def test_a_folder_of_folders_is_read_to_its_depths_and_a_file_alone(tmp_path: Path) -> None:
    for day in ("1", "2"):
        (tmp_path / "days" / day).mkdir(parents=True)
        (tmp_path / "days" / day / "a.json").write_text("{}\n")
    deep = source_of(str(tmp_path), NO_SITE)
    assert isinstance(deep, FilesSource)
    assert (deep.is_deep, sorted(deep.lengths)) == (True, ["days/1/a.json", "days/2/a.json"])
    file = source_of((tmp_path / "days" / "1" / "a.json").as_uri(), NO_SITE)
    assert file == FilesSource(f"{tmp_path}/days/1", {"a.json": 3})


@pytest.mark.parametrize(
    ("text", "servers"),
    [
        ("kafka://h/a.b-c", "h:9092"),
        ("kafka://h:1,[::1]:2/a.b-c/", "h:1,[::1]:2"),
        ("kafka://[::1]/a.b-c", "[::1]:9092"),
    ],
)
def test_a_topic_has_a_port_by_default(text: str, servers: str) -> None:
    assert source_of(text, NO_SITE) == TopicSource(servers, "a.b-c")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("kafka://h", "write kafka://HOST:PORT/TOPIC"),
        ("s3://bucket/key", "s3://bucket/key: hivesink supports only "),
        ("not there", "no file that Spark reads"),
        ("empty", "no file that Spark reads; it skips names that begin with . or _"),
    ],
)
def test_what_is_no_source(text: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "_hidden").touch()
    with pytest.raises(WrongUsage) as error:
        source_of(text, NO_SITE)
    assert problem in str(error.value)


@pytest.mark.parametrize(
    ("name", "data"),
    [("broken.gz", b"no gzip"), ("short.gz", gzip.compress(b"{}", mtime=0)[:-5]), ("short.bz2", b"BZh9")],
)
def test_a_damaged_file_is_named(tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InvalidOption, match=f"{tmp_path}/{name} can't be read: "):
        _sample(tmp_path)

from __future__ import annotations

import bz2
import gzip
import json
from typing import TYPE_CHECKING

import pytest

from hivesink.config.site import NO_SITE
from hivesink.errors import InvalidOption
from hivesink.sample.files import FilesSource

if TYPE_CHECKING:
    from pathlib import Path

    from hivesink.sample.records import Sample


def _sample(path: Path, most: int = 1000) -> Sample:
    return FilesSource.at(str(path), NO_SITE).sample(most, NO_SITE)


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
    assert sample.total == 15


def test_each_file_gives_a_like_share_and_the_others_what_one_lacks(tmp_path: Path) -> None:
    for name, lines in (("a", 1), ("b", 50), ("c", 50)):
        (tmp_path / name).write_text("".join(f"{number:09}\n" for number in range(lines)))
    assert [line.split()[0] for line in _places(_sample(tmp_path, 9))] == ["a"] + ["b"] * 4 + ["c"] * 4
    assert _sample(tmp_path, 9).total == 101
    assert _sample(tmp_path, 101).total == 101


def test_of_many_files_some_of_each_part_are_opened(tmp_path: Path) -> None:
    for number in range(250):
        (tmp_path / f"{number:03}").write_text("{}\n{}\n")
    sample = _sample(tmp_path)
    names = [place.split()[0] for place in _places(sample)]
    assert len(names) == 200
    assert names[-1] > "245"
    assert sample.total == 500


@pytest.mark.parametrize("named", ["nope", "", "hidden", "broken.gz", "short.bz2", "data.zst", "good.GZ"])
def test_what_holds_no_lines_is_named(tmp_path: Path, named: str) -> None:
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / ".a").touch()
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "broken.gz").write_bytes(b"no gzip")
    (folder / "short.bz2").write_bytes(bz2.compress(b"{}")[:-5])
    (folder / "data.zst").write_bytes(b"\x28\xb5")
    (folder / "good.GZ").write_bytes(gzip.compress(b"{}"))
    path = next((place / named for place in (tmp_path, folder) if named and (place / named).exists()), None)
    with pytest.raises(InvalidOption) as error:
        _sample(path or tmp_path / "not there")
    assert str(path or tmp_path / "not there") in str(error.value)
    assert ("read it without unpacking it; rename it to good.gz" in str(error.value)) is (named == "good.GZ")


@pytest.mark.parametrize(("link", "leads"), [("latest", "days/2"), ("days/up", ".."), ("loop", ".")])
def test_a_link_by_which_spark_would_read_a_file_twice_is_refused(tmp_path: Path, link: str, leads: str) -> None:
    for day in "12":
        (tmp_path / "days" / day).mkdir(parents=True)
        (tmp_path / "days" / day / "a.json").write_text("{}\n")
    (tmp_path / link).symlink_to(leads)
    with pytest.raises(InvalidOption, match=rf"{tmp_path}/{link} is a link to {tmp_path}"):
        _sample(tmp_path)


def test_a_link_to_a_file_beside_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{}\n")
    (tmp_path / "latest.json").symlink_to("a.json")
    with pytest.raises(InvalidOption, match=rf"{tmp_path}/latest.json is a link to {tmp_path}/a.json"):
        _sample(tmp_path)


def test_folders_beside_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{}\n")
    for name in ("_temporary", "day=1", "old"):
        (tmp_path / name).mkdir()
    told = f"the job reads the files in {tmp_path}, and not its folders: old"
    assert FilesSource.at(str(tmp_path), NO_SITE).beyond() == told


def test_links_that_lead_elsewhere_are_read_as_spark_does(tmp_path: Path) -> None:
    for day in "12":
        (tmp_path / "store" / day).mkdir(parents=True)
        (tmp_path / "store" / day / "a.json").write_text("{}\n" * int(day))
    source, link = tmp_path / "source", tmp_path / "link"
    source.mkdir()
    (source / "1").symlink_to("../store/1")
    (source / "2").symlink_to("../store/2")
    link.symlink_to("source")
    for folder in (source, link):
        assert _places(_sample(folder)) == ["a.json line 1"] * 2 + ["a.json line 2"]
    (source / "3").symlink_to("../store/2")
    with pytest.raises(InvalidOption, match=r"source/3/a.json is a link to .+/source/2/a.json"):
        _sample(source)


def test_a_job_reads_the_folder_of_a_file_whose_neighbours_look_alike(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps({}))
    (tmp_path / "b.json.gz").write_bytes(gzip.compress(b"{}"))
    source = FilesSource.at(str(tmp_path / "a.json"), NO_SITE)
    assert (source.names, source.folder_of_job()) == (("a.json",), f"file://{tmp_path}")
    (tmp_path / "README.md").touch()
    with pytest.raises(InvalidOption, match=r"other files too \(\.json, \.md\); put the data into a folder of its own"):
        FilesSource.at(str(tmp_path / "a.json"), NO_SITE).folder_of_job()


@pytest.mark.parametrize("name", ["a:b.json", "a[1].json"])
def test_a_file_that_spark_can_not_read_is_refused_for_a_job(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("{}\n")
    (tmp_path / "z.json").touch()
    for place in (tmp_path, tmp_path / name, tmp_path / "z.json"):
        with pytest.raises(InvalidOption, match="Spark can't read") as error:
            FilesSource.at(str(place), NO_SITE).folder_of_job()
        assert str(tmp_path / name) in str(error.value)


def test_a_folder_that_is_a_pattern_to_spark_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a[1]").mkdir()
    (tmp_path / "a[1]" / "a.json").touch()
    with pytest.raises(InvalidOption, match="for a pattern"):
        FilesSource.at(str(tmp_path / "a[1]"), NO_SITE).folder_of_job()

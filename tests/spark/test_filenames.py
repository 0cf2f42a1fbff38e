from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from hivesink.errors import InvalidOption
from hivesink.spark.filenames import is_below, read_already, read_twice, require_seen

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files in folders `d1`, `_d`, `dt=1` and `elsewhere`, and beside them; a link to each."""
    for name in ("source/d1", "source/_d", "source/dt=1", "elsewhere"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "a.json").touch()
    source = tmp_path / "source"
    for name in ("b.json", "b.txt", "_b.json"):
        (source / name).touch()
        (source / f"to-{name}.json").symlink_to(name)
    for name in ("d1", "_d", "dt=1"):
        (source / f"to-{name}").symlink_to(name)
    (source / "to-elsewhere").symlink_to("../elsewhere")
    (tmp_path / "above").symlink_to("source")
    return tmp_path


@pytest.mark.parametrize(
    ("root", "path", "deep", "is_twice"),
    [
        ("source", "source/to-b.json.json", False, True),
        ("source", "source/to-b.txt.json", False, False),
        ("source", "source/to-_b.json.json", False, False),
        ("source", "source/b.json", False, False),
        ("source", "source/to-d1/a.json", True, True),
        ("source", "source/to-d1/a.json", False, False),
        ("source", "source/to-dt=1/a.json", False, True),
        ("source", "source/to-_d/a.json", True, False),
        ("source", "source/to-elsewhere/a.json", True, False),
        ("above", "above/d1/a.json", True, False),
        ("above", "above/to-d1/a.json", True, True),
        ("source/*", "source/to-d1/a.json", False, True),
        ("source/*1", "source/to-d1/a.json", False, True),
        ("source", "source/to-dt=1/x/a.json", False, True),
        ("source/*", "source/to-_d/a.json", False, True),
        ("source/*", "source/to-_b.json.json", False, False),
        ("source/[!_]*", "source/to-_d/a.json", False, False),
        ("source/to*", "source/to-d1/a.json", False, False),
        ("source/*/*.json", "source/to-d1/a.json", False, True),
        ("source/{d1,to-d1}", "source/to-d1/a.json", False, True),
        ("source/{d{1,2}/a,to-d1/a}.json", "source/to-d1/a.json", False, True),
        ("source/{x,to-d1}", "source/to-d1/a.json", False, False),
    ],
)
def test_a_file_has_a_second_name_only_where_spark_takes_the_first(
    folder: Path, root: str, path: str, deep: bool, is_twice: bool
) -> None:
    found = list(read_twice(f"{folder}/{root}", [f"file:{folder}/{path}"], deep=deep, names="*.json"))
    assert [link for link, _ in found] == ([f"{folder}/{path}"] if is_twice else [])


def test_two_names_of_one_list_are_one_file(folder: Path) -> None:
    names = [f"{folder}/source/{name}/a.json" for name in ("to-elsewhere", "also")]
    (folder / "source" / "also").symlink_to("to-elsewhere")
    assert list(read_twice(f"{folder}/source", names, deep=False)) == [(names[1], names[0])]


@pytest.mark.parametrize(
    ("names", "deep", "kept", "is_utf8", "told"),
    [
        (
            [b"\xe9", b"dt=1/\xe9", b"d/\xe9", b"_\xe9", b".\xe9", "é".encode()],
            False,
            "*",
            True,
            [r"/dt=1/\xe9", r"/\xe9"],
        ),
        ([b"d/\xe9", b"_d/\xe9", b".d/\xe9"], True, "*", True, [r"/d/\xe9"]),
        ([b"d\xe9/a", b"dt=\xe9/a"], False, "*", True, [r"/dt=\xe9"]),
        ([b"d\xe9/a"], True, "*", True, [r"/d\xe9"]),
        ([b"_p=1/\xe9", b"_p/\xe9"], True, "*", True, [r"/_p=1/\xe9"]),
        ([b"\xe9.txt", b"\xe9.json"], False, "*.txt", True, [r"/\xe9.txt"]),
        ([b"a", "é".encode()], False, "*", False, ["/é"]),
        ([b"a", "é".encode()], True, "*", True, []),
    ],
)
@pytest.mark.parametrize("root", ["source", "{none,sou}*"])
def test_names_that_a_jvm_cannot_read(
    tmp_path: Path, root: str, names: Sequence[bytes], *, deep: bool, kept: str, is_utf8: bool, told: Sequence[str]
) -> None:
    for name in names:
        path = tmp_path / "source" / os.fsdecode(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    if not told:
        require_seen(f"{tmp_path}/{root}", deep=deep, names=kept, is_utf8=is_utf8)
        return
    with pytest.raises(InvalidOption) as refused:
        require_seen(f"{tmp_path}/{root}", deep=deep, names=kept, is_utf8=is_utf8)
    places = str(refused.value).partition("passes over ")[2].partition(" in silence: ")[0].split(", ")
    assert sorted(places) == sorted(f"{tmp_path}/source{one}" for one in told)


def test_names_behind_links_and_of_what_matches_a_pattern(tmp_path: Path) -> None:
    for folder in ("source", "elsewhere", os.fsdecode(b"d\xe9")):
        (tmp_path / folder).mkdir()
    (tmp_path / "source" / "link").symlink_to("../elsewhere")
    (tmp_path / "source" / "loop").symlink_to(".")
    require_seen(f"{tmp_path}/source", deep=True)
    (tmp_path / "elsewhere" / os.fsdecode(b"\xe9")).touch()
    with pytest.raises(InvalidOption, match=r"/source/link/\\xe9 in"):
        require_seen(f"{tmp_path}/source", deep=True)
    with pytest.raises(InvalidOption, match=r"/d\\xe9 in"):
        require_seen(f"{tmp_path}/d*", deep=False)


@pytest.mark.parametrize("root", ["new", "n*", "new/*", "{new,none}"])
def test_files_that_were_read_under_another_path(tmp_path: Path, root: str) -> None:
    (tmp_path / "old" / "deep").mkdir(parents=True)
    (tmp_path / "new" / "deep").mkdir(parents=True)
    known = dict[str, int]()

    def put(name: str, old: str | None, new: str | None, time: int = 0) -> None:
        for folder, text in (("old", old), ("new", new)):
            if text is not None:
                (tmp_path / folder / name).write_text(text)
        known[f"{tmp_path}/old/{name}"] = time

    put("same", "a", "a")
    put("deep/same", "b", "b")
    put("other", "a", "b")
    put("empty", "", "")
    put("moved", None, "c", 1_700_000_000_123)
    put("whole", None, "c", 1_700_000_000_000)
    for name, time in (("moved", 1_700_000_000_123), ("whole", 1_700_000_000_000)):
        os.utime(tmp_path / "new" / name, ns=(0, time * 1_000_000))
    put("deeper", "d", None)
    (tmp_path / "new" / "deep" / "deeper").write_text("d")
    put("broken", "a", None)
    (tmp_path / "new" / "broken").symlink_to("nothing")
    found = list(read_already(f"{tmp_path}/{root}", known))
    pairs = [(f"new/{name}", f"old/{name}") for name in ("deep/same", "moved", "same")]
    pairs.append(("new/deep/deeper", "old/deeper"))
    assert sorted(found) == sorted((f"{tmp_path}/{new}", f"{tmp_path}/{old}") for new, old in pairs)
    known |= {new: 0 for new, _ in found}
    assert not list(read_already(f"{tmp_path}/{root}", known))
    assert [is_below(f"{tmp_path}/{root}", path) for path, _ in found] == [True] * 4
    assert not any(is_below(f"{tmp_path}/{root}", path) for _, path in found)

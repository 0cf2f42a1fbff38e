"""What names of files mean to Spark: patterns, colons, other bytes than UTF-8's, and links, which it follows."""

from __future__ import annotations

import filecmp
import os
import re
from collections import defaultdict
from contextlib import suppress
from fnmatch import fnmatchcase
from glob import iglob
from pathlib import Path
from typing import TYPE_CHECKING

from hivesink.core.bucket import normal
from hivesink.errors import InvalidOption, few

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

_NAMED = 3
PATTERN = frozenset("{}[]*?\\")
"""Characters that make a file's name a pattern to Spark."""
_BRACES = re.compile(r"\{([^{}]*)\}")


def is_pattern(path: str) -> bool:
    """Whether Spark takes this path, or a file's name, for a pattern of names."""
    return not PATTERN.isdisjoint(path)


def has_colon(path: str) -> bool:
    """Whether Spark can't open this file: on a local disk Hadoop takes a name with a colon for an address.

    `path` has no scheme, or is Spark's.
    """
    return (path.startswith("file:") or "://" not in path) and ":" in path.rpartition("/")[2]


def require_seen(root: str, *, deep: bool, names: str = "*", is_utf8: bool = True, option: str = "") -> None:
    """Raise InvalidOption for files in `root` whose names a JVM can't read: Spark passes over them in silence.

    As `read_twice` has `root`, `deep` and `names`. `is_utf8`: the JVM runs in a locale with UTF-8.
    """
    if not (found := list(_unseen(root, deep, names, "utf-8" if is_utf8 else "ascii"))):
        return
    names = few(found, _NAMED)
    problem = f"Spark passes over {names} in silence: a name that isn't UTF-8; rename what has it"
    if not is_utf8:
        problem = f"Spark passes over {names} in silence: the JVM's locale has no UTF-8; set LC_ALL=C.UTF-8 for it"
    raise InvalidOption((f"{option}{problem}",))


def _unseen(root: str, deep: bool, names: str, encoding: str) -> Iterator[str]:
    r"""Bytes that aren't UTF-8 are written as `\xe9`."""
    folders, seen, above = list[bytes](), set[bytes](), os.fsencode(_fixed_part(root))
    for path in map(os.fsencode, _matches(root)):
        if _is_text(path, encoding):
            folders.append(path)
        else:
            yield path.decode("utf-8", "backslashreplace")
    while folders:
        folder = folders.pop()
        real = os.path.realpath(folder)
        if real in seen:
            continue
        seen.add(real)
        is_inside = deep or b"=" in folder.removeprefix(above)
        with suppress(OSError), os.scandir(folder) as items:
            for item in items:
                name, is_folder = os.fsdecode(item.name), item.is_dir()
                if _is_hidden(name) or (is_folder and not (is_inside or "=" in name)):
                    continue
                if not _is_text(item.name, encoding) and (is_folder or fnmatchcase(name, names)):
                    yield item.path.decode("utf-8", "backslashreplace")
                elif is_folder:
                    folders.append(item.path)


def _is_text(name: bytes, encoding: str) -> bool:
    with suppress(UnicodeDecodeError):
        return bool(name.decode(encoding))
    return False


def read_already(root: str, known: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """The files below `root` that are among the `known` ones under another path: linked, copied or moved.

    With those paths. `known` are the files that were read, and their times (milliseconds since 1970).
    """
    by_name = defaultdict[str, list[str]](list)
    for path in known:
        by_name[path.rpartition("/")[2]].append(path)
    for path in _files_in(root):
        for other in by_name.get(path.rpartition("/")[2], ()) if path not in known else ():
            if _is_same(path, other, known[other]):
                yield path, other


def _files_in(root: str) -> Iterator[str]:
    for top in _matches(root):
        if Path(top).is_file():
            yield top
        for folder, _, names in os.walk(top):
            yield from (f"{folder}/{name}" for name in names)


def _is_same(path: str, other: str, time: int) -> bool:
    """Empty files may recur, and so may a time in whole seconds, as an archive has it."""
    with suppress(OSError):
        found = Path(path).stat()
        if Path(other).exists():
            return bool(found.st_size) and filecmp.cmp(path, other, shallow=False)
        return bool(found.st_size and time % 1000) and found.st_mtime_ns // 1_000_000 == time
    return False


def read_twice(root: str, paths: Iterable[str], *, deep: bool, names: str = "*") -> Iterator[tuple[str, str]]:
    """Those of `paths`, files below `root`, that are a second name of a file that Spark reads too; with that name.

    `root` may be a pattern, and `names` is one of files' names. `deep`: Spark reads all folders in `root`, not only
    those that are named as partitions are.
    """
    above = _fixed_part(root)
    patterns = list(_expanded(normal(root).removeprefix(above).lstrip("/")))
    top = os.path.realpath(above or "/").rstrip("/")
    folders, seen = dict[str, str](), dict[str, str]()
    for path in map(normal, paths):
        folder, _, name = path.rpartition("/")
        if folder not in folders:
            folders[folder] = os.path.realpath(folder)
        file = f"{folders[folder]}/{name}"
        real = os.path.realpath(file) if Path(file).is_symlink() else file
        other = seen.setdefault(real, path)
        if other != path:
            yield path, other
        # Where a link leads above `root`, a file has but one name below it.
        elif real != top + path.removeprefix(above) and fnmatchcase(real.rpartition("/")[2], names):
            inside = real.removeprefix(f"{top}/") if real.startswith(f"{top}/") else None
            if inside and any(_reads(pattern, inside.split("/"), deep=deep) for pattern in patterns):
                yield path, real


def is_read(root: str, path: str, *, deep: bool, names: str = "*") -> bool:
    """Whether Spark reads the file `path`, looking into `root`. Arguments as of `read_twice`."""
    above, (folder, _, name) = _fixed_part(root), path.rpartition("/")
    patterns = _expanded(normal(root).removeprefix(above).lstrip("/"))
    parts = path.removeprefix(f"{above}/").split("/")
    is_chosen = f"{folder}/".startswith(f"{above}/") and fnmatchcase(name, names)
    return is_chosen and any(_reads(pattern, parts, deep=deep) for pattern in patterns)


def without_links(location: str) -> str:
    """One spelling of a location; on a local disk without links."""
    path = normal(location)
    return os.path.realpath(path) if path.startswith("/") else path


def is_below(root: str, path: str) -> bool:
    """Whether `path` is below `root`, which may be a pattern."""
    return any(_begins_with(path.split("/"), pattern.split("/")) for pattern in _expanded(normal(root)))


def _fixed_part(root: str) -> str:
    """The folders of a path before its first pattern."""
    parts = normal(root).split("/")
    return "/".join(parts[: next((number for number, part in enumerate(parts) if is_pattern(part)), len(parts))])


def _matches(root: str) -> Iterator[str]:
    """The files and folders that a path stands for."""
    if not is_pattern(root):
        yield normal(root)
        return
    for pattern in _expanded(normal(root)):
        yield from iglob(pattern)  # noqa: PTH207  that has no absolute patterns


def _expanded(pattern: str) -> Iterator[str]:
    """The patterns without braces that one with some stands for."""
    if not (found := _BRACES.search(pattern)):
        yield pattern
        return
    for part in found[1].split(","):
        yield from _expanded(f"{pattern[: found.start()]}{part}{pattern[found.end() :]}")


def linked_folders(folder: str) -> list[tuple[str, str]]:
    """The links in `folder` that lead to folders, with where they lead."""
    with os.scandir(folder) as items:
        found = sorted(item.name for item in items if item.is_symlink() and item.is_dir())
    return [(name, os.path.realpath(f"{folder}/{name}")) for name in found]


def _reads(pattern: str, parts: Sequence[str], *, deep: bool) -> bool:
    """Whether Spark reads the file of these names by itself, looking into what matches `pattern`."""
    wanted = pattern.split("/") if pattern else []
    # A folder that the pattern itself matches may be hidden.
    names = (*parts[len(wanted) : -1], parts[-1])
    if not _begins_with(parts, wanted) or any(map(_is_hidden, names)) or parts[-1].endswith("._COPYING_"):
        return False
    # Below a folder that is named as a partition is, Spark reads all.
    folders = parts[len(wanted) : -1]
    return deep or not folders or any("=" in folder for folder in folders)


def _begins_with(parts: Sequence[str], wanted: Sequence[str]) -> bool:
    return len(parts) >= len(wanted) and all(map(fnmatchcase, parts, wanted))


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or (name.startswith("_") and "=" not in name)

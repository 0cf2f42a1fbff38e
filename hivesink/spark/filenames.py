"""What names of files and folders mean to Spark: patterns, colons, and symbolic links, which it follows."""

from __future__ import annotations

import os
import re
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from hivesink.core.bucket import normal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

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


def read_twice(root: str, paths: Iterable[str], *, deep: bool, names: str = "*") -> Iterator[tuple[str, str]]:
    """Those of `paths`, files below `root`, that are a second name of a file that Spark reads too; with that name.

    `root` may be a pattern, and `names` is one of files' names. `deep`: Spark reads all folders in `root`, not only
    those that are named as partitions are.
    """
    parts = normal(root).split("/")
    fixed = next((number for number, part in enumerate(parts) if is_pattern(part)), len(parts))
    above, patterns = "/".join(parts[:fixed]), list(_expanded("/".join(parts[fixed:])))
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
    if len(parts) < len(wanted) or not all(map(fnmatchcase, parts, wanted)):
        return False
    is_hidden = any(part.startswith(".") or (part.startswith("_") and "=" not in part) for part in parts)
    is_hidden |= parts[-1].endswith("._COPYING_")
    return not is_hidden and (deep or all("=" in part for part in parts[len(wanted) : -1]))

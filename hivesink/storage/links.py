"""Symbolic links in a folder of a local disk that Spark reads, which follows them."""

from __future__ import annotations

import os
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from hivesink.core.bucket import normal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_PATTERN = frozenset("{}[]*?\\")


def read_twice(root: str, paths: Iterable[str], *, deep: bool) -> Iterator[tuple[str, str]]:
    """Those of `paths`, files below `root`, that are a second name of a file that Spark reads too; with that name.

    `root` may be a pattern. `deep`: Spark reads all folders in it, not only those that are named as partitions are.
    """
    parts = normal(root).split("/")
    fixed = next((number for number, part in enumerate(parts) if _PATTERN & set(part)), len(parts))
    above, pattern = "/".join(parts[:fixed]), parts[fixed:]
    top = os.path.realpath(above or "/")
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
        elif real != top.rstrip("/") + path.removeprefix(above) and _reads(top, pattern, real, deep=deep):
            yield path, real


def linked_folders(folder: str) -> list[tuple[str, str]]:
    """The links in `folder` that lead to folders, with where they lead."""
    with os.scandir(folder) as items:
        found = sorted(item.name for item in items if item.is_symlink() and item.is_dir())
    return [(name, os.path.realpath(f"{folder}/{name}")) for name in found]


def _reads(top: str, pattern: Sequence[str], file: str, *, deep: bool) -> bool:
    """Whether Spark reads `file` by this name, looking into what matches `pattern` in `top`."""
    here = f"{top.rstrip('/')}/"
    if not file.startswith(here):
        return False
    parts = file.removeprefix(here).split("/")
    matched, inner = parts[: len(pattern)], parts[len(pattern) :]
    if len(matched) < len(pattern) or not all(map(fnmatchcase, matched, pattern)):
        return False
    is_hidden = any(part.startswith(".") or (part.startswith("_") and "=" not in part) for part in parts)
    return not is_hidden and (deep or all("=" in part for part in inner[:-1]))

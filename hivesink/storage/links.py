"""Symbolic links in a folder of a local disk that Spark reads, which follows them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from hivesink.core.bucket import normal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def read_twice(root: str | None, paths: Iterable[str], *, deep: bool) -> Iterator[tuple[str, str]]:
    """Those of `paths`, files below `root`, that are a second name of a file that Spark reads too; with that name.

    `deep`: Spark reads all folders in `root`, not only those that are named as partitions are. Without `root`, only
    `paths` are compared.
    """
    top = os.path.realpath(normal(root)) if root else None
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
        elif root and top and real != top + path.removeprefix(normal(root)) and _reads(top, real, deep=deep):
            yield path, real


def linked_folders(folder: str) -> list[tuple[str, str]]:
    """The links in `folder` that lead to folders, with where they lead."""
    with os.scandir(folder) as items:
        found = sorted(item.name for item in items if item.is_symlink() and item.is_dir())
    return [(name, os.path.realpath(f"{folder}/{name}")) for name in found]


def _reads(top: str, file: str, *, deep: bool) -> bool:
    """Whether Spark reads `file` by this name, looking into `top`."""
    if not file.startswith(f"{top}/"):
        return False
    parts = file.removeprefix(f"{top}/").split("/")
    is_hidden = any(part.startswith(".") or (part.startswith("_") and "=" not in part) for part in parts)
    return not is_hidden and (deep or all("=" in part for part in parts[:-1]))

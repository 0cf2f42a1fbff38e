"""Folders for downloads, generated files and the embedded metastore, and how to make files and folders atomically."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from hivesink.errors import NotWritable

NEW = ".new-"
"""How the names of what is being written begin."""


def cache_folder() -> Path:
    """Return `$XDG_CACHE_HOME/hivesink`, by default `~/.cache/hivesink`; it may not exist yet."""
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # The XDG Base Directory Specification ("Basics") has a relative XDG_CACHE_HOME ignored.
    return (base if base.is_absolute() else Path.home() / ".cache") / "hivesink"


def state_folder() -> Path:
    """Return `$HIVESINK_HOME`, by default `.hivesink-local` in the current folder: the embedded metastore's."""
    return Path(os.environ.get("HIVESINK_HOME") or ".hivesink-local").absolute()


def local_location(folder: Path) -> str:
    """`folder` as Hadoop writes it. A `Path` of Hadoop's takes `%20` for a name with a percent sign in it."""
    return f"file://{folder.absolute()}"


def write_atomically(path: Path, content: str | bytes, *, mode: int = 0o644) -> None:
    """Write `content`, text as UTF-8, to `path`: whole or not at all, even if others do so at the same time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=NEW)
    try:
        with os.fdopen(handle, "wb") as f:
            f.write(content.encode() if isinstance(content, str) else content)
        Path(name).chmod(mode)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def kept(name: str, content: str, *, mode: int = 0o644) -> Path:
    """Return the cache's file `name` with this content; it is written only if it has another. Raises NotWritable."""
    path, data = cache_folder() / name, content.encode()
    # The cache of an image may be read-only.
    with using(path):
        if not (path.is_file() and path.read_bytes() == data):
            write_atomically(path, data, mode=mode)
    return path


def made_once(name: str, make: Callable[[Path], Path]) -> Path:
    """Return the cache's folder `name`, made on first use: whole or not at all, even if others do so at the same time.

    `make` gets a scratch folder beside it, and returns the folder in there that becomes it. Raises NotWritable.
    """
    folder = cache_folder() / name
    if not folder.is_dir():
        with scratch_beside(folder) as scratch:
            made = make(scratch)
            try:
                made.rename(folder)
            except OSError:
                # Another process was first; anything else is worth its stack trace.
                if not folder.is_dir():
                    raise
    return folder


@contextmanager
def scratch_beside(path: Path) -> Iterator[Path]:
    """A folder beside `path` in the cache, which is removed at the end. Raises NotWritable."""
    with using(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        folder = tempfile.TemporaryDirectory(dir=path.parent, prefix=NEW)
    with folder as scratch:
        yield Path(scratch)


@contextmanager
def using(path: Path, variable: str = "XDG_CACHE_HOME") -> Iterator[None]:
    """Raise NotWritable instead of an OSError: `variable` names another folder."""
    try:
        yield
    except OSError as error:
        why, is_full = f"{error.strerror}, and this needs it", error.errno in {errno.ENOSPC, errno.EDQUOT}
        way = f"give this user access, or set {variable} to another folder"
        raise NotWritable(str(path), why, way, retryable=is_full) from error

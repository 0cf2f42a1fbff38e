"""Folders for downloads, generated files and the embedded metastore, and how to make files and folders atomically."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def cache_folder() -> Path:
    """Return `$XDG_CACHE_HOME/hivesink`, by default `~/.cache/hivesink`; it may not exist yet."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG Base Directory Specification ("Basics") has a relative XDG_CACHE_HOME ignored.
    return (Path(base) if base and Path(base).is_absolute() else Path.home() / ".cache") / "hivesink"


def state_folder() -> Path:
    """Return `$HIVESINK_HOME`, by default `.hivesink-local` in the current folder: the embedded metastore's."""
    return Path(os.environ.get("HIVESINK_HOME") or ".hivesink-local").absolute()


def write_atomically(path: Path, content: str | bytes, *, mode: int = 0o644) -> None:
    """Write `content`, text as UTF-8, to `path`: whole or not at all, even if others do so at the same time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    try:
        with os.fdopen(handle, "wb") as f:
            f.write(content.encode() if isinstance(content, str) else content)
        Path(name).chmod(mode)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def made_once(folder: Path, make: Callable[[Path], Path]) -> Path:
    """Return `folder`, made on first use: whole or not at all, even if others do so at the same time.

    `make` gets a scratch folder beside it, and returns the folder in there that becomes this one.
    """
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".new-") as scratch:
            made = make(Path(scratch))
            try:
                made.rename(folder)
            except OSError:
                # Another process was first; anything else is worth its stack trace.
                if not folder.is_dir():
                    raise
    return folder

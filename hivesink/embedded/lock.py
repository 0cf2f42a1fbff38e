"""One process at a time starts or stops the detached servers of a state folder."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder's lock for the length of the block; wait for it where another process does."""
    import fcntl

    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("a") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        yield

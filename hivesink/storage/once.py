"""Changes that are repeated until their outcome is known, and create-if-absent of whole files."""

from __future__ import annotations

import contextlib
import hashlib
from functools import partial
from posixpath import split
from typing import TYPE_CHECKING, TypeVar

from hivesink.errors import HiveSinkError, OutcomeUnknown, StoreUnavailable
from hivesink.storage.fs import join
from hivesink.storage.log_layout import temporary_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from hivesink.storage.fs import FileSystem

_T = TypeVar("_T")
TRIES = 5
DOUBTS = (FileExistsError, FileNotFoundError, OutcomeUnknown)
"""What a change raises after which only another look shows what happened."""


def retry_unknown(action: str, path: str, call: Callable[[], _T]) -> _T:
    """The result of `call`, which looks, then changes; repeated after DOUBTS. Raises StoreUnavailable after TRIES."""
    doubt: Exception | None = None
    for _ in range(TRIES):
        try:
            return call()
        except DOUBTS as error:  # noqa: PERF203 - to try again
            doubt = error
    reason = doubt.reason if isinstance(doubt, OutcomeUnknown) else str(doubt)
    raise StoreUnavailable(action, path, f"still undecided after {TRIES} tries ({reason})") from doubt


def stage(fs: FileSystem, path: str, data: bytes) -> None:
    """Make `path` hold `data`, durably; replace what an interrupted try left there.

    Only for names whose bytes never differ, and that nothing has been done with yet. Raises StoreUnavailable.
    """
    retry_unknown("write", path, partial(_write, fs, path, data))


def put_once(fs: FileSystem, path: str, data: bytes) -> bytes:
    """Return what `path` holds, durably, storing `data` there if it is absent: whole, or not at all.

    Raises StoreUnavailable, NotWritable, Unsupported.
    """
    folder, name = split(path)
    temporary = join(folder, temporary_name(name, hashlib.sha256(data).hexdigest()[:16]))

    def put() -> bytes:
        found = fs.read(path)
        if found is not None:
            fs.make_durable(folder)
            drop(fs, temporary)
            return found
        _write(fs, temporary, data)
        fs.rename(temporary, path)
        return data

    return retry_unknown("create", path, put)


def _write(fs: FileSystem, path: str, data: bytes) -> None:
    """One try of `stage`. Raises DOUBTS."""
    try:
        fs.write_new(path, data)
    except FileExistsError:
        if fs.read(path) != data:
            fs.delete(path)
            raise
        # Whoever wrote it may have died before it was durable.
        fs.make_durable(path)


def delete(fs: FileSystem, path: str) -> None:
    """Delete a file, for certain. Raises StoreUnavailable."""
    retry_unknown("delete", path, partial(fs.delete, path))


def drop(fs: FileSystem, temporary: str) -> None:
    """Delete a temporary file that is no longer needed."""
    # Best effort: clean-up of the log takes it another time.
    with contextlib.suppress(HiveSinkError):
        fs.delete(temporary)

"""Create-if-absent of whole files: a temporary file, then a rename that never overwrites."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from hivesink.errors import HiveSinkError, OutcomeUnknown, StoreUnavailable
from hivesink.storage.fs import join, split
from hivesink.storage.log_layout import temporary_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from hivesink.storage.fs import FileSystem

TRIES = 5


def stage(fs: FileSystem, path: str, data: bytes) -> None:
    """Make `path` hold `data`, durably; what a torn try left there is replaced.

    Only for names whose bytes never differ, and that nothing has been done with yet. Raises StoreUnavailable.
    """
    reason = "another keeps writing it"
    for _ in range(TRIES):
        try:
            fs.write_new(path, data)
        except FileExistsError:  # noqa: PERF203 - to try again
            if fs.read(path) == data:
                # Whoever wrote it may have died before it was durable.
                fs.make_durable(path)
                return
            with contextlib.suppress(OutcomeUnknown):
                fs.delete(path)
        except OutcomeUnknown as error:
            reason = error.reason
        else:
            return
    raise StoreUnavailable(action="write", path=path, reason=reason)


def put_once(fs: FileSystem, path: str, data: bytes, token: str) -> None:
    """Make sure that `path` is there, durably: with `data`, unless somebody else's was there first.

    Raises OutcomeUnknown, StoreUnavailable, NotWritable, Unsupported.
    """
    folder, name = split(path)
    temporary = join(folder, temporary_name(name, token))
    doubt: Exception | None = None
    for _ in range(TRIES):
        if fs.length(path) is not None:
            fs.make_durable(folder)
            drop(fs, temporary)
            return
        stage(fs, temporary, data)
        try:
            fs.rename(temporary, path)
        except (FileExistsError, FileNotFoundError, OutcomeUnknown) as error:
            doubt = error
        else:
            return
    raise OutcomeUnknown(action="create", path=path, reason=str(doubt)) from doubt


def drop(fs: FileSystem, temporary: str) -> None:
    """Delete a temporary file that is of no more use."""
    # Best effort: clean-up of the log takes it another time.
    with contextlib.suppress(HiveSinkError):
        fs.delete(temporary)


def retry_unknown(action: str, path: str, call: Callable[[], object]) -> None:
    """Repeat what may be repeated until its outcome is known. Raises StoreUnavailable if it never is."""
    reason = ""
    for _ in range(TRIES):
        try:
            call()
        except OutcomeUnknown as error:  # noqa: PERF203 - to try again
            reason = error.reason
        else:
            return
    raise StoreUnavailable(action, path, f"no answer in {TRIES} tries ({reason})")

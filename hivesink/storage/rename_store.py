"""Part files on a file system with rename. Commit and recovery publish by the same decision."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from posixpath import basename, dirname
from typing import BinaryIO

from hivesink import errors
from hivesink.core.partfile import Finished, InProgress, Pending, PublishStep, decide_publish, parse_staged
from hivesink.core.partition import normal
from hivesink.storage.fs import DOUBTS, TRIES, FileSystem, abandon, begin, join, retry_unknown
from hivesink.storage.part_store import PartStore

_TAKEN = (
    "something deleted or changed it while it was written, as DROP, TRUNCATE and INSERT OVERWRITE do with hidden files "
    "too; nothing was committed: start the job again"
)


class RenameFileStore(PartStore):
    """Implements `ports.FileStore`."""

    keeps_staged = True

    def __init__(self, fs: FileSystem) -> None:
        super().__init__(fs, fs.parallel)
        self._fs = fs

    def canonical(self, location: str) -> str:
        try:
            return normal(self._fs.canonical(location))
        except errors.Unsupported:
            return normal(location)

    def create(self, part: InProgress) -> _StagedPart:
        return _StagedPart(self._fs, part, begin(self._fs, part.staged))

    def set_aside(self, part: Pending, folder: str) -> Pending:
        waiting = Pending(join(folder, basename(part.staged)), part.target, part.length)
        try:
            # Missing or cut short: whoever looks at it next reports that.
            with contextlib.suppress(errors.PartLost):
                converge(self._fs, Pending(part.staged, waiting.staged, part.length))
        except errors.Unsupported:
            # The partition's folder is in another encryption zone or on another file system.
            return part
        return waiting

    def publish(self, part: Pending) -> Finished:
        converge(self._fs, part)
        return part.finish()

    def staged(self, folder: str) -> Sequence[str]:
        return [
            join(folder, entry.name)
            for entry in self._fs.list(folder)
            if not entry.is_folder and parse_staged(entry.name) is not None
        ]

    def open(self, path: str) -> BinaryIO:
        try:
            return self._fs.open(path)
        except FileNotFoundError as error:
            raise errors.StoreUnavailable(action="read", path=path, reason="it is not there") from error

    def mark(self, path: str) -> None:
        def create() -> None:
            with contextlib.suppress(FileExistsError):
                self._fs.write_new(path, b"")

        retry_unknown("create", path, create)

    def walk(self, folder: str) -> Iterator[str]:
        level = [folder] if self._fs.is_folder(folder) else []
        while level:
            yield from level
            listed = self.run_parallel(partial(self._fs.list, folder) for folder in level)
            inner = zip(level, listed, strict=True)
            level = [join(folder, entry.name) for folder, entries in inner for entry in entries if entry.is_folder]

    def prune(self, folders: Iterable[str]) -> None:
        # Longest first, so that a folder can go after the last folder in it.
        for folder in sorted(folders, key=len, reverse=True):
            retry_unknown("remove", folder, partial(self._fs.remove_empty, folder))


@dataclass(frozen=True, slots=True)
class _StagedPart:
    """Implements `ports.NewFile`."""

    fs: FileSystem
    part: InProgress
    stream: BinaryIO

    def close_for_commit(self) -> Pending:
        staged = self.part.staged
        try:
            pending = self.part.close(self.stream.tell())
            self.fs.sync_close(self.stream, staged)
            try:
                self.fs.rename(staged, pending.staged)
            except DOUBTS:
                # Nobody else knows the names, so look only after a doubt.
                converge(self.fs, Pending(staged, pending.staged, pending.length))
        # Nothing was decided about this part, so it is a leftover in any state.
        except errors.PartLost as lost:
            raise errors.StoreUnavailable(action="close", path=staged, reason=_TAKEN) from lost
        except (errors.TargetTaken, errors.OutcomeUnknown) as error:
            raise errors.StoreUnavailable(action="close", path=staged, reason=str(error)) from error
        return pending

    def abort(self) -> None:
        abandon(self.fs, self.part.staged, self.stream)


def converge(fs: FileSystem, part: Pending) -> None:
    """Rename `part` to its target unless that has happened; look again after every doubt.

    A rename that arrives late finds its source gone, and does nothing.
    """
    doubt: Exception | None = None
    for _ in range(TRIES):
        try:
            if doubt is None and fs.length(part.staged) == part.length and part.staged != part.target:
                # The usual case. The rename itself checks that the target is free.
                fs.rename(part.staged, part.target)
            else:
                _step(fs, part)
        except DOUBTS as error:  # noqa: PERF203 - to look again
            doubt = error
        else:
            return
    if isinstance(doubt, FileExistsError):
        raise errors.TargetTaken(part.staged, part.target) from doubt
    raise errors.OutcomeUnknown(action="publish", path=part.target, reason=str(doubt)) from doubt


def _step(fs: FileSystem, part: Pending) -> None:
    staged, target = fs.length(part.staged), fs.length(part.target)
    one_file = staged is not None and target is not None and fs.same_file(part.staged, part.target)
    if staged is None and target is None:
        # A rename may have arrived between the two looks, so look at the target again.
        target = fs.length(part.target)
    elif staged is not None and target is not None and not one_file:
        # For the same reason, look at the staged file again.
        staged = fs.length(part.staged)
    match decide_publish(part, staged, target, one_file=one_file):
        case PublishStep.RENAME:
            fs.rename(part.staged, part.target)
        case PublishStep.UNLINK:
            # The remaining name must be durable before the other is deleted.
            fs.make_durable(dirname(part.target))
            fs.delete(part.staged)
        case PublishStep.DONE:
            fs.make_durable(dirname(part.target))

"""A writer's log, and the root of a table's logs. Creating a manifest, if absent, is the only decision.

They need no rename: `Files` that are created whole and once, listed, read and deleted.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from hivesink import errors
from hivesink.core import manifest_json
from hivesink.core.epoch import Epoch
from hivesink.core.lifecycle import EpochState, Floor
from hivesink.core.log import LogView, RootRecord, StagingIntent, require_own, require_whole
from hivesink.core.manifest import Manifest, Recorded
from hivesink.ports import CommitLog
from hivesink.storage import log_layout
from hivesink.storage.fs import Files, delete, drop, join, put_once, read_listed, retry_unknown
from hivesink.storage.log_layout import Ledger, LogReceipts, LogSchemas, LogSegments

_UID_WAY = "delete that file: the next start takes the uid from the log's newest manifest"
_ACCEPTED = ".accepted"
_RECORD = re.compile(r"table-(\d{6,})\.json", re.ASCII)


class FileCommitLog:
    """Implements `ports.CommitLog` in the folder `location`. Names in it: `log_layout`."""

    def __init__(self, files: Files, location: str) -> None:
        self._files = files
        self.location = location.rstrip("/")
        self._manifests = f"{self.location}/manifests"
        self._touched = f"{self.location}/touched"
        self._uid = f"{self.location}/uid"
        self._own: str | None = None
        self.segments = LogSegments(files, f"{self.location}/segments")
        self._ledger = Ledger(files, f"{self.location}/commits")

    def uid(self, fresh: str | None) -> str | None:
        stored = self._files.read(self._uid)
        if stored is None:
            view, uid = self.view(), None
            require_whole(self.location, view, view.head)
            # A fresh uid beside manifests of another would make all existing parts foreign.
            for epoch in view.manifests[-2:]:
                manifest = self._decoded(epoch)
                require_own(self._slot(epoch), manifest, uid or manifest.uid)
                uid = manifest.uid
            uid = uid or fresh
            if uid is None or fresh is None:
                return uid
            stored = put_once(self._files, self._uid, f"{uid}\n".encode())
        uid = stored.decode("ascii", "replace").strip()
        if not uid.isalnum() or not uid.isascii():
            raise errors.LogDamaged(self._uid, "it holds no uid", _UID_WAY)
        return uid

    def view(self) -> LogView:
        return log_layout.parse_view(self._files.list(self._manifests))

    def floor(self) -> Floor | None:
        def highest() -> Floor | None:
            epoch = self.view().floor
            if not epoch:
                return None
            path = join(self._manifests, log_layout.floor_name(epoch))
            return manifest_json.decode_floor(read_listed(self._files, path), path)

        return retry_unknown("read the floor of", self.location, highest)

    def manifest(self, epoch: Epoch) -> Manifest:
        manifest = self._decoded(epoch)
        # Without a uid the log is refused at its start; whoever only looks at it can still read this manifest.
        with contextlib.suppress(errors.LogDamaged):
            self._own = self._own or self.uid(None)
        require_own(self._slot(epoch), manifest, self._own or manifest.uid)
        return manifest

    def _decoded(self, epoch: Epoch) -> Manifest:
        """The epoch's manifest, of whatever uid."""
        path = self._slot(epoch)
        data = self._files.read(path)
        if data is None:
            raise errors.LogDamaged(path, "it is missing")
        manifest = manifest_json.decode(data, path)
        if manifest.epoch != epoch:
            way = f"move it away if it is a copy, and epoch {epoch} never was"
            raise errors.LogDamaged(path, f"it holds epoch {manifest.epoch}: {way}")
        return manifest

    def create(self, manifest: Manifest) -> None:
        epoch, path = manifest.epoch, self._slot(manifest.epoch)
        try:
            self._files.create(path, manifest_json.encode(manifest))
        except FileExistsError as error:
            raise errors.EpochTaken(self.location, epoch) from error
        except FileNotFoundError as error:
            # While this run stalled, another went on, and its clean-up took what was to become the manifest.
            if self.view().head >= epoch:
                raise errors.EpochTaken(self.location, epoch) from error
            raise errors.OutcomeUnknown(action="create", path=path, reason=str(error)) from error
        try:
            self._require_newest(epoch, path)
        except (errors.StoreUnavailable, errors.NotWritable) as error:
            # The epoch is decided, perhaps.
            raise errors.OutcomeUnknown(action="create", path=path, reason=str(error)) from error

    def _require_newest(self, epoch: Epoch, path: str) -> None:
        view = self.view()
        if view.floor >= epoch:
            # With a floor at or above the epoch nobody reads the file, whether it is deleted or not.
            drop(self._files, path)
            raise errors.EpochTaken(self.location, epoch)
        if view.head > epoch:
            raise errors.FencedOut(self.location, epoch, view.head)
        # A floor is there before what it covers is deleted, so only a second listing shows that none covers the gap.
        is_deleted = _lacks(view, epoch - 1) and _lacks(self.view(), epoch - 1)
        is_deleted = is_deleted or (epoch == 1 and self._files.length(self._uid) is None)
        if view.is_over or is_deleted:
            drop(self._files, path)
            raise errors.LogMissing.gone(self.location)

    def mark(self, epoch: Epoch, mark: EpochState) -> None:
        path = self._slot(epoch, mark.value)
        if mark is not EpochState.PUBLISHING:
            self._files.put(path, b"")
            return
        # Whichever comes first counts, this mark or a reset's refusal (`end`).
        while put_once(self._files, path, b""):
            if self.view().is_over:
                raise errors.LogMissing.gone(self.location)
            # A person has taken the reset back.
            delete(self._files, path)

    def touch(self, touched: StagingIntent) -> None:
        self._files.put(self._list(touched), (json.dumps(sorted(touched.folders), indent=0) + "\n").encode())

    def touched(self) -> Sequence[StagingIntent]:
        names = (entry.name for entry in self._files.list(self._touched))
        return sorted(touched for name in names if (touched := log_layout.parse_touched(name)))

    def folders(self, touched: StagingIntent) -> tuple[str, ...]:
        data = self._files.read(self._list(touched))
        try:
            return () if data is None else tuple(str(folder) for folder in json.loads(data))
        except ValueError:
            # A torn list: its task died in `touch`, before it created any file.
            return ()

    def forget(self, lists: Iterable[StagingIntent]) -> None:
        for touched in lists:
            delete(self._files, self._list(touched))

    def records(self) -> Sequence[Recorded]:
        return self._ledger.read()

    def trim(self, floor: Floor, records: Sequence[Recorded] = ()) -> None:
        entries = self._files.list(self._manifests)
        view = log_layout.parse_view(entries)
        if floor.epoch >= view.head:
            message = f"epoch {floor.epoch} can't be the floor of {self.location}: its head is {view.head}"
            raise ValueError(message)
        # First: what the floor covers is no longer in manifests.
        self._ledger.add(floor.epoch, records)
        lowest = max(floor.epoch, view.floor)
        if floor.epoch > view.floor:
            path = join(self._manifests, log_layout.floor_name(floor.epoch))
            put_once(self._files, path, manifest_json.encode_floor(floor))
        for entry in entries:
            if log_layout.is_dead(entry.name, lowest, view.head):
                delete(self._files, join(self._manifests, entry.name))

    def end(self, at: datetime) -> None:
        over = f"{at.isoformat()}\n".encode()
        put_once(self._files, join(self._manifests, log_layout.OVER), over)
        # The mark of a dead run may yet arrive, and would hide dead letters that its replay never published.
        view = self.view()
        for epoch in view.manifests:
            if epoch > view.settled(Epoch(0)) and view.state(epoch) is EpochState.DECIDED:
                put_once(self._files, self._slot(epoch, EpochState.PUBLISHING.value), over)

    def ended(self) -> datetime | None:
        over = self._files.read(join(self._manifests, log_layout.OVER))
        return None if over is None else datetime.fromisoformat(over.decode().strip())

    def _slot(self, epoch: Epoch, ending: str = "json") -> str:
        return join(self._manifests, log_layout.epoch_name(epoch, ending))

    def _list(self, touched: StagingIntent) -> str:
        return join(self._touched, log_layout.touched_name(touched))


def _lacks(view: LogView, epoch: int) -> bool:
    return epoch > view.floor and epoch not in view.manifests


@dataclass(frozen=True, slots=True)
class FileLogRoot:
    """Implements `ports.LogRoot` in the folder `location`."""

    files: Files
    location: str

    def records(self) -> tuple[RootRecord, ...]:
        read = ((path, self.files.read(path)) for path in map(self._path, self._numbers()))
        return tuple(RootRecord.decode(data, path) for path, data in read if data is not None)

    def claim(self, record: RootRecord) -> RootRecord:
        if records := self.records():
            # Whoever wrote them may have died before they were durable.
            self.files.make_durable(self.location)
            return records[-1]
        path = self._path(1)
        first = RootRecord.decode(put_once(self.files, path, record.encode()), path)
        return [first, *self.records()][-1]

    def update(self, record: RootRecord) -> None:
        number, stored = max(self._numbers(), default=0), b""
        while stored != record.encode():
            # Of two at once, the later number counts.
            number += 1
            stored = put_once(self.files, self._path(number), record.encode())

    def log(self, writer: str) -> CommitLog:
        # Where a log was deleted, its files were accepted: no log has a deleted log's folder.
        number = max(self._logs_of(writer), default=1 + len(self.accepted()))
        newest = self._log(writer, number)
        return self._log(writer, number + 1) if newest.view().is_over else newest

    def logs(self) -> Mapping[str, CommitLog]:
        newest = {writer: self._log(writer, numbers[-1]) for writer, numbers in self._writers().items() if numbers}
        return {writer: log for writer, log in newest.items() if not log.view().is_over}

    def ended(self) -> Mapping[str, CommitLog]:
        ended = {}
        for writer, numbers in self._writers().items():
            for number in numbers:
                log = self._log(writer, number)
                if number < numbers[-1] or log.view().is_over:
                    ended[f"{writer}/{number}"] = log
        return ended

    def accepted(self) -> Sequence[str]:
        return [entry.name for entry in self.files.list(join(self.location, _ACCEPTED))]

    def accept(self, uid: str) -> None:
        self.files.put(join(self.location, f"{_ACCEPTED}/{uid}"), b"")

    def receipts(self, consumer: str) -> LogReceipts:
        return LogReceipts(self.files, join(self.location, f".consumers/{consumer}"))

    @property
    def schemas(self) -> LogSchemas:
        return LogSchemas(self.files, join(self.location, ".schemas"))

    def _log(self, writer: str, number: int) -> CommitLog:
        return FileCommitLog(self.files, join(self.location, f"{writer}/{number}"))

    def _writers(self) -> dict[str, list[int]]:
        folders = (entry.name for entry in self.files.list(self.location) if entry.is_folder and entry.name[0] != ".")
        return {writer: self._logs_of(writer) for writer in folders}

    def _logs_of(self, writer: str) -> list[int]:
        folders = (entry.name for entry in self.files.list(join(self.location, writer)) if entry.is_folder)
        return sorted(int(name) for name in folders if name.isascii() and name.isdecimal())

    def _numbers(self) -> list[int]:
        names = (_RECORD.fullmatch(entry.name) for entry in self.files.list(self.location))
        return sorted(int(parts[1]) for parts in names if parts)

    def _path(self, number: int) -> str:
        return join(self.location, f"table-{number:06d}.json")

"""A writer's log on a file system with rename. Creating a manifest, if absent, is the only decision."""

from __future__ import annotations

import contextlib
import json
import re
from dataclasses import dataclass
from datetime import timedelta
from posixpath import dirname
from typing import TYPE_CHECKING, NoReturn

from hivesink import errors
from hivesink.core import manifest_json
from hivesink.core.log import LogView, RootRecord, StagingIntent, require_own, require_whole, reset_name, reset_writer
from hivesink.errors import StoreUnavailable
from hivesink.storage import log_layout
from hivesink.storage.fs import DOUBTS, FileSystem, delete, drop, join, put_once, retry_unknown, stage, temporary_name
from hivesink.storage.log_layout import Ledger, LogSegments

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from hivesink.core.epoch import Epoch
    from hivesink.core.lifecycle import Mark
    from hivesink.core.manifest import Floor, Manifest
    from hivesink.core.records import Recorded
    from hivesink.ports import CommitLog

_UID_WAY = "delete that file: the next start takes the uid from the log's newest manifest"


class RenameCommitLog:
    """Implements `ports.CommitLog` in `folder`. Names in it: `log_layout`."""

    def __init__(self, fs: FileSystem, folder: str) -> None:
        self._fs = fs
        self._folder = folder.rstrip("/")
        self._manifests = join(self._folder, "manifests")
        self._touched = join(self._folder, "touched")
        self._uid = join(self._folder, "uid")
        self._own: str | None = None
        self.segments = LogSegments(fs, join(self._folder, "segments"), self._require_log)
        self._ledger = Ledger(fs, join(self._folder, "commits"))

    @property
    def location(self) -> str:
        return self._folder

    def uid(self, fresh: str | None) -> str | None:
        stored = self._fs.read(self._uid)
        if stored is None:
            # A fresh uid beside manifests of another would make all existing parts foreign.
            uid = self._uid_of_manifests() or fresh
            if uid is None or fresh is None:
                return uid
            stored = put_once(self._fs, self._uid, f"{uid}\n".encode())
        uid = stored.decode("ascii", "replace").strip()
        if not uid.isalnum() or not uid.isascii():
            raise errors.LogDamaged(self._uid, "it holds no uid", _UID_WAY)
        return uid

    def view(self) -> LogView:
        return log_layout.parse_view(entry.name for entry in self._fs.list(self._manifests))

    def floor(self) -> Floor | None:
        return retry_unknown("read the floor of", self._folder, self._highest_floor)

    def _highest_floor(self) -> Floor | None:
        highest = self.view().floor
        if not highest:
            return None
        path = self._manifest_path(log_layout.floor_name(highest))
        data = self._fs.read(path)
        if data is None:
            # Somebody wrote a higher floor and deleted this one since the listing: look again.
            raise FileNotFoundError(path)
        return manifest_json.decode_floor(data, path)

    def manifest(self, epoch: Epoch) -> Manifest:
        path, manifest = self._decoded(epoch)
        # Without a uid the log is refused at its start; whoever only looks at it can still read this manifest.
        with contextlib.suppress(errors.LogDamaged):
            self._own = self._own or self.uid(None)
        require_own(path, manifest, self._own or manifest.uid)
        return manifest

    def create(self, manifest: Manifest) -> None:
        name = log_layout.manifest_name(manifest.epoch)
        path = self._manifest_path(name)
        temporary = self._manifest_path(temporary_name(name, manifest.attempt))
        stage(self._fs, temporary, manifest_json.encode(manifest))
        try:
            self._fs.rename(temporary, path)
        except DOUBTS as error:
            with _unknown_from_here(path):
                created = self._find_out(manifest, path, temporary, error)
            if not created:
                raise errors.StoreUnavailable(action="create", path=path, reason=str(error)) from error
        except errors.HiveSinkError:
            drop(self._fs, temporary)
            raise
        with _unknown_from_here(path):
            self._require_newest(manifest.epoch, path)

    def mark(self, epoch: Epoch, mark: Mark) -> None:
        path = self._manifest_path(log_layout.mark_name(epoch, mark))
        stage(self._fs, path, b"")
        manifest = self._manifest_path(log_layout.manifest_name(epoch))
        if self._fs.length(manifest) is None and self.view().floor < epoch:
            self._refuse_anew(path)

    def touch(self, touched: StagingIntent) -> None:
        path = join(self._touched, log_layout.touched_name(touched))
        stage(self._fs, path, (json.dumps(sorted(touched.folders), indent=0) + "\n").encode())
        self._require_log(path)

    def touched(self) -> Sequence[StagingIntent]:
        names = (entry.name for entry in self._fs.list(self._touched))
        return sorted(touched for name in names if (touched := log_layout.parse_touched(name)))

    def folders(self, touched: StagingIntent) -> tuple[str, ...]:
        data = self._fs.read(join(self._touched, log_layout.touched_name(touched)))
        if data is None:
            return ()
        try:
            return tuple(str(folder) for folder in json.loads(data))
        except ValueError:
            # A torn list: its task died in `touch`, before it created any file.
            return ()

    def forget(self, lists: Iterable[StagingIntent]) -> None:
        for touched in lists:
            delete(self._fs, join(self._touched, log_layout.touched_name(touched)))

    def records(self) -> Sequence[Recorded]:
        return self._ledger.read()

    def trim(self, floor: Floor, records: Sequence[Recorded] = ()) -> None:
        names = [entry.name for entry in self._fs.list(self._manifests)]
        view = log_layout.parse_view(names)
        if floor.epoch >= view.head:
            message = f"epoch {floor.epoch} can't be the floor of {self._folder}: its head is {view.head}"
            raise ValueError(message)
        # First: what the floor covers is no longer in manifests.
        self._ledger.add(floor.epoch, records)
        lowest = max(floor.epoch, view.floor)
        if floor.epoch > view.floor:
            path = self._manifest_path(log_layout.floor_name(floor.epoch))
            put_once(self._fs, path, manifest_json.encode_floor(floor))
        for name in names:
            if log_layout.is_dead(name, lowest, view.head):
                delete(self._fs, self._manifest_path(name))

    def _decoded(self, epoch: Epoch) -> tuple[str, Manifest]:
        """The path and content of the epoch's manifest, of whatever uid."""
        path = self._manifest_path(log_layout.manifest_name(epoch))
        data = self._fs.read(path)
        if data is None:
            raise errors.LogDamaged(path, "it is missing")
        manifest = manifest_json.decode(data, path)
        if manifest.epoch != epoch:
            way = f"move it away if it is a copy, and epoch {epoch} never was"
            raise errors.LogDamaged(path, f"it holds epoch {manifest.epoch}: {way}")
        return path, manifest

    def _uid_of_manifests(self) -> str | None:
        """The uid that the two newest manifests share; None without manifests. Raises LogDamaged."""
        view = self.view()
        require_whole(self._folder, view, view.head)
        uid = None
        for epoch in view.manifests[-2:]:
            path, manifest = self._decoded(epoch)
            require_own(path, manifest, uid or manifest.uid)
            uid = manifest.uid
        return uid

    def _manifest_path(self, name: str) -> str:
        return join(self._manifests, name)

    def _find_out(self, manifest: Manifest, path: str, temporary: str, doubt: Exception) -> bool:
        """Whether `manifest` became the epoch's after all; False: it didn't, and no longer can."""
        if self._is_own(manifest, path, temporary):
            return True
        # The rename may still be on its way. Without its source it can do nothing.
        source_deleted = self._fs.delete(temporary)
        if self._is_own(manifest, path, temporary):
            return True
        if not source_deleted and isinstance(doubt, FileNotFoundError) and self.view().head >= manifest.epoch:
            # While this run stalled, another went on and its clean-up deleted the temporary file.
            raise errors.EpochTaken(self._folder, manifest.epoch)
        if not source_deleted:
            raise errors.OutcomeUnknown(action="create", path=path, reason=str(doubt)) from doubt
        return False

    def _is_own(self, manifest: Manifest, path: str, temporary: str) -> bool:
        """Whether the epoch's manifest is this one; False if there is none. Raises EpochTaken for another's."""
        data = self._fs.read(path)
        if data is None:
            return False
        is_own = manifest_json.decode(data, path).attempt == manifest.attempt
        if is_own:
            self._fs.make_durable(dirname(path))
        drop(self._fs, temporary)
        if not is_own:
            raise errors.EpochTaken(self._folder, manifest.epoch)
        return True

    def _require_newest(self, epoch: Epoch, path: str) -> None:
        view = self.view()
        if view.floor >= epoch:
            # With a floor at or above the epoch nobody reads the file, whether it is deleted or not.
            drop(self._fs, path)
            raise errors.EpochTaken(self._folder, epoch)
        if view.head > epoch:
            raise errors.FencedOut(self._folder, epoch, view.head)
        # A floor is there before what it covers is deleted, so only a second listing shows that none covers the gap.
        if _lacks(view, epoch - 1) and _lacks(self.view(), epoch - 1):
            self._refuse_anew(path)
        if epoch == 1 and self._fs.length(self._uid) is None:
            self._refuse_anew(path)

    def _require_log(self, path: str) -> None:
        """Raise LogMissing for a task's new file at `path` where nothing else is left of the log."""
        if not self._fs.is_folder(self._manifests) and self._fs.length(self._uid) is None:
            self._refuse_anew(path)

    def _refuse_anew(self, path: str) -> NoReturn:
        """Take back a file that has made the log's folder anew, after a reset beside this run. Raises LogMissing."""
        drop(self._fs, path)
        raise errors.LogMissing.gone(self._folder)


def _lacks(view: LogView, epoch: int) -> bool:
    return epoch > view.floor and epoch not in view.manifests


@contextlib.contextmanager
def _unknown_from_here(path: str) -> Iterator[None]:
    """Raise OutcomeUnknown for a failing store: after the rename was requested, the epoch may be decided."""
    try:
        yield
    except (errors.StoreUnavailable, errors.NotWritable) as error:
        raise errors.OutcomeUnknown(action="create", path=path, reason=str(error)) from error


_RECORD = re.compile(r"table-(\d{6,})\.json", re.ASCII)


@dataclass(frozen=True, slots=True)
class RenameLogRoot:
    """Implements `ports.LogRoot` in the folder `location`."""

    fs: FileSystem
    location: str

    def records(self) -> tuple[RootRecord, ...]:
        read = ((path, self.fs.read(path)) for _, path in sorted(self._numbered()))
        return tuple(RootRecord.decode(data, path) for path, data in read if data is not None)

    def claim(self, record: RootRecord) -> RootRecord:
        path = self._path(1)
        first = RootRecord.decode(put_once(self.fs, path, record.encode()), path)
        return self.records()[-1] if self.records() else first

    def update(self, record: RootRecord) -> None:
        number, stored = max((number for number, _ in self._numbered()), default=0), b""
        while stored != record.encode():
            # Of two at once, the later number counts.
            number += 1
            stored = put_once(self.fs, self._path(number), record.encode())

    def log(self, writer: str) -> CommitLog:
        return RenameCommitLog(self.fs, join(self.location, writer))

    def logs(self) -> Mapping[str, CommitLog]:
        return {name: self.log(name) for name in self._folders() if reset_writer(name) is None}

    def archived(self) -> Mapping[str, CommitLog]:
        return {name: self.log(name) for name in self._folders() if reset_writer(name) is not None}

    def archive(self, writer: str, at: datetime) -> str:
        folder = self._free(writer, at)
        try:
            self.fs.rename_folder(join(self.location, writer), folder)
        except FileExistsError as error:
            reason = f"{folder} exists already; run it again"
            raise StoreUnavailable(action="rename", path=join(self.location, writer), reason=reason) from error
        except FileNotFoundError:
            # Another reset has done it.
            return folder
        return folder

    def accept(self, uid: str, at: datetime) -> None:
        put_once(self.fs, join(self._free(uid, at), "uid"), f"{uid}\n".encode())

    def _free(self, name: str, at: datetime) -> str:
        while self.fs.is_folder(folder := join(self.location, reset_name(name, at))):
            at += timedelta(seconds=1)
        return folder

    def _folders(self) -> Iterator[str]:
        yield from (entry.name for entry in self.fs.list(self.location) if entry.is_folder and entry.name[0] != ".")

    def _numbered(self) -> Iterator[tuple[int, str]]:
        for entry in self.fs.list(self.location):
            if parts := _RECORD.fullmatch(entry.name):
                yield int(parts[1]), join(self.location, entry.name)

    def _path(self, number: int) -> str:
        return join(self.location, f"table-{number:06d}.json")

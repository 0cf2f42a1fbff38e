"""The root of a table's log on a file system with rename: which table it belongs to, and each writer's log in it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from hivesink.core.log import reset_name, reset_writer
from hivesink.core.ownership import RootRecord
from hivesink.errors import StoreUnavailable
from hivesink.storage.commit_log import RenameCommitLog
from hivesink.storage.fs import FileSystem, join, put_once

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from hivesink.ports import CommitLog

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

"""The partition commits of trimmed epochs, in files that are written once and merged as they grow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hivesink.core import manifest_json
from hivesink.core.partition_commit import newest
from hivesink.storage import log_layout
from hivesink.storage.fs import FileSystem, delete, join, put_once, retry_unknown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hivesink.core.epoch import Epoch
    from hivesink.core.partition_commit import Recorded


@dataclass(frozen=True, slots=True)
class Ledger:
    """Each file in `folder` holds the newest commit of each partition from some epochs, up to that in its name.

    A new file takes in those before it that are at most twice as long, so there are few files, and a record is
    rewritten a few times in its life. What two files hold both says the same: a merge may be cut short anywhere.
    """

    fs: FileSystem
    folder: str

    def read(self) -> Sequence[Recorded]:
        """The newest commit of each partition. Raises LogDamaged, NewerFormat, StoreUnavailable."""
        return retry_unknown("read the partition commits of", self.folder, self._read)

    def add(self, floor: Epoch, records: Sequence[Recorded]) -> None:
        """Keep `records`, of epochs up to `floor`. Does nothing if that has been done. Raises as `read` does."""
        retry_unknown("merge the partition commits of", self.folder, lambda: self._add(floor, records))

    def _add(self, floor: Epoch, records: Sequence[Recorded]) -> None:
        files = self._files()
        if not records or (files and files[-1] >= floor):
            return
        taken: dict[Epoch, Sequence[Recorded]] = {}
        for epoch in reversed(files):
            before = self._records(epoch)
            if len(before) > 2 * len(records):
                break
            taken[epoch] = before
            records = list(newest([*before, *records]).values())
        put_once(self.fs, self._path(floor), manifest_json.encode_records(records))
        for epoch in taken:
            delete(self.fs, self._path(epoch))

    def _read(self) -> Sequence[Recorded]:
        return list(newest(record for epoch in self._files() for record in self._records(epoch)).values())

    def _files(self) -> tuple[Epoch, ...]:
        """The files have names as manifests do, of the highest epochs that they cover."""
        return log_layout.parse_view(entry.name for entry in self.fs.list(self.folder)).manifests

    def _records(self, epoch: Epoch) -> Sequence[Recorded]:
        path = self._path(epoch)
        data = self.fs.read(path)
        if data is None:
            # Somebody has merged it since the listing: look again.
            raise FileNotFoundError(path)
        return manifest_json.decode_records(data, path)

    def _path(self, epoch: Epoch) -> str:
        return join(self.folder, log_layout.manifest_name(epoch))

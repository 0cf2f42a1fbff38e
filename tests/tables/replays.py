"""A table with dead letters in memory, and replays of them without a server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from hivesink.config.site import NO_SITE
from hivesink.core.table import TableName, TableSpec
from hivesink.logs import table_root
from hivesink.sink.commit.context import CommitContext
from hivesink.sink.inspect.ownership import Ownership
from hivesink.sink.task.messages import InputShape
from hivesink.sink.task.rejects import rejected_spec
from hivesink.storage.fs import FileSystem, Storage
from hivesink.storage.rename_store import RenameFileStore
from hivesink.tables.opened import OpenedTable
from hivesink.tables.rejects import Census, DeadLetters, Replay
from tests.ingest import Ingest, kafka
from tests.inmemory.filesystem import MemoryFileSystem
from tests.inmemory.metastore import MemoryMetastore
from tests.sink.harness import LOCATION, SPEC, TABLE

if TYPE_CHECKING:
    import pytest

REJECTED = f"{LOCATION}__rejected"
_OPTIONS = {"sink.on-bad-record": "dead-letter", "sink.rolling-policy.on-epoch": "true"}


@dataclass
class World:
    """What outlives a process: the files and the metastore, which has a table and that of its dead letters."""

    spec: TableSpec = SPEC
    options: Mapping[str, str] = field(default_factory=dict)
    files: MemoryFileSystem = field(default_factory=MemoryFileSystem)
    metastore: MemoryMetastore = field(default_factory=MemoryMetastore)
    mended: dict[str, bytes | None] | None = None
    current: FileSystem = field(init=False)
    census: Census = field(default_factory=Census)
    """Of the last replay."""
    batches: int = 0

    def __post_init__(self) -> None:
        self.current = self.files
        self.metastore.create(self.spec)
        self.metastore.create(rejected_spec(TABLE, REJECTED, external=False))

    def patch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """From now on all files are here."""
        storage = Storage(lambda _: RenameFileStore(self.current), lambda: self.current)
        monkeypatch.setattr("hivesink.logs.storage_of", lambda *_: storage)

    @contextmanager
    def process(self, files: FileSystem | None = None) -> Iterator[DeadLetters]:
        """A process that comes to the files through `files`."""
        with self.opened(files) as opened:
            yield DeadLetters(opened)

    @contextmanager
    def opened(self, files: FileSystem | None = None) -> Iterator[OpenedTable]:
        """The table as a process sees it."""
        before, self.current = self.current, files or self.files
        try:
            live, store = self.metastore.table(TABLE), self.metastore
            parts = RenameFileStore(self.current)
            owner = Ownership(table_root(live, None), self.metastore, parts)
            writers = {writer: CommitContext(log, parts, self.metastore) for writer, log in owner.root.logs().items()}
            yield OpenedTable(str(TABLE), live, writers, NO_SITE, store, owner, is_known=True)
        finally:
            self.current = before

    def alter(self, properties: Mapping[str, str]) -> None:
        """As ALTER TABLE … SET TBLPROPERTIES."""
        entry = self.metastore._entries[TABLE]
        entry.spec = replace(entry.spec, properties=tuple(properties.items()))

    def job(self) -> Ingest:
        """The job, opened by `options`."""
        options = _OPTIONS | dict(self.options)
        return Ingest(str(TABLE), "", "job", self.batches, options, registrar=self.metastore)

    def ingest(
        self, batch: pa.RecordBatch, shape: InputShape, at: datetime | None = None, *, ends: bool = True
    ) -> None:
        """The job's next batch, of one offset, which arrives `at`, and with `ends` the end of the job."""
        job = self.job()
        if at is not None:
            job.set("now", lambda: at)
        job.put(batch, shape, kafka(self.batches), kafka(self.batches + 1))
        self.batches += 1
        if ends:
            job.finish()

    def ids(self) -> list[str]:
        """Those of the dead letters, as `hivesink rejects list` finds them."""
        with self.process() as letters:
            return [letter for _, rows in letters.every() for letter in rows.column("id").to_pylist()]

    def replay(self, files: FileSystem | None = None) -> int:
        """As `hivesink rejects replay` does: how many records it has replayed, with those of a replay that died."""
        with self.process(files) as letters:
            replay = Replay(letters, self.mended)
            finished = replay.recover()
            replayed, self.census = replay.try_out()
            return finished + (replayed.rows and replay.run(replayed.parts).rows)

    def rows(self, table: TableName) -> list[dict[str, Any]]:
        """What readers find, without the partitions' columns."""
        store = RenameFileStore(self.files)
        homes = self.metastore.partitions(table).values()
        files = [store.open(file.path) for home in homes for file in store.visible(home)]
        return [row for file in files for row in pq.read_table(file).to_pylist()]

"""The one place that puts adapters behind ports."""

from __future__ import annotations

import contextlib
import secrets
import time
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from hivesink import metastore as metastores
from hivesink.arrowtypes import arrow_schema
from hivesink.core.bucket import normal
from hivesink.decode.reader import DecodeOptions, RowsReader
from hivesink.errors import InvalidOption, TableExists, UnknownTable, Unsupported
from hivesink.formats.parquet import ParquetFormat, rows_in
from hivesink.hiveql.render import render
from hivesink.hiveql.stored import declared, stored
from hivesink.options import OnBadRecord, SinkConfig
from hivesink.sink.assign import assigner_for, needed_columns
from hivesink.sink.committer import Committer
from hivesink.sink.declared import Committed, Sink
from hivesink.sink.history import Identity, load
from hivesink.sink.plan import TablePlan, TaskPlan
from hivesink.sink.rejects import rejected_spec
from hivesink.sink.task import TaskTools
from hivesink.sink.world import World
from hivesink.storage.commit_log import RenameCommitLog, default_log_location, logs_of
from hivesink.storage.local import LocalFileSystem
from hivesink.storage.rename_store import RenameFileStore

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hivesink.core.epoch import LastBatch, Ways
    from hivesink.core.table import TableName, TableSpec
    from hivesink.hiveql.apply import Catalog
    from hivesink.ports import CommitLog, FileStore, LiveTable, Registrar


@dataclass(frozen=True, slots=True)
class Metastore:
    """A metastore for the sink: its registrar, and, over Thrift, its catalog."""

    registrar: Registrar
    catalog: Catalog | None

    @classmethod
    def at(cls, kind: str, address: str) -> Metastore:
        """`kind` is `thrift` or `hiveserver2`. Raises InvalidOption."""
        return cls(registrar(kind, address), catalog(address) if kind == "thrift" else None)

    def create(self, spec: TableSpec) -> None:
        """Raises Unsupported where tables can't be created this way, with the DDL to run by hand."""
        if self.catalog is None:
            ddl = " ".join(render(spec).split())
            msg = f"creating {spec.name} through HiveServer2"
            raise Unsupported(msg, "it is left to people", f"run: {ddl}")
        with contextlib.suppress(TableExists):
            self.catalog.create(stored(spec))


def registrar(kind: str, address: str) -> Registrar:
    """The metastore adapter `kind`, `thrift` or `hiveserver2` (host:port). Raises InvalidOption."""
    return metastores.connect(kind, address)


def catalog(address: str) -> Catalog:
    """The tables of the metastore at a Thrift address, for DDL. Raises InvalidOption."""
    return metastores.catalog(address)


def file_store(location: str) -> FileStore:
    """The store for files below `location`. Raises InvalidOption for a file system that has no adapter."""
    return RenameFileStore(_file_system(location))


def _file_system(location: str) -> LocalFileSystem:
    if normal(location).startswith("/"):
        return LocalFileSystem()
    problem = f"{location}: this version writes to local file systems (file:/…) only"
    raise InvalidOption((problem,))


def commit_log(folder: str, writer: str) -> CommitLog:
    """The log of `writer` in `folder`. Raises InvalidOption for a file system that has no adapter."""
    return RenameCommitLog(_file_system(folder), normal(folder), writer)


def writers_of(table: TableName, location: str) -> Mapping[str, str]:
    """The logs' folders of every writer of a table, by writer."""
    return logs_of(_file_system(location), table, normal(location))


@dataclass(frozen=True, slots=True)
class ToolsSpec:
    """How a task makes its tools, in its own process."""

    log: str
    writer: str

    def open(self, plan: TaskPlan) -> TaskTools:
        store = file_store(plan.target.location)
        return TaskTools(
            store=store,
            reader=_reader(plan),
            format=lambda table: ParquetFormat(arrow_schema(table.spec.columns), plan.config["parquet.compression"]),
            touch=commit_log(self.log, self.writer).touch,
        )


def _reader(plan: TaskPlan) -> RowsReader:
    config, spec = plan.config, plan.target.spec
    return RowsReader(
        columns=(*spec.columns, *needed_columns(spec, config)),
        value=plan.shape.value,
        options=DecodeOptions(
            timestamp_zone=config["sink.timestamp-zone"],
            timestamp_format=config["sink.timestamp-format"],
            tombstone=config["sink.on-tombstone"],
            unknown_field=config["sink.on-unknown-field"],
        ),
    )


def _no_progress(_: Committed) -> None:
    """For those who don't watch."""


@dataclass(frozen=True, slots=True)
class Setup:
    """One writer of one table, opened: what the committer is made from."""

    writer: str
    target: TablePlan
    rejected: TablePlan | None
    config: SinkConfig
    ways: Ways
    world: World
    identity: Identity
    log: str
    on_commit: Callable[[Committed], None] = field(default=_no_progress)

    @classmethod
    def open(
        cls,
        *,
        table: TableName,
        writer: str,
        metastore: Metastore,
        ways: Ways,
        options: Mapping[str, str],
        on_commit: Callable[[Committed], None] | None = None,
    ) -> Setup:
        """Read the table from the metastore, and open or begin the writer's log.

        Raises UnknownTable, Unsupported, InvalidOption, MetastoreUnreachable, NotWritable.
        """
        registrar = metastore.registrar
        live = _declared(registrar.table(table))
        config = SinkConfig.parse({**live.spec.options, **options})
        assigner_for(live.spec, config)
        folder = _log_folder(live, config, writer)
        log = commit_log(folder, writer)
        uid = log.uid(secrets.token_hex(6))
        if uid is None:
            message = f"{folder} has no uid after one was offered"
            raise AssertionError(message)
        world = World(
            log=log,
            store=file_store(live.location),
            registrar=registrar,
            now=lambda: datetime.now(timezone.utc),
            tick=time.monotonic,
            token=lambda: secrets.token_hex(5),
        )
        rejected = _rejected(metastore, live, config)
        plans = [plan for plan in (TablePlan(live.spec, live.location), rejected) if plan]
        for plan in plans:
            log.point(plan.spec.name, normal(plan.location))
        names = tuple(plan.name for plan in plans)
        zone = config["sink.bucket.time-zone"].key
        identity = Identity(writer, uid, names, tuple((name, zone) for name in names))
        return cls(writer, plans[0], rejected, config, ways, world, identity, folder, on_commit or _no_progress)

    def sink(self, *, tolerant: bool) -> Sink:
        return Sink(
            identity=self.identity,
            target=self.target,
            rejected=self.rejected,
            config=self.config,
            count_rows=rows_in,
            ways=self.ways,
            tolerant=tolerant,
            on_commit=self.on_commit,
            sole_writer=lambda: len(writers_of(self.target.spec.name, self.target.location)) <= 1,
        )

    def committer(self, *, tolerant: bool) -> Committer:
        return Committer(self.world, self.sink(tolerant=tolerant))

    def tools(self) -> ToolsSpec:
        return ToolsSpec(self.log, self.writer)

    def last_batch(self) -> LastBatch | None:
        """The newest batch that the log holds."""
        backlog = load(self.world)
        return backlog.head.last_batch if backlog else None


def _log_folder(live: LiveTable, config: SinkConfig, writer: str) -> str:
    configured: str | None = config["sink.log-location"]
    own = normal(live.location)
    if configured is None:
        return default_log_location(own, live.spec.name, writer)
    folder = f"{normal(configured)}/{writer}"
    if f"{folder}/".startswith(f"{own}/"):
        problem = f"sink.log-location = {configured!r} lies in the table's own folder, which DROP and TRUNCATE empty"
        raise InvalidOption((problem,))
    return folder


def _declared(live: LiveTable) -> LiveTable:
    # What an old metastore can't keep, such as NOT NULL, is in the table's properties.
    return replace(live, spec=declared(live.spec))


def _rejected(metastore: Metastore, live: LiveTable, config: SinkConfig) -> TablePlan | None:
    """The dead-letter table, created where the setting asks for it and it isn't there."""
    if config["sink.on-bad-record"] is not OnBadRecord.DEAD_LETTER:
        return None
    name = live.spec.name.rejected
    try:
        found = metastore.registrar.table(name)
    except UnknownTable:
        base = live.location.rstrip("/")
        location = f"{base}__rejected" if live.spec.location else None
        spec = rejected_spec(live.spec.name, location, external=live.spec.external)
        metastore.create(spec)
        found = metastore.registrar.table(name)
    return TablePlan(found.spec, found.location)

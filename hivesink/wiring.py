"""The one place that puts adapters behind ports."""

from __future__ import annotations

import contextlib
import secrets
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from posixpath import dirname
from typing import TYPE_CHECKING

from hivesink.config.options import SinkConfig, as_texts
from hivesink.config.site import NO_SITE, Site
from hivesink.core.bucket import normal
from hivesink.core.epoch import QueryHistory
from hivesink.core.lifecycle import Identity
from hivesink.core.log import require_writer_name
from hivesink.core.partition_commit import PolicyKind
from hivesink.decode.arrowtypes import arrow_schema
from hivesink.decode.reader import RowsReader
from hivesink.decode.refit import refit
from hivesink.decode.values import DecodeOptions
from hivesink.errors import (
    FileSystemUnknown,
    InvalidOption,
    LogDamaged,
    LogTwice,
    NewerFormat,
    TableExists,
    Unsupported,
)
from hivesink.formats import adapter
from hivesink.hiveql.render import declared, render, stored
from hivesink.logs import TableLogs, commit_log, file_system, log_folder
from hivesink.metastore import catalog, connect
from hivesink.sink.commit.committer import Committer
from hivesink.sink.commit.context import CommitContext, WriterSpec, problems_of
from hivesink.sink.commit.observe import load
from hivesink.sink.inspect.admission import Admission, other_owners
from hivesink.sink.inspect.facts import read_log
from hivesink.sink.inspect.resets import SetAside
from hivesink.sink.task.assign import row_columns
from hivesink.sink.task.attempt import TaskTools, run_encoding
from hivesink.sink.task.messages import TablePlan, TaskPlan
from hivesink.sink.task.rejects import columns_of, rejected_spec
from hivesink.sink.task.segments import held_back
from hivesink.storage.fs import Ownership
from hivesink.storage.rename_store import RenameFileStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hivesink.core.epoch import BatchId, HistoryPolicy, LastBatch
    from hivesink.core.partition import PartitionKey
    from hivesink.core.roll_policy import Encoding
    from hivesink.core.rolling import OpenRows
    from hivesink.core.table import TableName, TableSpec
    from hivesink.errors import HiveSinkError
    from hivesink.hiveql.apply import Catalog
    from hivesink.ports import CommitLog, FileStore, LiveTable, Registrar, RowReader
    from hivesink.sink.commit.committed import Committed
    from hivesink.sink.commit.roller import Encode
    from hivesink.sink.task.messages import TaskReport
    from hivesink.storage.pointers import Accepted


_LETTERS = ("sink.on-bad-record", "sink.late-rows")


@dataclass(frozen=True, slots=True)
class Metastore:
    """A metastore for the sink: its registrar, and, over Thrift, its catalog."""

    registrar: Registrar
    catalog: Catalog | None

    @classmethod
    def at(cls, kind: str, address: str, site: Site = NO_SITE) -> Metastore:
        """`kind` is `thrift` or `hiveserver2`. Raises InvalidOption, Unsupported."""
        return cls(connect(kind, address, site), catalog(address, site) if kind == "thrift" else None)

    def create(self, spec: TableSpec) -> None:
        """Raises Unsupported, with the DDL to run by hand, if this metastore can't create tables."""
        if self.catalog is None:
            ddl = " ".join(render(spec).split())
            msg = f"creating {spec.name} through HiveServer2"
            raise Unsupported(msg, "it needs the Thrift metastore", f"run: {ddl}")
        with contextlib.suppress(TableExists):
            self.catalog.create(stored(spec))


def file_store(location: str, site: Site = NO_SITE, config: SinkConfig | None = None) -> FileStore:
    """The store for files below `location`; `config` says whose new files are.

    Raises InvalidOption for a file system without an adapter, FileSystemUnknown.
    """
    if config is None:
        return RenameFileStore(file_system(location, site))
    ownership = Ownership(config["sink.file.permission"], config["sink.file.owner"], config["sink.file.group"])
    return RenameFileStore(file_system(location, site, ownership))


def row_reader(plan: TaskPlan) -> RowReader:
    """What turns the stream's records into rows of the plan's table, by the table's settings."""
    config = plan.config
    options = DecodeOptions.of(config)
    columns = [column for column in row_columns(plan.target.spec, config) if column.name not in plan.shape.absent]
    return RowsReader(columns, plan.shape.value, options, plan.arrival, plan.shape.batch)


@dataclass(frozen=True, slots=True)
class ToolsSpec:
    """What a task needs to make its tools in its own process."""

    log: str
    writer: str
    site: Site = NO_SITE

    def open(self, plan: TaskPlan) -> TaskTools:
        config = plan.config
        log = commit_log(self.log, self.writer, self.site)
        return TaskTools(
            store=file_store(plan.target.location, self.site, config),
            reader=row_reader(plan),
            format=lambda table: adapter(table.spec.format).of(
                arrow_schema(table.spec.columns),
                config,
                plan.order(table),
                plain=table.name != plan.target.name,
            ),
            touch=log.touch,
            segments=log.segments,
            refit=refit,
            open_source=lambda path: file_system(path, self.site).open(path),
        )


@dataclass(frozen=True, slots=True)
class Setup:
    """One opened writer of one table: what the committer is made from."""

    spec: WriterSpec
    context: CommitContext
    site: Site

    @classmethod
    def open(
        cls,
        *,
        table: TableName,
        writer: str,
        metastore: Metastore,
        history_policy: HistoryPolicy,
        options: Mapping[str, object],
        site: Site = NO_SITE,
        check: Callable[[str, str], None] = lambda *_: None,
        on_commit: Callable[[Committed], None] | None = None,
    ) -> Setup:
        """Read the table from the metastore, and open or begin the writer's log.

        `check` is called with the table's location and the log's folder before anything is written there.

        Raises UnknownTable, Unsupported, InvalidOption, MetastoreUnreachable, NotWritable; and ForeignParts,
        TableRemade, LogShared, LogTwice, PointerCopied, LogDamaged if the log and the table don't belong together.
        """
        require_writer_name(writer)
        registrar = metastore.registrar
        found = registrar.table(table)
        # What an old metastore can't store, such as NOT NULL, is in the table's properties.
        live = replace(found, spec=declared(found.spec))
        own = as_texts(options)
        config = SinkConfig.parse(live.spec.options, own)
        if problems := problems_of(live.spec, config):
            raise InvalidOption(problems)
        if PolicyKind.INSERT_EVENT in config["sink.partition-commit.policy.kind"]:
            registrar.announce(live, {})
        folder = log_folder(live, config, writer)
        check(live.location, folder)
        log, store = commit_log(folder, writer, site), file_store(live.location, site, config)
        logs = TableLogs(table, live.location, site)
        # First of all, a wrong address of the log is told as that.
        log.view()
        # A pointer that was copied, or leads elsewhere, is refused next: the log may then be another table's.
        if writer in logs.writers():
            log.point(table, normal(live.location))
        admission(live, log, store, writer, registrar, site=site).require()
        uid = log.uid(secrets.token_hex(6))
        if uid is None:
            message = f"the log {folder} has no uid after one was stored"
            raise AssertionError(message)
        _require_sole(uid, log, logs, store)
        context = CommitContext(
            log=log,
            store=store,
            registrar=registrar,
            remake=remaker(metastore, live),
            _tables={str(table): live},
        )
        history = load(context)
        # Rows of a decided part wait again if it is lost.
        waiting = {name for name, _ in (*history.rows.buckets, *history.keys)}
        is_wanted = config.has_dead_letters or str(table.rejected) in waiting
        rejected = _rejected(context, live) if is_wanted else None
        plans = [plan for plan in (TablePlan(live.spec, live.location), rejected) if plan]
        for plan in plans:
            log.point(plan.spec.name, normal(plan.location))
            TableLogs(plan.spec.name, plan.location, site).retract(uid)
        log.admit(table, live.created)
        names = tuple(plan.name for plan in plans)
        zone = config["sink.bucket.time-zone"].key
        zones = tuple((name, zone) for name in names)
        run = tuple(sorted(own.items())), tuple(sorted(config.changed.items()))
        identity = Identity(writer, uid, names, zones, log.location, *run)
        spec = WriterSpec(
            identity=identity,
            target=plans[0],
            rejected=rejected,
            config=config,
            measure=adapter(live.spec.format).measure,
            history_policy=history_policy,
            on_commit=on_commit or (lambda _: None),
            was_written=SetAside(
                lambda: ((log, one.uid, one.written) for name, log, one in _put_aside(logs) if name == writer),
                store,
                registrar,
                str(table),
            ).has,
        )
        return cls(spec, context, site)

    def histories(self, query: str) -> Iterator[QueryHistory]:
        """What the logs of the table's writers hold of `query`.

        A log that `hivesink reset` put aside counts too, unless a person has said that its batches aren't in the table.
        """
        own = self.spec.identity.writer
        for writer, log, written in self._logs():
            # Damage in another writer's log is its own problem, and so is a file system that is gone.
            with contextlib.suppress(LogDamaged, NewerFormat, FileSystemUnknown):
                view = log.view()
                newest = log.manifest(view.head).last_batch if view.manifests else None
                if newest and newest.ref.query == query and (writer == own or written != ""):
                    batches = partial(_batches, log, query)
                    yield QueryHistory(writer, log.location, newest, batches, trimmed=view.floor > 0)

    def _logs(self) -> Iterator[tuple[str, CommitLog, str | None]]:
        """Each log of the table: its writer, and, of one that was put aside, what a person has answered for it."""
        target = self.spec.target
        logs = TableLogs(target.spec.name, target.location, self.site)
        living = ((writer, commit_log(folder, writer, self.site), None) for writer, folder in logs.writers().items())
        yield from chain(living, ((writer, log, one.written) for writer, log, one in _put_aside(logs)))

    def committer(self, *, tolerant: bool, encode: Encode | None = None, tasks: int = 1) -> Committer:
        """`encode` makes part files of rows that wait, on `tasks` tasks at a time; by default in this process."""
        spec = replace(self.spec, tolerant=tolerant)
        return Committer(self.context, spec, encode or self._encode_here, tasks)

    def _encode_here(self, work: Sequence[Sequence[Encoding]], plan: TaskPlan) -> Iterator[TaskReport]:
        tools = self.tools().open(plan)
        return (run_encoding(own, plan, tools, task, task) for task, own in enumerate(work))

    def tools(self) -> ToolsSpec:
        # Tasks need no metastore: its properties, perhaps with a password, stay in the driver.
        return ToolsSpec(self.spec.identity.log, self.spec.identity.writer, Site(self.site.hadoop))

    def last_batch(self) -> LastBatch | None:
        """The newest batch in the log."""
        head = load(self.context).head
        return head.last_batch if head else None


def admission(
    live: LiveTable, log: CommitLog, store: FileStore, writer: str, registrar: Registrar, *, site: Site
) -> Admission:
    """Whether `writer` may write the table as it is now."""
    logs = TableLogs(live.spec.name, live.location, site)
    search = partial(log_of, logs=logs, folder=dirname(log.location), registrar=registrar)
    known = lambda: logs.uids() | logs.accepted().keys()  # noqa: E731  read when it is needed
    return Admission(writer, log, store, live, registrar, known, search, logs.beside)


def held_back_rows(live: LiveTable, log: CommitLog, rows: OpenRows) -> dict[PartitionKey, HiveSinkError]:
    """The buckets whose rows can't all be rolled, each with the reason. Raises StoreUnavailable."""
    return held_back(rows, live.spec, log.segments, refit)


def log_of(uid: str, logs: TableLogs, folder: str, registrar: Registrar) -> str | None:
    """The log of `uid` beside a table, or in `folder`. None if it serves another living table: the files are copies."""
    found = logs.with_uid(uid, folder)
    return None if found and other_owners(commit_log(found, "", logs.site), registrar, str(logs.table)) else found


def _require_sole(uid: str, log: CommitLog, logs: TableLogs, store: FileStore) -> None:
    """Raise LogTwice if another writer of the table has a log with that uid: their parts would look the same."""
    own = store.canonical(log.location)
    for writer, folder in logs.writers().items():
        if store.canonical(folder) != own and commit_log(folder, writer, logs.site).uid(None) == uid:
            raise LogTwice(log.location, folder, uid)


def _batches(log: CommitLog, query: str) -> frozenset[BatchId]:
    """The batches of `query` that the log's manifests name."""
    batches = (manifest.last_batch for manifest in read_log(log).manifests)
    return frozenset(one.ref.batch for one in batches if one and one.ref.query == query)


def _put_aside(logs: TableLogs) -> Iterator[tuple[str, CommitLog, Accepted]]:
    """The logs of the table that `hivesink reset` has put aside, with their writers."""
    for one in logs.accepted().values():
        if one.writer is not None and one.log is not None:
            yield one.writer, commit_log(one.log, one.writer, logs.site), one


def _rejected(context: CommitContext, live: LiveTable) -> TablePlan:
    """The dead-letter table, created if missing."""
    found = context.table(str(live.spec.name.rejected))
    # Somebody may have added columns: they are null.
    return TablePlan(replace(found.spec, columns=columns_of(found.spec)), found.location)


def remaker(metastore: Metastore, live: LiveTable) -> Callable[[TableName], bool]:
    """`CommitContext.remake` for the writers of table `live`. It raises Unsupported if tables can't be created so."""

    def remake(name: TableName) -> bool:
        if name != live.spec.name.rejected:
            return False
        location = f"{live.location.rstrip('/')}__rejected" if live.spec.location else None
        metastore.create(rejected_spec(live.spec.name, location, external=live.spec.external))
        return True

    return remake

"""The one place that puts adapters behind ports."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from posixpath import dirname

import pyarrow as pa

from hivesink import kerberos
from hivesink.config.options import SinkConfig, as_texts
from hivesink.config.site import NO_SITE, Site
from hivesink.core.epoch import Epoch, LastBatch
from hivesink.core.lifecycle import Identity
from hivesink.core.log import PROPERTY, require_writer_name
from hivesink.core.manifest import Opened
from hivesink.core.partition import PartitionKey, file_system_of
from hivesink.core.partition_commit import PolicyKind
from hivesink.core.table import TableName, TableSpec, as_properties, field_ids, is_letters
from hivesink.decode import convert
from hivesink.decode.arrowtypes import arrow_schema
from hivesink.decode.reader import OpenSchemas, RowsReader
from hivesink.errors import InvalidOption, RegistrationFailed, RowsUnfit, TableReplaced
from hivesink.formats import adapter, measure
from hivesink.hiveql.render import declared, stored
from hivesink.logs import commit_log, file_store, log_root, root_folder, storage_of, table_root
from hivesink.ports import FileStore, LiveTable, LogRoot, Metastore
from hivesink.ports.rows import RowReader
from hivesink.registry import KeptSchemas, Passing
from hivesink.sink.commit.committed import Committed
from hivesink.sink.commit.committer import Committer
from hivesink.sink.commit.context import CommitContext
from hivesink.sink.commit.observe import load
from hivesink.sink.commit.waiting import Encode
from hivesink.sink.commit.writer import WriterSpec, problems_of
from hivesink.sink.inspect.ownership import Ownership
from hivesink.sink.task.assign import row_columns
from hivesink.sink.task.attempt import run_encoding
from hivesink.sink.task.messages import TablePlan, TaskPlan, TaskReport, TaskTools
from hivesink.sink.task.rejects import columns_of, rejected_spec


def schemas(plan: TaskPlan, root: LogRoot | None, site: Site = NO_SITE, *, compares: bool = True) -> OpenSchemas:
    """The schemas of the plan's records, which are kept in `root`, if any; `compares` as in `KeptSchemas`."""

    def read(path: str) -> bytes | None:
        # As everywhere in Hadoop, a bare path is on the default file system, here the table's.
        path = f"{file_system_of(plan.target.location)}{path}" if path.startswith("/") else path
        return storage_of(path, site).logs().read(path)

    kept = Passing() if root is None else root.schemas
    return lambda config, parse: KeptSchemas(config, kept, read, parse, compares, plan.schema)


def row_reader(
    plan: TaskPlan, root: LogRoot | None = None, site: Site = NO_SITE, *, compares: bool = True
) -> RowReader:
    """What turns the stream's records into rows of the plan's table, by the table's settings, and by its `schemas`."""
    config, spec = plan.config, plan.target.spec
    form = adapter(spec.format).of(arrow_schema(spec.columns), config)
    columns = [column for column in row_columns(spec, config) if column.name not in plan.shape.absent]
    known = schemas(plan, root, site, compares=compares)
    return RowsReader(columns, plan.shape.value, config, plan.arrival, unfit=form.unfit, schemas=known)


@dataclass(frozen=True, slots=True)
class ToolsSpec:
    """What a task needs to make its tools in its own process, which HDFS knows by `tokens` from then on, if any."""

    log: str
    site: Site = NO_SITE
    tokens: bytes | None = field(default=None, repr=False)

    def open(self, plan: TaskPlan) -> TaskTools:
        if self.tokens:
            kerberos.adopt(self.tokens)
        config = plan.config
        log = commit_log(self.log, self.site)
        return TaskTools(
            store=file_store(plan.target.location, self.site, config["sink.file.permission"]),
            # A log is in a folder of its writer's.
            reader=row_reader(plan, log_root(dirname(dirname(self.log)), self.site), self.site),
            format=lambda table: adapter(table.spec.format).of(
                arrow_schema(table.spec.columns),
                config,
                order=plan.order(table),
                ids=field_ids(table.spec.columns, table.spec.options),
            ),
            touch=log.touch,
            segments=log.segments,
            refit=refit,
            open_source=lambda path: file_store(path, self.site).open(path),
        )


def refit(rows: pa.RecordBatch, spec: TableSpec, key: PartitionKey) -> pa.RecordBatch:
    """Implements `ports.Refit`."""
    fitting = convert.refit(rows, spec.columns, key)
    form = adapter(spec.format).of(arrow_schema(spec.columns), SinkConfig.parse(spec.options))
    for bad in form.unfit(pa.Table.from_batches([fitting])):
        raise RowsUnfit(*key, str(bad.field), ("in another format", f"in {spec.format}"), bad.reason)
    return fitting


@dataclass(frozen=True, slots=True)
class OpenedWriter:
    """An opened writer of a table: what the committer is made from."""

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
        append: Epoch | None = None,
        options: Mapping[str, object],
        site: Site = NO_SITE,
        check: Callable[[str, str], None] = lambda *_: None,
        on_commit: Callable[[Committed], None] | None = None,
    ) -> OpenedWriter:
        """Read the table from the metastore, and open or begin the writer's log.

        `check` is called with the table's location and the log's folder before anything is written there.

        Raises UnknownTable, Unsupported (a store without conditional writes, say), InvalidOption,
        MetastoreUnreachable, StoreUnavailable, NotWritable; and what `Ownership.require`
        raises if the log and the table don't belong together, FilesUnknown, LogDamaged.
        """
        require_writer_name(writer)
        registrar, options_of_run = metastore, as_texts(options)
        # What an old metastore can't store, such as NOT NULL, is in the table's properties.
        live = registrar.table(table)
        live = replace(live, spec=declared(live.spec))
        config = SinkConfig.parse(live.spec.options, options_of_run)
        if problems := problems_of(live.spec, config):
            raise InvalidOption(problems)
        if PolicyKind.INSERT_EVENT in config["sink.partition-commit.policy.kind"]:
            registrar.announce(live, {})
        store = file_store(live.location, site, config["sink.file.permission"])
        owner = Ownership(_root(live, config, store, site), registrar, store)
        # First of all, a wrong address of the log is told as that.
        log = owner.root.log(writer)
        check(live.location, log.location)
        storage_of(owner.root.location, site).check(owner.root.location, live.location)
        live = _numbered(owner.require(live), registrar)
        uid = owner.begin(live, log, writer)
        context = CommitContext(
            log=log,
            store=store,
            registrar=registrar,
            remake=remaker(metastore, live),
            confirm=owner.confirm,
            today=str(table),
            former=owner.former(live),
            _tables={str(table): live},
        )
        target = TablePlan(live.spec, live.location)
        rejected = None
        history = load(context)
        # Rows of a decided part wait again if it is lost.
        waiting = {name for name, _ in (*history.rows.buckets, *history.keys)}
        if config.has_dead_letters or any(map(is_letters, waiting)):
            letters = context.table(str(live.spec.name.rejected))
            # Somebody may have added columns: they are null.
            rejected = TablePlan(replace(letters.spec, columns=columns_of(letters.spec)), letters.location)
        names = tuple(plan.name for plan in (target, rejected) if plan)
        zone = config["sink.bucket.time-zone"].key
        columns = tuple(sorted((column.name, str(column.type)) for column in live.spec.columns))
        run = tuple(sorted(options_of_run.items())), tuple(sorted(config.changed.items())), columns
        spec = WriterSpec(
            identity=Identity(writer, uid, names, tuple((name, zone) for name in names), log.location, *run),
            target=target,
            rejected=rejected,
            config=config,
            measure=measure,
            append=append,
            on_commit=on_commit or (lambda _: None),
            was_written=partial(owner.was_written, live, writer),
        )
        return cls(spec, context, site)

    def committer(self, *, tolerant: bool, encode: Encode | None = None, tasks: int = 1) -> Committer:
        """`encode` makes part files of rows that wait, on `tasks` tasks at a time; by default in this process."""

        def encode_here(work: Sequence[Sequence[Opened]], plan: TaskPlan) -> Iterator[TaskReport]:
            tools = self.tools().open(plan)
            return (run_encoding(share, plan, tools, task, task) for task, share in enumerate(work))

        return Committer(self.context, replace(self.spec, tolerant=tolerant), encode or encode_here, tasks)

    def tools(self) -> ToolsSpec:
        # Tasks need no metastore: its properties, perhaps with a password, stay in the driver.
        return ToolsSpec(self.spec.identity.log, Site(self.site.hadoop))

    def last_batch(self) -> LastBatch | None:
        view = self.context.log.view()
        return self.context.log.manifest(view.head).last_batch if view.manifests else None


def _numbered(live: LiveTable, registrar: Metastore) -> LiveTable:
    """The table as its DDL declares it; its properties keep the ids of all its fields from now on."""
    live = replace(live, spec=declared(live.spec))
    options = live.spec.options
    kept = as_properties(field_ids(live.spec.columns, options))
    for key, value in kept.items():
        if options.get(key) != value:
            # Without the right to alter the table, each run gives the same ids, until columns change their order.
            with contextlib.suppress(RegistrationFailed):
                registrar.set_property(live.spec.name, key, value)
    return replace(live, spec=replace(live.spec, properties=tuple(sorted({**options, **kept}.items()))))


def _root(live: LiveTable, config: SinkConfig, store: FileStore, site: Site) -> LogRoot:
    """Raises InvalidOption for a `sink.log-location` where the table's log isn't."""
    configured = config["sink.log-location"]
    root = table_root(live, configured, site)
    wanted = root.location if configured is None else root_folder(live, configured)
    if store.canonical(wanted) != store.canonical(root.location):
        problem = f"sink.log-location = {configured!r}, but the log of {live.spec.name} is in {root.location}"
        raise InvalidOption((f"{problem}: leave the setting out, or stop the table's jobs and move that folder there",))
    return root


def remaker(metastore: Metastore, live: LiveTable) -> Callable[[TableName], bool]:
    """`CommitContext.remake` for writers of `live`. Raises Unsupported if the metastore can't create tables."""

    def remake(name: TableName) -> bool:
        if name != live.spec.name.rejected:
            return False
        location = f"{live.location.rstrip('/')}__rejected" if live.spec.location else None
        spec = rejected_spec(live.spec.name, location, external=live.spec.external)
        # Dead letters are another target of the table's log.
        log = ((PROPERTY, live.log),) if live.log else ()
        spec = replace(spec, properties=tuple(sorted((*spec.properties, *log))))
        with contextlib.suppress(TableReplaced):
            metastore.create(stored(spec))
        return True

    return remake

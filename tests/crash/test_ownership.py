"""A table and its log through kills, lost updates, two runs, and users who rename, drop and copy tables."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hivesink import errors, wiring
from hivesink.cli.recover import _Repair as Repair
from hivesink.core.epoch import BatchId, BatchRef
from hivesink.core.lifecycle import EpochState
from hivesink.core.log import PROPERTY, LogAddress, default_root
from hivesink.core.table import TableName, TableSpec
from hivesink.ports import Metastore
from hivesink.sink.commit.committer import Committer
from hivesink.sink.inspect.ownership import Ownership
from hivesink.sink.inspect.verify import plan_reset, require_free, reset, unknown_uids, verify
from hivesink.sink.task.messages import InputShape
from hivesink.storage.commit_log import FileLogRoot
from hivesink.storage.fs import FileSystem, Storage
from hivesink.storage.rename_store import RenameFileStore
from hivesink.tables.opened import open_table
from tests.crash.faults import At, Call, Faulty, FaultyFileSystem, FaultyMetastore, Kill, Mode, faults
from tests.crash.site import on_files, on_metastore
from tests.ingest import Ingest, kafka
from tests.inmemory.filesystem import MemoryFileSystem
from tests.inmemory.metastore import MemoryMetastore
from tests.sink.harness import LOCATION, SPEC, TABLE

ROOT = default_root(LOCATION, TABLE)
NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)
NEW, NEW_LOCATION = TableName("demo", "renamed"), "/warehouse/demo.db/renamed"
EXTERNAL, MANAGED = replace(SPEC, external=True), replace(SPEC, location=None)
WAIT = {"sink.rolling-policy.on-epoch": "false"}
ON_EPOCH = {"sink.rolling-policy.on-epoch": "true"}
LETTERS = {"sink.on-bad-record": "dead-letter"}
"""Each batch has a bad record, too."""


def bad(row: int) -> bytes:
    return f'{{"id": "x{row}"}}'.encode()


@dataclass
class World:
    """What outlives a process. Batch `n` has the row `n`, of one of two partitions."""

    monkeypatch: pytest.MonkeyPatch
    spec: TableSpec = EXTERNAL
    fs: MemoryFileSystem = field(default_factory=MemoryFileSystem)
    metastore: MemoryMetastore = field(default_factory=MemoryMetastore)
    options: dict[str, str] = field(default_factory=lambda: dict(ON_EPOCH))
    query: str = "q"
    batches: int = 0

    def __post_init__(self) -> None:
        self.metastore.create(self.spec)
        # A table's folder is there from its creation on.
        self.fs.write_new(f"{LOCATION}/.made", b"")
        storage = Storage(lambda _: RenameFileStore(self.fs), lambda: self.fs)
        self.monkeypatch.setattr("hivesink.logs.storage_of", lambda *_: storage)

    def open(
        self, name: TableName = TABLE, registrar: Metastore | None = None, writer: str = "w"
    ) -> wiring.OpenedWriter:
        return wiring.OpenedWriter.open(
            table=name,
            writer=writer,
            metastore=registrar or self.metastore,
            options=self.options,
        )

    def start(self, name: TableName = TABLE, registrar: Metastore | None = None) -> tuple[Committer, Any]:
        world = {"options": self.options, "query": self.query, "registrar": registrar or self.metastore}
        job = Ingest(str(name), "", "w", **world)  # type: ignore[arg-type]  # its fields
        job.committer.recover()

        def step() -> None:
            row, job.batches = self.batches, self.batches
            records = [json.dumps({"id": row, "dt": f"2024-01-0{1 + row % 2}"}).encode()]
            records += [bad(row)] if self.options.items() >= LETTERS.items() else []
            batch = pa.RecordBatch.from_pydict({"value": pa.array(records, pa.binary())})
            job.put(batch, InputShape(value="value", topic_name="t"), kafka(row), kafka(row + 1))
            self.batches += 1

        return job.committer, step

    def run(self, batches: int, name: TableName = TABLE) -> None:
        committer, step = self.start(name)
        for _ in range(batches):
            step()
        committer.finish()

    def recover(self, name: TableName) -> None:
        """`hivesink recover`, before any job has started."""
        with self.monkeypatch.context() as patched:
            patched.setattr("hivesink.tables.opened.connect", lambda *_: self.metastore)
            with open_table(str(name), "thrift://m:1") as opened:
                repair = Repair(opened, "w", frozenset(), lambda _: None).run(dry_run=False)
        assert repair.failure is None, repair.failure

    def dies(self, step: Callable[[], None], kind: type, name: str, mode: Mode) -> None:
        """The step's process is killed before it calls the method of that name, or after it has."""
        does = getattr(kind, name)

        def dies(*arguments: Any) -> Any:
            if mode is Mode.AFTER:
                does(*arguments)
            raise Kill

        with self.monkeypatch.context() as patched:
            patched.setattr(kind, name, dies)
            with pytest.raises(Kill):
                step()
        self.batches += 1

    def owner(self, files: FileSystem | None = None, registrar: Metastore | None = None) -> Ownership:
        fs = files or self.fs
        return Ownership(FileLogRoot(fs, ROOT), registrar or self.metastore, RenameFileStore(fs))

    def rename(self, *, managed: bool = False) -> None:
        """A user's ALTER TABLE … RENAME, which takes a managed table's folder along."""
        location = NEW_LOCATION if managed else LOCATION
        if managed:
            self.fs.rename_folder(LOCATION, NEW_LOCATION)
        self.metastore.rename_table(TABLE, NEW, location)

    def empty(self) -> None:
        for day in ("dt=2024-01-01", "dt=2024-01-02"):
            for file in RenameFileStore(self.fs).visible(f"{LOCATION}/{day}"):
                self.fs.delete(file.path)

    def rows(self, name: TableName = TABLE, column: str = "id") -> list[Any]:
        store = RenameFileStore(self.fs)
        files = [file for home in self.metastore.partitions(name).values() for file in store.visible(home)]
        return sorted(row for file in files for row in pq.read_table(store.open(file.path))[column].to_pylist())

    def stated(self, name: TableName = TABLE) -> LogAddress | None:
        return LogAddress.parse(self.metastore.table(name).log)

    def check(self, name: TableName = TABLE) -> None:
        """The table and its root agree, and every row is there once."""
        record = FileLogRoot(self.fs, ROOT).records()[-1]
        assert self.stated(name) == LogAddress(ROOT, record.table_id)
        assert (record.table, record.location) == (str(name), self.metastore.table(name).location)
        assert self.rows(name) == list(range(self.batches))


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def split(world: World, faulty: Faulty) -> Ownership:
    """The owner of the table in a process whose storage or metastore fails."""
    if isinstance(faulty, FaultyMetastore):
        return world.owner(registrar=faulty)
    return world.owner(faulty)  # type: ignore[arg-type]


def made_again(world: World) -> World:
    """Somebody has dropped the table with its files, and made one of its name."""
    world.metastore.drop_table(TABLE)
    world.empty()
    world.metastore.create(EXTERNAL)
    return world


KINDS = pytest.mark.parametrize("kind", [on_files, on_metastore])


@KINDS
def test_a_first_start_that_fails_at_any_step_and_the_one_after_it(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the root's record and the ALTER, too."""

    def start(world: World, faulty: Faulty) -> None:
        owner = split(world, faulty)
        owner.require(owner.registrar.table(TABLE))

    for world, faulty, case in faults(lambda: World(monkeypatch), kind, start):
        for arrives in (False, True):
            if arrives:
                faulty.apply_late()
            world.owner().require(world.metastore.table(TABLE))
            (*_, record) = FileLogRoot(world.fs, ROOT).records()
            assert world.stated() == LogAddress(ROOT, record.table_id), case


def test_two_first_starts_agree_on_one_id(world: World) -> None:
    first, second = world.owner(), world.owner()
    live = world.metastore.table(TABLE)
    # Both have read the table before either has set anything.
    assert first.require(live).log == second.require(live).log == world.metastore.table(TABLE).log
    assert len(FileLogRoot(world.fs, ROOT).records()) == 1


@pytest.mark.parametrize("runs", [1, 2])
def test_a_property_that_is_written_back_without_it_is_set_again(world: World, runs: int) -> None:
    """By a client that read the table before, under a running job, and under two of them."""
    jobs = [world.start() for _ in range(runs)]
    before = world.stated()
    jobs[0][1]()
    for _ in range(2):
        world.metastore.unset_property(TABLE, PROPERTY)
        for committer, _ in jobs[1:]:
            committer.recover()
        jobs[0][1]()
        assert world.stated() == before
    for committer, step in jobs[1:]:
        # The other run has to go on from the log as it is by now, or stop.
        with contextlib.suppress(errors.HiveSinkError):
            step()
            committer.finish()
    world.run(0)
    world.check()


def test_before_the_first_file_a_lost_property_needs_a_person_while_rows_wait(world: World) -> None:
    world.options = WAIT
    committer, step = world.start()
    step()
    stated = world.stated()
    world.metastore.unset_property(TABLE, PROPERTY)
    with pytest.raises(errors.TableMadeAgain, match=rf"run: ALTER TABLE {TABLE} SET TBLPROPERTIES \('{PROPERTY}'="):
        committer.finish()
    assert stated is not None
    world.metastore.set_property(TABLE, PROPERTY, str(stated))
    world.run(1)
    world.check()


@pytest.mark.parametrize(("managed", "follower"), [(False, False), (True, False), (True, True)])
@pytest.mark.parametrize("when", ["settled", "waiting", "decided", "registered", "published"])
@pytest.mark.parametrize("recovers", [False, True])
def test_a_renamed_table_goes_on_under_its_new_name(
    monkeypatch: pytest.MonkeyPatch, when: str, *, managed: bool, follower: bool, recovers: bool
) -> None:
    """A `follower` has the old name, folder and partitions then: somebody has swapped two tables."""
    world = World(monkeypatch, MANAGED if managed else EXTERNAL)
    world.run(1)
    if when == "waiting":
        world.options = WAIT
    log = FileLogRoot(world.fs, ROOT).log("w")
    registrar = FaultyMetastore(world.metastore)
    _, step = world.start(registrar=registrar)
    if when in {"settled", "waiting"}:
        step()
    else:
        # It dies after the manifest, once its partitions are registered, or once a part is published.
        call, mode = {"decided": ("add", Mode.BEFORE), "registered": ("publish", Mode.BEFORE)}.get(
            when, ("publish", Mode.AFTER)
        )
        world.dies(step, FaultyMetastore if call == "add" else RenameFileStore, call, mode)
        assert not log.view().has(log.view().head, EpochState.SETTLED)
    world.rename(managed=managed)
    if follower:
        world.metastore.create(MANAGED)
        for day in ("dt=2024-01-01", "dt=2024-01-02"):
            world.metastore.register(TABLE, day, f"{LOCATION}/{day}")
    with pytest.raises(errors.LogOfAnotherTable if follower else errors.UnknownTable):
        world.start()
    if recovers:
        world.recover(NEW)
    world.options = ON_EPOCH
    world.run(2, NEW)
    world.check(NEW)
    found = verify(world.open(NEW).context, "w", str(NEW), None).findings
    assert [finding for finding in found if finding.level == "error"] == []
    store = RenameFileStore(world.fs)
    assert [path for folder in store.walk("/warehouse") for path in store.staged(folder)] == []


@pytest.mark.parametrize("along", [False, True])
@pytest.mark.parametrize("when", ["waiting", "decided", "published"])
def test_dead_letters_stay_in_their_table_or_go_along(
    monkeypatch: pytest.MonkeyPatch, when: str, *, along: bool
) -> None:
    world = World(monkeypatch, MANAGED)
    world.options = (WAIT if when == "waiting" else ON_EPOCH) | LETTERS
    _, step = world.start()
    step()
    if when != "waiting":
        world.dies(step, RenameFileStore, "publish", Mode.BEFORE if when == "decided" else Mode.AFTER)
    world.rename(managed=True)
    if along:
        letters = world.metastore.table(TABLE.rejected)
        world.metastore.rename_table(TABLE.rejected, NEW.rejected, letters.location)
    world.options = ON_EPOCH | LETTERS
    world.run(1, NEW)
    world.check(NEW)
    tables = [NEW.rejected] if along else [TABLE.rejected, NEW.rejected]
    assert sorted(letter for table in tables for letter in world.rows(table, "value")) == [
        *map(bad, range(world.batches))
    ]


def test_parts_that_wait_are_not_published_into_a_table_of_another_format(world: World) -> None:
    world.run(1)
    _, step = world.start()
    world.dies(step, RenameFileStore, "publish", Mode.BEFORE)
    world.metastore.set_format(TABLE, "", "org.apache.hadoop.hive.ql.io.orc.OrcInputFormat")
    with pytest.raises(errors.Unsupported, match=r"\.parquet waits to be published; .*SET FILEFORMAT PARQUET"):
        world.start()
    world.metastore.set_format(TABLE, "", "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat")
    world.run(1)
    world.check()


def test_a_job_ends_whose_table_gets_another_format(world: World) -> None:
    """Its new partitions would be of that format, with files of the old one."""
    _, step = world.start()
    step()
    world.metastore.set_format(TABLE, "", "org.apache.hadoop.hive.ql.io.orc.OrcInputFormat")
    for _ in range(2):
        with pytest.raises(errors.TableReplaced, match="format"):
            step()
    assert world.rows() == [0]


@pytest.mark.parametrize("options", [WAIT, ON_EPOCH])
def test_a_table_made_again_is_refused_until_its_log_is_reset(world: World, options: dict[str, str]) -> None:
    world.run(2)
    world.options = options
    committer, step = world.start()
    step()
    made_again(world)
    with contextlib.suppress(errors.TableMadeAgain):
        # Rows that only wait are taken; nothing is published.
        step()
    with pytest.raises(errors.TableMadeAgain, match=f"`hivesink reset {TABLE}`"):
        committer.finish()
    with pytest.raises(errors.TableMadeAgain):
        world.start()
    assert world.rows() == []
    owner, live = world.owner(), world.metastore.table(TABLE)
    planned = plan_reset("w", owner.root.log("w"))
    waits = planned.unpublished
    assert waits == (options is WAIT) + (world.batches == 4)
    if waits:
        with pytest.raises(errors.InvalidOption, match=f"--discard {waits}"):
            require_free(owner, live, [planned], 0)
    require_free(owner, live, [planned], waits)
    reset(owner, live, owner.root.logs(), (), NOW, discard=waits)
    world.batches = 0
    world.run(2)
    world.check()


@KINDS
def test_a_reset_that_fails_at_any_step_is_completed_by_another_one(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def make() -> World:
        world = World(monkeypatch)
        world.run(2)
        return made_again(world)

    def begin_anew(world: World, faulty: Faulty | None = None) -> None:
        owner = split(world, faulty) if faulty else world.owner()
        reset(owner, owner.registrar.table(TABLE), owner.root.logs(), (), NOW, discard=0)

    for world, faulty, case in faults(make, kind, begin_anew):
        begin_anew(world)
        faulty.apply_late()
        owner = world.owner()
        assert owner.root.logs() == {}, case
        assert len(owner.root.ended()) == 1, case
        world.batches = 0
        world.run(2)
        world.check()


class Unpublished(FaultyFileSystem):
    """Dies before it publishes a part, but for the first `published` of them."""

    published = 0

    def rename(self, source: str, target: str) -> None:
        self.published -= ".pending" in source and ".pending" not in target
        if self.published < 0:
            raise Kill
        super().rename(source, target)


@pytest.mark.parametrize("options", [ON_EPOCH, WAIT])
@pytest.mark.parametrize("published", [0, 1])
def test_what_a_dead_run_sends_late_is_in_no_log_that_begins_after_a_reset(
    options: dict[str, str], published: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mark of the old run would say that the new run has published what waits."""

    def run(world: World, files: FileSystem) -> None:
        world.fs = cast("Any", files)
        world.run(2)

    def late(call: Call) -> Iterator[Mode]:
        return iter([Mode.LATE] if call.changes and ROOT in call.path else [])

    for world, faulty, case in faults(lambda: World(monkeypatch, options=dict(options)), on_files, run, late):
        memory = world.fs = cast("MemoryFileSystem", faulty.inner)
        owner, live = world.owner(), world.metastore.table(TABLE)
        reset(owner, live, owner.root.logs(), (), NOW, discard=2)
        world.empty()
        world.query, world.batches, dying = "a new checkpoint", 0, Unpublished(world.fs)
        dying.published = published
        with contextlib.suppress(Kill):
            run(world, dying)
        world.fs = memory
        faulty.apply_late()
        world.run(2 - world.batches)
        assert world.rows() == [0, 1], case


def test_a_copy_is_refused_and_so_is_a_reset_beside_the_original(world: World) -> None:
    world.run(1)
    original = world.metastore.table(TABLE)
    copy = replace(EXTERNAL, name=NEW, location=NEW_LOCATION, properties=original.spec.properties)
    world.metastore.create(copy)
    world.fs.write_new(f"{NEW_LOCATION}/.made", b"")
    told = rf"the log {ROOT} belongs to {TABLE} at {LOCATION}, .* UNSET TBLPROPERTIES"
    with pytest.raises(errors.LogOfAnotherTable, match=told):
        world.start(NEW)
    with pytest.raises(errors.LogOfAnotherTable):
        require_free(world.owner(), world.metastore.table(NEW), (), 0)
    world.run(1)
    world.check()
    world.metastore.unset_property(NEW, PROPERTY)
    mine, world.batches = world.batches, 0
    world.run(2, NEW)
    assert world.rows(NEW) == [0, 1]
    world.batches = mine
    world.check()


def test_a_new_table_of_the_old_name_begins_no_log_of_the_renamed_one(world: World) -> None:
    world.run(1)
    world.rename(managed=True)
    world.metastore.create(SPEC)
    with pytest.raises(errors.LogOfAnotherTable):
        world.start()
    world.run(1, NEW)
    world.check(NEW)


def test_a_writer_without_history_wants_to_know_whose_files_are_there(world: World) -> None:
    """Its log was deleted, and its checkpoint is new: it would write the same rows again."""
    world.run(2)
    world.fs.rename_folder(f"{ROOT}/w", "/gone")
    with pytest.raises(errors.FilesUnknown, match=f"`hivesink reset {TABLE}`") as told:
        world.start()
    owner, live = world.owner(), world.metastore.table(TABLE)
    assert unknown_uids(owner, live) == (told.value.uid,)
    reset(owner, live, {}, unknown_uids(owner, live), NOW, discard=0)
    assert unknown_uids(owner, live) == ()
    world.open()
    # Another writer of the same table has files of its own.
    world.open(writer="second")


@pytest.mark.parametrize("options", [WAIT, ON_EPOCH])
def test_a_log_that_is_older_than_its_table_begins_nothing(world: World, options: dict[str, str]) -> None:
    """An old copy, with the checkpoint of then: newer rows are in the partition that it has published last."""
    world.options = options
    world.run(2)
    folder = f"{ROOT}/w/1/manifests"
    copied = {entry.name for entry in world.fs.list(folder)}
    world.run(2)
    for entry in world.fs.list(folder):
        if entry.name not in copied:
            world.fs.delete(f"{folder}/{entry.name}")
    with pytest.raises(errors.LogDamaged, match=r"it ends at epoch \d, and \S*dt=2024-01-0\d/part-"):
        world.start()
    assert world.rows() == [0, 1, 2, 3]


def test_a_batch_that_spark_runs_again_after_a_reset_is_passed_over(world: World) -> None:
    world.run(2)
    owner, live = world.owner(), world.metastore.table(TABLE)
    reset(owner, live, owner.root.logs(), (), NOW, discard=0)
    again = BatchRef("q", BatchId(1), (kafka(1),), (kafka(2),))
    opened = world.open()
    assert opened.spec.was_written(again)
    assert not opened.spec.was_written(replace(again, batch=BatchId(2)))
    assert not world.open(writer="other").spec.was_written(again)


class Deciding(FaultyFileSystem):
    """A reset comes while the manifest is being created; then the run dies before it has looked at the log."""

    meanwhile: Callable[[], None]

    def rename(self, source: str, target: str) -> None:
        is_manifest = target.endswith(".json") and "/manifests/" in target
        if is_manifest:
            self.meanwhile()
        super().rename(source, target)
        if is_manifest:
            raise Kill


@pytest.mark.parametrize("options", [WAIT, ON_EPOCH])
@pytest.mark.parametrize("before", [0, 2])
def test_a_batch_that_was_decided_in_a_log_that_is_over_is_written_again(
    options: dict[str, str], before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(monkeypatch, options=dict(options))
    world.run(before)
    memory, faulty = world.fs, Deciding(world.fs)

    def put_aside() -> None:
        world.fs = memory
        owner = world.owner()
        reset(owner, world.metastore.table(TABLE), owner.root.logs(), (), NOW, discard=0)

    world.fs, faulty.meanwhile = cast("Any", faulty), put_aside
    with contextlib.suppress(Kill):
        world.run(1)
    world.fs = memory
    batch = BatchRef("q", BatchId(before), (kafka(before),), (kafka(before + 1),))
    assert not world.open().spec.was_written(batch)


def test_rows_that_were_given_up_are_written_where_spark_runs_their_batch_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch, options=dict(WAIT))
    world.run(2)
    _, step = world.start()
    step()
    owner, live = world.owner(), world.metastore.table(TABLE)
    with pytest.raises(errors.InvalidOption, match="has decided 1 rows meanwhile"):
        reset(owner, live, owner.root.logs(), (), NOW, discard=0)
    batch = BatchRef("q", BatchId(2), (kafka(2),), (kafka(3),))
    assert not world.open().spec.was_written(batch)


def test_rows_that_a_killed_run_made_visible_are_not_written_again_after_a_reset(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch, options=dict(ON_EPOCH))
    memory, world.fs = world.fs, cast("Any", At(world.fs, r"\.pending -> .*/part-", Mode.AFTER))
    with contextlib.suppress(Kill):
        world.run(1)
    world.fs = memory
    rows = world.rows()
    assert len(rows) == 1
    owner = world.owner()
    reset(owner, world.metastore.table(TABLE), owner.root.logs(), (), NOW, discard=1)
    assert world.open().spec.was_written(BatchRef("q", BatchId(0), (kafka(0),), (kafka(1),)))


@pytest.mark.parametrize("left", [".published", "floor-"])
def test_what_a_deletion_leaves_of_a_log_is_put_aside(world: World, left: str) -> None:
    world.options["sink.log.retained-epochs"] = "1"
    world.run(4)
    files = FileLogRoot(world.fs, ROOT).log("w").location
    for folder in ("", "/manifests", "/touched", "/commits"):
        for entry in world.fs.list(f"{files}{folder}"):
            if left not in entry.name:
                world.fs.delete(f"{files}{folder}/{entry.name}")
    with pytest.raises(errors.LogDamaged):
        world.start()
    owner, live = world.owner(), world.metastore.table(TABLE)
    reset(owner, live, owner.root.logs(), unknown_uids(owner, live), NOW, discard=0)
    world.query, world.batches = "a new checkpoint", 4
    committer, _ = world.start()
    assert committer.head == 0
    assert world.rows() == [0, 1, 2, 3]


def test_of_two_logs_with_one_uid_one_is_a_copy(world: World) -> None:
    world.run(1)
    data = world.fs.read(f"{ROOT}/w/1/uid")
    assert data is not None
    world.fs.write_new(f"{ROOT}/v/1/uid", data)
    with pytest.raises(errors.LogDamaged, match="one is a copy of the other"):
        world.start()


def test_who_may_not_alter_the_table_gets_the_statement(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise errors.RegistrationFailed(str(TABLE), "set it", "no privilege ALTER", "memory")

    with monkeypatch.context() as patched:
        patched.setattr(MemoryMetastore, "set_property", refused)
        with pytest.raises(errors.NotWritable, match="no privilege ALTER") as told:
            world.start()
    statement = str(told.value).partition("run: ")[2]
    key, _, text = statement.removeprefix(f"ALTER TABLE {TABLE} SET TBLPROPERTIES (").rstrip(")").partition("=")
    world.metastore.set_property(TABLE, key.strip("'"), text.strip("'"))
    world.run(1)
    world.check()

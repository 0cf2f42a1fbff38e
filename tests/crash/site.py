"""Everything that outlives a process, for crash tests: files, metastore, source, time, and users who meddle."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import Any, ClassVar

from hivesink.cli.recover import describe
from hivesink.core.actions import Action
from hivesink.core.lifecycle import Identity
from hivesink.core.log import default_root
from hivesink.core.partition import NewPartition
from hivesink.core.plan import Policy
from hivesink.core.table import TableName, TableSpec
from hivesink.errors import HiveSinkError, RegistrationFailed
from hivesink.metastore.common import is_trusted
from hivesink.ports import FileStore, LiveTable, Metastore
from hivesink.sink.commit.context import CommitContext
from hivesink.sink.commit.observe import load
from hivesink.sink.commit.recovery import ALL, Accepted, Loss, Recorder, finish_accepting, forget_waiting, recover
from hivesink.sink.commit.runner import PlanRunner
from hivesink.sink.inspect.facts import LogFacts, read_log
from hivesink.sink.inspect.verify import Verdict, find_leftovers, verify
from hivesink.sink.task.rejects import rejected_spec
from hivesink.storage.commit_log import FileCommitLog
from hivesink.storage.fs import Files
from hivesink.storage.rename_store import RenameFileStore
from hivesink.storage.s3 import S3Files, S3FileStore
from tests.crash.faults import FaultyFileSystem, FaultyMetastore, Kill, Mode, Plan
from tests.inmemory.filesystem import MemoryFileSystem
from tests.inmemory.metastore import MemoryMetastore
from tests.inmemory.s3 import MemoryS3, objects_of
from tests.sink.harness import LOCATION, SPEC, TABLE, Clock, Job, Source, measure_lines

LOG = f"{default_root(LOCATION, TABLE)}/w/1"
BATCH = 4
PLAIN = replace(SPEC, partition_columns=())
DEAD = rejected_spec(TABLE, f"{LOCATION}__rejected", external=True)
POLICY = Policy()


@dataclass(frozen=True)
class Recovered:
    runner: PlanRunner
    lines: list[tuple[str, str]]
    losses: list[Loss]


def by_hand(
    context: CommitContext,
    policy: Policy = POLICY,
    identity: Identity | None = None,
    *,
    forget: str | None = None,
    dry_run: bool = False,
) -> Recovered:
    """Recovery as `hivesink recover` does it, and its `--dry-run`. `forget` is a partition, or ALL."""
    performed: list[Action] = []
    losses: list[Loss] = []
    kind = Recorder if dry_run else PlanRunner
    begin = partial(kind.begin, context, identity, policy, performed.append)
    finish: Callable[[PlanRunner], None] = PlanRunner.finish
    if forget is not None:
        finish = partial(finish_accepting, accepted=Accepted(frozenset({forget}), losses.extend))
    runner = recover(begin, finish)
    return Recovered(runner, [line for action in performed for line in describe(action)], losses)


def forget_rows(context: CommitContext, forget: str = ALL) -> list[Loss]:
    """What waits can't be rolled, and a person accepts its loss."""
    losses: list[Loss] = []
    runner = PlanRunner.begin(context, None, POLICY)
    forget_waiting(runner, Accepted(frozenset({forget}), losses.extend))
    runner.clean_up()
    return losses


@dataclass
class Site:
    """`user` is called before each call of the metastore that a job makes, with the call's number.

    Without `connect`, by which a new process comes to its files, all are in `fs`. `root` is what they are below, and
    `adapters` makes the two stores of what `connect` gives.
    """

    source: Source
    spec: TableSpec = SPEC
    dead: bool = False
    options: dict[str, str] = field(default_factory=dict)
    user: Callable[[Site, int], None] | None = None
    fs: MemoryFileSystem = field(default_factory=MemoryFileSystem)
    metastore: MemoryMetastore = field(default_factory=MemoryMetastore)
    clock: Clock = field(default_factory=Clock)
    connect: Callable[[], Any] | None = None
    adapters: Callable[[Any], tuple[FileStore, Files]] = lambda fs: (RenameFileStore(fs), fs)
    root: str = ""
    tasks: int = 2
    kind: ClassVar[type[Job]] = Job

    def __post_init__(self) -> None:
        self.metastore.create(replace(self.spec, location=f"{self.root}{self.spec.location}"))
        if self.dead:
            self.metastore.create(replace(DEAD, location=f"{self.root}{DEAD.location}"))
            self.options = {"sink.on-bad-record": "dead-letter", **self.options}

    def files(self) -> Any:
        return self.connect() if self.connect else self.fs

    @property
    def store(self) -> FileStore:
        return self.adapters(self.files())[0]

    @property
    def log(self) -> FileCommitLog:
        return FileCommitLog(self.adapters(self.files())[1], f"{self.root}{LOG}")

    @property
    def tables(self) -> tuple[TableName, ...]:
        return (TABLE, TABLE.rejected) if self.dead else (TABLE,)

    def job(self, fs: Any = None, registrar: Metastore | None = None, **more: Any) -> Job:
        store, files = self.adapters(fs or self.files())
        return self.kind(
            log=FileCommitLog(files, f"{self.root}{LOG}"),
            store=store,
            registrar=registrar or self.metastore,
            source=more.pop("source", self.source),
            clock=self.clock,
            options=self.options,
            dead=self.dead,
            tasks=self.tasks,
            **more,
        )

    def places(self, table: TableName) -> dict[str, str]:
        """What is registered, and where."""
        spec = self.metastore.table(table).spec
        if spec.partition_columns:
            return dict(self.metastore.partitions(table))
        return {"": self.metastore.table(table).location}

    def rows(self) -> list[int]:
        """Every id that a reader of the tables finds."""
        found: list[int] = []
        for table in self.tables:
            for location in self.places(table).values():
                found += self.ids(location)
        return sorted(found)

    def ids(self, location: str) -> list[int]:
        found: list[int] = []
        for file in self.store.visible(location):
            with self.store.open(file.path) as stream:
                found += [json.loads(line) for line in stream.read().splitlines()]
        return found

    def wrong_counts(self) -> list[str]:
        """Places from whose statistics Hive would answer a wrong `count(*)`."""
        wrong = []
        for table in self.tables:
            for partition, location in self.places(table).items():
                parameters = self.metastore.parameters(table, partition)
                if is_trusted(parameters) and parameters["numRows"] != str(len(self.ids(location))):
                    wrong.append(f"{table} {partition}")
        return wrong

    def analyze(self) -> None:
        """A user's ANALYZE TABLE of all that is there: right, at this moment."""
        for table in self.tables:
            for partition, location in self.places(table).items():
                self.metastore.analyze(table, partition, len(self.ids(location)))

    def move(self, partition: str, location: str, *, copy: bool = False) -> None:
        """A user's SET LOCATION, with the visible files; or ADD PARTITION elsewhere, where it isn't registered."""
        old = self.places(TABLE).get(partition)
        for file in self.store.visible(old) if old else ():
            name = file.path.rpartition("/")[2]
            if copy:
                with self.store.open(file.path) as stream:
                    self.fs.write_new(f"{location}/{name}", stream.read())
            else:
                self.fs.rename(file.path, f"{location}/{name}")
        self.metastore.register(TABLE, partition, location)

    def by_hand(self, fs: Any = None, **options: Any) -> Recovered:
        """`hivesink recover`."""
        job = self.job(fs)
        return by_hand(job.context, job.committer.spec.policy, job.committer.spec.identity, **options)

    def forget(self, partition: str = ALL, fs: Any = None) -> list[Loss]:
        """A person says that what can't be published is gone: what that was."""
        return self.by_hand(fs, forget=partition).losses

    def clean(self) -> None:
        """`hivesink clean`."""
        context = self.job().context
        context.store.discard(find_leftovers(context, str(TABLE)))

    def facts(self) -> LogFacts:
        return read_log(self.log)

    def verify(self) -> Verdict:
        return verify(self.job().context, "w", str(TABLE), measure_lines)

    def errors(self) -> list[str]:
        """What `hivesink verify` calls one."""
        return [finding.text for finding in self.verify().findings if finding.level == "error"]

    def kinds(self) -> list[str]:
        """Those of the log's epochs."""
        return [self.log.manifest(epoch).kind for epoch in self.log.view().manifests]

    def staged(self) -> set[str]:
        store = self.store
        folders = [folder for name in ("warehouse", "elsewhere") for folder in store.walk(f"{self.root}/{name}")]
        return {path for folder in folders for path in store.staged(folder)}

    def waiting(self) -> set[str]:
        """The staged files that a decided epoch still needs."""
        return {part.staged for part in load(self.job().context).waiting}

    def check(self, expected: Iterable[int], case: object = "") -> None:
        """All of it readable, once each; no wrong count; no leftovers."""
        self.check_rows(expected, case)
        assert self.wrong_counts() == [], case
        assert self.staged() <= self.waiting(), case

    def check_rows(self, expected: Iterable[int], case: object = "") -> None:
        wanted, found = Counter(expected), Counter(self.rows())
        assert found == wanted, f"{case}: lost {sorted(wanted - found)}, doubled {sorted(found - wanted)}"


BUCKET = "s3a://bucket"


def adapters(client: Any) -> tuple[FileStore, Files]:
    """The stores of a client, which tries each request once and one after the other, so that calls have numbers."""
    objects = objects_of(client)
    return S3FileStore(objects, parallelism=1), S3Files(objects)


def s3_site(
    source: Source,
    options: dict[str, str],
    client: Any = None,
    root: str = BUCKET,
    tasks: int = 2,
    *,
    dead: bool = False,
) -> Site:
    """A site whose files are in the bucket of `client`."""
    s3 = client or MemoryS3()
    return Site(source, options=dict(options), connect=lambda: s3, adapters=adapters, root=root, tasks=tasks, dead=dead)


class Choosy(MemoryMetastore):
    """Registers every partition of a call but `refused`, as an adapter does whose server refuses just that."""

    refused = ""

    @classmethod
    def of(cls, refused: str, *tables: TableSpec) -> Choosy:
        made = cls(*tables)
        made.refused = refused
        return made

    def add(self, table: LiveTable, partitions: Sequence[NewPartition]) -> None:
        super().add(table, [new for new in partitions if new.partition != self.refused])
        if any(new.partition == self.refused for new in partitions):
            raise RegistrationFailed(str(TABLE), "register", "it is too long", self.address, (self.refused,))


class Watched(FaultyMetastore):
    """A faulty metastore beside which a user works."""

    def __init__(self, site: Site, plan: Plan | None = None) -> None:
        super().__init__(site.metastore, plan)
        self.site = site

    def _begin(self, name: str, path: str, *, changes: bool) -> Mode | None:
        if self.site.user and not self.dead:
            self.site.user(self.site, len(self.calls) + 1)
        return super()._begin(name, path, changes=changes)


def on_metastore(site: Any, plan: Plan | None) -> FaultyMetastore:
    """For `faults`: the metastore of a site fails."""
    return FaultyMetastore(site.metastore, plan)


def on_files(site: Any, plan: Plan | None) -> FaultyFileSystem:
    """For `faults`: the storage of a site fails."""
    return FaultyFileSystem(site.fs, plan)


def dies(job: Callable[[], Job], size: int = BATCH) -> None:
    """Start and run until a death, an error that stops the query, or the end."""
    with contextlib.suppress(Kill, HiveSinkError):
        job().run(size)


def wakes(job: Callable[[], Job]) -> HiveSinkError | None:
    """Run it; its error."""
    try:
        job().run()
    except HiveSinkError as error:
        return error
    return None


class ByCount:
    """A rolling policy by the number of rows beside the ages."""

    count = 3

    def __init__(self, *_: object) -> None: ...

    def should_roll(self, _partition: str, rows: int, _size: int, open_for: timedelta, idle_for: timedelta) -> bool:
        return rows >= self.count or open_for >= timedelta(minutes=5) or idle_for >= timedelta(minutes=1)


By1, By2, By4 = (type(f"By{count}", (ByCount,), {"count": count}) for count in (1, 2, 4))
By3 = ByCount


def by_count(count: int) -> dict[str, str]:
    """Options with which a bucket is rolled once it has `count` rows, 1 to 4."""
    return {"sink.rolling-policy.on-epoch": "false", "sink.rolling-policy.class": f"tests.crash.site:By{count}"}


ROLLING = by_count(3)
"""Rows wait, and some buckets are rolled in the middle of a run, the others at its end."""

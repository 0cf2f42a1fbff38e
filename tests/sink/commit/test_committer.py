"""Each promise of the committer by itself; faults at every call are `tests/crash`'s."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from hivesink.core.epoch import BatchId, BatchRef, Epoch
from hivesink.core.lifecycle import EpochState
from hivesink.core.log import StagingIntent
from hivesink.core.manifest import Rows
from hivesink.core.offsets import KafkaOffset, TopicIds
from hivesink.core.table import TableName
from hivesink.errors import (
    BadRecord,
    EpochTaken,
    LogDamaged,
    MetastoreUnreachable,
    StoreUnavailable,
    TaskFailed,
    UnknownTable,
    Unsupported,
)
from hivesink.sink.commit.committer import Committer
from hivesink.sink.task.messages import BadReport, InputShape, TablePlan, TaskFailure, TaskPlan, TaskReport
from tests.crash.site import DEAD, LOG, PLAIN, Site
from tests.sink.harness import LOCATION, SPEC, TABLE, Event, Source, events

Trouble = Callable[[Site, list[TaskReport]], list[TaskReport]]

EVENTS = events(12)
IDS = list(range(12))


@pytest.fixture
def site() -> Site:
    return Site(Source(list(EVENTS)))


# The batch, judged against the log.


def test_append_holds_across_the_fence_that_its_first_try_left(site: Site) -> None:
    site.job().run()
    head = site.log.view().head
    site.log.touch(StagingIntent(Epoch(head + 1), "aaaaaaaaaa", 0, 0, 0, (f"{LOCATION}/dt=x",)))
    site.source = site.source.new_checkpoint("query-2")
    site.job(append=Epoch(3)).run()
    assert site.log.manifest(Epoch(4)).kind == "fence"
    site.check(IDS + IDS)


def test_a_manifest_has_the_ids_that_the_topics_have_once_the_batch_was_read(site: Site) -> None:
    job, said = site.job(), list[str]()
    start, end = (KafkaOffset.of({"t": {"0": at}, "u": {"0": at}}) for at in (0, 5))

    def write(plan: TaskPlan) -> list[TaskReport]:
        said.append("read")
        return job.write(plan, [Event(1, "a")])

    def ids() -> TopicIds:
        said.append("ids")
        return ({"t": "1", "gone": "2"},)

    job.committer.commit(BatchRef("q", BatchId(0), (start,), (end,)), InputShape(), write, topic_ids=ids)
    assert said == ["read", "ids"]
    last = site.log.manifest(site.log.view().head).last_batch
    assert last is not None
    assert last.ref.end == (end,)
    assert isinstance(last.ref.end[0], KafkaOffset)
    assert last.ref.end[0].ids == {"t": "1"}


@pytest.mark.parametrize("gone", [1, 2])
def test_a_missing_manifest_by_which_rows_wait_is_noticed(gone: int) -> None:
    site = Site(Source(events(16)), options={"sink.rolling-policy.on-epoch": "false"})
    job = site.job()
    job.committer.recover()
    assert [job.step() is not None for _ in range(3)] == [True] * 3
    assert site.log.manifest(Epoch(3)).settled >= 2
    path = f"{LOG}/manifests/{gone:010d}.json"
    data = site.fs.read(path) or b""
    site.fs.delete(path)
    with pytest.raises(LogDamaged, match=f"{gone:010d}.json is damaged .it is missing|epoch {gone} is missing"):
        site.job().run()
    site.fs.write_new(path, data)
    site.job().run()
    assert site.rows() == list(range(16))


# Tries at an epoch: each is a step that the tasks of its first tries take once they have written their parts.


def overtaken(site: Site, reports: list[TaskReport]) -> list[TaskReport]:
    """Another run has overtaken this try, whose tasks fail with that."""
    site.job(source=Source(list(EVENTS))).step()
    return [*reports, TaskReport(1, 1, Rows(), failure=TaskFailure("a file is gone", retryable=False))]


def raises(*_: object) -> list[TaskReport]:
    message = "executor lost"
    raise RuntimeError(message)


def reporting(report: TaskReport) -> Trouble:
    return lambda _, reports: [*reports, report]


def vanishes(site: Site, reports: list[TaskReport]) -> list[TaskReport]:
    """DROP PARTITION, TRUNCATE and INSERT OVERWRITE take hidden files too."""
    for path in site.staged():
        site.fs.delete(path)
    return reports


def moves(site: Site, reports: list[TaskReport]) -> list[TaskReport]:
    site.metastore.register(TABLE, "dt=2024-01-01", f"/elsewhere/{reports[0].parts[0].staged[-30:-8]}")
    return reports


BAD = TaskReport(1, 1, Rows(), bad=BadReport("topic t partition 0 offset 3", "id", "no number"))
PASSES, STAYS = (
    TaskReport(1, 1, Rows(), failure=TaskFailure(message, retryable=message == "it passes"))
    for message in ("it passes", "it stays")
)


@pytest.mark.parametrize(
    ("trouble", "tries", "outcome"),
    [
        (reporting(BAD), 9, BadRecord),
        (reporting(PASSES), 9, TaskFailed),
        (reporting(STAYS), 9, TaskFailed),
        (overtaken, 9, EpochTaken),
        (raises, 9, RuntimeError),
        (vanishes, 9, StoreUnavailable),
        (vanishes, 1, "batch"),
        (moves, 1, "batch"),
        # The last try's parts are decided as they are, and moved.
        (moves, 9, "move"),
    ],
)
def test_a_try(site: Site, trouble: Trouble, tries: int, outcome: str | type[Exception]) -> None:
    """A try that isn't decided leaves nothing, and the same process goes on."""
    job, tried = site.job(), list[str]()
    ref = site.source.next_batch(4)
    assert ref is not None

    def write(plan: TaskPlan) -> list[TaskReport]:
        job.tasks = 1
        reports = job.write(plan, EVENTS[:4])
        tried.append(plan.attempt)
        return trouble(site, reports) if len(tried) <= tries else reports

    if isinstance(outcome, str):
        job.committer.commit(ref, InputShape(), write)
        assert len(tried) == min(tries + 1, 3)
        assert site.log.manifest(site.log.view().head).kind == outcome
        site.source.committed += 1
    else:
        with pytest.raises(outcome) as raised:
            job.committer.commit(ref, InputShape(), write)
        if isinstance(raised.value, TaskFailed):
            assert raised.value.retryable is ("it passes" in str(raised.value))
        site.job().run(batches=1)
    assert site.staged() == set()
    site.check(IDS[:4])


@pytest.mark.parametrize("keeps", [False, True])
def test_records_come_with_their_places_where_one_has_to_be_told_and_for_some_epochs_after(
    site: Site, keeps: bool
) -> None:
    job = site.job(source=Source(events(120)))
    site.metastore.create(DEAD)
    dead = TablePlan(DEAD, f"{LOCATION}__rejected") if keeps else None
    job.committer = Committer(job.context, replace(job.committer.spec, rejected=dead), job.encode)
    asked: list[bool] = []
    dirty = {2, 3}

    def write(plan: TaskPlan) -> list[TaskReport]:
        asked.append(plan.places)
        job.tasks = 1
        (good,) = job.write(plan, job.source.rows(ref))
        if plan.epoch not in dirty:
            return [good]
        if not plan.places:
            return [good, TaskReport(1, 1, Rows(), unplaced=True)]
        return [good, TaskReport(1, 1, Rows(read=1, rejected=1))]

    for _ in range(120):
        found = job.source.next_batch(1)
        assert found is not None
        ref = found
        job.committer.commit(ref, InputShape(value="value"), write)
        job.source.committed += 1
    assert asked == [keeps, False, *[True] * 102, *[False] * 17]
    assert site.rows() == list(range(120))
    assert sum(site.log.manifest(Epoch(epoch)).rows.rejected for epoch in range(1, 121)) == 2


# The metastore.


def test_epochs_are_decided_while_the_metastore_is_down_and_finish_when_it_is_back(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    job = site.job()
    site.metastore.go_down()
    for _ in range(2):
        done = job.step()
        assert done is not None
        assert done.waiting is not None
    trouble = job.committer.waiting
    assert trouble is not None
    assert [trouble in record.message for record in caplog.records if record.levelname == "WARNING"] == [True]
    assert site.log.view().head == 2
    site.metastore.come_up()
    assert site.rows() == []
    job.committer.keep_up()
    assert job.committer.waiting is None
    assert site.rows() == IDS[:8]
    job.run()
    site.check(IDS)


def test_past_the_limit_a_metastore_that_is_down_stops_the_query(site: Site) -> None:
    site.options = {"sink.registration.max-delay": "1min"}
    job = site.job()
    site.metastore.go_down()
    job.step()
    # Set back by people, the wall clock must not stretch the limit.
    site.clock.at -= timedelta(days=1)
    site.clock.ticks += 120
    waits = "rows of .* are committed but can't be read until the job or `hivesink recover` runs: the metastore at"
    with pytest.raises(MetastoreUnreachable, match=waits):
        job.committer.keep_up()
    with pytest.raises(MetastoreUnreachable, match=waits):
        job.committer.finish()
    site.metastore.come_up()
    site.job().run()
    site.check(IDS)


def test_a_partition_that_readers_read_as_another_format_gets_no_parquet(site: Site) -> None:
    site.job().run()
    site.metastore.set_format(TABLE, "dt=2024-01-01", "OrcInputFormat")
    site.source.events = [*EVENTS, Event(len(EVENTS), "2024-01-01")]
    with pytest.raises(Unsupported, match=r"the format of partition dt=2024-01-01 .*OrcInputFormat.*SET FILEFORMAT"):
        site.job().run()
    site.metastore._entries[TABLE].partitions[("2024-01-01",)].format = None
    site.job().run()
    site.check([*IDS, len(EVENTS)])


def test_epochs_that_waited_go_where_their_partition_lives_now_each_from_its_own_folder(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the metastore flaps, one epoch is staged in the old folder and the next one in the new."""
    site.source.events = [Event(number, "a") for number in range(12)]
    job = site.job()
    job.step()
    site.analyze()
    real = site.metastore.lookup
    # The retry at the batch's start, the lookups of its two tries, the one after its decision.
    answers = [False, True, True, False]

    def lookup(*asked: Any) -> Any:
        if answers and not answers.pop(0):
            raise MetastoreUnreachable(site.metastore.address, "it flaps")
        return real(*asked)

    def clear_accurate(*_: object) -> None:
        raise MetastoreUnreachable(site.metastore.address, "it flaps")

    with monkeypatch.context() as patch:
        patch.setattr(site.metastore, "clear_accurate", clear_accurate)
        job.step()
        site.move("dt=a", "/elsewhere/a")
        patch.setattr(site.metastore, "lookup", lookup)
        job.step()
    assert {part.rpartition("/")[0] for part in site.waiting()} == {f"{LOCATION}/dt=a", "/elsewhere/a"}
    job.run()
    site.check(IDS)
    assert not site.store.visible(f"{LOCATION}/dt=a")


@pytest.mark.parametrize("calls_before", [1, 2], ids=["before the decision", "after it"])
def test_a_table_that_vanishes_stops_the_job_which_goes_on_once_it_is_back(
    site: Site, monkeypatch: pytest.MonkeyPatch, calls_before: int
) -> None:
    """DROP of an external table keeps its files, staged ones too; nothing is lost, doubled or left over."""
    job = site.job()
    job.step()
    real, left = site.metastore.lookup, [calls_before]

    def lookup(*asked: Any) -> Any:
        left[0] -= 1
        if not left[0]:
            site.metastore.drop_table(TABLE)
        return real(*asked)

    with monkeypatch.context() as patch:
        patch.setattr(site.metastore, "lookup", lookup)
        with pytest.raises(UnknownTable, match=r"no longer in the metastore at memory; .*give its new name"):
            job.run()
        with pytest.raises(UnknownTable):
            site.job().run()
    site.metastore.create(SPEC)
    # A new table knows no partitions; those of older epochs are a matter of MSCK REPAIR.
    for day in sorted({f"dt={event.dt}" for event in EVENTS}):
        site.metastore.register(TABLE, day, f"{LOCATION}/{day}")
    site.job().run()
    site.check(IDS)


def test_the_mark_that_all_is_registered_spares_the_next_run_any_look(site: Site) -> None:
    site.job().run()
    assert site.log.view().marks[Epoch(3)] == {EpochState.PUBLISHED, EpochState.SETTLED}
    day = next(iter(site.places(TABLE)))
    site.metastore.drop_partition(TABLE, day)
    site.job().run()
    assert day not in site.places(TABLE)


def test_a_dead_letter_table_that_vanishes_is_made_again_whenever_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """An external table's files stay where it is dropped."""
    remade = []

    def run(drop_at: int) -> int:
        site = Site(Source(list(EVENTS)), dead=True)
        number, real = 0, site.metastore.lookup

        def lookup(*asked: Any) -> Any:
            nonlocal number
            number += 1
            if number == drop_at:
                site.metastore.drop_table(TABLE.rejected)
            return real(*asked)

        def remake(name: TableName) -> bool:
            if name == TABLE.rejected:
                site.metastore.create(DEAD)
                remade.append(drop_at)
            return name == TABLE.rejected

        job = site.job()
        job.committer = Committer(replace(job.context, remake=remake), job.committer.spec, job.encode)
        with monkeypatch.context() as patch:
            patch.setattr(site.metastore, "lookup", lookup)
            job.step(len(EVENTS))
        job.committer.finish()
        site.check(IDS, drop_at)
        return number

    calls = run(0)
    assert calls > 2
    for at in range(1, calls + 1):
        run(at)
    assert sorted(set(remade)) == list(range(1, calls + 1))


# Clean-up of the log.


@pytest.mark.parametrize("kept", [1, 2, 3, 4, 8])
def test_old_manifests_become_the_floors_totals(kept: int) -> None:
    site = Site(Source(events(40)), options={"sink.log.retained-epochs": str(kept)})
    site.job().run(2)
    view, floor = site.log.view(), site.log.floor()
    assert floor is not None
    assert view.head == 20
    assert kept <= len(view.manifests) <= kept + max(1, kept // 4)
    assert (floor.epoch, view.manifests[0]) == (view.floor, view.floor + 1)
    left = [site.log.manifest(epoch) for epoch in view.manifests]
    assert sum((manifest.rows for manifest in left), floor.totals) == Rows(read=40, written=40)
    names = [entry.name for entry in site.fs.list(f"{LOG}/manifests")]
    assert len([name for name in names if name.startswith("floor-")]) == 1
    site.job().run()
    site.check(range(40))


@pytest.mark.parametrize("damaged", ["0000000002.json", "floor-0000000005"])
def test_clean_up_that_fails_stops_no_job_and_is_told(damaged: str, caplog: pytest.LogCaptureFixture) -> None:
    """A settled manifest, or the floor, that can't be read: every trim from then on meets it."""
    site = Site(Source(events(60)), options={"sink.log.retained-epochs": "4"})
    site.job().run(2, batches=5 if damaged.startswith("0") else 9)
    path = f"{LOG}/manifests/{damaged}"
    if site.fs.read(path) is not None:
        site.fs.delete(path)
    site.fs.write_new(path, b"{")
    site.job().run(2)
    site.check(range(60))
    assert site.log.view().head == 30
    told = [record.getMessage() for record in caplog.records if "couldn't clean up after epoch" in record.getMessage()]
    assert told
    assert all(damaged in message for message in told)
    harmless = "no row depends on it"
    assert all((harmless in message) == damaged.startswith("floor") for message in told)


def test_recovery_beside_a_run_that_goes_on_to_its_next_epoch_is_no_damage(site: Site) -> None:
    """Between the two looks of recovery, the other run decides an epoch and begins the one after."""
    job = site.job()
    other = site.job(source=Source(list(EVENTS)))
    other.step()
    real: Callable[[], Any] = job.log.view
    done: list[bool] = []

    def view() -> Any:
        found = real()
        if not done:
            done.append(True)
            other.step()
            other.log.touch(StagingIntent(Epoch(3), "aaaaaaaaaa", 0, 0, 0, ()))
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job.log, "view", view)
        job.committer.recover()
    assert done


@pytest.mark.parametrize("partitioned", [True, False])
@pytest.mark.parametrize("on_epoch", ["true", "false"])
def test_nothing_is_in_the_way_of_a_managed_table_that_is_renamed_back(on_epoch: str, partitioned: bool) -> None:
    site = Site(Source(list(EVENTS)), SPEC if partitioned else PLAIN, options={"sink.rolling-policy.on-epoch": "true"})
    site.job().run(4, 1)
    site.options["sink.rolling-policy.on-epoch"] = on_epoch
    job, new, moved = site.job(), replace(TABLE, table="renamed"), f"{LOCATION}_renamed"
    job.committer.recover()
    if on_epoch == "false":
        job.step()
    site.metastore.rename_table(TABLE, new, moved)
    site.fs.rename_folder(LOCATION, moved)
    # While its rows wait, each end of the query rolls them.
    for ends in [job.step] if on_epoch == "true" else [job.committer.finish] * 2:
        with pytest.raises(UnknownTable):
            ends()
    assert not site.fs.is_folder(LOCATION)
    site.metastore.rename_table(new, TABLE, LOCATION)
    site.fs.rename_folder(moved, LOCATION)
    site.job().run()
    site.check(IDS)


def test_the_folder_of_another_name_stays_when_a_table_is_gone() -> None:
    """Somebody may have made it for the table, with rights of its own; RENAME doesn't move it."""
    site = Site(Source(list(EVENTS)), replace(SPEC, location="/elsewhere/own"))
    job = site.job()
    job.committer.recover()
    site.metastore.drop_table(TABLE)
    with pytest.raises(UnknownTable):
        job.step()
    assert (site.fs.is_folder("/elsewhere/own"), site.staged()) == (True, set())

"""A replay of dead letters under every crash, and beside another one at every call: each record once."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timezone
from posixpath import basename

import pyarrow as pa
import pytest

from hivesink.core.epoch import Epoch
from hivesink.core.lifecycle import EpochState
from hivesink.core.manifest import REPLAYS, PartEntry
from hivesink.errors import HiveSinkError, LogMissing, PartLost, RegistrationFailed, ReplayOvertaken, StoreUnavailable
from hivesink.sink.commit.observe import load
from hivesink.sink.commit.recovery import ALL
from hivesink.sink.inspect.verify import verify
from hivesink.sink.task.messages import InputShape
from hivesink.storage.rename_store import RenameFileStore
from hivesink.tables.rejects import Replay
from tests.crash.faults import At, FaultyFileSystem, Kill, Mode, Plan, Stalling, calls_of, faults, sampled
from tests.crash.site import by_hand
from tests.sink.harness import LOCATION, TABLE
from tests.tables.replays import REJECTED, World

OVERTAKEN = (ReplayOvertaken, StoreUnavailable)
"""The other replay has decided, or has even deleted what this one reads."""
_DAYS = "abc"
_LETTERS = (
    pa.RecordBatch.from_pydict({"value": pa.array([b"{"] * (len(_DAYS) + 1), pa.binary())}),
    InputShape(value="value"),
)
"""Records that are none."""


def _new(monkeypatch: pytest.MonkeyPatch) -> World:
    """A table with a dead letter for each of three days, mended, and one that isn't, all in one file."""
    made = World()
    made.patch(monkeypatch)
    made.ingest(*_LETTERS)
    records = [f'{{"id": {number}, "dt": "{day}"}}' for number, day in enumerate(_DAYS)]
    made.mended = {name: record.encode() for name, record in zip(made.ids(), records, strict=False)}
    return made


def check(world: World, case: object) -> None:
    """Whoever comes next finishes; then each record is a row or a dead letter, once."""
    world.replay()
    assert world.replay() == 0, case
    assert sorted(row["id"] for row in world.rows(TABLE)) == list(range(len(_DAYS))), case
    (left,) = (row["id"] for row in world.rows(TABLE.rejected))
    assert world.ids() == [left], case
    assert left not in (world.mended or ()), case


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Callable[[], World]:
    return lambda: _new(monkeypatch)


def on_files(world: World, plan: Plan | None) -> FaultyFileSystem:
    return FaultyFileSystem(world.files, plan)


def calls(world: Callable[[], World]) -> int:
    return len(calls_of(world, on_files, World.replay))


@sampled(8)
def test_a_fault_at_any_call_loses_and_doubles_nothing(every: int, world: Callable[[], World]) -> None:
    for made, faulty, case in faults(world, on_files, World.replay, every=every):
        made.replay()
        faulty.apply_late()
        check(made, case)


@sampled(18)
def test_another_replay_runs_at_any_call(every: int, world: Callable[[], World]) -> None:
    for at in range(1, calls(world) + 1, every):
        made, others, own = world(), list[int](), 0
        with suppress(*OVERTAKEN):
            own = made.replay(Stalling(made.files, at, lambda: others.append(made.replay())))  # noqa: B023
        assert len(_DAYS) in {own, *others}, (at, own, others)
        check(made, at)

        made = world()
        with suppress(HiveSinkError):
            made.replay(Stalling(made.files, at, made.metastore.go_down))
        made.metastore.come_up()
        check(made, at)


@sampled(8)
def test_a_user_moves_the_dead_letters_after_a_kill_at_any_call(every: int, world: Callable[[], World]) -> None:
    """Their files, and with SET LOCATION their day: what the replay replaces is deleted where it is by then."""
    for at in range(1, calls(world) + 1, every):
        made = world()
        with suppress(Kill):
            made.replay(on_files(made, Plan(at, Mode.AFTER)))
        for day, folder in made.metastore.partitions(TABLE.rejected).items():
            for file in RenameFileStore(made.files).visible(folder):
                made.files.rename(file.path, f"/moved/{day}/{basename(file.path)}")
            made.metastore.register(TABLE.rejected, day, f"/moved/{day}")
        check(made, at)


@sampled(60, timeout=3600)
def test_another_replay_dies_at_any_call_and_this_one_goes_on(every: int, world: Callable[[], World]) -> None:
    count = calls(world)
    for at in range(1, count + 1, every):
        for step in range(1 + at % 7, count, 7 if every == 1 else 14):
            made = world()
            dying = on_files(made, Plan(step, Mode.AFTER))

            def dies(made: World = made, dying: FaultyFileSystem = dying) -> None:
                # Where the first one has decided, less is left to do.
                with suppress(Kill, HiveSinkError):
                    made.replay(dying)

            try:
                made.replay(Stalling(made.files, at, dies))
            except OVERTAKEN:
                made.replay()
            check(made, (at, step))


def test_a_partition_that_the_metastore_refuses_holds_up_replays_until_it_is_there(world: Callable[[], World]) -> None:
    made = world()
    made.metastore.register(TABLE, "dt=b ", f"{LOCATION}/other")
    for _ in range(2):
        with pytest.raises(RegistrationFailed, match="'dt=b ' is there"):
            made.replay()
    made.metastore.drop_partition(TABLE, "dt=b ")
    check(made, "")


UNPUBLISHED, UNDELETED, UNSETTLED = r"\.publishing$", r"^delete .*/part-", r"\.settled$"


def _dies(made: World, before: str) -> None:
    with pytest.raises(Kill):
        made.replay(At(made.files, before))


def _waiting(made: World) -> tuple[PartEntry, ...]:
    with made.process() as letters:
        return load(letters.opened.writers[REPLAYS]).waiting


def test_whoever_finishes_a_replay_says_how_many_rows_it_had(world: Callable[[], World]) -> None:
    made = world()
    _dies(made, UNPUBLISHED)
    for rows in (len(_DAYS), 0):
        with made.process() as letters:
            assert Replay(letters).recover() == rows
    check(made, "")


@pytest.mark.parametrize("lost", [f"{LOCATION}/", REJECTED], ids=["rows", "letters"])
def test_a_replay_of_which_a_file_is_lost_is_done_again(lost: str, world: Callable[[], World]) -> None:
    made = world()
    letters = made.ids()
    _dies(made, UNPUBLISHED)
    made.files.delete(next(part.staged for part in _waiting(made) if part.target.startswith(lost)))
    with made.process() as opened:
        assert Replay(opened).recover() == 0
    assert (made.rows(TABLE), made.ids()) == ([], letters)
    check(made, lost)


def test_once_readers_may_see_a_row_of_it_a_person_decides(world: Callable[[], World]) -> None:
    made = world()
    _dies(made, UNPUBLISHED)
    parts = _waiting(made)
    with made.process() as letters:
        letters.opened.writers[REPLAYS].log.mark(Epoch(1), EpochState.PUBLISHING)
    gone = next(part for part in parts if part.table == str(TABLE))
    made.files.delete(gone.staged)
    with pytest.raises(PartLost, match="--forget"):
        made.replay()
    with made.process() as letters:
        assert [loss.rows for loss in by_hand(letters.opened.writers[REPLAYS], forget=ALL).losses] == [1]
    assert made.replay() == 0
    assert len(made.rows(TABLE)) == len(_DAYS) - 1


def test_what_a_replay_has_replaced_is_no_dead_letter_wherever_it_is(world: Callable[[], World]) -> None:
    """As after a RENAME PARTITION just before it would have been deleted."""
    made = world()
    letters = made.ids()
    _dies(made, UNDELETED)
    with made.process() as opened:
        (replaced,) = load(opened.opened.writers[REPLAYS]).replaced
    assert made.ids() == letters[-1:]
    away = f"{REJECTED}/dt=1999-01-01"
    made.files.rename(replaced.target, f"{away}/{replaced.name}")
    made.metastore.register(TABLE.rejected, "dt=1999-01-01", away)
    for _ in range(2):
        assert made.replay() == 0
        assert (len(made.rows(TABLE)), made.ids()) == (len(_DAYS), letters[-1:])
    with made.process() as opened:
        findings = verify(opened.opened.writers[REPLAYS], REPLAYS, str(TABLE), None).findings
    assert [finding.text for finding in findings] == [
        f"{away}/{replaced.name} is there though a replay has replaced it: delete it"
    ]


def test_a_replay_that_was_reset_before_a_reader_saw_it_has_replaced_nothing(world: Callable[[], World]) -> None:
    made = world()
    letters = made.ids()
    _dies(made, UNPUBLISHED)
    assert made.ids() == []
    with made.process() as opened:
        log = opened.opened.owner.root.log(REPLAYS)
        head = log.view().head
        log.end(datetime(2026, 1, 1, tzinfo=timezone.utc))
        # The dead run's call arrives now.
        with pytest.raises(LogMissing):
            log.mark(head, EpochState.PUBLISHING)
    assert made.ids() == letters
    assert made.replay() == len(_DAYS)
    assert (len(made.rows(TABLE)), made.ids()) == (len(_DAYS), letters[-1:])


def test_a_damaged_log_of_a_job_keeps_no_dead_letters_away(world: Callable[[], World]) -> None:
    made = world()
    letters = made.ids()
    with made.process() as opened:
        path = f"{opened.opened.writers['job'].log.location}/manifests/0000000001.json"
    made.files.delete(path)
    made.files.write_new(path, b"{")
    assert made.ids() == letters
    with made.process() as opened:
        assert opened.waiting() == 0
    assert made.replay() == 0


def test_a_file_that_no_log_knows_is_never_replayed(world: Callable[[], World]) -> None:
    """As one of a user's compaction."""
    made = world()
    (home,) = made.metastore.partitions(TABLE.rejected).values()
    (file,) = RenameFileStore(made.files).visible(home)
    made.files.rename(file.path, f"{home}/compacted")
    assert made.replay() == 0
    assert (made.census.unsettled, len(made.ids())) == (len(_DAYS), len(_DAYS) + 1)


def test_dead_letters_that_their_job_has_not_settled_are_not_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may yet move them, or encode them again."""
    made = World()
    made.patch(monkeypatch)
    made.current = At(made.files, UNSETTLED)
    with pytest.raises(Kill):
        made.ingest(*_LETTERS)
    made.current = made.files
    made.mended = dict.fromkeys(made.ids(), b'{"id": 1, "dt": "a"}')
    assert made.replay() == 0
    assert made.census.unsettled == len(_LETTERS[0])
    made.job().finish()
    assert made.replay() == len(_LETTERS[0])
    assert made.ids() == []


def test_dead_letters_that_wait_again_find_their_table(monkeypatch: pytest.MonkeyPatch) -> None:
    made = World(options={"sink.rolling-policy.on-epoch": "false"})
    made.patch(monkeypatch)
    made.current = At(made.files, UNPUBLISHED)
    with pytest.raises(Kill):
        made.ingest(*_LETTERS)
    made.current = made.files
    store = RenameFileStore(made.files)
    for path in [path for folder in store.walk(REJECTED) for path in store.staged(folder)]:
        made.files.delete(path)
    made.options = {**made.options, "sink.on-bad-record": "fail"}
    made.job().finish()
    assert len(made.rows(TABLE.rejected)) == len(_DAYS) + 1

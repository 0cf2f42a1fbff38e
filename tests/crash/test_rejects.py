"""A replay of dead letters under every crash, and beside another one at every call: each record once, and its mark."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from hivesink.core.manifest import REPLAYS
from hivesink.errors import HiveSinkError, PartLost, RegistrationFailed, ReplayOvertaken, ReplaySplit
from hivesink.sink.commit.observe import load
from hivesink.sink.task.messages import InputShape
from hivesink.storage.rename_store import RenameFileStore
from hivesink.tables.replay import Replay
from tests.crash.faults import FaultyFileSystem, Kill, Mode, Plan, Stalling, moments
from tests.sink.harness import LOCATION, TABLE
from tests.sink.recoveries import ALL, by_hand
from tests.tables.replays import REJECTED, World

if TYPE_CHECKING:
    from collections.abc import Callable


_DAYS = "abc"
_LETTERS = (
    pa.RecordBatch.from_pydict({"value": pa.array([b"{"] * len(_DAYS), pa.binary())}),
    InputShape(value="value"),
)
"""Records that are none."""


def _new(monkeypatch: pytest.MonkeyPatch) -> World:
    """A table with one dead letter for each of three days, mended."""
    made = World()
    made.patch(monkeypatch)
    made.ingest(*_LETTERS)
    records = [f'{{"id": {number}, "dt": "{day}"}}' for number, day in enumerate(_DAYS)]
    made.mended = {one: record.encode() for one, record in zip(made.ids(), records, strict=True)}
    return made


def check(world: World, case: object) -> None:
    """Whoever comes next finishes; then each record is a row, and has a mark, once."""
    world.replay()
    assert world.replay() == 0, case
    assert sorted(row["id"] for row in world.rows(TABLE)) == list(range(len(_DAYS))), case
    letters = world.rows(TABLE.rejected)
    marks = [row["id"] for row in letters if row["replayed_at"] is not None]
    assert (len(letters), sorted(marks)) == (2 * len(_DAYS), sorted(world.mended or ())), case


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Callable[[], World]:
    return lambda: _new(monkeypatch)


def _calls() -> int:
    with pytest.MonkeyPatch.context() as patched:
        made = _new(patched)
        files = FaultyFileSystem(made.files)
        assert made.replay(files) == len(_DAYS)
        return len(files.calls)


CALLS = _calls()


@pytest.mark.parametrize("step", moments(CALLS, every=6))
def test_a_fault_at_any_call_loses_and_doubles_nothing(step: int, world: Callable[[], World]) -> None:
    for mode in Mode:
        made = world()
        faulty = FaultyFileSystem(made.files, Plan(step, mode))
        try:
            made.replay(faulty)
        except (Kill, HiveSinkError):
            faulty.release()
        made.replay()
        faulty.apply_late()
        check(made, (step, mode, faulty.calls[step - 1 : step]))


@pytest.mark.parametrize("at", moments(CALLS, every=4))
def test_another_replay_runs_at_any_call(at: int, world: Callable[[], World]) -> None:
    made = world()
    others: list[int] = []
    stalling = Stalling(made.files, at, lambda: others.append(made.replay()))
    try:
        own = made.replay(stalling)
    except ReplayOvertaken:
        own = 0
    assert own + sum(others) == len(_DAYS), (at, own, others)
    check(made, (at, stalling.calls[at - 1]))


@pytest.mark.parametrize("at", moments(CALLS, every=10, skip=3))
def test_another_replay_dies_at_any_call_and_this_one_goes_on(at: int, world: Callable[[], World]) -> None:
    for step in range(1 + at % 7, CALLS, 7):
        made = world()
        dying = FaultyFileSystem(made.files, Plan(step, Mode.AFTER))

        def dies(made: World = made, dying: FaultyFileSystem = dying) -> None:
            # Where the first one has decided, less is left to do.
            with suppress(Kill, HiveSinkError):
                made.replay(dying)

        try:
            made.replay(Stalling(made.files, at, dies))
        except ReplayOvertaken:
            made.replay()
        check(made, (at, step))


@pytest.mark.parametrize("at", moments(CALLS, every=4))
def test_the_metastore_is_away_from_any_call_on(at: int, world: Callable[[], World]) -> None:
    made = world()
    with suppress(HiveSinkError):
        made.replay(Stalling(made.files, at, made.metastore.go_down))
    made.metastore.come_up()
    check(made, at)


def test_a_partition_that_the_metastore_refuses_holds_up_replays_until_it_is_there(world: Callable[[], World]) -> None:
    made = world()
    made.metastore.register(TABLE, "dt=b ", f"{LOCATION}/other")
    for _ in range(2):
        with pytest.raises(RegistrationFailed, match="'dt=b ' is there"):
            made.replay()
    made.metastore.drop_partition(TABLE, "dt=b ")
    check(made, "")


class Unpublished(FaultyFileSystem):
    """Dies before it marks an epoch as one that publishes."""

    def _begin(self, name: str, path: str, *, changes: bool) -> Mode | None:
        if changes and path.endswith(".publishing"):
            self.plan = Plan(len(self.calls) + 1, Mode.BEFORE)
        return super()._begin(name, path, changes=changes)


class Showing(FaultyFileSystem):
    """Dies after the rename that makes its first file below `root` visible."""

    def __init__(self, made: World, root: str) -> None:
        super().__init__(made.files)
        self.root = root

    def _begin(self, name: str, path: str, *, changes: bool) -> Mode | None:
        if name == "rename" and path.endswith(".parquet") and path.partition(" -> ")[2].startswith(self.root):
            self.plan = Plan(len(self.calls) + 1, Mode.AFTER)
        return super()._begin(name, path, changes=changes)


def _half_done(made: World, files: FaultyFileSystem, lost: str) -> None:
    """A replay dies, and a statement takes a file of it below `lost`."""
    with pytest.raises(Kill):
        made.replay(files)
    with made.process() as letters:
        context = letters.opened.writers[REPLAYS]
        gone = next(part for part in load(context).waiting if part.target.startswith(lost))
        for path in (gone.staged, gone.target):
            made.files.delete(path)
    with pytest.raises(PartLost, match="--forget"):
        made.replay()


def test_whoever_finishes_a_replay_says_how_many_rows_it_had(world: Callable[[], World]) -> None:
    made = world()
    with pytest.raises(Kill):
        made.replay(Unpublished(made.files))
    for rows in (len(_DAYS), 0):
        with made.process() as letters:
            assert Replay(letters).recover() == rows
    check(made, "")


@pytest.mark.parametrize("lost", [f"{LOCATION}/", REJECTED], ids=["rows", "marks"])
def test_what_is_forgotten_takes_the_rows_and_the_marks_of_a_replay(lost: str, world: Callable[[], World]) -> None:
    made = world()
    _half_done(made, Unpublished(made.files), lost)
    with made.process() as letters:
        losses = by_hand(letters.opened.writers[REPLAYS], forget=ALL).losses
        assert len(losses) == len(_DAYS) + 1
    check(made, lost)


@pytest.mark.parametrize(("seen", "lost"), [(f"{LOCATION}/", REJECTED), (REJECTED, f"{LOCATION}/")])
def test_a_replay_of_which_readers_may_see_a_file_is_not_forgotten(
    seen: str, lost: str, world: Callable[[], World]
) -> None:
    made = world()
    _half_done(made, Showing(made, seen), lost)
    with made.process() as letters, pytest.raises(ReplaySplit, match="lost or doubled"):
        by_hand(letters.opened.writers[REPLAYS], forget=ALL)


def test_dead_letters_that_wait_again_find_their_table(monkeypatch: pytest.MonkeyPatch) -> None:
    made = World(options={"sink.rolling-policy.on-epoch": "false"})
    made.patch(monkeypatch)
    made.current = Unpublished(made.files)
    with pytest.raises(Kill):
        made.ingest(*_LETTERS)
    made.current = made.files
    store = RenameFileStore(made.files)
    for path in [path for folder in store.walk(REJECTED) for path in store.staged(folder)]:
        made.files.delete(path)
    made.options = {**made.options, "sink.on-bad-record": "fail"}
    made.setup().committer(tolerant=False).finish()
    assert len(made.rows(TABLE.rejected)) == len(_DAYS)

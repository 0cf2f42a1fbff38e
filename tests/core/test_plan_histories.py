"""Random histories against `plan` alone, ten thousand in the long run: each ends with every row there once.

The world is a few dictionaries. Tasks write and die, the driver dies between any two actions, the metastore comes, goes
and refuses, users insert into partitions (listed or not), move them, and look away.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest

from hivesink.core.actions import (
    AlreadyPublished,
    Announce,
    ClearAccurate,
    Decide,
    DeleteReplaced,
    Discard,
    DropSegments,
    Forget,
    PartMissing,
    Publish,
    Register,
    SetMark,
    Snapshot,
    StagingArea,
    Trim,
    followed,
    newest,
    paths_to_look,
)
from hivesink.core.epoch import Epoch
from hivesink.core.floor import Floor, floor_over, replaced_parts
from hivesink.core.lifecycle import EpochState, History, Identity, Mark, OpenEpoch, Stamp
from hivesink.core.log import LogView, StagingIntent
from hivesink.core.manifest import Commit, Manifest, Opened, PartEntry, Slice
from hivesink.core.partfile import PartName, Stage
from hivesink.core.partition import LivePartition, PartitionKey, aside
from hivesink.core.partition_commit import PolicyKind
from hivesink.core.plan import Policy, fence, plan, sweep
from hivesink.core.reads import segment_epoch, segment_name
from hivesink.core.rolling import open_rows

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hivesink.core.actions import Action

TABLE, HOME = "demo.events", "/w/events"
IDENTITY = Identity("w", "00c0ffee0001", (TABLE,), ((TABLE, "UTC"),), "/w/.hivesink/w")
DAYS = ("dt=a", "dt=b", "dt=c")
LETTERS = "dt=l"
"""The partition of the dead letters, which may as well be of the same table."""
POLICIES = (Policy((PolicyKind.SUCCESS_FILE,), 2), Policy((), 1), Policy())


class Death(BaseException):
    """The driver's process ends."""


class Refused(BaseException):
    """The metastore registers no partition of a day."""


@dataclass
class Simulation:
    """Files by path, the log, and the metastore. A part's length is the number of its row, or of rows that waited."""

    chance: random.Random
    policy: Policy
    files: dict[str, int] = field(default_factory=dict)
    manifests: dict[Epoch, Manifest] = field(default_factory=dict)
    marks: dict[Epoch, set[Mark]] = field(default_factory=dict)
    floor: Epoch = field(default=Epoch(0))
    lists: set[StagingIntent] = field(default_factory=set)
    partitions: dict[str, str] = field(default_factory=dict)
    accurate: set[str] = field(default_factory=set)
    down: bool = False
    refused: frozenset[str] = frozenset()
    rows: int = 0
    moves: int = 0
    attempts: int = 0
    committed: list[int] = field(default_factory=list)
    segments: dict[str, int] = field(default_factory=dict)
    """By name, the row of each."""
    encoded: dict[int, list[int]] = field(default_factory=dict)
    """By length, the rows of parts that were made of segments or dead letters."""
    trimmed: Floor | None = None

    def __post_init__(self) -> None:
        self.partitions[LETTERS] = f"{HOME}/{LETTERS}"
        for _ in range(2):
            self.rows += 3
            self.encoded[self.rows] = [self.rows - 2, self.rows - 1]
            name = PartName("00c0ffee0002", 1, "aa", 0, 0, self.rows)
            self.files[f"{HOME}/{LETTERS}/{name}"] = self.rows
            self.committed += self.encoded[self.rows]

    def stamp(self) -> Stamp:
        self.attempts += 1
        at = datetime(2026, 1, 1, tzinfo=timezone.utc) + timedelta(seconds=self.chance.randrange(10_000))
        return Stamp(at, f"{self.attempts:010x}")

    # What the log and the world show.

    def history(self) -> History:
        if not self.manifests:
            return History(IDENTITY)
        head = self.manifests[max(self.manifests)]
        rows = open_rows(self.manifests[epoch] for epoch in sorted(self.manifests, reverse=True))
        if Mark.SETTLED in self.marks.get(head.epoch, ()):
            return History(IDENTITY, head, floor=self.floor, rows=rows)
        found = []
        view = LogView(self.floor, (*self.manifests,), {epoch: frozenset(own) for epoch, own in self.marks.items()})
        for epoch in sorted(epoch for epoch in self.manifests if epoch > head.settled):
            one = OpenEpoch(self.manifests[epoch], view.state(epoch))
            if not one.manifest.is_bare:
                found.append(one)
        return History(IDENTITY, head, tuple(found), self.floor, rows)

    def look(self, history: History) -> Snapshot:
        live = {
            place: LivePartition(place[1], self.partitions[place[1]], place[1] in self.accurate, columns_behind=False)
            for place in history.places
            if place[1] in self.partitions
        }
        return Snapshot(self.lengths(paths_to_look(history, live)), live)

    def lengths(self, paths: Iterable[str]) -> dict[str, int]:
        return {path: self.files[path] for path in paths if path in self.files}

    def staging(self, head: Epoch, winners: frozenset[tuple[str, int]] = frozenset()) -> StagingArea:
        area = StagingArea(tuple(sorted(self.lists)), winners=winners)
        folders = {folder for one in followed(area, head) for folder in one.folders}
        staged = tuple(path for path in self.files if path.rpartition("/")[0] in folders and "/." in path)
        return replace(area, folders=tuple(sorted(folders)), staged=staged, segments=tuple(self.segments))

    # What users do.

    def meddle(self) -> None:
        day = self.chance.choice(DAYS)
        match self.chance.randrange(12):
            case 0:
                self.insert(day)
            case 1 if day in self.partitions:
                self.moves += 1
                self.move(day, f"/elsewhere/{self.moves}/{day}")
            case 2 if day in self.partitions:
                self.move(day, f"{HOME}/{day}")
            case 3:
                self.accurate |= set(self.partitions)
            case 4:
                self.down = self.chance.random() < 0.3
            case 5:
                self.refused = frozenset({day} if self.chance.random() < 0.3 else ())
            case 6:
                self.moves += 1
                self.move(LETTERS, f"/elsewhere/{self.moves}/{LETTERS}")

    def insert(self, day: str) -> None:
        """Hive's INSERT INTO: into an unlisted partition it deletes what is in its folder (HIVE-29744)."""
        if day not in self.partitions:
            folder = f"{HOME}/{day}"
            for path in [path for path in self.files if path.rpartition("/")[0] == folder]:
                del self.files[path]
            self.partitions[day] = folder

    def move(self, day: str, location: str) -> None:
        old = self.partitions[day]
        for path in [path for path in self.files if path.startswith(f"{old}/part-")]:
            self.files[f"{location}/{path.rpartition('/')[2]}"] = self.files.pop(path)
        self.partitions[day] = location

    # What a process does.

    def run(self) -> None:
        """One process, which may die anywhere."""
        lists = self.lists
        history = self.history()
        assert newest(lists) <= history.epoch + 1
        history = self.finish(self.shut_out(history))
        history = self.clean_up(history)
        for _ in range(self.chance.randrange(4)):
            history = self.chance.choice((self.batch, self.waiting_batch, self.roll, self.replay))(history)

    def ends_well(self) -> bool:
        try:
            self.run()
        except Death:
            return False
        return True

    def finish(self, history: History) -> History:
        refused: frozenset[str] = frozenset()
        while history.open and not self.down:
            snapshot = replace(self.look(history), refused=frozenset((TABLE, day) for day in refused))
            actions = list(plan(history, snapshot, self.stamp(), self.policy))
            if refused and not actions:
                # All others are settled: their files are the users' own. Only a replay waits until all can be read.
                assert history.replaced or {part.partition for _, part in history.live_parts} <= refused
                break
            try:
                history = self.carry_out(history, plan(history, snapshot, self.stamp(), self.policy))
            except Refused:
                history, refused = self.history(), refused | self.refused
        return history

    def batch(self, history: History) -> History:
        return self.publish(history, "batch", [(day, []) for day in self.chance.sample(DAYS, 2)])

    def waiting_batch(self, history: History) -> History:
        """An epoch whose rows wait."""
        stamp, opened = self.stamp(), []
        for task in range(self.chance.randrange(1, 3)):
            self.rows += 1
            name = segment_name(Epoch(history.epoch + 1), stamp.attempt, 0, task)
            self.interrupt()
            self.segments[name] = self.rows
            opened.append(Opened(TABLE, self.chance.choice(DAYS), Slice(name, 0, 1, 1)))
        manifest = replace(history.following("batch", stamp), opened=tuple(opened))
        rows = [self.segments[one.slice.segment] for one in opened]
        history = self.carry_out(history, [Decide(manifest)])
        self.committed += rows
        return self.clean_up(self.finish(history))

    def roll(self, history: History) -> History:
        waiting = [key for key in sorted(history.rows.buckets) if history.rows.waits(key)]
        buckets = [key for key in waiting if self.chance.random() < 0.6]
        slices = {day: history.rows.buckets[table, day].slices for table, day in buckets}
        work = [(day, [self.segments[one.segment] for one in slices[day]]) for day in slices]
        return self.publish(history, "roll", work, tuple(buckets)) if work else history

    def replay(self, history: History) -> History:
        """Some dead letters of a file are rows, the others are dead letters again."""
        letters = self.letters()
        if history.open or not letters:
            return history
        path = self.chance.choice(sorted(letters))
        first, *others = letters[path]
        work = [(self.chance.choice(DAYS), [first]), *([(LETTERS, others)] if others else [])]
        part = PartEntry(TABLE, LETTERS, path, path, self.files[path], len(letters[path]))
        return self.publish(history, "batch", work, replaces=(part,))

    def letters(self) -> dict[str, list[int]]:
        """By file, the rows that are dead letters."""
        replaced = replaced_parts(self.trimmed, (self.manifests[epoch] for epoch in sorted(self.manifests)))
        folder = self.partitions[LETTERS]
        paths = [path for path in self.files if path.startswith(f"{folder}/part-")]
        return {path: self.encoded[self.files[path]] for path in paths if path.rpartition("/")[2] not in replaced}

    def loses_a_file(self) -> None:
        """A statement takes a hidden file of a replay that is decided, before anything of it can be read."""
        history = self.history()
        begun = {part for epoch in history.open if epoch.state is not EpochState.DECIDED for part in epoch.manifest.add}
        names = {part.name for part in begun}
        for manifest in (epoch.manifest for epoch in history.unpublished if epoch.manifest.replaces):
            staged = [part.staged for part in manifest.add if part.staged in self.files]
            if staged and not any(part.name in names for part in manifest.add):
                del self.files[self.chance.choice(staged)]

    def publish(
        self,
        history: History,
        kind: str,
        work: list[tuple[str, list[int]]],
        rolled: tuple[PartitionKey, ...] = (),
        replaces: tuple[PartEntry, ...] = (),
    ) -> History:
        """An epoch with a part for each of `work`: a day, and its rows that waited, or none for a new row."""
        moved: dict[str, str] = {}
        while True:
            stamp = self.stamp()
            parts = [self.write(history, stamp, day, moved) for day, _ in work]
            self.encoded |= {part.length: waited for part, (_, waited) in zip(parts, work, strict=True) if waited}
            self.interrupt()
            live = {} if self.down else self.partitions
            elsewhere = {p.partition: live[p.partition] for p in parts if live.get(p.partition, p.folder) != p.folder}
            if elsewhere:
                moved |= elsewhere
                self.drop(part.staged for part in parts)
                continue
            parts = [self.set_aside(part, live, stamp.attempt) for part in parts]
            if all(self.files.get(part.staged) == part.length for part in (*parts, *replaces)):
                break
            self.drop(part.staged for part in parts)
            if replaces:
                return history
        commits = tuple(Commit(*key, self.attempts, 1, 1) for key in sorted({part.key for part in parts}))
        manifest = replace(
            history.following(kind, stamp), add=tuple(parts), rolled=rolled, replaces=replaces, commits=commits
        )
        rows = [] if rolled or replaces else [part.length for part in parts]
        history = self.carry_out(history, [Decide(manifest)])
        self.committed += rows
        history = self.finish(history)
        return self.clean_up(history, frozenset({(stamp.attempt, 0)}))

    def write(self, history: History, stamp: Stamp, day: str, moved: dict[str, str]) -> PartEntry:
        self.rows += 1
        folder = moved.get(day, f"{HOME}/{day}")
        epoch = Epoch(history.epoch + 1)
        name = PartName(IDENTITY.uid, epoch, stamp.attempt, 0, 0, self.rows)
        self.lists.add(StagingIntent(epoch, stamp.attempt, 0, 0, self.rows, (folder, aside(HOME, stamp.attempt))))
        self.interrupt()
        staged = f"{folder}/{name.staged(Stage.PENDING)}"
        self.files[staged] = self.rows
        return PartEntry(TABLE, day, staged, f"{folder}/{name}", self.rows, 1)

    def set_aside(self, part: PartEntry, live: dict[str, str], attempt: str) -> PartEntry:
        if part.partition in live or part.folder != f"{HOME}/{part.partition}":
            return part
        self.interrupt()
        waiting = f"{aside(HOME, attempt)}/{part.staged.rpartition('/')[2]}"
        if part.staged in self.files:
            self.files[waiting] = self.files.pop(part.staged)
        return replace(part, staged=waiting)

    def drop(self, paths: Iterable[str]) -> None:
        for path in paths:
            self.files.pop(path, None)

    def shut_out(self, history: History) -> History:
        manifest = fence(history, self.lists, self.stamp())
        return self.carry_out(history, [Decide(manifest)] if manifest else [])

    def clean_up(self, history: History, winners: frozenset[tuple[str, int]] = frozenset()) -> History:
        return self.carry_out(history, sweep(history, self.staging(history.epoch, winners), self.policy))

    def carry_out(self, history: History, actions: Iterable[Action]) -> History:
        for action in actions:
            self.interrupt()
            history = self.perform(history, action)
        return history

    def interrupt(self) -> None:
        """Between any two steps: users, a metastore that goes, a death."""
        self.meddle()
        if self.chance.random() < 0.02:
            raise Death

    def perform(self, history: History, action: Action) -> History:  # noqa: C901, PLR0912  one case an action
        match action:
            case Decide(manifest):
                manifest = history.rows.complete(manifest)
                assert manifest.epoch not in self.manifests
                assert manifest.epoch == max(self.manifests, default=0) + 1
                self.manifests[manifest.epoch] = manifest
                kept, removed = {part.name for part in manifest.add}, set(manifest.remove)
                gone = (part for _, part in history.live_parts if part.target in removed and part.name not in kept)
                self.drop(part.staged for part in gone)
                return history.decided(manifest)
            case ClearAccurate(_, partitions):
                self.accurate -= set(partitions)
            case Register(_, partitions):
                for partition, location in partitions:
                    if partition not in self.refused:
                        self.partitions.setdefault(partition, location)
                if not self.refused.isdisjoint(dict(partitions)):
                    raise Refused
            case Publish(part, source):
                if source not in self.files:
                    raise Death  # a user has moved it since the look: an error, then a start that looks again
                if source != part.target:
                    assert part.target not in self.files
                    self.files[part.target] = self.files.pop(source)
            case SetMark(mark, epoch):
                self.marks.setdefault(epoch, set()).add(mark)
                return history.marked(epoch, mark)
            case DeleteReplaced(parts):
                self.drop(part.target for part in parts)
            case Discard(staged):
                self.drop(staged)
            case DropSegments(names):
                for name in names:
                    del self.segments[name]
            case Forget(lists):
                self.lists -= set(lists)
            case Trim(epoch):
                self.floor = epoch
                self.trimmed = floor_over(
                    self.trimmed, [self.manifests[n] for n in sorted(self.manifests) if n <= epoch]
                )
                self.manifests = {found: manifest for found, manifest in self.manifests.items() if found > epoch}
                return replace(history, floor=epoch)
            case AlreadyPublished() | Announce():
                pass
            case PartMissing(part):
                pytest.fail(f"nobody took {part} away: {action.wrong}")
        return history

    # What a reader sees.

    def readable(self) -> list[int]:
        folders = {self.partitions[day] for day in self.partitions if day != LETTERS}
        parts = (n for path, n in self.files.items() if path.rpartition("/")[0] in folders and "/part-" in path)
        rows = [row for part in parts for row in self.encoded.get(part, [part])]
        return [*rows, *(row for letters in self.letters().values() for row in letters)]


def settle(site: Simulation) -> None:
    site.chance = random.Random(1)  # noqa: S311  a seed
    site.down, site.refused = False, frozenset()
    site.meddle = site.interrupt = lambda: None  # type: ignore[method-assign]  # everybody has gone home
    history = site.finish(site.shut_out(site.history()))
    site.chance.random = lambda: 0.0  # type: ignore[method-assign]  # all of them
    history = site.roll(history)
    site.clean_up(history)
    # The next epoch takes those of a task whose epoch nobody has decided.
    assert all((segment_epoch(name) or 0) > history.epoch for name in site.segments)


@pytest.mark.parametrize(
    "seeds", [range(1_000), pytest.param(range(1_000, 10_000), marks=pytest.mark.long)], ids=["first", "others"]
)
def test_every_history_ends_with_every_row_once(seeds: range) -> None:
    decided = deaths = moved = rolled = replayed = taken_back = 0
    for seed in seeds:
        site = Simulation(random.Random(seed), POLICIES[seed % len(POLICIES)])  # noqa: S311  a seed
        for _ in range(3):
            deaths += not site.ends_well()
            site.loses_a_file()
        settle(site)
        wanted, found = Counter(site.committed), Counter(site.readable())
        assert found == wanted, f"seed {seed}: lost {wanted - found}, doubled {found - wanted}"
        assert not [path for path in site.files if "/." in path], seed
        decided += len(site.committed)
        moved += any(manifest.kind == "move" for manifest in site.manifests.values())
        rolled += len(site.encoded)
        replayed += any(manifest.replaces for manifest in site.manifests.values())
        taken_back += any(manifest.replaces for manifest in site.manifests.values() if manifest.kind == "requeue")
    # It has been somewhere: rows were committed, processes died, partitions moved under open epochs.
    assert decided > len(seeds)
    assert deaths > len(seeds) // 4
    assert moved > len(seeds) // 100
    assert rolled > len(seeds) // 2
    assert replayed > len(seeds) // 5
    assert taken_back > len(seeds) // 500

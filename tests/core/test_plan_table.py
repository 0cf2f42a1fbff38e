"""`plan` by tables: plan.txt and recovery.txt say what each word of a row means."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, replace

import pytest

from hivesink.core import actions
from hivesink.core.actions import Action, Snapshot, StagingArea
from hivesink.core.epoch import Epoch
from hivesink.core.lifecycle import EpochState, History, Identity, OpenEpoch, Stamp
from hivesink.core.log import StagingIntent
from hivesink.core.manifest import OpenBucket, PartEntry, Slice
from hivesink.core.partfile import PartName, Stage
from hivesink.core.partition import LivePartition, PartitionKey, aside
from hivesink.core.plan import Policy, fence, plan, sweep
from hivesink.core.reads import segment_name
from hivesink.core.rolling import OpenRows
from tests.contracts.manifests import AT, small
from tests.core.tables import cases

TABLE, HOME, LENGTH = "demo.events", "/w/events", 7
IDENTITY = Identity("w", "0a1b2c3d", (TABLE,), (), "/w/.hivesink/w")


@dataclass
class World:
    """One row, read from the left."""

    parts: dict[str, PartEntry]
    epochs: list[OpenEpoch]

    @classmethod
    def of(cls, text: str, listed: str) -> World:
        world = cls({}, [])
        for described in text.split(";"):
            head, _, names = described.partition(":")
            number, kind, state = head.split()
            add = [world.part(int(number), name, elsewhere="@" in listed) for name in names.split()]
            moved = tuple(f"{HOME}/{part.partition}/{part.name}" for part in add) if kind == "move" else ()
            rolled = tuple(part.key for part in add) if kind == "roll" else ()
            manifest = replace(small(int(number)), kind=kind, add=tuple(add), remove=moved, rolled=rolled)
            if kind == "replay":
                manifest = replace(manifest, replaces=(world.letters(),))
            world.epochs.append(OpenEpoch(manifest, EpochState(state)))
        return world

    def part(self, epoch: int, name: str, *, elsewhere: bool) -> PartEntry:
        if name[0].isdigit():
            part = self.parts[name]
            folder = "/elsewhere" if elsewhere else f"{HOME}/{part.partition}"
            self.parts[name] = replace(part, target=f"{folder}/{part.name}")
            return self.parts[name]
        day, label = name.strip("[]"), f"{epoch}{name.strip('[]')}"
        home = f"{HOME}/{day}"
        waits = aside(HOME, "aa") if name.startswith("[") else home
        self.parts[label] = PartEntry(TABLE, day, f"{waits}/.{label}.pending", f"{home}/{label}", LENGTH, 1)
        return self.parts[label]

    def letters(self) -> PartEntry:
        """A dead letters' part that is there, at its target."""
        target = f"{HOME}__rejected/d/L"
        self.parts["L"] = PartEntry(f"{TABLE}__rejected", "d", target, target, LENGTH, 1)
        return self.parts["L"]

    def files(self, text: str) -> dict[str, int]:
        files = {}
        for word in text.split():
            part = self.parts[word.rstrip("!~@")]
            path = part.target if "!" in word else part.staged
            files[f"/elsewhere/{part.name}" if "@" in word else path] = LENGTH - word.endswith("~")
        return files

    def rolled(self) -> dict[tuple[Epoch, PartitionKey], OpenBucket]:
        bucket = OpenBucket.of((Slice("1-aat0-0.arrow", 0, 9, 1),), AT, AT)
        return {(epoch.manifest.epoch, key): bucket for epoch in self.epochs for key in epoch.manifest.rolled}


def live(text: str) -> dict[PartitionKey, LivePartition]:
    partitions = {}
    for word in text.split():
        day, table, home_of = word.rstrip("@*"), TABLE, HOME
        if day == "L":
            day, table, home_of = "d", f"{TABLE}__rejected", f"{HOME}__rejected"
        location = "/elsewhere" if word.endswith("@") else f"{home_of}/{day}"
        home = LivePartition(day, location, accurate=word.endswith("*"), columns_behind=False)
        partitions[table, day] = home
    return partitions


def told(action: Action) -> str:  # noqa: C901, PLR0911, PLR0912  one word per action
    match action:
        case actions.Decide(manifest):
            return f"decide {manifest.kind}"
        case actions.Register(_, partitions):
            return "register " + " ".join(partition for partition, _ in partitions)
        case actions.ClearAccurate(_, partitions):
            return "clear " + " ".join(partitions)
        case actions.Publish(part):
            return f"publish {part.name}"
        case actions.AlreadyPublished(part):
            return f"keep {part.name}"
        case actions.PartMissing(part):
            return f"missing {part.name}"
        case actions.DeleteReplaced(parts):
            return "delete " + " ".join(part.name for part in parts)
        case actions.SetMark(mark, epoch):
            return f"{mark.value} {epoch}"
        case actions.Discard(staged):
            return "discard " + " ".join(path.split("-")[2] for path in staged) if staged else ""
        case actions.Forget(lists):
            return "forget " + " ".join(str(intent.epoch) for intent in lists)
        case actions.DropSegments(names):
            return "drop " + " ".join(name.partition("-")[0] for name in names)
        case actions.Trim(epoch):
            return f"trim {epoch}"
        case _:
            return type(action).__name__


@pytest.mark.parametrize(("epochs", "files", "listed", "more", "wanted"), cases("plan.txt"))
def test_plan(epochs: str, files: str, listed: str, more: str, wanted: str) -> None:
    world = World.of(epochs, listed)
    history = History(IDENTITY, world.epochs[-1].manifest, tuple(world.epochs))
    refused, taken = (
        frozenset((TABLE, str(day)) for day in re.findall(rf"{word} (\w)", more)) for word in ("refused", "taken")
    )
    rolled = world.rolled() if "segments" in more else {}
    snapshot = Snapshot(world.files(files), live(listed), refused=refused, taken=taken, rolled=rolled)
    planned = plan(history, snapshot, Stamp(AT, "bb"))
    assert [told(action) for action in planned] == [word.strip() for word in wanted.split(",") if word]


def staged(epoch: int, attempt: str, uid: str = IDENTITY.uid) -> str:
    return f"{HOME}/d/{PartName(uid, epoch, attempt, 0, 0, 0).staged(Stage.PENDING)}"


def log_of(text: str) -> History:
    """Each epoch with the part that its winners staged."""
    history = History(IDENTITY)
    for words in (described.split() for described in text.split("; ") if described != "none"):
        if words[0] == "waits":
            bucket = OpenBucket.of((Slice(segment_name(Epoch(int(words[1])), "aaaaaaaa", 0, 0), 0, 9, 1),), AT, AT)
            history = replace(history, rows=OpenRows({(TABLE, "d"): bucket}, Epoch(int(words[1]))))
            continue
        number, kind, state = int(words[0]), words[1], EpochState(words[2])
        part = PartEntry(TABLE, "d", staged(number, "aaaaaaaa"), f"{HOME}/d/{number}", LENGTH, 1)
        is_bare = state is EpochState.SETTLED
        rolled = ((TABLE, "d"),) if kind == "roll" else ()
        head = replace(small(number), kind=kind, add=() if is_bare else (part,), rolled=rolled)
        opened = () if is_bare else (OpenEpoch(head, state),)
        rows = replace(history.rows, snapshot=head.epoch)
        history = replace(history, head=head, open=(*history.open, *opened), rows=rows)
    return history


@pytest.mark.parametrize(("log", "store", "start", "swept"), cases("recovery.txt"))
def test_recovery(log: str, store: str, start: str, swept: str) -> None:
    lies: dict[str, list[int]] = defaultdict(list)
    for kind, number in (words.split() for words in store.split(", ") if words):
        lies[kind].append(int(number))
    files = [staged(number, "bbbbbbbb") for number in lies["file"]]
    files += [staged(number, "aaaaaaaa") for number in lies["part"]]
    files += [staged(number, "bbbbbbbb", "ffffffff") for number in lies["other"]]
    area = StagingArea(
        tuple(StagingIntent(Epoch(number), "bbbbbbbb", 0, 0, 0) for number in lies["list"]),
        (f"{HOME}/d",) if lies["list"] else (),
        tuple(files),
        segments=tuple(segment_name(Epoch(number), "aaaaaaaa", 0, 0) for number in lies["segment"]),
    )
    log, _, retained = log.partition("; keeps ")
    history, policy = log_of(log), Policy(retained=int(retained) if retained else None)
    shut_out = fence(history, area.lists, Stamp(AT, "bb"))
    assert (shut_out and f"decide {shut_out.kind}") == (start or None)
    assert [said for action in sweep(history, area, policy) if (said := told(action))] == ([swept] if swept else [])

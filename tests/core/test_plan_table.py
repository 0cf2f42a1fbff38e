"""`plan` by table: plan.txt says what each word of a row means."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hivesink.core import actions
from hivesink.core.lifecycle import EpochState, History, Identity, OpenEpoch, Stamp
from hivesink.core.manifest import PartEntry
from hivesink.core.partition import LivePartition, aside
from hivesink.core.plan import plan, until_look
from hivesink.core.records import OpenBucket, Slice
from hivesink.core.snapshot import Snapshot
from tests.contracts.manifests import AT, small

if TYPE_CHECKING:
    from hivesink.core.actions import Action
    from hivesink.core.epoch import Epoch
    from hivesink.core.manifest import Manifest
    from hivesink.core.partition import PartitionKey

TABLE, HOME, LENGTH = "demo.events", "/w/events", 7
ROWS = [line for line in Path(__file__).with_name("plan.txt").read_text().splitlines() if line.strip()]
CASES = [[cell.strip() for cell in line.split("|")] for line in ROWS if not line.startswith("#")][1:]


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
            part = self.parts[word.rstrip("!~")]
            files[part.target if word.endswith("!") else part.staged] = LENGTH - word.endswith("~")
        return files

    def rolled(self) -> dict[tuple[Epoch, PartitionKey], OpenBucket]:
        bucket = OpenBucket.of((Slice("1-aat0-0.arrow", 0, 9, 1),), AT, AT)
        return {(epoch.manifest.epoch, key): bucket for epoch in self.epochs for key in epoch.manifest.rolled}


def live(text: str) -> dict[PartitionKey, LivePartition]:
    partitions = {}
    for word in text.split():
        day = word.rstrip("@*")
        location = "/elsewhere" if word.endswith("@") else f"{HOME}/{day}"
        home = LivePartition(day, location, accurate=word.endswith("*"), columns_behind=False)
        partitions[TABLE, day] = home
    return partitions


def told(action: Action) -> str:  # noqa: PLR0911  one word per action
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
        case _:
            return type(action).__name__


def head_of(world: World) -> Manifest:
    return world.epochs[-1].manifest


@pytest.mark.parametrize(
    ("epochs", "files", "listed", "more", "wanted"), CASES, ids=[" | ".join(case) for case in CASES]
)
def test_plan(epochs: str, files: str, listed: str, more: str, wanted: str) -> None:
    world = World.of(epochs, listed)
    identity = Identity("w", "0a1b2c3d", (TABLE,), (), "/w/.hivesink/w")
    history = History(identity, head_of(world), tuple(world.epochs))
    refused, taken = (
        frozenset((TABLE, str(day)) for day in re.findall(rf"{word} (\w)", more)) for word in ("refused", "taken")
    )
    rolled = world.rolled() if "segments" in more else {}
    snapshot = Snapshot(world.files(files), live(listed), refused=refused, taken=taken, rolled=rolled)
    planned = until_look(plan(history, snapshot, Stamp(AT, "bb")))
    assert [told(action) for action in planned] == [word.strip() for word in wanted.split(",") if word]

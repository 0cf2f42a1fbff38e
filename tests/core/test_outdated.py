from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone

from hivesink.core.epoch import Epoch
from hivesink.core.manifest import Manifest, PartEntry
from hivesink.core.outdated import own_parts, tries, undecided
from hivesink.core.partfile import PartName, Stage

UID = "00c0ffee0001"
NAME = PartName(UID, 4, "aaaaaaaaaa", 0, 0, 0)
KNOWN = {Epoch(3): frozenset({"cccccccccc"}), Epoch(4): frozenset({"aaaaaaaaaa"}), Epoch(5): frozenset[str]()}


def test_only_finished_parts_of_the_own_uid_count() -> None:
    other = replace(NAME, uid="00deadbeef00")
    staged = NAME.staged(Stage.PENDING)
    found = own_parts([f"/t/{NAME}", f"/t/{other}", f"/t/{staged}", "/t/000000_0"], UID)
    assert found == {NAME: f"/t/{NAME}"}
    assert own_parts([f"/t/{NAME}"], None) == {}


def test_a_part_that_the_log_has_decided_is_known() -> None:
    assert undecided([NAME], Epoch(5), KNOWN) == []


def test_a_part_of_an_epoch_after_the_head_is_unknown() -> None:
    assert undecided([NAME], Epoch(3), KNOWN) == [NAME]


def test_a_part_of_another_try_than_the_logs_is_unknown() -> None:
    other, without = replace(NAME, attempt="bbbbbbbbbb"), replace(NAME, epoch=5)
    assert undecided([without, NAME, other], Epoch(5), KNOWN) == [other, without]


def test_a_part_of_an_epoch_whose_manifest_was_trimmed_is_known() -> None:
    assert undecided([replace(NAME, epoch=2)], Epoch(5), KNOWN) == []


def test_a_manifests_tries_are_those_of_its_parts() -> None:
    at = datetime(2026, 1, 1, tzinfo=timezone.utc)
    bare = Manifest("w", UID, Epoch(4), "batch", "dddddddddd", at, Epoch(0), tables=("t",), zones=())
    part = PartEntry("t", "dt=x", f"/t/{NAME.staged(Stage.PENDING)}", f"/t/{NAME}", 1, 1)
    assert tries(bare) == frozenset()
    assert tries(replace(bare, parts=(part, part))) == {"aaaaaaaaaa"}

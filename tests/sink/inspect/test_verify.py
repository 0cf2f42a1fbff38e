"""`verify`, `status`, `clean` and accepted losses over a real protocol run in memory, then disturbed as users do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pytest

from hivesink.core.epoch import Epoch
from hivesink.core.lifecycle import EpochState, Floor
from hivesink.core.log import StagingIntent
from hivesink.core.manifest import Manifest, PartEntry, Rows
from hivesink.core.partfile import Stage
from hivesink.errors import PartLost
from hivesink.ports.rows import FileContent
from hivesink.sink.commit.context import CommitContext
from hivesink.sink.inspect.ownership import Ownership
from hivesink.sink.inspect.verify import find_leftovers, verify
from hivesink.storage.commit_log import FileLogRoot
from tests.contracts.manifests import edited
from tests.crash.faults import At, Kill
from tests.crash.site import LOG, Site
from tests.sink.harness import LOCATION, TABLE, UID, Source, events, measure_lines
from tests.sink.inspect.test_partitions import overtaken

NAME = str(TABLE)
FAR, NEAR = "/elsewhere", f"{LOCATION}/dt=2030-01-01"


@dataclass
class Written(Site):
    """A writer that has committed three epochs of four rows into three partitions."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.job().run()

    @property
    def context(self) -> CommitContext:
        return self.job().context

    @property
    def owner(self) -> Ownership:
        return Ownership(FileLogRoot(self.fs, LOG.removesuffix("/w/1")), self.metastore, self.store)

    def require(self, errors: Sequence[str], notes: Sequence[str] | None = None) -> None:
        """`verify` finds these errors, and these notes, of each a part."""
        for level, wanted in (("error", errors), ("note", notes)):
            found = [finding.text for finding in self.verify().findings if finding.level is level]
            assert wanted is None or [text in told for text, told in zip(wanted, found, strict=True)] == [
                True for _ in wanted
            ], found

    def manifest(self, epoch: int) -> Manifest:
        return self.log.manifest(Epoch(epoch))

    def part(self, epoch: int = 2) -> PartEntry:
        return self.manifest(epoch).add[0]

    def put(self, path: str, data: bytes) -> Written:
        self.fs.delete(path)
        self.fs.write_new(path, data)
        return self

    def copy(self, home: str, data: bytes | None = None) -> Written:
        """A copy of a part of epoch 2, with its own data or other."""
        part = self.part()
        return self.put(f"{home}/{part.name}", self.fs.read(part.target) or b"" if data is None else data)

    def copy_all(self, home: str) -> Written:
        """A copy of the whole partition."""
        for file in self.store.visible(self.part().folder):
            self.put(f"{home}/{file.path.rpartition('/')[2]}", self.fs.read(file.path) or b"")
        return self

    def delete(self, *, whole: bool = False) -> Written:
        """That part's file is gone, or all of its partition."""
        for file in self.store.visible(self.part().folder):
            if whole or file.path == self.part().target:
                self.fs.delete(file.path)
        return self

    def at(self, folder: str, partition: str = "") -> Written:
        """The metastore has the partition there."""
        self.metastore.register(TABLE, partition or self.part().partition, folder)
        return self

    def drop(self) -> Written:
        self.metastore.drop_partition(TABLE, self.part().partition)
        return self

    def edit(self, epoch: int, old: str, new: str) -> None:
        """Change a manifest's text, and make its checksum fit."""
        path = f"{LOG}/manifests/{epoch:010d}.json"
        data = self.fs.read(path) or b""
        assert old.encode() in data
        self.put(path, edited(data, old.encode(), new.encode()))

    def trim(self) -> PartEntry:
        """The first epoch has no manifest any more."""
        first = self.manifest(1)
        self.log.trim(Floor(Epoch(1), first.rows, len(first.add)))
        return first.add[0]

    def decide(self, day: str | None = None) -> PartEntry:
        """Decide epoch 4 while the metastore is down: nothing of it is published."""
        self.source.events += [event if day is None else replace(event, dt=day) for event in events(4)]
        job = self.job()
        job.committer.recover()
        self.metastore.go_down()
        done = job.step()
        assert done is not None
        assert done.waiting is not None
        self.metastore.come_up()
        return self.part(4)


@pytest.fixture
def site() -> Written:
    return Written(Source(events(12)))


def test_a_whole_history_has_no_finding_and_totals_go_back_to_the_floor(site: Written) -> None:
    for floor in (0, 1):
        verdict = site.verify()
        assert verdict.findings == ()
        assert (verdict.floor, verdict.head, verdict.totals) == (floor, 3, Rows(read=12, written=12))
        if not floor:
            first = site.trim()
    # Nobody knows the parts of that epoch any more.
    site.put(first.target.replace(f"-{UID}-1-", f"-{UID}-1-beef"), b"1\n")
    site.require([])


DAMAGE: dict[str, tuple[Callable[[Written, PartEntry], object], tuple[str, ...]]] = {
    "a part with other bytes": (
        lambda site, part: site.put(part.target, b"x" * (part.length + 1)),
        ("{part.target} has {longer} bytes where {part.length} were written",),
    ),
    "a part with other rows": (
        lambda site, part: site.put(part.target, b"x" * part.length),
        ("holds 1 row where {part.rows} were written",),
    ),
    "a file of the writer in no manifest": (
        lambda site, part: site.put(part.target.replace(f"-{UID}-2-", f"-{UID}-2-beef"), b"1\n"),
        (f"-{UID}-2-beef",),
    ),
    "a missing manifest": (
        lambda site, _: site.fs.delete(f"{LOG}/manifests/0000000002.json"),
        ("the manifest of epoch 2 is missing",),
    ),
    "a missing head whose mark is there": (
        lambda site, _: site.fs.delete(f"{LOG}/manifests/0000000003.json"),
        (f"the manifest of epoch 3 is missing in {LOG}, while its mark is there", "where this log ends: it is too old"),
    ),
    "a damaged manifest, while the others are still checked": (
        lambda site, _: site.put(site.part(3).target, b"").put(f"{LOG}/manifests/0000000002.json", b"{"),
        ("0000000002.json is damaged", "has 0 bytes"),
    ),
    "a manifest of another log": (
        lambda site, _: site.edit(3, f'"uid": "{UID}"', '"uid": "ffffffff"'),
        (f"0000000003.json is damaged (its uid is ffffffff, this log's is {UID}",),
    ),
    "a newer manifest": (
        lambda site, _: site.edit(3, '"format": 1', '"format": 7'),
        ("0000000003.json is damaged (format version 7",),
    ),
    "offsets that don't chain": (
        lambda site, _: site.edit(2, '"0": 8', '"0": 9'),
        ("doesn't start where epoch 2 ended",),
    ),
    "rows that don't add up": (
        lambda site, _: site.edit(2, '"written": 4', '"written": 3'),
        ("its rows don't add up:", "3 rows written, but its files hold 4"),
    ),
    "a partition dropped, its files left": (
        lambda site, _: site.drop(),
        ("{name} {part.partition} is not in the metastore",),
    ),
    "a partition pointed elsewhere": (lambda site, _: site.at(FAR), ("is registered at /elsewhere",)),
    "two partitions at one folder": (
        lambda site, part: site.at(f"{part.folder}/", "dt=other"),
        ("{part.partition} and dt=other of {name} are registered at one folder, {part.folder}: ",),
    ),
    "moved where no reader looks": (
        lambda site, _: site.copy(NEAR).delete(whole=True).drop(),
        ("{name} {part.partition} is not in the metastore, but its parts are in {near}",),
    ),
    "moved, and its partition pointed elsewhere": (
        lambda site, _: site.copy(NEAR).delete(whole=True).at(FAR),
        ("is registered at /elsewhere, but its parts are in {near}: no reader finds them",),
    ),
    "a moved part, and a second copy": (
        lambda site, _: site.copy(NEAR).copy(FAR).delete().at(NEAR, "dt=new").at(FAR, "dt=x"),
        ("{near}/{part.name} is in no manifest",),
    ),
    "one part that readers find twice": (
        lambda site, part: site.copy(FAR).at(part.folder, "dt=renamed").at(FAR),
        ("/elsewhere/{part.name} is in no manifest: its rows are doubled",),
    ),
    "a copied partition, cut short where readers find it": (
        lambda site, _: site.copy_all(FAR).copy(FAR, b"1").at(FAR),
        ("/elsewhere/{part.name} has 1 byte where {part.length} were written",),
    ),
    "a moved partition, cut short": (
        lambda site, _: site.copy_all(FAR).copy(FAR, b"1").delete().at(FAR),
        ("/elsewhere/{part.name} has 1 byte where {part.length} were written",),
    ),
    "a moved partition of other rows": (
        lambda site, part: site.copy_all(FAR).copy(FAR, b"x" * part.length).at(FAR),
        ("/elsewhere/{part.name} holds 1 row where {part.rows} were written",),
    ),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_damage_is_an_error(site: Written, case: str) -> None:
    damage, wanted = DAMAGE[case]
    part = site.part()
    damage(site, part)
    site.require([want.format(part=part, longer=part.length + 1, name=NAME, near=NEAR) for want in wanted])


NOTED: dict[str, tuple[Callable[[Written, PartEntry], object], tuple[str, ...]]] = {
    "a part that a user removed": (lambda site, _: site.delete(), ("{part.target}",)),
    "a part that a user moved": (
        lambda site, _: site.copy(NEAR).delete().at(NEAR, "dt=2030-01-01"),
        ("has been moved to {near}/{part.name} since", "readers find the rows of {name} {part.partition} in {near}"),
    ),
    # A user's RENAME of the partition of an external table: its files stay.
    "a renamed partition": (
        lambda site, part: site.drop().at(part.folder, "dt=other"),
        ("readers find the rows of {name} {part.partition} in {part.folder} as {name} dt=other",),
    ),
    "a partition that is read where its copy is": (lambda site, _: site.copy_all(FAR).at(FAR), ()),
    "offsets without records": (lambda site, _: site.edit(3, '"0": 12', '"0": 15'), ("7 Kafka offsets and 4 rows",)),
    "somebody else's file": (lambda site, part: site.put(f"{part.folder}/000000_0", b"1\n"), ()),
    "a copy in a hidden folder": (lambda site, part: site.put(f"{LOCATION}/.trash/{part.name}", b"1\n"), ()),
    "what a run at work is writing": (
        lambda site, part: site.put(f"{part.folder}/.{part.name.replace('-2-', '-4-')}.inprogress", b"half"),
        (),
    ),
    "a second history by append": (
        lambda site, _: site.job(source=site.source.new_checkpoint("query-2"), append=Epoch(3)).run(batches=1),
        ("query query-2 begins a new history",),
    ),
}


@pytest.mark.parametrize("case", NOTED)
def test_what_users_may_do_is_a_note_or_nothing(site: Written, case: str) -> None:
    act, wanted = NOTED[case]
    part = site.part()
    act(site, part)
    site.require([], [want.format(part=part, name=NAME, near=NEAR) for want in wanted])
    assert find_leftovers(site.context, NAME) == ()


COPIED: dict[str, tuple[Callable[[Written, PartEntry], object], str | None]] = {
    "renamed with its folder's files, and then copied where nobody reads": (
        lambda site, _: site.copy("/elsewhere/z").copy(NEAR).delete().drop().at("/elsewhere/z", "dt=z"),
        NEAR,
    ),
    "only the copy is read": (lambda site, _: site.copy(NEAR).drop().at(NEAR, "dt=b"), None),
    "two copies, of which one is torn": (
        lambda site, _: (
            site.copy("/elsewhere/a", b"1").copy("/elsewhere/b").delete().at("/elsewhere/a").at("/elsewhere/b", "dt=x")
        ),
        "/elsewhere/a",
    ),
}


@pytest.mark.parametrize("case", COPIED)
def test_the_copy_that_readers_find_is_the_part_and_any_other_in_no_manifest(site: Written, case: str) -> None:
    act, doubled = COPIED[case]
    part = site.part()
    act(site, part)
    found = [error for error in site.errors() if "in no manifest" in error]
    assert [error.split()[0] for error in found] == ([] if doubled is None else [f"{doubled}/{part.name}"])


def test_old_copies_outside_the_table_that_nobody_reads_are_no_error(site: Written) -> None:
    part = site.part()
    site.copy("/elsewhere/new").copy("/elsewhere/old").delete().at("/elsewhere/old")
    site.source.events += [replace(event, dt=part.partition.removeprefix("dt=")) for event in events(4)]
    site.job().run()
    written = site.part(4)
    assert written.folder == "/elsewhere/old"
    site.put(f"/elsewhere/new/{written.name}", site.fs.read(written.target) or b"")
    site.at("/elsewhere/new", part.partition)
    assert len(site.store.visible("/elsewhere/new")) == 2
    assert not any("in no manifest" in error for error in site.errors())


def test_a_part_that_cannot_be_read_is_an_error(site: Written) -> None:
    def broken(*_: object) -> FileContent:
        message = "no footer\nat all"
        raise ValueError(message)

    verdict = verify(site.context, "w", NAME, broken)
    assert verdict.errors == sum(len(site.manifest(epoch).add) for epoch in (1, 2, 3))
    assert verdict.findings[0].text.endswith("can't be read: no footer")


def test_a_lost_uid_makes_no_strangers(site: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    site.fs.delete(f"{LOG}/uid")
    site.require([], [])
    monkeypatch.setattr("tests.sink.harness.UID", "ffffffffffff")
    site.source.events += events(16)[12:]
    site.job().run()
    assert f"part-{UID}-4-" in site.part(4).target
    site.require([], [])


def test_strangers_are_found_in_partitions_elsewhere_and_staged(site: Written) -> None:
    names = [f"part-00deadbeef0{number}-1-0011223344t0-0-0.snappy.parquet" for number in (0, 1)]
    far, staged = f"{FAR}/{names[0]}", f"{site.part().folder}/.{names[1]}.pending"
    site.at(FAR, "dt=far").put(far, b"1\n").put(staged, b"1\n")
    assert find_leftovers(site.context, NAME) == ()
    found = site.owner.unknown_parts(site.metastore.table(TABLE))
    paths = {uid: [(part.path, part.stage) for part in parts] for uid, parts in found.items()}
    assert paths == {"00deadbeef00": [(far, None)], "00deadbeef01": [(staged, Stage.PENDING)]}


def test_clean_looks_into_a_partition_that_was_moved_away(site: Written) -> None:
    part = site.part()
    leftover = f".{part.name.replace('-2-', '-1-')}.pending"
    site.put(f"{part.folder}/{leftover}", b"1\n")
    for file in site.fs.list(part.folder):
        site.fs.rename(f"{part.folder}/{file.name}", f"{FAR}/{file.name}")
    site.at(FAR, part.partition)
    assert find_leftovers(site.context, NAME) == (f"{FAR}/{leftover}",)


def test_a_metastore_that_is_down_leaves_an_epoch_open(site: Written) -> None:
    site.decide()
    facts = site.facts()
    assert [manifest.epoch for manifest in facts.open] == [4]
    assert facts.total.totals.written == 16
    assert facts.head is not None
    assert facts.head.last_batch is not None
    assert facts.head.last_batch.epoch == 4
    site.require([])
    assert all("waits" in finding.text for finding in site.verify().findings)


def test_an_epoch_that_died_before_its_last_look_is_unsettled(site: Written) -> None:
    site.source.events += events(4)
    with pytest.raises(Kill):
        site.job(At(site.fs, r"\.settled")).step()
    assert [manifest.epoch for manifest in site.facts().open] == [site.facts().view.head] == [4]
    site.by_hand()
    assert site.facts().open == ()


def test_a_fence_has_nothing_to_settle(site: Written) -> None:
    site.log.touch(StagingIntent(Epoch(4), "00112233aa", 0, 0, 0, (f"{LOCATION}/dt=1",)))
    site.by_hand()
    facts = site.facts()
    assert (facts.head and facts.head.epoch, facts.head and facts.head.kind, facts.open) == (4, "fence", ())


def test_a_missing_part_of_an_open_epoch_is_an_error_until_it_is_forgotten(site: Written) -> None:
    part = site.decide()
    data = site.fs.read(part.staged)
    site.fs.delete(part.staged)
    assert any(part.target in error and f"--forget {part.partition}" in error for error in site.errors())
    with pytest.raises(PartLost):
        site.forget("dt=another")
    (loss,) = site.forget(part.partition)
    assert (loss.key, loss.path, loss.rows) == (part.key, part.target, part.rows)
    manifest = site.manifest(5)
    assert (manifest.kind, manifest.remove, manifest.forgotten) == ("forget", (part.target,), part.rows)
    assert site.errors() == []
    facts = site.facts()
    assert (facts.open, facts.total.forgotten, {*facts.forgotten}) == ((), part.rows, {part.target})
    site.put(part.target, data or b"")
    site.require([], [f"has accepted that {part.rows} rows are lost", "was given up as lost and is there"])


def test_a_part_that_disappears_from_a_new_partition_before_its_epoch_is_settled_is_an_error(site: Written) -> None:
    part = site.decide("2031-05-05")
    site.edit(4, part.staged.rpartition("/")[0], f"{LOCATION}/.hivesink-waiting-abc")
    site.at(part.folder, part.partition)
    site.log.mark(Epoch(4), EpochState.PUBLISHED)
    assert {"disappeared before its epoch was settled" in error for error in site.errors()} == {True}
    # Once a look has found it there, it is the users' own.
    for mark in (EpochState.VERIFIED, EpochState.SETTLED):
        site.log.mark(Epoch(4), mark)
        assert site.errors() == []
    assert any("is gone since it was published" in finding.text for finding in site.verify().findings)


@pytest.mark.parametrize("when", ["before", "beside"])
def test_parts_that_a_job_moves_count_where_they_went(site: Written, when: str) -> None:
    site.decide("2031-05-05")
    site.at("/elsewhere/may", "dt=2031-05-05")
    job = site.job()

    def move() -> None:
        job.committer.recover()

    if when == "before":
        move()
    log = overtaken(site.log, move if when == "beside" else lambda: None)
    verdict = verify(replace(site.context, log=log), "w", NAME, measure_lines)
    assert [finding for finding in verdict.findings if finding.level == "error"] == []
    assert site.manifest(5).kind == "move"
    site.require([])

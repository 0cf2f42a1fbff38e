"""`verify`, `status`, `clean` and accepted losses over a real protocol run in memory, then disturbed as users do."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest

from hivesink.core.epoch import Epoch
from hivesink.core.lifecycle import Mark
from hivesink.core.log import StagingIntent
from hivesink.core.manifest import Floor, Rows
from hivesink.errors import MetastoreUnreachable, PartLost
from hivesink.sink.inspect.clean import Stranger, clean, find_leftovers, strangers
from hivesink.sink.inspect.facts import read_log
from hivesink.sink.inspect.findings import Level
from hivesink.sink.inspect.ownership import Ownership
from hivesink.sink.inspect.verify import verify, writer_status
from hivesink.storage.commit_log import FileCommitLog, FileLogRoot
from hivesink.storage.rename_store import RenameFileStore
from tests.contracts.manifests import edited
from tests.crash.faults import Kill
from tests.inmemory.filesystem import MemoryFileSystem
from tests.inmemory.metastore import MemoryMetastore
from tests.sink.harness import LOCATION, SPEC, TABLE, UID, Job, Source, events, measure_lines
from tests.sink.recoveries import ALL, by_hand

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hivesink.core.manifest import PartEntry
    from hivesink.ports.rows import FileContent
    from hivesink.sink.commit.context import CommitContext
    from hivesink.sink.commit.recovery import Loss
    from hivesink.sink.inspect.verify import Verdict

LOG = "/warehouse/demo.db/.hivesink/demo.events/w"
NAME = str(TABLE)


@contextmanager
def down(metastore: MemoryMetastore) -> Iterator[None]:
    """The metastore answers nothing for a while."""
    metastore.go_down()
    try:
        yield
    finally:
        metastore.come_up()


@dataclass
class Site:
    """A writer that has committed three epochs of four rows into three partitions."""

    fs: MemoryFileSystem
    metastore: MemoryMetastore
    job: Job

    @property
    def context(self) -> CommitContext:
        return self.job.context

    @property
    def owner(self) -> Ownership:
        return Ownership(FileLogRoot(self.fs, LOG.removesuffix("/w")), self.metastore, self.job.store)

    def verify(self, writer: str = "w") -> Verdict:
        context = replace(self.context, _tables={})
        return verify(context, writer, NAME, measure_lines)

    def part(self, epoch: int = 2) -> PartEntry:
        return self.context.log.manifest(Epoch(epoch)).add[0]

    def put(self, path: str, data: bytes) -> None:
        self.fs.delete(path)
        self.fs.write_new(path, data)

    def errors(self) -> list[str]:
        return [found.text for found in self.verify().findings if found.level is Level.ERROR]

    def notes(self) -> list[str]:
        return [found.text for found in self.verify().findings if found.level is Level.NOTE]


@pytest.fixture
def site() -> Site:
    fs = MemoryFileSystem()
    metastore = MemoryMetastore(SPEC)
    job = Job(FileCommitLog(fs, LOG), RenameFileStore(fs), metastore, Source(events(12)))
    job.run()
    return Site(fs, metastore, job)


def test_a_whole_history_has_no_finding(site: Site) -> None:
    verdict = site.verify()
    assert verdict.findings == ()
    assert [epoch.epoch for epoch in verdict.epochs] == [1, 2, 3]
    assert all(epoch.present == epoch.files > 0 and epoch.published for epoch in verdict.epochs)
    assert verdict.totals == Rows(read=12, written=12)


def test_totals_go_back_to_the_floor(site: Site) -> None:
    first = site.context.log.manifest(Epoch(1))
    site.context.log.trim(Floor(Epoch(1), first.rows, len(first.add)))
    verdict = site.verify()
    assert verdict.findings == ()
    assert (verdict.floor, verdict.head, verdict.totals.written) == (1, 3, 12)


def test_a_part_that_a_user_moved_is_a_note_and_a_second_copy_of_it_an_error(site: Site) -> None:
    part = site.part()
    data = site.fs.read(part.target)
    assert data is not None
    name = part.target.rpartition("/")[2]
    site.fs.delete(part.target)
    site.put(f"{LOCATION}/dt=2030-01-01/{name}", data)
    site.metastore.register(TABLE, "dt=2030-01-01", f"{LOCATION}/dt=2030-01-01")
    assert site.errors() == []
    assert f"has been moved to {LOCATION}/dt=2030-01-01/{name}" in site.notes()[0]
    site.put(f"{LOCATION}/dt=2030-01-02/{name}", data)
    (error,) = site.errors()
    assert f"{LOCATION}/dt=2030-01-02/{name} is in no manifest" in error


def edit(site: Site, epoch: int, old: str, new: str) -> None:
    """Change a manifest's text, and make its checksum fit."""
    path = f"{LOG}/manifests/{epoch:010d}.json"
    data = site.fs.read(path)
    assert data is not None
    assert old.encode() in data
    site.put(path, edited(data, old.encode(), new.encode()))


DAMAGE: dict[str, tuple[Callable[[Site, PartEntry], object], str]] = {
    "a part with other bytes": (
        lambda site, part: site.put(part.target, b"x" * (part.length + 1)),
        "{part.target} has {longer} bytes where {part.length} were written",
    ),
    "a part with other rows": (
        lambda site, part: site.put(part.target, b"x" * part.length),
        "holds 1 row where {part.rows} were written",
    ),
    "a file of the writer in no manifest": (
        lambda site, part: site.put(part.target.replace(f"-{UID}-2-", f"-{UID}-2-beef"), b"1\n"),
        f"-{UID}-2-beef",
    ),
    "a missing manifest": (
        lambda site, _: site.fs.delete(f"{LOG}/manifests/0000000002.json"),
        "the manifest of epoch 2 is missing",
    ),
    "a manifest of another log": (
        lambda site, _: edit(site, 3, f'"uid": "{UID}"', '"uid": "ffffffff"'),
        f"0000000003.json is damaged (its uid is ffffffff, this log's is {UID}",
    ),
    "a newer manifest": (
        lambda site, _: edit(site, 3, '"format": 1', '"format": 7'),
        "0000000003.json has format version 7",
    ),
    "offsets that don't chain": (
        lambda site, _: edit(site, 2, '"0": 8', '"0": 9'),
        "doesn't start where epoch 2 ended",
    ),
    "a partition dropped, its files left": (
        lambda site, part: site.metastore.drop_partition(TABLE, part.partition),
        "{name} {part.partition} is not in the metastore",
    ),
    "a partition pointed elsewhere": (
        lambda site, part: site.metastore.register(TABLE, part.partition, "/elsewhere"),
        "is registered at /elsewhere",
    ),
    "two partitions at one folder": (
        lambda site, part: site.metastore.register(TABLE, "dt=other", f"{part.folder}/"),
        "{part.partition} and dt=other of {name} are registered at one folder, {part.folder}: ",
    ),
}


def rename(site: Site, part: PartEntry) -> None:
    """A user's RENAME of the partition of an external table: its files stay."""
    site.metastore.drop_partition(TABLE, part.partition)
    site.metastore.register(TABLE, "dt=other", part.folder)


NOTED: dict[str, tuple[Callable[[Site, PartEntry], object], tuple[str, ...]]] = {
    "a part that a user removed": (lambda site, part: site.fs.delete(part.target), ("{part.target}",)),
    "a renamed partition": (
        rename,
        ("readers find the rows of {name} {part.partition} in {part.folder} as {name} dt=other",),
    ),
    "offsets without records": (lambda site, _: edit(site, 3, '"0": 12', '"0": 15'), ("7 Kafka offsets and 4 rows",)),
    "somebody else's file": (lambda site, part: site.put(f"{part.folder}/000000_0", b"1\n"), ()),
    "a copy in a hidden folder": (lambda site, part: site.put(f"{LOCATION}/.trash/{part.name}", b"1\n"), ()),
    "what a run at work is writing": (
        lambda site, part: site.put(f"{part.folder}/.{part.name.replace('-2-', '-4-')}.inprogress", b"half"),
        (),
    ),
    "a second history by append": (
        lambda site, _: replace(site.job, source=site.job.source.new_checkpoint("query-2"), append=Epoch(3)).run(
            batches=1
        ),
        ("query query-2 begins a new history",),
    ),
}


@pytest.mark.parametrize("case", NOTED)
def test_what_users_may_do_is_a_note_or_nothing(site: Site, case: str) -> None:
    act, want = NOTED[case]
    part = site.part()
    act(site, part)
    assert site.errors() == []
    assert [text.format(part=part, name=NAME) in note for text, note in zip(want, site.notes(), strict=True)] == [
        True for _ in want
    ]
    assert find_leftovers(site.context, NAME) == ()


@pytest.mark.parametrize("case", DAMAGE)
def test_damage_is_an_error(site: Site, case: str) -> None:
    damage, want = DAMAGE[case]
    part = site.part()
    damage(site, part)
    (error,) = site.errors()
    assert want.format(part=part, longer=part.length + 1, name=NAME) in error


def test_a_part_that_cannot_be_read_is_an_error(site: Site) -> None:
    def broken(_: object) -> FileContent:
        message = "no footer\nat all"
        raise ValueError(message)

    verdict = verify(site.context, "w", NAME, broken)
    assert verdict.errors == sum(epoch.files for epoch in verdict.epochs)
    assert verdict.findings[0].text.endswith("can't be read: no footer")


def test_a_file_of_a_trimmed_epoch_is_not_judged(site: Site) -> None:
    first = site.context.log.manifest(Epoch(1))
    site.context.log.trim(Floor(Epoch(1), first.rows, len(first.add)))
    site.put(first.add[0].target.replace(f"-{UID}-1-", f"-{UID}-1-beef"), b"1\n")
    assert site.errors() == []


def test_a_lost_head_whose_marks_are_there_is_an_error(site: Site) -> None:
    site.fs.delete(f"{LOG}/manifests/0000000003.json")
    error, *others = site.errors()
    assert f"the manifest of epoch 3 is missing in {LOG}, while its mark is there" in error
    assert all(site.job.log.location not in other for other in others)


def test_a_lost_uid_makes_no_strangers(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.fs.delete(f"{LOG}/uid")
    log = FileCommitLog(site.fs, LOG)
    assert verify(replace(site.context, log=log), "w", NAME, measure_lines).findings == ()
    monkeypatch.setattr("tests.sink.harness.UID", "ffffffffffff")
    site.job.source.events += events(16)[12:]
    Job(log, site.job.store, site.metastore, site.job.source).run()
    assert f"part-{UID}-4-" in site.part(4).target
    assert site.verify().findings == ()


def test_a_damaged_manifest_is_an_error_and_the_others_are_still_checked(site: Site) -> None:
    site.put(f"{LOG}/manifests/0000000002.json", b"{")
    site.fs.delete(site.part(3).target)
    verdict = site.verify()
    assert verdict.errors == 1
    assert "0000000002.json is damaged" in verdict.findings[0].text
    assert any(site.part(3).target in found.text for found in verdict.findings)


def test_a_copied_partition_is_read_where_its_copy_is(site: Site) -> None:
    part = site.part()
    home = "/warehouse/copy"
    for file in site.context.store.visible(part.folder):
        site.put(f"{home}/{file.path.rpartition('/')[2]}", site.fs.read(file.path) or b"")
    site.metastore.register(TABLE, part.partition, home)
    assert site.errors() == []


def copy(site: Site, home: str) -> str:
    part = site.part()
    path = f"{home}/{part.name}"
    site.put(path, site.fs.read(part.target) or b"")
    return path


def test_the_copy_that_readers_find_is_the_part_whatever_it_is_called(site: Site) -> None:
    """Renamed with its folder's files, and then copied: at most what nobody reads is in no manifest."""
    part = site.part()
    read = copy(site, "/elsewhere/z")
    unread = copy(site, f"{LOCATION}/dt=2030-01-01")
    site.fs.delete(part.target)
    site.metastore.drop_partition(TABLE, part.partition)
    site.metastore.register(TABLE, "dt=z", "/elsewhere/z")
    assert [f"{unread} is in no manifest" in error for error in site.errors() if "in no manifest" in error] == [True]
    site.fs.delete(unread)
    assert not any("in no manifest" in error for error in site.errors())
    assert any(f"has been moved to {read} since" in note for note in site.notes())


def test_a_copy_whose_original_nobody_reads_is_the_part(site: Site) -> None:
    part = site.part()
    copy(site, f"{LOCATION}/dt=b")
    site.metastore.drop_partition(TABLE, part.partition)
    site.metastore.register(TABLE, "dt=b", f"{LOCATION}/dt=b")
    assert not any("in no manifest" in error for error in site.errors())


def test_a_part_that_was_moved_where_no_reader_looks_is_an_error(site: Site) -> None:
    part = site.part()
    path = copy(site, f"{LOCATION}/dt=2030-01-01")
    for file in site.context.store.visible(part.folder):
        site.fs.delete(file.path)
    site.metastore.drop_partition(TABLE, part.partition)
    (error,) = site.errors()
    assert f"{NAME} {part.partition} is not in the metastore, but its parts are in {LOCATION}/dt=2030-01-01" in error
    site.metastore.register(TABLE, part.partition, "/elsewhere")
    (error,) = site.errors()
    assert f"is registered at /elsewhere, but its parts are in {LOCATION}/dt=2030-01-01: no reader finds them" in error
    site.metastore.register(TABLE, part.partition, path.rpartition("/")[0])
    assert site.errors() == []


@pytest.mark.parametrize("original", ["is there", "is gone"])
def test_a_copy_that_was_cut_short_is_an_error_where_readers_find_it(site: Site, original: str) -> None:
    part = site.part()
    for file in site.context.store.visible(part.folder):
        site.put(f"/elsewhere/dt=b/{file.path.rpartition('/')[2]}", site.fs.read(file.path) or b"")
    path = f"/elsewhere/dt=b/{part.name}"
    site.put(path, b"1")
    site.metastore.register(TABLE, part.partition, "/elsewhere/dt=b")
    if original == "is gone":
        site.fs.delete(part.target)
    assert [f"{path} has 1 byte where {part.length} were written" in error for error in site.errors()] == [True]
    site.put(path, b"x" * part.length)
    assert [f"{path} holds 1 row where {part.rows} were written" in error for error in site.errors()] == [True]


def test_of_two_copies_that_readers_find_the_whole_one_is_the_part(site: Site) -> None:
    part = site.part()
    torn, whole = copy(site, "/elsewhere/a"), copy(site, "/elsewhere/b")
    site.put(torn, b"1")
    site.fs.delete(part.target)
    site.metastore.register(TABLE, part.partition, "/elsewhere/a")
    site.metastore.register(TABLE, "dt=copy", "/elsewhere/b")
    assert [f"{torn} is in no manifest" in error for error in site.errors() if "in no manifest" in error] == [True]
    assert not any(whole in error for error in site.errors())


def test_old_copies_outside_the_table_that_nobody_reads_are_no_error(site: Site) -> None:
    part = site.part()
    old, new = copy(site, "/elsewhere/old"), copy(site, "/elsewhere/new")
    site.fs.delete(part.target)
    site.metastore.register(TABLE, part.partition, "/elsewhere/old")
    site.job.source.events += [replace(event, dt=part.partition.removeprefix("dt=")) for event in events(4)]
    site.job.run()
    written = site.part(4)
    assert written.folder == old.rpartition("/")[0]
    site.put(f"/elsewhere/new/{written.name}", site.fs.read(written.target) or b"")
    site.metastore.register(TABLE, part.partition, "/elsewhere/new")
    assert site.context.store.find(new) is not None
    assert not any("in no manifest" in error for error in site.errors())


def test_one_part_that_readers_find_twice_is_an_error(site: Site) -> None:
    part = site.part()
    second = copy(site, "/elsewhere/copy")
    site.metastore.register(TABLE, "dt=renamed", part.folder)
    site.metastore.register(TABLE, part.partition, "/elsewhere/copy")
    (error,) = site.errors()
    assert f"{second} is in no manifest: its rows are doubled" in error


def test_strangers_are_found_in_partitions_elsewhere(site: Site) -> None:
    path = "/elsewhere/part-00deadbeef00-1-0011223344t0-0-0.snappy.parquet"
    site.metastore.register(TABLE, "dt=far", "/elsewhere")
    site.put(path, b"1\n")
    found = strangers(site.owner, site.metastore.table(TABLE))
    assert found == (Stranger("00deadbeef00", (path,), ()),)


def test_a_leftover_is_removed_by_clean(site: Site) -> None:
    part = site.part()
    staged = part.target.rpartition("/")[2]
    path = f"{LOCATION}/dt=2030-01-01/.{staged}.inprogress"
    site.put(path, b"half")
    found = find_leftovers(site.context, NAME)
    assert found == (path,)
    assert clean(site.context, found, NAME) == (f"{LOCATION}/dt=2030-01-01",)
    assert site.verify().findings == ()
    assert find_leftovers(site.context, NAME) == ()


def test_status_and_clean_look_into_a_partition_that_was_moved_away(site: Site) -> None:
    part, before = site.part(), writer_status(site.context, "w", NAME).files
    assert before is not None
    leftover = f".{part.name.replace('-2-', '-1-')}.pending"
    site.put(f"{part.folder}/{leftover}", b"1\n")
    for file in site.fs.list(part.folder):
        site.fs.rename(f"{part.folder}/{file.name}", f"/elsewhere/{file.name}")
    site.metastore.register(TABLE, part.partition, "/elsewhere")
    assert writer_status(site.context, "w", NAME).files == replace(before, pending=1)
    assert find_leftovers(site.context, NAME) == (f"/elsewhere/{leftover}",)


def test_a_staged_file_of_a_writer_without_a_log_is_only_told(site: Site) -> None:
    name = site.part().target.rpartition("/")[2].replace(UID, "00deadbeef00")
    path = f"{site.part().folder}/.{name}.pending"
    site.put(path, b"1\n")
    assert find_leftovers(site.context, NAME) == ()
    assert strangers(site.owner, site.metastore.table(TABLE)) == (Stranger("00deadbeef00", (), (path,)),)


def test_rows_that_do_not_add_up_are_errors(site: Site) -> None:
    edit(site, 2, '"written": 4', '"written": 3')
    assert [error.partition(":")[0] for error in site.errors()] == [
        "its rows don't add up",
        "3 rows written, but its files hold 4",
    ]


def test_a_metastore_that_is_down_leaves_an_epoch_open(site: Site) -> None:
    _open_epoch(site)
    status = writer_status(site.context, "w", NAME)
    assert status.unsettled == (4,)
    assert status.files is not None
    assert status.files.pending > 0
    assert status.rows.written == 16
    assert status.last_batch is not None
    assert status.last_batch.epoch == 4
    assert site.errors() == []
    assert all("waits" in note for note in site.notes())
    # Their rows wait, but the metastore has these partitions; and then one of them no more.
    assert status.unregistered == ()
    part = site.part(4)
    site.metastore.drop_partition(TABLE, part.partition)
    (waiting,) = writer_status(site.context, "w", NAME).unregistered
    assert (waiting.partition, waiting.since) == (part.partition, 4)


def test_an_epoch_that_died_before_its_last_look_is_unsettled(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.job.source.events += events(4)

    def die(epoch: Epoch, mark: Mark) -> None:
        if mark is Mark.SETTLED:
            raise Kill
        create(epoch, mark)

    create = site.context.log.mark
    monkeypatch.setattr(FileCommitLog, "mark", lambda _, epoch, mark: die(epoch, mark))
    with pytest.raises(Kill):
        site.job.step()
    monkeypatch.undo()
    status = writer_status(site.context, "w", NAME)
    assert (status.epoch, status.unsettled, status.unregistered) == (4, (4,), ())
    spec = site.job.committer.spec
    by_hand(site.context, spec.policy, spec.identity)
    assert writer_status(site.context, "w", NAME).unsettled == ()


def test_a_fence_has_nothing_to_settle(site: Site) -> None:
    site.context.log.touch(StagingIntent(Epoch(4), "00112233aa", 0, 0, 0, (f"{LOCATION}/dt=1",)))
    spec = site.job.committer.spec
    by_hand(site.context, spec.policy, spec.identity)
    status = writer_status(site.context, "w", NAME)
    assert (status.epoch, status.kind, status.unsettled) == (4, "fence", ())


def forget(site: Site, partition: str = ALL) -> list[Loss]:
    spec = site.job.committer.spec
    return by_hand(site.context, spec.policy, spec.identity, forget=partition).losses


def test_a_missing_part_of_an_open_epoch_is_an_error_until_it_is_forgotten(site: Site) -> None:
    _open_epoch(site)
    part = site.part(4)
    site.fs.delete(part.staged)
    assert any(part.target in error and f"--forget {part.partition}" in error for error in site.errors())
    with pytest.raises(PartLost):
        forget(site, "dt=another")
    (loss,) = forget(site, part.partition)
    assert (loss.key, loss.path, loss.rows) == (part.key, part.target, part.rows)
    manifest = site.context.log.manifest(Epoch(5))
    assert (manifest.kind, manifest.remove, manifest.forgotten) == ("forget", (part.target,), part.rows)
    assert site.errors() == []
    status = writer_status(site.context, "w", NAME)
    assert (status.unsettled, status.lost_rows) == ((), part.rows)
    assert read_log(site.context.log).forgotten == {part.target}


def test_a_part_that_disappears_from_a_new_partition_before_its_epoch_is_settled_is_an_error(site: Site) -> None:
    site.job.source.events += [replace(event, dt="2031-05-05") for event in events(4)]
    with down(site.metastore):
        site.job.step()
    part = site.part(4)
    path = f"{LOG}/manifests/0000000004.json"
    data = site.fs.read(path)
    assert data is not None
    came_from = part.staged.rpartition("/")[0]
    site.put(path, edited(data, came_from.encode(), f"{LOCATION}/.hivesink-waiting-abc".encode()))
    site.metastore.register(TABLE, part.partition, part.folder)
    site.context.log.mark(Epoch(4), Mark.PUBLISHED)
    assert {"disappeared before its epoch was settled" in error for error in site.errors()} == {True}
    # Once a look has found it there, it is the users' own.
    site.context.log.mark(Epoch(4), Mark.VERIFIED)
    assert site.errors() == []
    site.context.log.mark(Epoch(4), Mark.SETTLED)
    assert site.errors() == []
    assert any("is gone since it was published" in note for note in site.notes())


def test_an_accepted_loss_that_is_back_is_a_note(site: Site) -> None:
    _open_epoch(site)
    part = site.part(4)
    data = site.fs.read(part.staged)
    assert data is not None
    site.fs.delete(part.staged)
    forget(site)
    site.put(part.target, data)
    assert site.errors() == []
    assert any("was given up as lost and is there" in note for note in site.notes())


def test_parts_that_moved_count_where_they_went(site: Site) -> None:
    site.job.source.events += [replace(event, dt="2031-05-05") for event in events(4)]
    with down(site.metastore):
        site.job.step()
    site.metastore.register(TABLE, "dt=2031-05-05", "/elsewhere/may")
    site.job.committer.finish()
    verdict = site.verify()
    assert verdict.findings == ()
    assert verdict.epochs[-1].kind == "move"
    assert verdict.epochs[-1].present == verdict.epochs[-1].files > 0


def _open_epoch(site: Site) -> None:
    """Decide epoch 4 while the metastore is down: nothing of it is published."""
    site.job.source.events += events(4)
    with down(site.metastore):
        done = site.job.step()
        assert done is not None
        assert done.waiting is not None
        with pytest.raises(MetastoreUnreachable):
            site.metastore.table(TABLE)

"""Who may write a table: the parts in it are all known, and it is the table that the log knows."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from posixpath import dirname
from typing import TYPE_CHECKING

import pytest

from hivesink.core.epoch import Epoch
from hivesink.core.log import Touched
from hivesink.core.manifest import Floor
from hivesink.core.table import Column, Primitive, TableName
from hivesink.errors import (
    ForeignParts,
    LogOutdated,
    TableFolderGone,
    TableRemade,
    TableRenamed,
    TableReplaced,
    Unsupported,
)
from hivesink.sink.inspect.admission import Admission, parts_below
from hivesink.sink.inspect.clean import find_strays
from hivesink.sink.inspect.findings import Finding, Level
from hivesink.sink.inspect.verify import verify
from hivesink.storage.commit_log import RenameCommitLog
from hivesink.storage.rename_store import RenameFileStore
from tests.inmemory.filesystem import MemoryFileSystem
from tests.inmemory.metastore import MemoryMetastore
from tests.sink.harness import LOCATION, SPEC, TABLE, UID, Job, Source, events, measure_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from hivesink.core.partfile import Finished

LOG = "/warehouse/demo.db/.hivesink/demo.events/w"
FOREIGN = "part-00deadbeef00-1-0011223344t0-0-0.snappy.parquet"


@dataclass
class Site:
    """A writer that has committed three epochs, and what it is asked at its next start."""

    fs: MemoryFileSystem
    metastore: MemoryMetastore
    job: Job

    @property
    def log(self) -> RenameCommitLog:
        return RenameCommitLog(self.fs, LOG, "w")

    def ask(
        self, known: Callable[[], Collection[str]] = lambda: {UID}, log: RenameCommitLog | None = None
    ) -> Admission:
        live = self.metastore.table(TABLE)
        return Admission("w", log or self.log, RenameFileStore(self.fs), live, self.metastore, known, lambda _: None)

    def make_anew(self, location: str = LOCATION) -> None:
        self.metastore.drop_table(TABLE)
        self.metastore.create(replace(SPEC, location=location))

    def files(self) -> list[str]:
        store = RenameFileStore(self.fs)
        return [part.path for some in parts_below(store, LOCATION) for part in some]

    def lose(self, paths: list[str]) -> None:
        for path in paths:
            self.fs.delete(path)

    def newest(self) -> list[str]:
        return [part.target for part in self.log.manifest(Epoch(3)).parts]


@pytest.fixture
def site() -> Site:
    fs = MemoryFileSystem()
    metastore = MemoryMetastore(SPEC)
    job = Job(RenameCommitLog(fs, LOG, "w"), RenameFileStore(fs), metastore, Source(events(12)))
    job.run()
    job.log.admit(TABLE, metastore.table(TABLE).created)
    return Site(fs, metastore, job)


def found(site: Site, admission: Admission | None = None) -> Sequence[Finding]:
    return verify(replace(site.job.context, _tables={}), "w", str(TABLE), measure_lines, admission).findings


def another(site: Site) -> RenameCommitLog:
    return RenameCommitLog(site.fs, f"{LOG}-second", "second")


def test_a_writer_with_a_history_is_let_in_with_a_look_at_its_newest_parts_only(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked, visible = set(), RenameFileStore.visible

    def look(store: RenameFileStore, folder: str) -> Sequence[Finished]:
        looked.add(folder)
        return visible(store, folder)

    monkeypatch.setattr(RenameFileStore, "visible", look)
    site.ask().require()
    assert looked == {path.rpartition("/")[0] for path in site.newest()} < {*map(dirname, site.files())}


def test_a_log_that_is_older_than_the_table_is_refused_until_its_newest_copy_is_back(site: Site) -> None:
    kept = {
        entry.name: site.fs.read(f"{LOG}/manifests/{entry.name}") or b"" for entry in site.fs.list(f"{LOG}/manifests")
    }
    newest = [name for name in kept if name.startswith("0000000003")]
    site.lose([f"{LOG}/manifests/{name}" for name in newest])
    with pytest.raises(LogOutdated, match=r"after epoch 2, where the log .* ends.*Restore its newest copy"):
        site.ask().require()
    (error,) = [one.text for one in found(site) if one.level is Level.ERROR]
    assert "where this log ends: it is too old" in error
    assert find_strays(site.job.context, str(TABLE)) == ()
    for name in newest:
        site.fs.write_new(f"{LOG}/manifests/{name}", kept[name])
    site.ask().require()


def test_a_second_writer_is_let_in_beside_parts_of_the_first(site: Site) -> None:
    site.ask(log=another(site)).require()


def test_a_writer_without_history_is_refused_beside_parts_of_nobody(site: Site) -> None:
    with pytest.raises(ForeignParts) as refused:
        site.ask(known=tuple, log=another(site)).require()
    assert refused.value.uid == UID
    assert str(refused.value).partition(" ")[0] in site.files()
    assert another(site).uid(None) is None


def test_files_of_others_and_hidden_ones_are_no_foreign_parts(site: Site) -> None:
    folder = f"{LOCATION}/dt=2024-01-01"
    for name in ("000000_0", "part-00000-c000.snappy.parquet", f".{FOREIGN}.pending"):
        site.fs.write_new(f"{folder}/{name}", b"1\n")
    site.fs.write_new(f"{LOCATION}/.hive-staging/{FOREIGN}", b"1\n")
    site.ask(log=another(site)).require()
    site.fs.write_new(f"{folder}/{FOREIGN}", b"1\n")
    with pytest.raises(ForeignParts, match="00deadbeef00"):
        site.ask(log=another(site)).require()


@pytest.mark.parametrize(
    "home", ["/elsewhere", f"{LOCATION}-too", f"{LOCATION}/_old/dt=far", f"{LOCATION}/.x/y", "s3://out/of/reach"]
)
def test_parts_in_partitions_elsewhere_are_seen_too(site: Site, home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    visible = RenameFileStore.visible

    def reaching(store: RenameFileStore, folder: str) -> Sequence[Finished]:
        if folder.startswith("s3:"):
            raise Unsupported(folder, "it is another file system", "look at it there")
        return visible(store, folder)

    monkeypatch.setattr(RenameFileStore, "visible", reaching)
    site.metastore.register(TABLE, "dt=far", home)
    site.ask(log=another(site)).require()
    site.fs.write_new(f"{home}/{FOREIGN}", b"1\n")
    if home.startswith("s3:"):
        site.ask(log=another(site)).require()
        return
    with pytest.raises(ForeignParts, match=f"{home}/{FOREIGN}"):
        site.ask(log=another(site)).require()


def test_a_second_writer_that_begins_at_the_same_time_is_known_by_then(site: Site) -> None:
    looks: list[set[str]] = [{"00deadbeef00", UID}, {UID}]
    site.fs.write_new(f"{LOCATION}/dt=2024-01-01/{FOREIGN}", b"1\n")
    site.ask(known=looks.pop, log=another(site)).require()
    assert not looks


def test_a_log_that_has_lost_its_manifests_is_no_history(site: Site) -> None:
    for entry in site.fs.list(f"{LOG}/manifests"):
        site.fs.delete(f"{LOG}/manifests/{entry.name}")
    with pytest.raises(ForeignParts, match="holds no manifest") as refused:
        site.ask().require()
    assert "--writer w`" in str(refused.value)


def test_another_run_of_the_writer_that_decides_its_first_epoch_meanwhile_is_no_stranger(site: Site) -> None:
    log = site.log
    first = log.view()

    class Behind(RenameCommitLog):
        looks = 0

        def view(self) -> object:  # type: ignore[override]
            self.looks += 1
            return replace(first, manifests=()) if self.looks == 1 else first

    site.ask(log=Behind(site.fs, LOG, "w")).require()


def test_a_table_made_anew_without_its_files_is_refused_until_its_files_are_back(site: Site) -> None:
    kept = {path: site.fs.read(path) or b"" for path in site.newest()}
    site.make_anew()
    site.lose(site.files())
    with pytest.raises(TableRemade, match="epoch 3") as refused:
        site.ask().require()
    assert "`hivesink reset demo.events --writer w`" in str(refused.value)
    assert "waits" not in str(refused.value)
    site.fs.delete(f"{LOG}/manifests/0000000003.registered")
    with pytest.raises(TableRemade, match=r"Epoch 3 waits.* rename both back and run `hivesink recover demo\.events`"):
        site.ask().require()
    for path, data in kept.items():
        site.fs.write_new(path, data)
    site.ask().require()


@pytest.mark.parametrize(("later", "is_zone"), [(2 * 3600, True), (-45 * 60, True), (3601, False), (27 * 3600, False)])
def test_a_creation_time_in_another_zone_may_be_the_same_tables(site: Site, later: int, is_zone: bool) -> None:
    site.lose(site.newest())
    site.log.admit(TABLE, 10**9)
    site.metastore._entries[TABLE].created = 10**9 + later
    with pytest.raises(TableRemade) as refused:
        site.ask().require()
    named = re.search(r"create the empty file (\S+)", str(refused.value))
    assert bool(named) == is_zone
    if named:
        site.fs.write_new(named[1], b"")
        site.ask().require()


def test_a_table_made_anew_over_its_files_goes_on(site: Site) -> None:
    site.make_anew()
    assert site.ask().is_other_table()
    site.ask().require()
    site.log.admit(TABLE, site.metastore.table(TABLE).created)
    assert not site.ask().is_other_table()
    # Once it was let in, what users do to its files is theirs.
    site.lose(site.files())
    site.ask().require()


def test_one_missing_part_of_the_newest_epoch_is_enough_and_older_ones_are_the_users(site: Site) -> None:
    site.make_anew()
    site.lose([path for path in site.files() if path not in site.newest()])
    site.ask().require()
    site.lose(site.newest()[:1])
    with pytest.raises(TableRemade):
        site.ask().require()


def test_a_part_of_another_length_is_not_that_part(site: Site) -> None:
    site.make_anew()
    path = site.newest()[0]
    site.lose([path])
    site.fs.write_new(path, b"x")
    with pytest.raises(TableRemade):
        site.ask().require()


def test_a_table_made_anew_elsewhere_goes_on_where_its_files_went_along(site: Site) -> None:
    site.make_anew("/elsewhere/events")
    with pytest.raises(TableRemade):
        site.ask().require()
    for path in site.newest():
        site.fs.write_new(path.replace(LOCATION, "/elsewhere/events"), site.fs.read(path) or b"")
    site.ask().require()


def test_a_table_made_anew_goes_on_where_its_newest_rows_are_in_a_partition_elsewhere(site: Site) -> None:
    site.make_anew()
    for path in site.newest():
        site.fs.rename(path, f"/elsewhere/{path.removeprefix(f'{LOCATION}/')}")
    with pytest.raises(TableRemade):
        site.ask().require()
    for partition in {path.split("/")[-2] for path in site.newest()}:
        site.metastore.register(TABLE, partition, f"/elsewhere/{partition}")
    site.ask().require()


@pytest.mark.parametrize("moved", ["partition", "table"])
def test_an_old_log_is_seen_where_its_newest_partitions_are_now(site: Site, moved: str) -> None:
    known = {part.folder for part in site.log.manifest(Epoch(2)).parts}
    later = next(path for path in site.newest() if dirname(path) in known)
    site.lose([f"{LOG}/manifests/{entry.name}" for entry in site.fs.list(f"{LOG}/manifests") if "003" in entry.name])
    partition = dirname(later).rpartition("/")[2]
    home = f"/elsewhere/{partition}" if moved == "partition" else f"/moved/{partition}"
    site.fs.rename(later, f"{home}/{later.rpartition('/')[2]}")
    site.lose([path for path in site.files() if "-00c0ffee0001-3-" in path])
    if moved == "partition":
        site.metastore.drop_partition(TABLE, partition)
        site.metastore.register(TABLE, partition, home)
    else:
        site.fs.rename_folder(LOCATION, "/moved/rest")
        entry = site.metastore._entries[TABLE]
        entry.location, entry.spec = "/moved", replace(entry.spec, location="/moved")
        entry.partitions.clear()
    with pytest.raises(LogOutdated, match=home):
        site.ask().require()


@pytest.mark.parametrize("columns", [(), ("dt", "hour"), ("day",)])
def test_a_table_made_anew_with_other_partition_columns_is_another_one(site: Site, columns: Sequence[str]) -> None:
    site.metastore.drop_table(TABLE)
    kinds = tuple(Column(name, Primitive.STRING) for name in columns)
    site.metastore.create(replace(SPEC, partition_columns=kinds))
    with pytest.raises(TableRemade):
        site.ask().require()


def test_dead_letters_made_again_by_the_sink_are_no_other_table(site: Site) -> None:
    letters = replace(SPEC, name=TABLE.rejected, location=f"{LOCATION}__rejected")
    site.metastore.create(letters)
    live = replace(site.metastore.table(TABLE.rejected), created=2**40)
    assert not replace(site.ask(), live=live).is_other_table()


def test_epochs_that_wait_under_a_tables_old_name_want_it_back(site: Site) -> None:
    site.fs.delete(f"{LOG}/manifests/0000000003.registered")
    site.ask().require_same_table()
    live, asked = site.metastore.table(TABLE), site.ask()
    renamed = replace(live.spec, name=TableName("demo", "renamed"))
    site.metastore.drop_table(TABLE)
    site.metastore.create(renamed)
    with pytest.raises(TableRenamed, match=r"epoch 3 .* old name, demo\.events: rename demo\.renamed back"):
        replace(asked, live=replace(live, spec=renamed)).require_same_table()


def test_a_staged_part_of_the_newest_epoch_is_there(site: Site) -> None:
    site.metastore.go_down()
    site.job.source.events += events(16)[12:]
    site.job.committer.recover()
    site.job.step()
    site.metastore.come_up()
    staged = [part.staged for part in site.log.manifest(Epoch(4)).parts]
    assert set(staged) <= set(site.files())
    site.make_anew()
    site.ask().require()
    site.lose(staged)
    with pytest.raises(TableRemade):
        site.ask().require()


def test_a_log_that_has_never_published_a_part_has_lost_none() -> None:
    fs, metastore = MemoryFileSystem(), MemoryMetastore(SPEC)
    job = Job(RenameCommitLog(fs, LOG, "w"), RenameFileStore(fs), metastore, Source([]))
    job.log.touch(_begun())
    job.committer.recover()
    job.log.admit(TABLE, metastore.table(TABLE).created)
    site = Site(fs, metastore, job)
    assert site.log.view().head == 1
    site.make_anew()
    site.ask().require()


def test_parts_that_only_the_floor_remembers_prove_nothing(site: Site) -> None:
    site.job.log.touch(_begun(4))
    site.job.committer.recover()
    totals = site.log.manifest(Epoch(1)).rows
    site.log.trim(Floor(Epoch(3), totals, 6))
    site.make_anew()
    with pytest.raises(TableRemade):
        site.ask().require()


def test_a_table_whose_folder_is_away_is_refused_until_it_is_back(site: Site) -> None:
    site.fs.rename_folder(LOCATION, "/away")
    with pytest.raises(TableFolderGone, match="mount the disk"):
        site.ask().require()
    site.fs.rename_folder("/away", LOCATION)
    site.lose(site.files())
    site.ask().require()


def test_a_partition_elsewhere_whose_folder_is_away_is_refused_until_it_is_back(site: Site) -> None:
    partition, far = f"dt={events(16)[12].dt}", "/disk2/far"
    site.metastore.drop_partition(TABLE, partition)
    site.metastore.register(TABLE, partition, far)
    site.job.source.events += events(16)[12:]
    site.job.run()
    assert any(part.folder == far for part in site.log.manifest(site.log.view().head).parts)
    site.ask().require()
    site.fs.rename_folder("/disk2", "/away")
    with pytest.raises(TableFolderGone, match=f"the folder {far} of"):
        site.ask().require()
    # A user has moved it on: that folder is no longer the partition's.
    site.metastore.drop_partition(TABLE, partition)
    site.metastore.register(TABLE, partition, "/disk3/new")
    site.ask().require()


def test_a_table_that_was_never_written_needs_no_folder() -> None:
    fs, metastore = MemoryFileSystem(), MemoryMetastore(SPEC)
    job = Job(RenameCommitLog(fs, LOG, "w"), RenameFileStore(fs), metastore, Source())
    job.log.touch(_begun())
    job.committer.recover()
    assert job.log.view().head == 1
    Site(fs, metastore, job).ask().require()


def _begun(epoch: int = 1) -> Touched:
    return Touched(Epoch(epoch), "0011223344", 0, 0, 0, ())


def test_a_log_of_before_this_rule_goes_by_the_time_of_its_newest_epoch(site: Site) -> None:
    for entry in site.fs.list(f"{LOG}/tables"):
        site.fs.delete(f"{LOG}/tables/{entry.name}")
    site.lose(site.files())
    site.ask().require()
    at = site.log.manifest(Epoch(3)).at.timestamp()
    site.metastore._entries[TABLE].created = int(at) + 1
    with pytest.raises(TableRemade):
        site.ask().require()


def test_verify_says_what_the_next_start_would(site: Site) -> None:
    def errors() -> list[str]:
        return [one.text for one in found(site, site.ask()) if one.level is Level.ERROR]

    assert errors() == []
    site.make_anew()
    site.lose(site.files())
    (error,) = errors()
    assert "was dropped, or renamed, and created again" in error


def test_a_table_made_anew_under_a_run_stops_it_before_it_decides(site: Site) -> None:
    site.job.source.events += events(16)[12:]
    site.job.committer.recover()
    site.make_anew()
    with pytest.raises(TableReplaced, match=str(TABLE)):
        site.job.step()
    assert site.log.view().head == 3

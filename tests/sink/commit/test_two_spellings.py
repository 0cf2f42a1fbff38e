"""One folder under two spellings: a cluster that got a second NameNode has partitions at both of its names."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from hivesink.core.log import default_root
from hivesink.sink.inspect.clean import clean, find_leftovers
from hivesink.sink.inspect.findings import Level
from hivesink.sink.inspect.verify import verify
from hivesink.storage.commit_log import FileCommitLog
from hivesink.storage.rename_store import RenameFileStore
from tests.crash.faults import FaultyFileSystem, Kill, Mode, Plan
from tests.inmemory.filesystem import MemoryFileSystem
from tests.inmemory.metastore import MemoryMetastore
from tests.sink.harness import LOCATION, SPEC, TABLE, Job, Source, events, measure_lines, partitions, readable

if TYPE_CHECKING:
    from hivesink.storage.fs import FileSystem

OTHER = "/nn1"
NAME = str(TABLE)


class TwoNames(MemoryFileSystem):
    """`/nn1/a` is `/a`."""


def _same(name: str) -> Any:
    def call(self: TwoNames, *arguments: Any) -> Any:
        plain = (value.removeprefix(OTHER) if isinstance(value, str) else value for value in arguments)
        return getattr(MemoryFileSystem, name)(self, *plain)

    return call


for name in [
    "canonical",
    "open_new",
    "write_new",
    "rename",
    "delete",
    "remove_empty",
    "length",
    "is_folder",
    "list",
    "read",
]:
    setattr(TwoNames, name, _same(name))


@dataclass
class Site:
    """Every partition of the first batch is registered under the cluster's other name."""

    fs: TwoNames = field(default_factory=TwoNames)
    metastore: MemoryMetastore = field(default_factory=lambda: MemoryMetastore(SPEC))
    source: Source = field(default_factory=lambda: Source(events(12)))

    def __post_init__(self) -> None:
        for partition in partitions(self.source.events):
            self.metastore.register(TABLE, partition, f"{OTHER}{LOCATION}/{partition}")

    def job(self, fs: FileSystem | None = None) -> Job:
        files = fs or self.fs
        log = FileCommitLog(files, f"{default_root(LOCATION, TABLE)}/w")
        return Job(log, RenameFileStore(files), self.metastore, self.source)

    def dies_before_the_first_publish(self) -> None:
        steps = FaultyFileSystem(Site().fs)
        Site().job(steps).run(batches=1)
        first = next(call.number for call in steps.calls if call.name == "rename" and ".json." in call.path)
        faulty = FaultyFileSystem(self.fs, Plan(first, Mode.AFTER))
        with pytest.raises(Kill):
            self.job(faulty).run(batches=1)

    def rows(self) -> list[int]:
        return readable(RenameFileStore(self.fs), self.metastore, partitions(self.source.events))


def test_clean_keeps_parts_that_are_decided_under_the_other_name() -> None:
    site = Site()
    site.dies_before_the_first_publish()
    context = site.job().context
    clean(context, find_leftovers(context, NAME), NAME)
    site.job().run()
    assert site.rows() == list(range(12))


def test_recovery_while_the_metastore_is_down_keeps_them_too() -> None:
    site = Site()
    site.dies_before_the_first_publish()
    job = site.job()
    site.metastore.go_down()
    job.committer.recover()
    site.metastore.come_up()
    site.job().run()
    assert site.rows() == list(range(12))


def test_what_is_listed_under_both_names_is_no_stray() -> None:
    site = Site()
    site.job().run()
    verdict = verify(site.job().context, "w", NAME, measure_lines)
    assert [found.text for found in verdict.findings if found.level is Level.ERROR] == []
    assert site.rows() == list(range(12))


def test_parts_of_a_partition_that_turns_out_to_be_at_the_other_name_are_published() -> None:
    site = Site()
    job = site.job()
    job.committer.recover()
    site.metastore.go_down()
    job.step()
    site.metastore.come_up()
    job.committer.finish()
    site.job().run()
    assert site.rows() == list(range(12))

"""A log and a checkpoint that are restored from a backup of any moment: nothing is published twice."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest

from hivesink.errors import LogOutdated
from tests.crash.faults import FaultyFileSystem
from tests.crash.site import LOG, Site
from tests.inmemory.filesystem import MemoryFileSystem
from tests.sink.harness import LOCATION, TABLE, Event, Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.crash.faults import Mode

EVENTS = [Event(number, f"2024-01-0{1 + number // 2}") for number in range(8)]
"""Each batch of two is in a partition of its own."""
IDS = range(len(EVENTS))
ON_EPOCH = {"sink.rolling-policy.on-epoch": "true"}
AT_END = {"sink.rolling-policy.on-epoch": "false"}
EACH = {"sink.rolling-policy.on-epoch": "false", "sink.rolling-policy.record-count": "2"}


@dataclass
class Backup:
    """The log and the checkpoint at one moment."""

    log: dict[str, bytes]
    source: Source

    @classmethod
    def of(cls, site: Site) -> Backup:
        return cls(files(site.fs, f"{LOG}/"), deepcopy(site.source))

    def restored(self, site: Site) -> Site:
        """A copy of `site` with this backup."""
        fs = MemoryFileSystem()
        rest = {path: data for path, data in files(site.fs, "/").items() if not path.startswith(f"{LOG}/")}
        for path, data in {**rest, **self.log}.items():
            fs.write_new(path, data)
        again = Site(deepcopy(self.source), options=site.options, fs=fs)
        for partition, location in site.metastore.partitions(TABLE).items():
            again.metastore.register(TABLE, partition, location)
        return again


def files(fs: MemoryFileSystem, base: str) -> dict[str, bytes]:
    return {path: fs.read(path) or b"" for path in list(fs._files) if path.startswith(base)}


class Copying(FaultyFileSystem):
    """Takes a backup before each call."""

    def __init__(self, site: Site) -> None:
        super().__init__(site.fs)
        self.site = site
        self.backups: list[Backup] = []

    def _begin(self, name: str, path: str, *, changes: bool) -> Mode | None:
        if changes:
            self.backups.append(Backup.of(self.site))
        return super()._begin(name, path, changes=changes)


def outcomes(site: Site, backups: Sequence[Backup], then: Callable[[Site], object]) -> Iterator[bool]:
    """Whether the run after each restore is refused; none of them doubles or loses a row."""
    for number, backup in enumerate(backups):
        again, is_refused = backup.restored(site), False
        try:
            then(again)
        except LogOutdated:
            is_refused = True
        again.check_rows(IDS, number)
        yield is_refused


@pytest.mark.parametrize("options", [ON_EPOCH, AT_END, EACH], ids=["on-epoch", "rolled at the end", "rolled each"])
def test_a_log_of_any_moment_doubles_nothing(options: dict[str, str]) -> None:
    site = Site(Source(EVENTS), options=options)
    copying = Copying(site)
    site.job(copying).run(2)
    site.check(IDS)
    refused = list(outcomes(site, copying.backups, lambda again: again.job().run(2)))
    # Once its last epoch is decided the log knows of all files; before, its table is ahead of it.
    assert refused == sorted(refused, reverse=True)
    assert refused[0]
    assert not refused[-1]


@pytest.mark.parametrize("options", [ON_EPOCH, EACH], ids=["on-epoch", "rolled"])
def test_so_does_one_that_has_gone_on_in_other_partitions(options: dict[str, str]) -> None:
    """The lost epochs' numbers are taken when the run comes to their partitions."""
    site = Site(Source(EVENTS), options=options)
    site.job().run(2, 1)
    backup = Backup.of(site)
    site.job().run(2)
    again = backup.restored(site)
    other = again.source.events = [*EVENTS[:2], *(Event(number, "2024-02-01") for number in range(8, 16)), *EVENTS[2:]]
    again.job().run(2, 4)
    # It ends within the epochs that the log has by now: another run, which knows of these from the log alone.
    with pytest.raises(LogOutdated, match="isn't a file of its epoch"):
        again.job().run(2)
    assert len(again.rows()) == len(other)


@pytest.mark.parametrize("options", [ON_EPOCH, EACH], ids=["on-epoch", "rolled"])
@pytest.mark.parametrize("is_copied", [True, False], ids=["also at the default folder", "only there"])
def test_a_partition_is_looked_at_where_it_is_registered(options: dict[str, str], *, is_copied: bool) -> None:
    site = Site(Source(EVENTS), options=options)
    site.job().run(2, 1)
    backup = Backup.of(site)
    site.job().run(2)
    site.move("dt=2024-01-02", "/elsewhere/x", copy=is_copied)
    with pytest.raises(LogOutdated, match=LOCATION if is_copied else "/elsewhere/x"):
        backup.restored(site).job().run(2)


def test_nothing_is_decided_or_left_in_the_table_by_the_refused_batch() -> None:
    site = Site(Source(EVENTS), options=EACH)
    site.job().run(2, 1)
    backup = Backup.of(site)
    site.job().run(2)
    again = backup.restored(site)
    head = again.log.view().head
    with pytest.raises(LogOutdated, match=f"after epoch {head}, where the log {LOG} ends"):
        again.job().run(2)
    assert again.log.view().head == head
    assert again.staged() == set()
    # With the newest log everything is as before.
    whole = Backup.of(site).restored(site)
    whole.job().run(2)
    whole.check(IDS)


def test_a_folder_is_listed_once_a_run() -> None:
    site = Site(Source([replace(event, dt="x") for event in EVENTS]), options=ON_EPOCH)
    site.job().run(2, 1)
    counting = FaultyFileSystem(site.fs)
    job = site.job(counting)
    job.committer.recover()
    job.step(2)
    first, folder = len(counting.calls), f"{LOCATION}/dt=x"
    job.step(2)
    reads = [f"{LOG}/manifests/{epoch:010d}.json" for epoch in range(1, 3)]
    later = [call.path for call in counting.calls[first:] if call.name in ("list", "read")]
    assert not {folder, *reads} & set(later)
    assert folder in {call.path for call in counting.calls[:first] if call.name == "list"}

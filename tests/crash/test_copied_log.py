"""A warehouse that is copied, files and log, between a manifest and its publish."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from hivesink.errors import LogCopied
from hivesink.sink.commit.observe import load
from hivesink.storage.commit_log import RenameCommitLog, default_log_location
from tests.crash.test_metastore_faults import IDS, Scenario, decided
from tests.inmemory.metastore import MemoryMetastore
from tests.sink.harness import LOCATION, SPEC, TABLE, Job

if TYPE_CHECKING:
    from tests.crash.site import Site

COPY = LOCATION.replace("/warehouse", "/copy")


def copied(site: Site) -> Job:
    """The writer of the copy, by a metastore of its own."""
    for path in [path for path in site.fs._files if path.startswith("/warehouse/")]:
        site.fs.write_new(path.replace("/warehouse", "/copy"), site.fs.read(path) or b"")
    log = RenameCommitLog(site.fs, default_log_location(COPY, TABLE, "w"), "w")
    site.fs.delete(f"{default_log_location(COPY, TABLE, 'w')}.pointer")
    return Job(log, site.store, MemoryMetastore(replace(SPEC, location=COPY)), site.source)


def test_the_copy_takes_nothing_of_the_original_and_names_the_ways_on() -> None:
    site = decided(Scenario("copied"), epoch=1)
    staged = site.waiting()
    with pytest.raises(LogCopied, match="hivesink reset") as told:
        copied(site).run()
    assert told.value.own == site.log.location
    assert site.waiting() == staged <= site.staged()
    site.job().run()
    site.check_rows(IDS)


def test_a_copy_of_a_finished_log_goes_on_by_itself() -> None:
    site = Scenario("copied").site()
    site.job().run()
    job = copied(site)
    job.committer.recover()
    assert load(job.context).open == ()


def test_a_log_that_was_moved_goes_on_once_it_is_finished() -> None:
    site = decided(Scenario("moved"), epoch=1)
    elsewhere = "/logs/w"
    for path in [path for path in site.fs._files if path.startswith(f"{site.log.location}/")]:
        site.fs.rename(path, path.replace(site.log.location, elsewhere))
    moved = RenameCommitLog(site.fs, elsewhere, "w")
    with pytest.raises(LogCopied, match="move it back"):
        load(replace(site.job().context, log=moved))

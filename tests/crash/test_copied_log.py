"""A warehouse that is copied, files and log, between a manifest and its publish."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from hivesink.errors import LogCopied, PointerCopied
from hivesink.sink.commit.observe import load
from hivesink.storage.commit_log import RenameCommitLog
from hivesink.storage.pointers import default_log_location, logs_of
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
    log = RenameCommitLog(site.fs, logs_of(site.fs, TABLE, COPY)["w"], "w")
    return Job(log, site.store, MemoryMetastore(replace(SPEC, location=COPY)), site.source)


def test_the_copy_takes_nothing_of_the_original_and_names_the_ways_on() -> None:
    site = decided(Scenario("copied"), epoch=1)
    staged = site.waiting()
    with pytest.raises(LogCopied, match="hivesink reset") as told:
        copied(site).run()
    assert f"belongs to the log {site.log.location}:" in str(told.value)
    assert site.waiting() == staged <= site.staged()
    assert site.log.view().head == 1
    site.job().run()
    site.check_rows(IDS)


def test_a_copied_pointer_leads_to_the_log_beside_it_and_never_to_the_originals() -> None:
    site = decided(Scenario("copied"), epoch=1)
    assert copied(site).log.location == default_log_location(COPY, TABLE, "w")
    assert logs_of(site.fs, TABLE, LOCATION) == {"w": site.log.location}
    # An older hivesink's pointer doesn't say where it stood.
    pointer = f"{default_log_location(COPY, TABLE, 'w')}.pointer"
    site.fs.delete(pointer)
    site.fs.write_new(pointer, json.dumps({"format": 1, "log": site.log.location}).encode())
    with pytest.raises(PointerCopied, match=f"change `log` in it to {default_log_location(COPY, TABLE, 'w')}"):
        logs_of(site.fs, TABLE, COPY)


def test_a_copied_pointer_to_a_log_elsewhere_is_refused() -> None:
    site = Scenario("copied").site()
    RenameCommitLog(site.fs, "/logs/v", "v").point(TABLE, LOCATION)
    with pytest.raises(PointerCopied, match="leads to /logs/v"):
        copied(site)
    assert logs_of(site.fs, TABLE, LOCATION) == {"v": "/logs/v"}


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

"""A user's ALTER TABLE beside a running query is told, once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from hivesink.core.log import PROPERTY
from hivesink.core.table import Column, Primitive
from hivesink.errors import TableReplaced
from hivesink.sink.commit.committer import Committer
from tests.crash.site import Site
from tests.sink.harness import SPEC, TABLE, Source, events

if TYPE_CHECKING:
    from tests.crash.site import SiteJob

KEEPS = "; the running query goes on without that until its next start"


@pytest.fixture
def site() -> Site:
    return Site(Source(events(20)))


def told(site: Site, run: SiteJob, caplog: pytest.LogCaptureFixture, seconds: float = 10) -> list[str]:
    caplog.clear()
    site.clock.ticks += seconds
    run.step(2)
    return [record.message for record in caplog.records if KEEPS in record.message]


def test_columns_and_settings(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    run = site.job()
    run.committer.recover()
    assert told(site, run, caplog) == []
    site.metastore.add_columns(TABLE, Column("more", Primitive.INT))
    entry = site.metastore._entries[TABLE]
    entry.spec = replace(entry.spec, properties=(("owner", "me"), ("sink.task-memory", "1GB")))
    assert told(site, run, caplog, seconds=1) == [], "it doesn't ask at every epoch"
    assert told(site, run, caplog) == [
        f"demo.events: column more is int, and was not there{KEEPS}",
        f"demo.events: sink.task-memory is '1GB', and was not there{KEEPS}",
    ]
    assert told(site, run, caplog) == []


def test_a_setting_that_the_job_gave_itself_never_changes(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    run = site.job()
    identity = replace(run.committer.spec.identity, options=(("sink.task-memory", "512MB"),))
    run.committer = Committer(run.context, replace(run.committer.spec, identity=identity), run.encode)
    run.committer.recover()
    assert told(site, run, caplog) == []
    entry = site.metastore._entries[TABLE]
    entry.spec = replace(entry.spec, properties=(("sink.task-memory", "1GB"),))
    assert told(site, run, caplog) == []


def test_a_table_that_was_made_anew_ends_the_run_though_nothing_is_published(site: Site) -> None:
    site.options["sink.rolling-policy.on-epoch"] = "false"
    site.metastore.set_property(TABLE, PROPERTY, "/log#1")
    run = site.job()
    run.committer.recover()
    run.step(2)
    site.metastore.drop_table(TABLE)
    site.clock.ticks += 10
    run.committer.keep_up()
    site.metastore.create(SPEC)
    site.clock.ticks += 10
    with pytest.raises(TableReplaced):
        run.committer.keep_up()


def test_a_metastore_that_is_down_is_no_change(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    run = site.job()
    run.committer.recover()
    run.step(2)
    site.metastore.go_down()
    assert told(site, run, caplog) == []
    site.metastore.come_up()
    assert told(site, run, caplog) == []

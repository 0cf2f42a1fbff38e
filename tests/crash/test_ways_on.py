"""What an error tells people to do works, also where the first try of it dies."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hivesink.core.epoch import Epoch, HistoryPolicy
from hivesink.core.table import Column, Primitive, TableSpec
from hivesink.errors import HiveSinkError, LogMissing
from hivesink.sink.commit.observe import load
from tests.crash.faults import FaultyFileSystem, Kill, Mode, Plan
from tests.crash.site import PLAIN, Site, forget
from tests.sink.harness import LOCATION, SPEC, TABLE, Source, events

HOURLY = replace(SPEC, partition_columns=(Column("hour", Primitive.STRING),))
FROM_NOTHING = HistoryPolicy(append=Epoch(0))


def without_its_log() -> Site:
    """Two batches were committed; then somebody deleted the log."""
    site = Site(Source(events(16)))
    site.source.planned, site.source.committed = [4, 8], 2
    return site


def test_append_to_a_log_without_a_batch_outlives_the_death_of_its_first_try() -> None:
    with pytest.raises(LogMissing, match="append=0"):
        without_its_log().job().run()
    probe = without_its_log()
    counting = FaultyFileSystem(probe.fs)
    probe.job(counting, history_policy=FROM_NOTHING).run(batches=1)
    decided = next(call for call in counting.calls if call.name == "rename" and ".json." in call.path)
    site = without_its_log()
    with pytest.raises(Kill):
        site.job(FaultyFileSystem(site.fs, Plan(decided.number, Mode.BEFORE)), history_policy=FROM_NOTHING).run()
    site.job(history_policy=FROM_NOTHING).run()
    site.check(range(8, 16))


@pytest.mark.parametrize("spec", [SPEC, HOURLY, PLAIN], ids=["the same", "other columns", "unpartitioned"])
def test_a_table_made_again_while_an_epoch_waits_is_written_once_its_losses_are_accepted(spec: TableSpec) -> None:
    site = Site(Source(events(4, partitions=1)))
    job = site.job()
    job.committer.recover()
    site.metastore.go_down()
    job.step()
    site.metastore.come_up()
    for folder in list(site.store.walk(LOCATION)):
        for entry in site.fs.list(folder):
            if not entry.is_folder:
                site.fs.delete(f"{folder}/{entry.name}")
    site.metastore.drop_table(TABLE)
    site.metastore.create(spec)
    with pytest.raises(HiveSinkError):
        site.job().run()

    context = site.job().context
    assert forget(job.committer)
    assert load(context).folders() == {}
    site.job().committer.recover()
    assert site.rows() == []

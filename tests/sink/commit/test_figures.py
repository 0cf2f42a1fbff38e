"""The figures of a run are those of its log, and a failure to count fails no epoch."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from hivesink.core.metrics import METRICS, Histogram
from hivesink.sink.inspect.facts import read_log
from hivesink.sink.inspect.verify import figures
from tests.contracts.manifests import AT
from tests.crash.site import Site
from tests.sink.harness import Job, Source, events

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pytest

    from hivesink.core.metrics import Sample

NOW = AT + timedelta(days=365)


def values(samples: Iterable[Sample]) -> dict[tuple[str, str], float]:
    by_log = {metric.name for metric in METRICS if metric.by_log}
    return {(one.metric, str(one.labels)): one.value for one in samples if one.metric in by_log}


def counted(site: Site) -> Job:
    job = site.job()
    log, rule = site.log, job.committer.spec.commit_rule
    job.committer.figures.count(lambda: figures(read_log(log), rule))
    return job


def test_they_go_on_from_the_log_and_are_what_it_says(caplog: pytest.LogCaptureFixture) -> None:
    site = Site(Source(events(24)), options={"sink.rolling-policy.on-epoch": "false", "sink.log.retained-epochs": "2"})

    def require_same(job: Job) -> None:
        log = figures(read_log(site.log), job.committer.spec.commit_rule)
        assert values(job.committer.figures.samples(NOW)) == values(log.samples(NOW))

    job = counted(site)
    job.committer.recover()
    for _ in range(2):
        job.step()
        require_same(job)
    # It was killed. The next one publishes what waits, and is trimmed.
    job = counted(site)
    job.run()
    require_same(job)
    told = values(job.committer.figures.samples(NOW))
    assert told["rows", "{'result': 'written'}"] == 24
    assert told["epochs", "{'kind': 'batch'}"] == 6
    steps = {str(one.labels["step"]) for one in job.committer.figures.samples(NOW) if one.metric == "epoch_seconds"}
    assert {"write", "publish"} <= steps

    asked = []

    def fails() -> object:
        asked.append("all of the log")
        msg = "no log"
        raise OSError(msg)

    site = Site(Source(events(8)))
    job = counted(site)
    job.committer.figures.recount = fails  # type: ignore[assignment]
    # As if another run had written.
    job.committer.figures._log = None
    job.run()
    site.check(range(8))
    assert caplog.text.count("metrics may be wrong until the next start: OSError: no log") == 1
    assert asked == ["all of the log"]


def test_offsets_are_0_until_the_log_is_settled() -> None:
    site = Site(Source(events(8)), options={"sink.rolling-policy.on-epoch": "true"})
    job = site.job()
    job.committer.recover()
    job.step(4)
    site.metastore.go_down()
    job.step(4)
    site.metastore.come_up()
    after = site.job()
    site.metastore.go_down()
    after.committer.recover()
    offsets = after.committer.progress().offsets
    assert offsets is not None
    assert [*offsets.visible.values()] == [0] * len(offsets.read)
    assert {(each["visible"], each["complete"]) for each in replace(offsets, visible={}, complete={}).data} <= {(0, 0)}


def test_a_histogram_counts_up_to_each_bound() -> None:
    spent = Histogram()
    for seconds in (0.005, 0.1, 2, 1000):
        spent.add(seconds)
    told = {one.labels.get("le", one.ending): one.value for one in spent.samples("roll_seconds", {})}
    assert (told.pop("_count"), told.pop("_sum")) == (4, 1002.105)
    assert [*told.values()] == [1, 1, 2, 2, 2, 3, 3, 3, 3, 3, 4]

"""What a consumer group gets: the newest offsets, and none from a run that has failed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from datetime import timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from hivesink.core.reads import Lag
from hivesink.errors import FencedOut, MetastoreUnreachable
from hivesink.spark import query, sources
from hivesink.spark.listeners import GroupCommits
from hivesink.spark.query import HiveQuery

DOWN = MetastoreUnreachable("thrift://h:1", "refused")
PLACE = ("t", 0)


class Kafka:
    """Its group. While it `is_down`, commits fail; `tried` tells of that."""

    def __init__(self) -> None:
        self.is_down, self.tried, self.got = False, threading.Event(), list[int]()

    def commit(self, _spark: Any, _client: Any, _group: str, offsets: Iterable[dict[Any, int]]) -> None:
        for each in offsets:
            if self.is_down:
                self.tried.set()
                raise ConnectionError
            self.got.append(each[PLACE])


class Handle:
    def __init__(self, failure: Exception | None) -> None:
        self.failure, self.isActive = failure, failure is None

    def exception(self) -> Exception | None:
        return self.failure

    def stop(self) -> None:
        self.isActive = False


def start(offset: int, *, handle: Exception | None = None, run: Exception | None = None) -> Any:
    """A query; its `handle` has failed, or the sink itself in its `run`."""
    day = timedelta(days=1)
    config = {f"sink.{name}": day for name in ("on-stop", "rolling-policy.on-epoch", "rolling-policy.check-interval")}
    setup: Any = SimpleNamespace(spec=SimpleNamespace(config=config, target=SimpleNamespace(name="demo.t")))
    setup.context = SimpleNamespace(log=SimpleNamespace(location="/log"))
    group = GroupCommits(Any, "g", {})  # type: ignore[arg-type]
    hear = partial(group.hear, lambda: Lag(visible={PLACE: offset}))
    committer = SimpleNamespace(figures=SimpleNamespace(hear=hear), tell_end=lambda: None, error=None)

    def finish(*, roll: bool) -> None:
        assert roll
        hear()
        if committer.error is not None:
            raise committer.error

    committer.finish = finish
    made: Any = SimpleNamespace(setup=setup, failure=run, late_failure=None, committer=committer, group=group)
    return HiveQuery(Handle(handle), made)  # type: ignore[arg-type]


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> Kafka:
    made = Kafka()
    monkeypatch.setattr(sources, "commit", made.commit)
    monkeypatch.setattr(query, "newest", {})
    return made


def _asked(old: Any) -> None:
    with pytest.raises((MetastoreUnreachable, FencedOut)):
        old.stop()


def _cannot_finish(old: Any) -> None:
    old.run.committer.error = DOWN
    _asked(old)


WAYS: dict[str, tuple[dict[str, Any], Callable[[Any], object]]] = {
    "Spark's failure": ({"handle": DOWN}, _asked),
    "the sink's failure": ({"run": DOWN}, _asked),
    "another run": ({"run": FencedOut("/log", 1, 2)}, _asked),
    "its end fails": ({}, _cannot_finish),
    "its error is looked at": ({"handle": DOWN}, lambda old: old.exception() and old._timer.join()),
    "it is started again": ({"handle": DOWN}, lambda _: None),
}


@pytest.mark.parametrize(("failure", "leave"), WAYS.values(), ids=WAYS)
def test_a_run_that_failed_commits_nothing_after_a_newer_run(
    failure: dict[str, Any], leave: Callable[[Any], object], kafka: Kafka
) -> None:
    kafka.is_down = True
    old = start(10, **failure)
    assert kafka.tried.wait(10)
    leave(old)
    kafka.is_down = False
    new = start(20)
    assert old.run.group._thread is None
    new.stop()
    assert (set(kafka.got), new.run.group._thread) == ({20}, None)


def test_an_end_that_goes_well_commits_what_could_not_be_committed_before(kafka: Kafka) -> None:
    kafka.is_down = True
    old = start(10)
    assert kafka.tried.wait(10)
    kafka.is_down = False
    old.stop()
    assert (set(kafka.got), old.run.group.failures) == ({10}, 1)


def test_offsets_that_cannot_be_computed_fail_no_epoch(kafka: Kafka, caplog: pytest.LogCaptureFixture) -> None:
    def fails() -> Any:
        msg = "no offsets"
        raise LookupError(msg)

    group = GroupCommits(Any, "g", {})  # type: ignore[arg-type]
    assert group._thread is None, "a start that is refused leaves none"
    group.hear(fails)
    group.end(commits=True)
    # Again at the end, if it was tried before that.
    assert (kafka.got, group.failures in {1, 2}) == ([], True)
    assert "offsets of group g aren't committed: no offsets" in caplog.text

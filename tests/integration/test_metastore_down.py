"""A metastore that is away in the middle: epochs go on, parts wait, and an end with something open is no good end.

In tests/cluster/test_dying_servers.py the server itself dies.
"""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from hivesink import errors
from tests.cluster.wire import Wire
from tests.integration.stage import ON_EPOCH, Stage, wait_until, wrap

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.spark
OPTIONS = ON_EPOCH
NEW_DAY = json.dumps({"id": 100, "name": "new", "dt": "2024-02-01"}) + "\n"


@pytest.fixture
def wire(stage: Stage) -> Iterator[Wire]:
    """Between the sink and its metastore; Spark has a way of its own."""
    with closing(Wire(stage.uri)) as wire:
        yield wire


@pytest.fixture
def apart(stage: Stage, wire: Wire) -> Stage:
    return replace(stage, uri=wire.uri).create()


def test_epochs_go_on_without_the_metastore_and_all_is_readable_after(apart: Stage, stage: Stage, wire: Wire) -> None:
    apart.put(range(10))
    sink = apart.sink(options={"sink.rolling-policy.check-interval": "200ms"})
    with apart.running(sink) as query:
        query.processAllAvailable()
        wire.cut()
        apart.put(range(10, 20))
        apart.put_text(NEW_DAY)
        query.processAllAvailable()
        assert sink._run.committer.head == 3
        assert sink._run.committer.waiting is not None
        assert apart.checkpoint.joinpath("commits/2").exists()
        assert not list(stage.location().rglob("dt=2024-02-01/part-*"))
        wire.mend()
        # No data comes: the timer finishes what waits.
        wait_until(lambda: sink._run.committer.waiting is None)
        assert stage.ids() == [*range(20), 100]
    assert (stage.ids(), stage.staged()) == ([*range(20), 100], [])


@pytest.mark.parametrize(
    ("port", "method"),
    [
        ("log", "create"),
        pytest.param("log", "mark", marks=pytest.mark.long),
        pytest.param("registrar", "clear_accurate", marks=pytest.mark.long),
    ],
)
def test_a_metastore_that_goes_in_the_last_epoch_makes_the_run_fail_and_the_next_one_finish(
    apart: Stage, stage: Stage, wire: Wire, port: str, method: str
) -> None:
    apart.put(range(10))
    apart.drain()
    apart.put_text("".join(json.dumps({"id": number, "dt": f"2024-02-0{number}"}) + "\n" for number in (1, 2)))
    apart.put(range(10, 20))
    sink = apart.sink()

    def cut_after(real: Any, *args: Any) -> Any:
        done = real(*args)
        wire.cut()
        return done

    wrap(sink, port, **{method: cut_after})
    with pytest.raises(errors.MetastoreUnreachable) as told:
        apart.drain(sink)
    assert "\n" not in str(told.value)
    assert sink._run.committer.head == 3
    wire.mend()
    # A run without any news.
    apart.drain()
    assert (stage.ids(), stage.staged()) == (sorted([*range(20), 1, 2]), [])


def fail(_real: Any, part: Any) -> None:
    raise errors.StoreUnavailable(action="rename", path=part.staged, reason="the disk is gone")


def test_a_publish_that_fails_in_the_last_epoch_is_raised_and_finished_by_the_next_run(stage: Stage) -> None:
    stage.create()
    for first, is_plain in ((0, False), (10, True)):
        stage.put(range(first, first + 10))
        sink = stage.sink()
        wrap(sink, "store", publish=fail)
        if is_plain:
            with pytest.raises(Exception, match=r"hivesink\.errors\.StoreUnavailable: could not rename"):
                stage.plain(sink)
        else:
            with pytest.raises(errors.StoreUnavailable):
                stage.drain(sink)
        assert stage.ids() == list(range(first))
        stage.drain()
        assert (stage.ids(), stage.staged()) == (list(range(first + 10)), [])

"""How far a batch is behind, of what Spark's sources say. On real sources: `tests/integration/test_progress.py`."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

from py4j.protocol import Py4JJavaError

from hivesink.core.offsets import FilesOffset, KafkaOffset, OtherOffset, SourceOffset
from hivesink.core.progress import UNKNOWN, Behind
from hivesink.spark.behind import Lag


def _reading(*newest: dict[str, dict[str, int]] | None) -> Any:
    """A `StreamExecution` whose sources have shown these offsets, and have no client to ask."""
    return _execution(*(SimpleNamespace(reportLatestOffset=lambda one=one: _offset(one)) for one in newest))


def _offset(found: dict[str, dict[str, int]] | None) -> Any:
    return None if found is None else SimpleNamespace(json=lambda: json.dumps(found))


def _execution(*sources: Any) -> Any:
    return SimpleNamespace(sources=lambda: SimpleNamespace(size=lambda: len(sources), apply=sources.__getitem__))


def _behind(execution: Any, *end: SourceOffset) -> Behind:
    spark: Any = None
    return Lag(spark, lambda: 0.0).behind(execution, end)


def test_how_many_records_kafka_has_beyond_a_batch() -> None:
    end = KafkaOffset.of({"t": {"0": 5, "1": 7}})
    assert _behind(_reading({"t": {"0": 8, "1": 7}}), end) == Behind(3)
    assert _behind(_reading({"t": {"0": 8, "1": 7}}, {"t": {"0": 6, "1": 7}}), end, end) == Behind(4)
    # A partition that the batch doesn't know: nobody knows where its records begin.
    assert _behind(_reading({"t": {"0": 8, "1": 7, "2": 1}}), end) == UNKNOWN
    assert _behind(_reading(None), end) == UNKNOWN


_ABSENT = ("no such field", SimpleNamespace(_target_id="o1"))


class _Field(SimpleNamespace):
    def setAccessible(self, _: bool) -> None:  # noqa: N802  Java's name
        """As Java has it."""

    def get(self, _: Any) -> Any:
        return self.value


def _files(seen: int, **lists: int | None) -> Any:
    """Spark's file source with private lists of these sizes."""

    def field(name: str) -> _Field:
        if name not in lists:
            raise Py4JJavaError(*_ABSENT)
        size = lists[name]
        return _Field(value=None if size is None else SimpleNamespace(size=lambda: size))

    kind = SimpleNamespace(getDeclaredField=field)
    return SimpleNamespace(getClass=lambda: kind, seenFiles=lambda: SimpleNamespace(size=lambda: seen))


def test_files_that_were_deleted_since_they_were_read_hide_none_that_are_known_to_be_left() -> None:
    end = FilesOffset.of(1, ())
    source = _files(100, allFilesForTriggerAvailableNow=90, unreadFiles=40)
    assert _behind(_execution(source), end) == Behind(files=40)
    # Those of all sources.
    other = _files(3, allFilesForTriggerAvailableNow=5, unreadFiles=None)
    assert _behind(_execution(source, other), end, end).files == 42


def test_nothing_is_known_of_sources_of_other_kinds_or_of_a_spark_without_such_lists() -> None:
    assert _behind(_execution(_files(3)), FilesOffset.of(1, ())) == Behind(files=0)
    bare = SimpleNamespace(getClass=_files(3).getClass)
    assert _behind(_execution(bare), FilesOffset.of(1, ())) == UNKNOWN
    assert _behind(_execution(bare), OtherOffset("5")) == UNKNOWN
    assert _behind(_execution(bare, bare), FilesOffset.of(1, ())) == UNKNOWN

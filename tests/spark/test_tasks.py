"""What a task does with an error of the sink's: it reports it, or has Spark try the task again."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyspark
import pytest

from hivesink.errors import NotWritable, StoreUnavailable
from hivesink.sink.task.messages import TaskFailure, TaskReport
from hivesink.spark import shipping, tasks

if TYPE_CHECKING:
    from collections.abc import Callable

Raised = tuple[type[Exception], tuple[str, ...]]

FULL: Raised = (StoreUnavailable, ("write", "/w/t", "the disk is full"))
READ_ONLY: Raised = (NotWritable, ("/w/t", "Read-only file system"))


@dataclass
class Tools:
    """They raise an error when they are opened, and cross to the task as what it is made of."""

    error: Raised

    def open(self, _: object) -> Any:
        kind, arguments = self.error
        raise kind(*arguments)


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch) -> Callable[..., TaskReport]:
    def run(error: Raised, attempt: int, tries: int) -> TaskReport:
        context = SimpleNamespace(partitionId=lambda: 3, taskAttemptId=lambda: 17, attemptNumber=lambda: attempt)
        monkeypatch.setattr(pyspark.TaskContext, "get", lambda: context)
        (batch,) = tasks.write(iter(()), shipping.sealed((None, Tools(error), tries)))
        return TaskReport.decode(batch.column(0)[0].as_py())

    return run


@pytest.mark.parametrize(
    ("error", "attempt", "tries", "outcome"),
    [
        (FULL, 0, 1, TaskFailure("could not write /w/t: the disk is full", retryable=True)),
        (FULL, 3, 4, TaskFailure("could not write /w/t: the disk is full", retryable=True)),
        (FULL, 2, 4, StoreUnavailable),
        # No other try can help here, and what isn't the sink's is Spark's matter.
        (READ_ONLY, 0, 4, TaskFailure(str(NotWritable(*READ_ONLY[1])), retryable=False)),
        ((ZeroDivisionError, ()), 3, 4, ZeroDivisionError),
    ],
)
def test_an_error_is_raised_only_where_another_try_may_help(
    task: Callable[..., TaskReport], error: Raised, attempt: int, tries: int, outcome: TaskFailure | type[Exception]
) -> None:
    if isinstance(outcome, TaskFailure):
        report = task(error, attempt, tries)
        assert (report.task, report.task_attempt, report.parts, report.failure) == (3, 17, (), outcome)
    else:
        with pytest.raises(outcome):
            task(error, attempt, tries)


def test_an_executor_with_another_version_reports_that(
    task: Callable[..., TaskReport], monkeypatch: pytest.MonkeyPatch
) -> None:
    sealed = shipping.sealed(None)
    monkeypatch.setattr(shipping, "VERSION", "0.0.9")
    monkeypatch.setattr(shipping, "sealed", lambda _: sealed)
    failure = task(FULL, 0, 4).failure
    assert failure is not None
    assert "imports 0.0.9" in failure.message
    assert not failure.retryable

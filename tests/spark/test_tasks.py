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


@pytest.mark.parametrize(("attempt", "tries"), [(0, 1), (3, 4), (5, 4)])
def test_the_last_try_reports_what_a_further_one_might_have_helped(
    task: Callable[..., TaskReport], attempt: int, tries: int
) -> None:
    report = task(FULL, attempt, tries)
    assert (report.task, report.task_attempt, report.parts) == (3, 17, ())
    assert report.failure == TaskFailure("could not write /w/t: the disk is full", retryable=True)


def test_spark_tries_again_while_that_may_help(task: Callable[..., TaskReport]) -> None:
    with pytest.raises(StoreUnavailable, match="the disk is full"):
        task(FULL, 2, 4)


def test_what_no_try_can_help_is_reported_by_the_first(task: Callable[..., TaskReport]) -> None:
    failure = task(READ_ONLY, 0, 4).failure
    assert failure is not None
    assert failure.message.startswith("/w/t can't be used (Read-only file system)")
    assert not failure.retryable


def test_another_error_is_sparks_matter(task: Callable[..., TaskReport]) -> None:
    with pytest.raises(ZeroDivisionError):
        task((ZeroDivisionError, ()), 3, 4)


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

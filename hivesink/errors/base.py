"""The root of all errors, and input that can't be used: settings, site files, DDL, texts, records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar


class HiveSinkError(Exception):
    """The root of all errors that hivesink raises on purpose; each is a line: what, where, and what to do.

    `retryable` is True where the same may succeed later (exit code 75), False where it needs a person (65).
    `code` is stable: docs/operations.md says by it what to do.
    """

    code: ClassVar[str] = "HS000"
    retryable = False

    def __init_subclass__(cls, *, code: str = "HS000", retryable: bool | None = None) -> None:
        cls.code = code
        if retryable is not None:
            cls.retryable = retryable


class InvalidOption(HiveSinkError, code="HS002"):
    """Settings are wrong; `problems` has a line for each."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        self.problems = problems
        super().__init__("; ".join(problems))


def raised(error: BaseException) -> str:
    """An error by its type and its text."""
    return f"{type(error).__name__}: {error}".removesuffix(": ")


def few(texts: Sequence[str], most: int) -> str:
    """The first `most` of them, and how many there are more."""
    more = len(texts) - most
    return ", ".join(texts[:most]) + (f" and {more:,} more" if more > 0 else "")


def appending(epoch: int) -> str:
    """How a job allows a history that doesn't follow from the log, whose last batch is that epoch."""
    return f"HiveSink.for_table(…, append={epoch})"


class OwnCodeFailed(HiveSinkError, code="HS005"):
    """A method of the user's own class has raised `error`. An error of a file or a server may pass."""

    def __init__(self, whose: str, method: str, error: BaseException) -> None:
        self.retryable = isinstance(error, OSError)
        super().__init__(f"{whose}: your own {method} raised {raised(error)}")


class Unsupported(HiveSinkError, code="HS006"):
    """Something that hivesink doesn't work with."""

    def __init__(self, what: str, why: str, instead: str) -> None:
        super().__init__(f"{what} is not supported: {why}; {instead}")


class PartitionInvalid(HiveSinkError, code="HS009"):
    """A text is no partition's path, or a value can't be part of it."""

    def __init__(self, what: str, reason: str) -> None:
        self.reason = reason
        super().__init__(f"{what} can't name a partition: {reason}")


class TypeTextInvalid(HiveSinkError, code="HS008"):
    """A text is not a Hive type that the sink knows."""

    def __init__(self, text: str, reason: str) -> None:
        self.reason = reason
        super().__init__(f"type {text!r}: {reason}")


class DdlInvalid(HiveSinkError, code="HS010"):
    """DDL files can't be used, or live tables differ from them in what can't be applied; nothing was changed."""

    def __init__(self, problems: Sequence[Any]) -> None:
        self.problems = problems
        super().__init__("\n".join(map(str, problems)))


class BadRecord(HiveSinkError, code="HS011"):
    """A record that doesn't fit the table, under `sink.on-bad-record` = `fail`."""

    def __init__(self, table: str, position: str, field: str | None, reason: str) -> None:
        where = f", field {field}" if field else ""
        super().__init__(
            f"bad record for {table} at {position}{where}: {reason}; fix the source, or set sink.on-bad-record to "
            "dead-letter or drop"
        )


class SourceUnreachable(HiveSinkError, code="HS014", retryable=True):
    """A server doesn't answer: Kafka, a schema registry, Spark's master, the Maven repository."""

    def __init__(self, source: str, reason: str) -> None:
        super().__init__(f"{source}: {reason}")

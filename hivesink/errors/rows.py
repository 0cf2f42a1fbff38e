"""Records and columns that don't fit their table."""

from __future__ import annotations

from hivesink.errors.base import HiveSinkError


class BadRecord(HiveSinkError):
    """A record that doesn't fit the table, under `sink.on-bad-record` = `fail`."""

    def __init__(self, table: str, position: str, field: str | None, reason: str) -> None:
        self.table = table
        self.position = position
        self.field = field
        self.reason = reason
        where = f", field {field}" if field else ""
        super().__init__(
            f"bad record for {table} at {position}{where}: {reason}; mend the source, or set sink.on-bad-record to "
            "dead-letter or drop"
        )


class ValueUnfit(HiveSinkError):
    """A value can't be a partition value of its column's type."""

    def __init__(self, value: object, kind: object, reason: str) -> None:
        self.value = value
        self.kind = kind
        self.reason = reason
        super().__init__(f"{value!r:.80} can't be a partition value of type {kind}: {reason}")


class MissingColumns(HiveSinkError):
    """The stream has no column, or several, for columns of the table."""

    def __init__(self, table: str, missing: tuple[str, ...], found: tuple[str, ...]) -> None:
        self.table = table
        self.missing = missing
        self.found = found
        super().__init__(
            f"the stream has not exactly one column for {', '.join(missing)} of {table} (it has {', '.join(found)}); "
            "select or rename the columns, or send the raw record as `value`"
        )


class ColumnsDontFit(HiveSinkError):
    """The stream's columns have types that can't become the table's."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        self.problems = problems
        super().__init__("the stream doesn't fit the table: " + "; ".join(problems))


class SourceUnreachable(HiveSinkError):
    """A source doesn't answer, or doesn't know what it was asked for."""

    retryable = True

    def __init__(self, source: str, reason: str) -> None:
        self.source = source
        self.reason = reason
        super().__init__(f"{source}: {reason}")

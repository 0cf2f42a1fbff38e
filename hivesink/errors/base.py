"""The root of all errors, and input that can't be used: settings, site files, DDL, texts, records."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


class HiveSinkError(Exception):
    """The root of all errors that hivesink raises on purpose; each is one line: what, where, and what to do.

    `retryable` is True where the same may succeed later (exit code 75), False where it needs a person (65, or 2).
    """

    retryable = False


class InvalidOption(HiveSinkError):
    """One or more settings are wrong; `problems` has a line for each."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        self.problems = problems
        super().__init__("; ".join(problems))


class WrongUsage(InvalidOption):
    """The command line itself is wrong: a value, what goes together, or a file that it names (exit code 2)."""


class NoMetastore(InvalidOption):
    """No metastore is named, and no embedded one runs in `folder`."""

    def __init__(self, folder: object) -> None:
        problem = (
            f"no metastore: no embedded one runs in {folder}; if you started it elsewhere, change to that folder or "
            "set HIVESINK_HOME to its .hivesink-local; or set HIVE_CONF_DIR to the folder of hive-site.xml, or "
            "HIVESINK_METASTORE to thrift://HOST:PORT; or start the embedded one with `hivesink metastore start`"
        )
        super().__init__((problem,))


class OwnClassMissing(InvalidOption):
    """A class of the user's own, which an option names, can't be made here."""


def raised(error: BaseException) -> str:
    """An error by its type and its text."""
    return f"{type(error).__name__}: {error}".removesuffix(": ")


def few(texts: Sequence[str], most: int) -> str:
    """The first `most` of them, and how many there are more."""
    more = len(texts) - most
    return ", ".join(texts[:most]) + (f" and {more:,} more" if more > 0 else "")


def meant(word: str, known: Sequence[str]) -> str:
    """What to add to a message of a word that isn't known: the nearest one that is, or nothing."""
    near = get_close_matches(word, known, n=1)
    return f"; did you mean {near[0]}?" if near else ""


def appending(epoch: int) -> str:
    """How a job allows a history that doesn't follow from the log, whose last batch is that epoch."""
    return f"HiveSink.for_table(…, append={epoch})"


class OwnCodeFailed(HiveSinkError):
    """A method of the user's own class has raised `error`. One of a file or a server may pass."""

    def __init__(self, whose: str, method: str, error: BaseException) -> None:
        self.retryable = isinstance(error, OSError)
        super().__init__(f"{whose}: your own {method} raised {raised(error)}")


class Unsupported(HiveSinkError):
    """Something that hivesink doesn't work with."""

    def __init__(self, what: str, why: str, instead: str) -> None:
        super().__init__(f"{what} is not supported: {why}; {instead}")


class SiteInvalid(HiveSinkError):
    """A file of the site's own Hadoop or Hive configuration can't be used."""

    def __init__(self, file: str, problem: str) -> None:
        super().__init__(
            f"the site configuration {file}: {problem}; fix it, or set HADOOP_CONF_DIR and HIVE_CONF_DIR to other "
            "folders"
        )


class TypeTextInvalid(HiveSinkError):
    """A text is not a Hive type that the sink knows."""

    def __init__(self, text: str, reason: str) -> None:
        self.reason = reason
        super().__init__(f"type {text!r}: {reason}")


class PartitionPathInvalid(HiveSinkError):
    """A path is not `name=value/name=value`, or can't be made."""

    def __init__(self, path: str, reason: str) -> None:
        self.reason = reason
        super().__init__(f"partition path {path!r}: {reason}")


class DdlProblem(NamedTuple):
    """One mistake in a DDL file; `line` counts from 1, and 0 means the file as a whole."""

    file: str
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.file}{f':{self.line}' * bool(self.line)}: {self.reason}"


class DdlInvalid(HiveSinkError):
    """The DDL files of one run can't be used; `problems` are those of all files, one a line."""

    def __init__(self, problems: tuple[DdlProblem, ...]) -> None:
        self.problems = problems
        super().__init__("\n".join(str(problem) for problem in problems))


class DdlDiffers(HiveSinkError):
    """Live tables differ from their DDL in ways that can't be applied; one a line, nothing was changed."""

    def __init__(self, differences: tuple[str, ...]) -> None:
        super().__init__("\n".join(differences))


class BadRecord(HiveSinkError):
    """A record that doesn't fit the table, under `sink.on-bad-record` = `fail`."""

    def __init__(self, table: str, position: str, field: str | None, reason: str) -> None:
        where = f", field {field}" if field else ""
        super().__init__(
            f"bad record for {table} at {position}{where}: {reason}; fix the source, or set sink.on-bad-record to "
            "dead-letter or drop"
        )


class ValueUnfit(HiveSinkError):
    """A value can't be a partition value of its column's type."""

    def __init__(self, value: object, kind: object, reason: str) -> None:
        self.reason = reason
        super().__init__(f"{value!r:.80} can't be a partition value of type {kind}: {reason}")


class MissingColumns(HiveSinkError):
    """The stream has no column, or several, for columns of the table."""

    def __init__(self, table: str, missing: tuple[str, ...], found: tuple[str, ...]) -> None:
        super().__init__(
            f"{table} needs exactly one column of the stream for each of {', '.join(missing)}, but the stream has "
            f"{', '.join(found)}; select or rename the columns, or, if the records are "
            "raw, leave out the columns that the table has too, except `value`"
        )


class ColumnsDontFit(HiveSinkError):
    """The stream's columns have types that can't become the table's."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("the stream doesn't fit the table: " + "; ".join(problems))


class TopicMissing(HiveSinkError):
    """A broker answered that there is no such topic: a wrong name stays wrong, however often it is tried."""

    def __init__(self, source: str) -> None:
        super().__init__(f"{source}: no such topic: create it, or correct its name")


class SourceUnreachable(HiveSinkError):
    """A source doesn't answer."""

    retryable = True

    def __init__(self, source: str, reason: str) -> None:
        super().__init__(f"{source}: {reason}")

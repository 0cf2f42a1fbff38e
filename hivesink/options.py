"""The sink's settings: TBLPROPERTIES of the table, with Flink's names where Flink has one.

`OPTIONS` is the one list of them; the parser, `ddl plan` and `docs/options.md` (which a test holds to this list)
all come from it.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from hivesink.core.bucket import TimePattern
from hivesink.core.partname import PREFIX, SUFFIX
from hivesink.errors import InvalidOption

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class OnBadRecord(Enum):
    """What a record that doesn't fit the table does."""

    FAIL = "fail"
    DEAD_LETTER = "dead-letter"
    DROP = "drop"


class OnNull(Enum):
    """What a null or empty partition value means."""

    DEFAULT_PARTITION = "default-partition"
    BAD_RECORD = "bad-record"


class OnTombstone(Enum):
    """What a Kafka record without a value is."""

    SKIP = "skip"
    BAD_RECORD = "bad-record"


class OnUnknownField(Enum):
    """What a JSON field that no column matches is."""

    IGNORE = "ignore"
    BAD_RECORD = "bad-record"


class PolicyKind(Enum):
    """What marks a partition as committed."""

    METASTORE = "metastore"
    SUCCESS_FILE = "success-file"


class Compression(Enum):
    """`parquet.compression`, Hive's own property. Codecs that every Hive reader knows."""

    SNAPPY = "snappy"
    GZIP = "gzip"
    ZSTD = "zstd"
    NONE = "uncompressed"

    @property
    def extension(self) -> str:
        return {"snappy": ".snappy.parquet", "gzip": ".gz.parquet", "zstd": ".zstd.parquet"}.get(self.value, ".parquet")


@dataclass(frozen=True, slots=True)
class OptionSpec:
    """One setting: its text default (None: there is none), its unit or accepted values, and what it does."""

    name: str
    default: str | None
    values: str
    help: str
    parse: Callable[[str], Any]


_UNITS = {"b": 1, "k": 1 << 10, "kb": 1 << 10, "m": 1 << 20, "mb": 1 << 20, "g": 1 << 30, "gb": 1 << 30}
_TIMES = {
    "ms": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "sec": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "min": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
}
_QUANTITY = re.compile(r"(\d+)\s*([a-z]*)")


def size(text: str) -> int:
    """Bytes of `128MB`, `64 kb`, `1000`; ValueError otherwise."""
    found = _QUANTITY.fullmatch(text.strip().lower())
    if found is None or (found[2] or "b") not in _UNITS or int(found[1]) == 0:
        message = "write a size such as 128MB"
        raise ValueError(message)
    return int(found[1]) * _UNITS[found[2] or "b"]


def duration(text: str) -> timedelta:
    """The duration of `30min`, `5 s`, `1h`; ValueError otherwise."""
    found = _QUANTITY.fullmatch(text.strip().lower())
    if found is None or found[2] not in _TIMES:
        message = "write a duration such as 30min, 10s or 1h"
        raise ValueError(message)
    return int(found[1]) * _TIMES[found[2]]


def zone(text: str) -> ZoneInfo:
    """A zone of the IANA database; ValueError otherwise."""
    try:
        return ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        message = "write a zone of the IANA database such as Europe/Berlin or UTC"
        raise ValueError(message) from error


_E = TypeVar("_E", bound=Enum)


def _one_of(kind: type[_E]) -> Callable[[str], _E]:
    def parse(text: str) -> _E:
        for member in kind:
            if member.value == text.strip().lower():
                return member
        message = "write one of " + ", ".join(member.value for member in kind)
        raise ValueError(message)

    return parse


def _policies(text: str) -> frozenset[PolicyKind]:
    kinds = frozenset(_one_of(PolicyKind)(part) for part in text.split(","))
    if PolicyKind.METASTORE not in kinds:
        message = "metastore must be among them, or no reader finds the partition"
        raise ValueError(message)
    return kinds


def _positive(text: str) -> int:
    if not text.strip().isdigit() or int(text) == 0:
        message = "write a whole number above 0"
        raise ValueError(message)
    return int(text)


def _matching(pattern: re.Pattern[str], what: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if pattern.fullmatch(text) is None:
            raise ValueError(what)
        return text

    return parse


def _assigner(text: str) -> str:
    if text in {"partition-columns", "date-time"} or re.fullmatch(r"[\w.]+:\w+", text):
        return text
    message = "write partition-columns, date-time, or your own class as module:Class"
    raise ValueError(message)


def _time_format(text: str) -> Mapping[str, str]:
    """`epoch-millis` for every column (key `""`), or `column=epoch-millis,…`; `text` is the default."""
    found: dict[str, str] = {}
    for item in text.split(","):
        column, _, kind = item.strip().rpartition("=")
        if kind not in {"text", "epoch-millis"}:
            message = "write text, epoch-millis, or column=epoch-millis,…"
            raise ValueError(message)
        found[column.strip().lower()] = kind
    return found


def _file_name(text: str) -> str:
    if not text or not re.fullmatch(r"[\w.-]+", text) or text[0] not in "._":
        message = "write a file name that begins with _ or . so that readers pass over it"
        raise ValueError(message)
    return text


OPTIONS: Mapping[str, OptionSpec] = {
    spec.name: spec
    for spec in (
        OptionSpec(
            "sink.bucket.assigner",
            "partition-columns",
            "partition-columns, date-time, module:Class",
            "What decides a row's partition: the partition columns' own values, a time formatted by a pattern, or "
            "your own class.",
            _assigner,
        ),
        OptionSpec(
            "sink.bucket.time-column",
            None,
            "a column",
            "For date-time: the column whose time decides: one of the table's, or of the record (`timestamp` of a "
            "Kafka record). Without it, the batch's arrival time, fixed once per batch.",
            lambda text: text.strip().lower(),
        ),
        OptionSpec(
            "sink.bucket.time-pattern",
            "yyyy-MM-dd--HH",
            "pattern, or column=pattern,…",
            "For date-time: the partition value's pattern (letters yMdHms, text in single quotes), one for each "
            "partition column.",
            TimePattern.parse_all,
        ),
        OptionSpec(
            "sink.bucket.time-zone",
            "UTC",
            "IANA zone",
            "For date-time: the zone of the partition values.",
            zone,
        ),
        OptionSpec(
            "sink.bucket.on-null",
            "default-partition",
            "default-partition, bad-record",
            "A null or empty partition value goes to `__HIVE_DEFAULT_PARTITION__`, or is a bad record.",
            _one_of(OnNull),
        ),
        OptionSpec(
            "sink.on-bad-record",
            "fail",
            "fail, dead-letter, drop",
            "A record that doesn't fit the table stops the query, goes to the table `<table>__rejected`, or is counted "
            "and dropped.",
            _one_of(OnBadRecord),
        ),
        OptionSpec(
            "sink.on-tombstone",
            "skip",
            "skip, bad-record",
            "A Kafka record without a value is skipped and counted, or is a bad record.",
            _one_of(OnTombstone),
        ),
        OptionSpec(
            "sink.on-unknown-field",
            "ignore",
            "ignore, bad-record",
            "A JSON field that no column matches is ignored, or makes a bad record.",
            _one_of(OnUnknownField),
        ),
        OptionSpec(
            "sink.timestamp-zone",
            "UTC",
            "IANA zone",
            "The zone in which an instant (epoch number, or text with an offset) becomes a TIMESTAMP's wall clock.",
            zone,
        ),
        OptionSpec(
            "sink.timestamp-format",
            "text",
            "text, epoch-millis, or column=epoch-millis,…",
            "Whether numbers are accepted for TIMESTAMP and DATE columns, as milliseconds since 1970-01-01 UTC.",
            _time_format,
        ),
        OptionSpec(
            "sink.part-prefix",
            "part",
            "letters, digits, _ and -",
            "How part files' names begin.",
            _matching(PREFIX, "write letters, digits, _ and single - only, a letter or digit first"),
        ),
        OptionSpec(
            "sink.part-suffix",
            "",
            ".word",
            "What stands before the format's own ending in part files' names.",
            _matching(SUFFIX, "write words that each begin with a dot, such as .events"),
        ),
        OptionSpec(
            "sink.rolling-policy.file-size",
            "128MB",
            "bytes, KB, MB, GB",
            "A task begins a new part file of a bucket when the last one has reached this size.",
            size,
        ),
        OptionSpec(
            "sink.task-memory",
            "256MB",
            "bytes, KB, MB, GB",
            "The most that a task holds in memory over all its open buckets; the largest bucket is written out first.",
            size,
        ),
        OptionSpec(
            "sink.partition-commit.policy.kind",
            "metastore",
            "metastore; metastore,success-file",
            "What marks a partition as committed after each epoch that writes to it.",
            _policies,
        ),
        OptionSpec(
            "sink.partition-commit.success-file.name",
            "_SUCCESS",
            "file name",
            "The success file's name.",
            _file_name,
        ),
        OptionSpec(
            "sink.log-location",
            None,
            "absolute path",
            "The folder of the commit log, one below it for each writer. Must lie outside the table's location. "
            "Without it: `.hivesink/<db>.<table>` beside the table's folder.",
            lambda text: text.rstrip("/"),
        ),
        OptionSpec(
            "sink.log.retained-epochs",
            "200",
            "epochs",
            "How many manifests are kept at the least for `verify` and `status`; older ones become the floor's totals.",
            _positive,
        ),
        OptionSpec(
            "sink.registration.retry-interval",
            "30s",
            "ms, s, min, h",
            "How often a publish or registration that waits for the metastore is tried while no data comes.",
            duration,
        ),
        OptionSpec(
            "sink.registration.max-delay",
            "1h",
            "ms, s, min, h",
            "How long publishing and registering may wait for a metastore that is down before the query fails.",
            duration,
        ),
        OptionSpec(
            "parquet.compression",
            "snappy",
            "snappy, gzip, zstd, uncompressed",
            "Hive's own property. zstd only where all readers know it.",
            _one_of(Compression),
        ),
        OptionSpec(
            "parquet.block.size",
            "128MB",
            "bytes, KB, MB, GB",
            "Hive's own property: a row group's size before compression.",
            size,
        ),
    )
}


def check(properties: Mapping[str, str]) -> tuple[str, ...]:
    """Every problem of a table's settings, one line each; properties that aren't the sink's pass."""
    return _parse(properties)[1]


@dataclass(frozen=True, slots=True)
class SinkConfig:
    """A table's settings, parsed once at the edge. Sizes are bytes."""

    values: Mapping[str, Any]

    @classmethod
    def parse(cls, properties: Mapping[str, str]) -> SinkConfig:
        """Raises InvalidOption with every bad setting at once."""
        values, problems = _parse(properties)
        if problems:
            raise InvalidOption(problems)
        return cls(values)

    def __getitem__(self, name: str) -> Any:
        return self.values[name]


def _parse(properties: Mapping[str, str]) -> tuple[dict[str, Any], tuple[str, ...]]:
    problems = [_unknown(name) for name in sorted(properties) if name.startswith("sink.") and name not in OPTIONS]
    values: dict[str, Any] = {}
    for name, spec in OPTIONS.items():
        text = properties.get(name, spec.default)
        if text is None:
            values[name] = None
            continue
        try:
            values[name] = spec.parse(text)
        except ValueError as error:
            problems.append(f"{name} = {text!r}: {error}")
    return values, tuple(problems)


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name, OPTIONS, n=1)
    return f"{name} is not a setting of the sink" + (f"; did you mean {near[0]}?" if near else "")

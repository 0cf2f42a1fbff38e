"""The sink's settings: TBLPROPERTIES of the table, with Flink's names where Flink has one, and what each may be."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from hivesink.core.column_source import ColumnSource, parse_source
from hivesink.core.partition_commit import PolicyKind
from hivesink.core.table import SortKey
from hivesink.core.time_format import TimePattern, parse_formats
from hivesink.errors import InvalidOption

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


# What each value means is in docs/options.md.
OnBadRecord = Enum("OnBadRecord", {"FAIL": "fail", "DEAD_LETTER": "dead-letter", "DROP": "drop"})
OnMissingFile = Enum("OnMissingFile", {"FAIL": "fail", "IGNORE": "ignore"})
OnNull = Enum("OnNull", {"DEFAULT_PARTITION": "default-partition", "BAD_RECORD": "bad-record"})
OnTombstone = Enum("OnTombstone", {"SKIP": "skip", "BAD_RECORD": "bad-record"})
OnUnknownField = Enum("OnUnknownField", {"IGNORE": "ignore", "BAD_RECORD": "bad-record"})
Precision = Enum("Precision", {"TRUNCATE": "truncate", "EXACT": "exact"})
OnStop = Enum("OnStop", {"PUBLISH": "publish", "KEEP": "keep"})
CommitTrigger = Enum("CommitTrigger", {"PROCESS_TIME": "process-time", "PARTITION_TIME": "partition-time"})
OnLate = Enum("OnLate", {"APPEND": "append", "DEAD_LETTER": "dead-letter", "DROP": "drop"})
# The codecs that every Hive reader of Parquet knows.
ParquetCompression = Enum(
    "ParquetCompression", {"SNAPPY": "snappy", "GZIP": "gzip", "ZSTD": "zstd", "NONE": "uncompressed"}
)
# Those that pyarrow writes and Hive reads, as Hive spells them.
OrcCompression = Enum(
    "OrcCompression", {"ZLIB": "zlib", "SNAPPY": "snappy", "ZSTD": "zstd", "LZ4": "lz4", "NONE": "none"}
)
# How TIMESTAMPs are stored: Hive before 4.0 reads INT96 alone (HIVE-21215); Iceberg and others read INT64.
ParquetTimestamp = Enum("ParquetTimestamp", {"INT96": "int96", "MICROS": "micros"})


@dataclass(frozen=True, slots=True)
class Option:
    """One setting: its default as text (None: no default), and the parser of its text, which raises ValueError."""

    default: str | None
    parse: Callable[[str], Any]


_UNITS = {"": 1, "b": 1, "k": 1 << 10, "kb": 1 << 10, "m": 1 << 20, "mb": 1 << 20, "g": 1 << 30, "gb": 1 << 30}
_SECOND, _MINUTE = timedelta(seconds=1), timedelta(minutes=1)
_TIMES = {"ms": _SECOND / 1000, "s": _SECOND, "sec": _SECOND, "m": _MINUTE, "min": _MINUTE}
_TIMES |= {"h": timedelta(hours=1), "d": timedelta(days=1)}
_LONGEST = timedelta(days=36_500)
"""From any time now, a century is still within what Python and Spark can tell as a time."""
_QUANTITY = re.compile(r"(\d+)\s*([a-z]*)")


def size(text: str) -> int:
    """Bytes of `128MB`, `64 kb`, `1000`; ValueError otherwise."""
    quantity = _QUANTITY.fullmatch(text.strip().lower())
    if quantity is None or quantity[2] not in _UNITS or int(quantity[1]) == 0:
        message = "write a size such as 128MB"
        raise ValueError(message)
    return int(quantity[1]) * _UNITS[quantity[2]]


def duration(text: str) -> timedelta:
    """The duration of `30min`, `5 s`, `1h`; ValueError otherwise."""
    quantity = _QUANTITY.fullmatch(text.strip().lower())
    if quantity is None or quantity[2] not in _TIMES:
        message = "write a duration such as 30min, 10s or 1h"
        raise ValueError(message)
    # First, since a timedelta may overflow.
    if int(quantity[1]) > _LONGEST / _TIMES[quantity[2]]:
        message = f"write a shorter duration: {_LONGEST.days}d at most"
        raise ValueError(message)
    return int(quantity[1]) * _TIMES[quantity[2]]


def zone(text: str) -> ZoneInfo:
    """A zone of the IANA database; ValueError otherwise."""
    try:
        return ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        message = "write a zone of the IANA database such as Europe/Berlin or UTC"
        raise ValueError(message) from error


def matching(pattern: str | re.Pattern[str], problem: str, made: Callable[[str], Any] = str) -> Callable[[str], Any]:
    """A parser that returns what is `made` of a text that matches as a whole; `problem` says what to write instead."""

    def parse(text: str) -> Any:
        if re.fullmatch(pattern, text) is None:
            raise ValueError(problem)
        return made(text)

    return parse


def one_of(kind: type[Enum]) -> Callable[[str], Any]:
    """A parser of `kind`'s values."""
    values = [str(member.value) for member in kind]
    pattern = rf"(?i)\s*({'|'.join(values)})\s*"
    return matching(pattern, f"write {' or '.join(values)}", lambda text: kind(text.strip().lower()))


interval = matching(r".*[1-9].*", "write a duration above 0, such as 30s", duration)
flag = matching(r"(?i)\s*(true|false)\s*", "write true or false", lambda text: text.strip().lower() == "true")


def sort_keys(text: str) -> tuple[SortKey, ...]:
    """`a, b desc`; ValueError otherwise."""
    items = [re.fullmatch(r"\s*(.*?)(?:\s+(asc|desc))?\s*", item.lower()) for item in text.split(",")]
    keys = tuple(SortKey(item[1], item[2] == "desc") for item in items if item and item[1])
    if len({key.column for key in keys}) < len(items):
        message = "write columns, separated by commas, each once: a, b desc"
        raise ValueError(message)
    return keys


class Policies(NamedTuple):
    """How a commit is made known, in this order; `plugin` is the class that CUSTOM calls."""

    kinds: tuple[PolicyKind, ...]
    plugin: str | None = None

    @classmethod
    def parse(cls, text: str) -> Policies:
        """Commit policies and at most a single `module:Class`, separated by commas; ValueError otherwise."""
        parts = list(dict.fromkeys(part.strip() for part in text.split(",")))
        plugins = [part for part in parts if re.fullmatch(r"[\w.]+:\w+", part)]
        named = {kind.value: kind for kind in PolicyKind if kind is not PolicyKind.CUSTOM}
        others = [part for part in parts if part not in plugins and part.lower() not in named]
        if others or len(plugins) > 1 or PolicyKind.METASTORE.value not in map(str.lower, parts):
            message = f"write metastore, and what else of {', '.join(named)}, and a single module:Class"
            raise ValueError(message)
        kinds = tuple(PolicyKind.CUSTOM if part in plugins else named[part.lower()] for part in parts)
        return cls(kinds, next(iter(plugins), None))


assigner = matching(r"partition-columns|date-time|[\w.]+:\w+", "write partition-columns, date-time, or module:Class")
plugin = matching(r"none|[\w.]+:\w+", "write module:Class, or none", lambda text: None if text == "none" else text)
# Readers pass over it.
file_name = matching(r"(?!\.\.?$)[._][\w.-]*", "write a file name that begins with _ or ., but not . or ..")
positive = matching(r"\s*\d*[1-9]\d*\s*", "write a whole number above 0", int)
stride = matching(r"\s*[1-9]\d{0,8}\s*", "write a whole number from 1 to 999999999", int)
stripe = matching(r"(?i)\s*0*[1-9](\d{6,}|\d{3,} *k|\d* *[mg])b?\s*", "write a size of at least 1MB", size)
permission = matching(r"\s*0?[4-7][0-7]{2}\s*", "write an octal mode, such as 640", lambda text: int(text, 8))
share = matching(r"\s*0?\.\d*[1-9]\d*\s*", "write a number between 0 and 1, such as 0.05", float)
columns = matching(
    r".*\w.*", "write columns, separated by commas", lambda text: tuple(map(str.strip, text.lower().split(",")))
)
location = matching(r"(?s)(?:/|file:/|[a-z0-9]+://).*", "write a path that isn't relative, hdfs://… or file:/…")
column = matching(r"\s*\S.*", "write the name of a column", lambda text: text.strip().lower())


OPTIONS: Mapping[str, Option] = {
    "sink.bucket.assigner": Option("partition-columns", assigner),
    "sink.bucket.time-column": Option(None, column),
    "sink.bucket.time-pattern": Option("yyyy-MM-dd--HH", TimePattern.parse_all),
    "sink.bucket.time-zone": Option("UTC", zone),
    "sink.bucket.on-null": Option("default-partition", one_of(OnNull)),
    "sink.on-bad-record": Option("fail", one_of(OnBadRecord)),
    "sink.on-tombstone": Option("skip", one_of(OnTombstone)),
    "sink.on-unknown-field": Option("ignore", one_of(OnUnknownField)),
    "sink.on-missing-file": Option("fail", one_of(OnMissingFile)),
    "sink.value.format": Option("json", matching("[a-z-]+", "write the name of a format, such as json")),
    "sink.timestamp-zone": Option("UTC", zone),
    "sink.timestamp-format": Option("text", parse_formats),
    "sink.json.timestamp-precision": Option("truncate", one_of(Precision)),
    "sink.file.permission": Option(None, permission),
    "sink.sort-by": Option(None, sort_keys),
    "sink.shuffle-by-partition.enable": Option("false", flag),
    "sink.rolling-policy.file-size": Option("128MB", size),
    "sink.rolling-policy.on-epoch": Option("false", flag),
    "sink.rolling-policy.rollover-interval": Option("5min", interval),
    "sink.rolling-policy.inactivity-interval": Option("1min", interval),
    "sink.rolling-policy.check-interval": Option("10s", interval),
    "sink.rolling-policy.class": Option(None, plugin),
    "sink.open-bytes-limit": Option("10GB", size),
    "sink.on-stop": Option("publish", one_of(OnStop)),
    "sink.task-memory": Option("256MB", size),
    "sink.partition-commit.trigger": Option("process-time", one_of(CommitTrigger)),
    "sink.partition-commit.delay": Option(None, duration),
    "sink.partition-commit.watermark-column": Option(None, column),
    "sink.partition-commit.watermark-delay": Option("0s", duration),
    "sink.partition-commit.idle-timeout": Option("5min", interval),
    "sink.late-rows": Option("append", one_of(OnLate)),
    "partition.time-extractor.class": Option(None, plugin),
    "partition.time-extractor.timestamp-pattern": Option(None, str),
    "partition.time-extractor.timestamp-formatter": Option(None, TimePattern.parse),
    "sink.partition-commit.policy.kind": Option("metastore", Policies.parse),
    "sink.partition-commit.success-file.name": Option("_SUCCESS", file_name),
    "sink.log-location": Option(None, location),
    "sink.log.retained-epochs": Option("200", positive),
    "sink.registration.max-delay": Option("1h", duration),
    "sink.parquet.timestamp": Option("int96", one_of(ParquetTimestamp)),
}
"""The only list of the settings; `docs/options.md`, which a test holds to it, says what each does."""

OF_HIVE: Mapping[str, Option] = {
    "parquet.compression": Option("snappy", one_of(ParquetCompression)),
    "parquet.block.size": Option("128MB", size),
    "orc.compress": Option("zlib", one_of(OrcCompression)),
    "orc.stripe.size": Option("64MB", stripe),
    "orc.row.index.stride": Option("10000", stride),
    "orc.bloom.filter.columns": Option(None, columns),
    "orc.bloom.filter.fpp": Option("0.05", share),
}
"""Hive's own table properties that the writers of its formats heed; documented there, too."""


_SOURCE = re.compile(r"sink\.column\.([^.]+)\.from")
_SOURCE_OPTION = Option(None, parse_source)
"""`sink.column.<name>.from`, for each column: names are in lower case in a `SinkConfig`."""
_EVERY = {**OPTIONS, **OF_HIVE}
_DEFAULTS = {name: option.default and option.parse(option.default) for name, option in _EVERY.items()}
PREFIXES = ("sink.", "partition.time-extractor.")
"""How the properties begin that are the sink's alone."""


@dataclass(frozen=True, slots=True)
class SinkConfig:
    """A table's settings, parsed once at the edge. Sizes are bytes."""

    values: Mapping[str, Any]
    changed: Mapping[str, str] = field(default_factory=dict)
    """The texts of those that aren't at their default."""

    @classmethod
    def parse(cls, properties: Mapping[str, str], own: Mapping[str, str] | None = None) -> SinkConfig:
        """`own`, the job's, override the table's, and must be known. Raises InvalidOption with all bad settings."""
        config, problems = _parsed(properties, own or {})
        if problems:
            raise InvalidOption(problems)
        return config

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    @property
    def sources(self) -> dict[str, ColumnSource]:
        """Where columns come from that aren't the field of their own name."""
        return {match[1]: value for name, value in self.values.items() if (match := _SOURCE.fullmatch(name))}

    @property
    def has_dead_letters(self) -> bool:
        """Whether bad records, or late rows, go to the table of dead letters."""
        return "dead-letter" in {self["sink.late-rows"].value, self["sink.on-bad-record"].value}

    def text(self, name: str) -> str | None:
        """As it would be written: its default, where it isn't changed; None for no value."""
        return self.changed.get(name, _EVERY[name].default if name in _EVERY else None)


def as_texts(options: Mapping[str, object]) -> dict[str, str]:
    """The values as TBLPROPERTIES have them: 10 is `10`, True is `true`."""
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in options.items()}


def check(properties: Mapping[str, str]) -> tuple[str, ...]:
    """Every problem of a table's settings, a line each; properties of others are ignored."""
    return _parsed(properties, {})[1]


def _parsed(properties: Mapping[str, str], own: Mapping[str, str]) -> tuple[SinkConfig, tuple[str, ...]]:
    # The names of columns are in lower case, as Hive has them.
    given = {_lowered(name): text for texts in (properties, own) for name, text in texts.items()}
    sources = {name: _SOURCE_OPTION for name in given if _SOURCE.fullmatch(name)}
    options = {**_EVERY, **sources}
    wrong = (name for name in sorted(given) if name not in options and (name in own or name.startswith(PREFIXES)))
    problems = [f"{name} is not a setting of the sink" for name in wrong]
    twice = Counter(map(_lowered, properties))
    problems += [f"{name} is set twice, in different case" for name in sorted(sources) if twice[name] > 1]
    parsed: dict[str, Any] = {}
    for name, option in options.items():
        text = given.get(name, option.default)
        try:
            parsed[name] = None if text is None else option.parse(text)
        except ValueError as error:
            problems.append(f"{name} = {text!r}: {error}")
    own_texts = {name: text for name, text in given.items() if name in parsed and parsed[name] != _DEFAULTS.get(name)}
    return SinkConfig(parsed, own_texts), tuple(problems)


def _lowered(name: str) -> str:
    return name.lower() if _SOURCE.fullmatch(name) else name

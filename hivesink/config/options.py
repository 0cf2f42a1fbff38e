"""The sink's settings: TBLPROPERTIES of the table, with Flink's names where Flink has one, and what each may be."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from hivesink.config.parsers import (
    Option,
    assigner,
    column,
    columns,
    duration,
    file,
    file_name,
    flag,
    interval,
    location,
    matching,
    null_texts,
    one_of,
    permission,
    plugin,
    policies,
    positive,
    registry,
    secret,
    sign,
    sign_or_none,
    size,
    sort_keys,
    stride,
    stripe,
    zone,
)
from hivesink.core.column_source import ColumnSource, KeyPath, parse_list, parse_source
from hivesink.core.time_format import TimePattern, parse_formats
from hivesink.errors import InvalidOption

# What each value means is in docs/options.md.
OnBadRecord = Enum("OnBadRecord", {"FAIL": "fail", "DEAD_LETTER": "dead-letter", "DROP": "drop"})
OnMissingFile = Enum("OnMissingFile", {"FAIL": "fail", "IGNORE": "ignore"})
OnNull = Enum("OnNull", {"DEFAULT_PARTITION": "default-partition", "BAD_RECORD": "bad-record"})
OnTombstone = Enum("OnTombstone", {"SKIP": "skip", "BAD_RECORD": "bad-record"})
OnUnknownField = Enum("OnUnknownField", {"IGNORE": "ignore", "BAD_RECORD": "bad-record"})
Precision = Enum("Precision", {"TRUNCATE": "truncate", "EXACT": "exact"})
# Debezium's own names: its `decimal.handling.mode`.
DecimalHandling = Enum("DecimalHandling", {"DOUBLE": "double", "PRECISE": "precise", "STRING": "string"})
Image = Enum("Image", {"AFTER": "after", "BEFORE": "before", "BOTH": "both"})
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


_OF_REGISTRY: Mapping[str, Option] = {
    "url": Option(None, registry),
    "basic-auth.user-info": Option(None, secret),
    "bearer-auth.token": Option(None, secret),
    "ssl.truststore.location": Option(None, file),
    "ssl.keystore.location": Option(None, file),
    "timeout": Option("10s", interval),
    "unknown-id-timeout": Option("5min", duration),
}
"""Of each format whose schemas are in a registry, under its name."""

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
    "sink.value.csv.field-delimiter": Option(",", sign),
    "sink.value.csv.quote-character": Option('"', sign_or_none),
    "sink.value.csv.escape-character": Option("none", sign_or_none),
    "sink.value.csv.null-literal": Option(None, str),
    "sink.value.csv.header": Option(None, str),
    "sink.value.avro.schema-file": Option(None, location),
    "sink.value.protobuf.schema-file": Option(None, location),
    "sink.value.protobuf.message-name": Option(None, str),
    **{
        f"sink.value.{form}.{name}": option
        for form in ("avro-confluent", "debezium-avro-confluent", "protobuf-confluent")
        for name, option in _OF_REGISTRY.items()
    },
    "sink.value.debezium.image": Option("after", one_of(Image)),
    "sink.value.debezium.decimal-handling-mode": Option("double", one_of(DecimalHandling)),
    "sink.timestamp-zone": Option("UTC", zone),
    "sink.timestamp-format": Option("text", parse_formats),
    "sink.json.explode": Option(None, parse_list),
    "sink.json.null-text": Option("none", null_texts),
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
    "sink.partition-commit.policy.kind": Option("metastore", policies),
    "sink.partition-commit.success-file.name": Option("_SUCCESS", file_name),
    "sink.log-location": Option(None, location),
    "sink.log.retained-epochs": Option("200", positive),
    "sink.registration.max-delay": Option("1h", duration),
    "sink.kafka.commit-group": Option(
        None, matching(r"(?:[\w.-]|\$\{(?:table|writer)\})+", "write a name, such as hivesink.${table}.${writer}")
    ),
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
}
"""Hive's own table properties that the writers of its formats heed; documented there, too."""


_SOURCE = re.compile(r"sink\.column\.([^.]+)\.from")
_SOURCE_OPTION = Option(None, parse_source)
"""`sink.column.<name>.from`, for each column: names are in lower case in a `SinkConfig`."""
_EVERY = {**OPTIONS, **OF_HIVE}
_DEFAULTS = {name: option.default and option.parse(option.default) for name, option in _EVERY.items()}
PREFIXES = ("sink.", "partition.time-extractor.")
"""How the properties begin that are the sink's alone."""
_VALUE, _KEY = "sink.value.", "sink.key."


@dataclass(frozen=True, slots=True)
class SinkConfig:
    """A table's settings, parsed once at the edge. Sizes are bytes."""

    values: Mapping[str, Any]
    changed: Mapping[str, str] = field(default_factory=dict)
    """The texts of those that aren't at their default."""

    @classmethod
    def parse(cls, properties: Mapping[str, str], own: Mapping[str, str] | None = None) -> SinkConfig:
        """`own`, the job's, override the table's, and must be known. Raises InvalidOption with all bad settings."""
        own = own or {}
        # The names of columns are in lower case, as Hive has them.
        given = {_lowered(name): text for texts in (properties, own) for name, text in texts.items()}
        sources = {name: _SOURCE_OPTION for name in given if _SOURCE.fullmatch(name)}
        of_value = {name: name.replace(_KEY, _VALUE, 1) for name in given if name.startswith(_KEY)}
        keys = {name: OPTIONS[other] for name, other in of_value.items() if other in OPTIONS}
        options = {**_EVERY, **sources, **keys}
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
                # What was to be a place may be the secret itself.
                shown = name if option.parse in {secret, registry} else f"{name} = {text!r}"
                problems.append(f"{shown}: {error}")
        if problems:
            raise InvalidOption(tuple(problems))
        return cls(parsed, {name: text for name, text in given.items() if parsed.get(name) != _DEFAULTS.get(name)})

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    @property
    def sources(self) -> dict[str, ColumnSource]:
        """Where columns come from that aren't the field of their own name."""
        return {match[1]: value for name, value in self.values.items() if (match := _SOURCE.fullmatch(name))}

    @property
    def of_key(self) -> SinkConfig:
        """As keys are decoded: `sink.key.…` in place of `sink.value.…`, and their paths in place of records'."""
        sources = {f"sink.column.{name}.from": at.path for name, at in self.sources.items() if isinstance(at, KeyPath)}
        ignored = ("sink.json.explode", "sink.on-tombstone", "sink.on-unknown-field")
        values, changed = _of_keys(self.values), _of_keys(self.changed)
        return SinkConfig({**_DEFAULTS, **values, **sources, **{name: _DEFAULTS[name] for name in ignored}}, changed)

    @property
    def has_dead_letters(self) -> bool:
        """Whether bad records, or late rows, go to the table of dead letters."""
        return "dead-letter" in {self["sink.late-rows"].value, self["sink.on-bad-record"].value}

    def text(self, name: str) -> str | None:
        """As it would be written: its default, where it isn't changed; None for no value."""
        return self.changed.get(name, _EVERY[name].default if name in _EVERY else None)


def _of_keys(settings: Mapping[str, Any]) -> dict[str, Any]:
    given = {name: value for name, value in settings.items() if not name.startswith(_VALUE)}
    return {re.sub(f"^{re.escape(_KEY)}", _VALUE, name): value for name, value in given.items()}


def as_texts(options: Mapping[str, object]) -> dict[str, str]:
    """The values as TBLPROPERTIES have them: 10 is `10`, True is `true`."""
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in options.items()}


def _lowered(name: str) -> str:
    return name.lower() if _SOURCE.fullmatch(name) else name

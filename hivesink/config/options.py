"""The sink's settings: TBLPROPERTIES of the table, with Flink's names where Flink has one.

`OPTIONS` is the only list of them: the parser and `ddl plan` use it, and a test holds `docs/options.md` to it.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hivesink.config.values import (
    Compression,
    OnBadRecord,
    OnMissingFile,
    OnNull,
    OnTombstone,
    OnUnknownField,
    assigner,
    duration,
    file_name,
    matching,
    one_of,
    permission,
    policies,
    positive,
    size,
    time_format,
    user_name,
    zone,
)
from hivesink.core.bucket import TimePattern
from hivesink.core.partname import PREFIX, SUFFIX
from hivesink.errors import InvalidOption

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True, slots=True)
class OptionSpec:
    """One setting: its default as text (None: no default), its unit or accepted values, and what it does."""

    name: str
    default: str | None
    values: str
    help: str
    parse: Callable[[str], Any]


OPTIONS: Mapping[str, OptionSpec] = {
    spec.name: spec
    for spec in (
        OptionSpec(
            "sink.bucket.assigner",
            "partition-columns",
            "partition-columns, date-time, module:Class",
            "What decides a row's partition: the partition columns' own values, a time formatted by a pattern, or "
            "your own class.",
            assigner,
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
            one_of(OnNull),
        ),
        OptionSpec(
            "sink.on-bad-record",
            "fail",
            "fail, dead-letter, drop",
            "A record that doesn't fit the table stops the query, goes to the table `<table>__rejected`, or is counted "
            "and dropped.",
            one_of(OnBadRecord),
        ),
        OptionSpec(
            "sink.on-tombstone",
            "skip",
            "skip, bad-record",
            "A Kafka record without a value is skipped and counted, or is a bad record.",
            one_of(OnTombstone),
        ),
        OptionSpec(
            "sink.on-unknown-field",
            "ignore",
            "ignore, bad-record",
            "A JSON field that no column matches is ignored, or makes a bad record.",
            one_of(OnUnknownField),
        ),
        OptionSpec(
            "sink.on-missing-file",
            "fail",
            "fail, ignore",
            "A file of a file source that is gone when its batch is read stops the query, or is passed over with a "
            "warning.",
            one_of(OnMissingFile),
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
            time_format,
        ),
        OptionSpec(
            "sink.part-prefix",
            "part",
            "letters, digits, _ and -",
            "How part files' names begin.",
            matching(PREFIX, "write letters, digits, _ and single - only, a letter or digit first"),
        ),
        OptionSpec(
            "sink.part-suffix",
            "",
            ".word",
            "What stands before the format's own ending in part files' names.",
            matching(SUFFIX, "write words that each begin with a dot, such as .events"),
        ),
        OptionSpec(
            "sink.file.permission",
            None,
            "octal, such as 640",
            "The mode of part files and success files, before they become visible; folders made for them may also be "
            "entered by who may read.",
            permission,
        ),
        OptionSpec(
            "sink.file.owner",
            None,
            "user",
            "Who owns the new files and folders. Only a superuser of the file system can set it.",
            user_name,
        ),
        OptionSpec(
            "sink.file.group",
            None,
            "group",
            "The group of the new files and folders. The user that writes must be in it, or be a superuser.",
            user_name,
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
            policies,
        ),
        OptionSpec(
            "sink.partition-commit.success-file.name",
            "_SUCCESS",
            "file name",
            "The success file's name.",
            file_name,
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
            positive,
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
            one_of(Compression),
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
    """Every problem of a table's settings, one line each; properties of others are ignored."""
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

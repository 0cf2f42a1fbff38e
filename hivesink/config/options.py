"""The sink's settings: TBLPROPERTIES of the table, with Flink's names where Flink has one."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hivesink.config import values
from hivesink.core.bucket import TimePattern
from hivesink.core.partfile import PREFIX, SUFFIX
from hivesink.errors import InvalidOption

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True, slots=True)
class Option:
    """One setting: its default as text (None: no default), and the parser of its text, which raises ValueError."""

    default: str | None
    parse: Callable[[str], Any]


OPTIONS: Mapping[str, Option] = {
    "sink.bucket.assigner": Option("partition-columns", values.assigner),
    "sink.bucket.time-column": Option(None, lambda text: text.strip().lower()),
    "sink.bucket.time-pattern": Option("yyyy-MM-dd--HH", TimePattern.parse_all),
    "sink.bucket.time-zone": Option("UTC", values.zone),
    "sink.bucket.on-null": Option("default-partition", values.one_of(values.OnNull)),
    "sink.on-bad-record": Option("fail", values.one_of(values.OnBadRecord)),
    "sink.on-tombstone": Option("skip", values.one_of(values.OnTombstone)),
    "sink.on-unknown-field": Option("ignore", values.one_of(values.OnUnknownField)),
    "sink.on-missing-file": Option("fail", values.one_of(values.OnMissingFile)),
    "sink.timestamp-zone": Option("UTC", values.zone),
    "sink.timestamp-format": Option("text", values.time_format),
    "sink.part-prefix": Option(
        "part", values.matching(PREFIX, "write letters, digits, _ and single - only, a letter or digit first")
    ),
    "sink.part-suffix": Option("", values.matching(SUFFIX, "write words that each begin with a dot, such as .events")),
    "sink.file.permission": Option(None, values.permission),
    "sink.file.owner": Option(None, values.user_name),
    "sink.file.group": Option(None, values.user_name),
    "sink.rolling-policy.file-size": Option("128MB", values.size),
    "sink.task-memory": Option("256MB", values.size),
    "sink.partition-commit.policy.kind": Option("metastore", values.policies),
    "sink.partition-commit.success-file.name": Option("_SUCCESS", values.file_name),
    "sink.log-location": Option(None, lambda text: text.rstrip("/")),
    "sink.log.retained-epochs": Option("200", values.positive),
    "sink.registration.retry-interval": Option("30s", values.interval),
    "sink.registration.max-delay": Option("1h", values.duration),
    "parquet.compression": Option("snappy", values.one_of(values.Compression)),
    "parquet.block.size": Option("128MB", values.size),
}
"""The only list of the settings; `docs/options.md`, which a test holds to it, says what each does."""


def check(properties: Mapping[str, str]) -> tuple[str, ...]:
    """Every problem of a table's settings, one line each; properties of others are ignored."""
    return _parse(properties, {})[1]


@dataclass(frozen=True, slots=True)
class SinkConfig:
    """A table's settings, parsed once at the edge. Sizes are bytes."""

    values: Mapping[str, Any]

    @classmethod
    def parse(cls, properties: Mapping[str, str], own: Mapping[str, str] | None = None) -> SinkConfig:
        """`own`, the job's, override the table's, and must be known. Raises InvalidOption with all bad settings."""
        parsed, problems = _parse(properties, own or {})
        if problems:
            raise InvalidOption(problems)
        return cls(parsed)

    def __getitem__(self, name: str) -> Any:
        return self.values[name]


def as_texts(options: Mapping[str, object]) -> dict[str, str]:
    """The values as TBLPROPERTIES have them: 10 is `10`, True is `true`."""
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in options.items()}


def _parse(properties: Mapping[str, str], own: Mapping[str, str]) -> tuple[dict[str, Any], tuple[str, ...]]:
    given = {**properties, **own}
    wrong = (name for name in sorted(given) if name not in OPTIONS and (name in own or name.startswith("sink.")))
    problems = [_unknown(name) for name in wrong]
    parsed: dict[str, Any] = {}
    for name, option in OPTIONS.items():
        text = given.get(name, option.default)
        if text is None:
            parsed[name] = None
            continue
        try:
            parsed[name] = option.parse(text)
        except ValueError as error:
            problems.append(f"{name} = {text!r}: {error}")
    return parsed, tuple(problems)


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name, OPTIONS, n=1)
    return f"{name} is not a setting of the sink" + (f"; did you mean {near[0]}?" if near else "")

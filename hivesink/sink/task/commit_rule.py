"""The table's rule of partition commits, from its settings. Tasks need it too: it says which rows are late."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from hivesink.config.options import CommitTrigger
from hivesink.config.plugins import load_plugin
from hivesink.core.partition_commit import CommitRule
from hivesink.core.partition_time import FromPatterns, FromTemplate, PartitionClock
from hivesink.core.table import INTEGERS, TIMES, TIMES_TEXT, Primitive
from hivesink.errors import InvalidOption
from hivesink.sink.task.assign import row_columns, time_patterns

if TYPE_CHECKING:
    from hivesink.config.options import SinkConfig
    from hivesink.core.partition_time import TimeExtractor
    from hivesink.core.table import TableSpec

_ANY_NUMBERS = ("1", "2024", "20240102", "2024010203")
"""A field, a year, a day and an hour, as a column of numbers may hold them."""
_PATTERN = "partition.time-extractor.timestamp-pattern"


def commit_rule(spec: TableSpec, config: SinkConfig) -> CommitRule:
    """Raises InvalidOption where no time can be read from the table's partitions, or their length isn't known."""
    delay: timedelta | None = config["sink.partition-commit.delay"]
    if config["sink.partition-commit.trigger"] is CommitTrigger.PROCESS_TIME:
        return CommitRule(str(spec.name), None, delay or timedelta(0))
    if not spec.is_partitioned:
        problem = f"sink.partition-commit.trigger = 'partition-time': {spec.name} has no partitions"
        raise InvalidOption((problem,))
    _require_times(spec, config)
    extractor, unit = _extractor(spec, config)
    lasts = unit if delay is None else delay
    if lasts is None:
        problem = (
            "sink.partition-commit.delay is missing: with the trigger partition-time, say how long a partition lasts, "
            "such as 1h"
        )
        raise InvalidOption((problem,))
    if lasts == timedelta(0):
        problem = "sink.partition-commit.delay = 0: with the trigger partition-time it is how long a partition lasts"
        raise InvalidOption((problem,))
    return CommitRule(str(spec.name), PartitionClock(extractor, lasts, config["sink.bucket.time-zone"]))


def time_extractor(spec: TableSpec, config: SinkConfig) -> TimeExtractor | None:
    """What reads the times of the table's partitions, whatever commits them; None if no setting says how."""
    try:
        return _extractor(spec, config)[0] if spec.is_partitioned else None
    except InvalidOption:
        # Only the trigger partition-time needs times, and each start of such a job refuses these settings.
        return None


def patterns_of_names(spec: TableSpec, config: SinkConfig) -> FromPatterns | None:
    """The patterns that a time makes the partitions' names of; None if there are none from which it can be read."""
    try:
        names = FromPatterns(tuple(time_patterns(spec, config).items()))
    except InvalidOption:
        # No job starts with these settings.
        return None
    return names if names.patterns and names.problem is None else None


def _require_times(spec: TableSpec, config: SinkConfig) -> None:
    """Raises InvalidOption for a column of the table's that no stream can fill with times."""
    name: str | None = config["sink.partition-commit.watermark-column"]
    kinds = {column.name: column.type for column in row_columns(spec, config)}
    if name in kinds and kinds[name] not in TIMES:
        problem = f"{name} is of type {kinds[name]}: name a column of type {TIMES_TEXT}"
        raise InvalidOption((f"sink.partition-commit.watermark-column: {problem}",))


def _extractor(spec: TableSpec, config: SinkConfig) -> tuple[TimeExtractor, str | None]:
    """What reads a partition's time, and the unit that it lasts, if that is known."""
    option = "partition.time-extractor.class"
    if (plugin := config[option]) is not None:
        return load_plugin(option, plugin, "start", spec, config), None
    template: str | None = config[_PATTERN]
    names = tuple(column.name for column in spec.partition_columns)
    patterns = time_patterns(spec, config)
    if template is None and patterns:
        made = FromPatterns(tuple(patterns.items()))
        if made.problem is not None:
            raise InvalidOption((f"sink.bucket.time-pattern: {made.problem}; set {_PATTERN}",))
        return made, made.unit
    if template is None and len(names) > 1:
        raise InvalidOption(
            (f"{_PATTERN} is missing: say how {', '.join(names)} make a time, as in '$dt $hour:00:00'",)
        )
    of_columns = FromTemplate(template or f"${names[0]}", config["partition.time-extractor.timestamp-formatter"])
    unknown = [name for name in of_columns.columns if name not in names]
    if unknown or not of_columns.columns:
        what = f"names {unknown[0]}, which is no partition column" if unknown else "names no partition column"
        raise InvalidOption((f"{_PATTERN} = {template!r} {what}; {spec.name} has {', '.join(names)}",))
    kinds = {column.name: column.type for column in spec.partition_columns}
    numbers = all(kinds[name] in INTEGERS for name in of_columns.columns)
    if numbers and not of_columns.reads(_ANY_NUMBERS):
        wanted = "in the form of its timestamp-formatter" if of_columns.formatter else "such as 2024-01-02 03:00:00"
        problem = f"{_PATTERN} = {of_columns.template!r} makes no time {wanted}, as its columns are numbers"
        raise InvalidOption((f"{problem}; name columns with year, month and day",))
    is_date = template is None and spec.partition_columns[0].type is Primitive.DATE
    return of_columns, "day" if is_date else None

"""What a writer writes: its identity, its tables, and what their settings say of epochs, files and commits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from hivesink.config.options import SinkConfig
from hivesink.config.plugins import load_plugin
from hivesink.core.column_source import misfit
from hivesink.core.epoch import BatchRef, Epoch
from hivesink.core.lifecycle import Identity, Stamp
from hivesink.core.partition_commit import CommitRule, PolicyKind, WatermarkPolicy
from hivesink.core.plan import Policy
from hivesink.core.rolling import BucketRolling, RollingPolicy
from hivesink.core.table import Array, Map, Primitive, Struct, TableSpec
from hivesink.errors import InvalidOption
from hivesink.ports.rows import Measure
from hivesink.sink.commit.committed import Committed
from hivesink.sink.task.assign import assigner_for, row_columns
from hivesink.sink.task.events import commit_rule
from hivesink.sink.task.messages import InputShape, TablePlan, TaskPlan


@dataclass(frozen=True, slots=True)
class WriterSpec:
    """What a writer writes: its identity, tables and settings.

    `tolerant`: wait for a metastore that is down, up to `sink.registration.max-delay`; otherwise raise at once.
    """

    identity: Identity
    target: TablePlan
    rejected: TablePlan | None
    config: SinkConfig
    measure: Measure
    append: Epoch | None = None
    tolerant: bool = True
    on_commit: Callable[[Committed], None] = lambda _: None
    was_written: Callable[[BatchRef], bool] = lambda _: False
    """Whether a log that `hivesink reset` put aside has committed this batch; asked until the new log has a batch."""

    @property
    def tables(self) -> dict[str, TablePlan]:
        return {table.name: table for table in (self.target, self.rejected) if table}

    @property
    def policy(self) -> Policy:
        return policy_of(self.target.spec, self.config)

    @property
    def patience(self) -> timedelta | None:
        """How long a run waits for a metastore that is down; None: not at all."""
        limit: timedelta = self.config["sink.registration.max-delay"]
        return limit if self.tolerant else None

    @property
    def rolling(self) -> RollingPolicy:
        """Raises InvalidOption."""
        return replace(rolling_policy(self.config), own=rolling_class(self.target.spec, self.config))

    @property
    def commit_rule(self) -> CommitRule:
        """Raises InvalidOption."""
        return commit_rule(self.target.spec, self.config)

    def task_plan(
        self, epoch: Epoch, shape: InputShape, stamp: Stamp, late: datetime | None = None, *, places: bool = True
    ) -> TaskPlan:
        """A try at `epoch`, with every partition in its default folder."""
        return TaskPlan(
            target=self.target,
            rejected=self.rejected,
            config=self.config,
            shape=shape,
            uid=self.identity.uid,
            epoch=epoch,
            attempt=stamp.attempt,
            arrival=stamp.at,
            late=late,
            places=places,
        )


def policy_of(spec: TableSpec, config: SinkConfig) -> Policy:
    """What the settings say about the end of an epoch. Raises InvalidOption."""
    option = "sink.partition-commit.policy.kind"
    kinds = config[option]
    plugin = kinds.get(PolicyKind.CUSTOM)
    return Policy(
        # They are registered before anything is published into them.
        announce=tuple(kind for kind in kinds if kind is not PolicyKind.METASTORE),
        retained=config["sink.log.retained-epochs"],
        success_file=config["sink.partition-commit.success-file.name"],
        own=plugin and load_plugin(option, plugin, "commit", spec, config).commit,
    )


def rolling_policy(config: SinkConfig) -> RollingPolicy:
    """When rows that wait become files, but for the user's own class."""
    return RollingPolicy(
        file_size=config["sink.rolling-policy.file-size"],
        rollover=config["sink.rolling-policy.rollover-interval"],
        inactivity=config["sink.rolling-policy.inactivity-interval"],
        open_bytes=config["sink.open-bytes-limit"],
        at_once=config["sink.rolling-policy.on-epoch"],
    )


def rolling_class(spec: TableSpec, config: SinkConfig) -> BucketRolling | None:
    """The user's own rolling policy, if any. Raises InvalidOption."""
    option = "sink.rolling-policy.class"
    plugin: BucketRolling | None = config[option] and load_plugin(option, config[option], "should_roll", spec, config)
    return plugin


def watermark_policy(config: SinkConfig) -> WatermarkPolicy:
    """How the sink's own watermark advances."""
    return WatermarkPolicy(*(config[f"sink.partition-commit.{name}"] for name in ("watermark-delay", "idle-timeout")))


def require_sources(spec: TableSpec, config: SinkConfig) -> None:
    """Raise InvalidOption with each source of a column that the rows don't fill, or that can't have its type."""
    every = {column.name for column in (*spec.columns, *spec.partition_columns)}
    kinds = {column.name: column.type for column in row_columns(spec, config)}
    problems = []
    for name, source in config.sources.items():
        option = f"sink.column.{name}.from = {config.text(f'sink.column.{name}.from')!r}"
        if name not in every:
            problems.append(f"{option}: {spec.name} has no column {name}; it has {', '.join(sorted(every))}")
        elif name not in kinds:
            problems.append(f"{option}: {name} is made of a time (sink.bucket.time-pattern); remove either")
        elif types := misfit(source, kinds[name]):
            problems.append(f"{option}: {name} is {kinds[name]}; declare it as {types}")
    if problems:
        raise InvalidOption(tuple(problems))


_BLOOM = "orc.bloom.filter.columns"


def require_columns(spec: TableSpec, config: SinkConfig) -> None:
    """Raise InvalidOption for a setting's columns that the table lacks, or that the setting can't use."""
    kinds = {column.name: column.type for column in spec.columns}
    partitions = {column.name for column in spec.partition_columns}
    problems = []
    named = [("sink.sort-by", key.column) for key in config["sink.sort-by"] or ()]
    if spec.format == "ORC":
        named += [(_BLOOM, column) for column in config[_BLOOM] or ()]
    for setting, column in named:
        kind = kinds.get(column)
        if column in partitions:
            problem = "a partition column: it has the same value for all rows of a file"
        elif kind is None:
            problem = f"which is no column of {spec.name}"
        elif setting == _BLOOM and kind is Primitive.TINYINT:
            problem = "a TINYINT: pyarrow makes filters in which readers don't find its negative values"
        elif isinstance(kind, Array | Map | Struct):
            problem = f"which is {kind}: write columns that are not nested"
        else:
            continue
        problems.append(f"{setting} names {column!r}, {problem}")
    for setting in ("sink.timestamp-format", "sink.json.null-text"):
        strange = config[setting].keys() - kinds.keys() - partitions - {""}
        problems += [f"{setting} names {name!r}, which is no column of {spec.name}" for name in sorted(strange)]
    if problems:
        raise InvalidOption(tuple(problems))


def problems_of(spec: TableSpec, config: SinkConfig) -> tuple[str, ...]:
    """All that is wrong with a table's settings as a whole."""
    problems: dict[str, None] = {}
    for check in (assigner_for, require_columns, require_sources, commit_rule, policy_of, rolling_class):
        try:
            check(spec, config)
        except InvalidOption as error:  # noqa: PERF203  each says its own
            problems |= dict.fromkeys(error.problems)
    return tuple(problems)

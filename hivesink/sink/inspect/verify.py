"""What `verify`, `status` and metrics say of a writer, and what a person clears away: leftovers, files, whole logs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from hivesink.core.actions import leftovers
from hivesink.core.epoch import Epoch
from hivesink.core.manifest import Rows
from hivesink.core.metrics import Figures, commit_delay
from hivesink.core.partition_commit import CommitRule
from hivesink.errors import HiveSinkError, InvalidOption, LogOfAnotherTable, TableMadeAgain
from hivesink.ports import CommitLog, LiveTable
from hivesink.ports.rows import Measure
from hivesink.sink.commit.context import CommitContext
from hivesink.sink.commit.observe import load
from hivesink.sink.inspect.evidence import gather
from hivesink.sink.inspect.facts import LogFacts, read_log
from hivesink.sink.inspect.findings import CHECKS, Finding
from hivesink.sink.inspect.ownership import Ownership


@dataclass(frozen=True, slots=True)
class Verdict:
    """A writer's result. `totals` are row counts since its first epoch, by way of the floor."""

    writer: str
    log: str
    floor: Epoch
    head: Epoch
    totals: Rows
    findings: tuple[Finding, ...]

    @property
    def errors(self) -> int:
        return sum(finding.level == "error" for finding in self.findings)


def verify(
    context: CommitContext,
    writer: str,
    table: str,
    measure: Measure | None,
    require_same: Callable[[str], None] | None = None,
    *,
    replaced: Collection[str] = (),
) -> Verdict:
    """Check a writer's log against files and metastore. Without `measure` no footer and no segment is read.

    `require_same` raises what would stop the writer's start on the table; `replaced` as in `Evidence`.
    Raises StoreUnavailable, MetastoreUnreachable; a damaged log is a finding.
    """
    evidence = gather(context, table, measure, replaced)
    log, findings = evidence.log, [finding for check in CHECKS for finding in check(evidence)]
    if require_same and not log.unreadable:
        try:
            require_same(writer)
        except HiveSinkError as error:
            if error.retryable:
                raise
            findings.append(Finding("error", None, str(error)))
    return Verdict(writer, log.location, log.view.floor, log.view.head, log.total.totals, tuple(findings))


def figures(log: LogFacts, rule: CommitRule) -> Figures:
    """What a writer's log says for metrics, where partitions are committed by `rule`."""
    delays = (commit_delay(manifest, rule) for manifest in reversed(log.manifests))
    return Figures(
        total=log.total,
        head=log.head,
        lag=log.lag,
        rows=log.open_rows,
        unsettled=len(log.open),
        unpublished=log.waiting,
        commit_delay=next((seconds for seconds in delays if seconds is not None), 0.0),
    )


def find_leftovers(context: CommitContext, table: str) -> tuple[str, ...]:
    """The staged files of a writer of `table`, dead letters' too, that nothing can commit any more. Changes nothing.

    They are of epochs up to the head of its log, and in no unsettled manifest. A writer whose log has no uid has none.
    Raises LogDamaged, StoreUnavailable.
    """
    uid = context.log.uid(None)
    history = load(context)
    if uid is None or history.head is None:
        return ()
    return tuple(sorted(leftovers((part.path for part in gather(context, table).staged), uid, history)))


@dataclass(frozen=True, slots=True)
class Reset:
    """What a reset does to a writer: its log is put aside, and `unpublished` of its rows are given up.

    `unreadable` are the epochs whose manifests can't be read or are missing: what they hold isn't counted.
    """

    writer: str
    log: str
    epoch: Epoch
    rows: int
    unpublished: int
    unreadable: tuple[Epoch, ...] = ()


def plan_reset(writer: str, log: CommitLog) -> Reset:
    """The reset of `writer`. Skips damaged manifests: a reset is a way out of them too. Raises StoreUnavailable."""
    facts = read_log(log)
    unreadable = tuple(sorted({*facts.unreadable, *facts.view.missing}))
    return Reset(writer, log.location, facts.view.head, facts.total.totals.written, facts.unpublished_rows, unreadable)


def require_free(owner: Ownership, live: LiveTable, resets: Iterable[Reset], discard: int) -> None:
    """Raise InvalidOption unless `discard` rows are given up, LogOfAnotherTable while another table names the log."""
    if records := owner.root.records():
        for other in owner.others(live, records[-1]):
            raise LogOfAnotherTable(str(live.spec.name), owner.root.location, other, records[-1].location)
    rows = sum(reset.unpublished for reset in resets)
    if rows != discard:
        table = live.spec.name
        state = f"{rows} rows of {table} are in its log alone, or not known to be published"
        way = f"make them readable with `hivesink recover {table}`, or add --discard {rows} to give them up"
        raise InvalidOption((f"{state}: {way}",))


def unknown_uids(owner: Ownership, live: LiveTable) -> tuple[str, ...]:
    """The uids of finished files in the table of which no log is in the root."""
    return tuple(sorted(uid for uid, parts in owner.unknown_parts(live).items() if parts[0].stage is None))


def is_made_again(owner: Ownership, live: LiveTable) -> bool:
    """Whether the table is another one than the log's. Raises LogOfAnotherTable."""
    try:
        if records := owner.root.records():
            owner.verdict(live, records[-1])
    except TableMadeAgain:
        return True
    return False


def reset(
    owner: Ownership, live: LiveTable, logs: Mapping[str, CommitLog], uids: Iterable[str], at: datetime, *, discard: int
) -> None:
    """Put `logs` of the root, by writer, aside, and accept the files of `uids`.

    An interruption anywhere leaves what another call completes. Raises StoreUnavailable, NotWritable; InvalidOption if
    a job that still runs has decided rows meanwhile, more than the `discard` that are given up.
    """
    is_other = is_made_again(owner, live)
    for log in logs.values():
        log.end(at)
    # Nothing is decided any more.
    ended = [plan_reset(writer, log) for writer, log in logs.items()]
    if (more := sum(plan.unpublished for plan in ended) - discard) > 0:
        folders = ", ".join(plan.log for plan in ended if plan.unpublished)
        problem = f"a job that runs has decided {more} rows meanwhile, which nobody publishes now. To keep them stop it"
        raise InvalidOption((f"{problem}, delete manifests/over in {folders}, and run `hivesink recover`",))
    for uid in uids:
        owner.root.accept(uid)
    if is_other:
        # The logs of the table that was here are aside: from now on the root is this table's.
        owner.root.update(owner.record(live, owner.token()))
        owner.require(live)

"""`hivesink recover` and `hivesink clean`: finish what was decided, remove what was not, and accept what is lost."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hivesink import wiring
from hivesink.cli.actions import describe
from hivesink.cli.codes import ExitCode
from hivesink.cli.command import Debug, DryRun, Json, Metastore, Table, Writer, Yes, confirm, reporting
from hivesink.cli.output import Grid, Line, Report
from hivesink.cli.rebuild import Checkpoint, rebuilt
from hivesink.core.lifecycle import Identity
from hivesink.core.progress import count
from hivesink.errors import HiveSinkError, InvalidOption, RowsHeldBack
from hivesink.sink.commit.context import policy_of, problems_of
from hivesink.sink.commit.observe import load
from hivesink.sink.commit.recovery import Accepted, Loss, Recorder, finish_accepting, forget_waiting, unreadable
from hivesink.sink.commit.recovery import recover as recover_writer
from hivesink.sink.commit.runner import PlanRunner
from hivesink.sink.inspect.clean import clean as clean_writer
from hivesink.sink.inspect.clean import find_leftovers, find_strays, throw_away
from hivesink.tables.opened import OpenedTable, open_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hivesink.config.options import SinkConfig
    from hivesink.core.actions import Action
    from hivesink.core.manifest import Manifest
    from hivesink.core.records import Slice
    from hivesink.core.rolling import OpenRows
    from hivesink.sink.commit.context import CommitContext

ForgetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--forget",
        metavar="PARTITION|all",
        help="Publish what is left of this partition's decided rows, wherever it lies in the table, and forget those "
        "that can't be published. May be repeated.",
    ),
]
Strays = Annotated[
    bool, typer.Option("--strays", help="Also move finished files that are in no manifest to the trash.")
]


@dataclass(frozen=True, slots=True)
class _Recovered:
    """What recovery of a writer did, or would do."""

    epoch: int
    actions: tuple[Action, ...]
    losses: tuple[Loss, ...]
    waiting: OpenRows
    """The rows that are rolled after that."""

    def lines(self) -> list[tuple[str, str]]:
        """Each action in words: what it does, and to what. The last are the rolls of what waits."""
        waiting = ((key, bucket.rows) for key, bucket in self.waiting.buckets.items() if bucket.slices)
        rolls = ((f"{table} {partition}".strip(), rows) for (table, partition), rows in waiting)
        lines = [line for action in self.actions for line in describe(action)]
        return [*lines, *(("roll", f"{name} ({count(rows, 'row')})") for name, rows in sorted(rolls))]


def recover(
    table: Table,
    *,
    writer: Writer = None,
    dry_run: DryRun = False,
    forget: ForgetOption = None,
    checkpoint: Checkpoint = None,
    yes: Yes = False,
    metastore: Metastore = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Finish decided epochs, remove what was not decided, and publish the rows that wait to be rolled.

    Stop the job first: if it is writing an epoch, it loses that epoch and stops. --forget asks first.

    Example: hivesink recover demo.flights --dry-run
    """
    with reporting(as_json=json, debug=debug) as out, open_table(table, metastore) as opened:
        if checkpoint is not None:
            out.show(rebuilt(opened, writer, checkpoint, dry_run=dry_run))
            return
        failed: dict[str, HiveSinkError] = {}
        ask = partial(_ask, as_json=json, is_asked=not (dry_run or yes))
        done: dict[str, _Recovered] = {}
        left: list[str] = []
        for name in opened.chosen(writer):
            with _noted(name, failed):
                opened.require_same(name)
                work = _Writer(opened, name, frozenset(forget or ()), ask)
                done[name] = work.rehearse() if dry_run else work.recover()
            if name in done and done[name].waiting.buckets:
                if dry_run:
                    left += work.held_back(done[name])
                else:
                    done[name] = work.roll(done[name], failed)
        if done or not failed:
            if forget and not any(result.losses for result in done.values()):
                left.append("note: nothing is lost, so nothing is forgotten")
            out.show(_report(opened, done, failed, left, dry_run=dry_run))
        if failed:
            raise next(iter(failed.values()))
        if dry_run and any(not text.startswith("note: ") for text in left):
            raise typer.Exit(ExitCode.NEEDS_PERSON)


@dataclass(frozen=True, slots=True)
class _Writer:
    """One writer's recovery by hand. `ask` gets what would be forgotten of `partitions`, and raises if it may not."""

    opened: OpenedTable
    name: str
    partitions: frozenset[str]
    ask: Callable[[Sequence[Loss]], None]

    def rehearse(self) -> _Recovered:
        context, config, head = self.opened.for_recovery(self.name)
        result = self._recovered(Recorder, context, config, head)
        if result.waiting.buckets:
            self._require_sound(config, head)
        losses = unreadable(result.waiting, context.log.segments, Accepted(self.partitions, self.ask))
        return replace(result, losses=(*result.losses, *losses))

    def recover(self) -> _Recovered:
        context, config, head = self.opened.for_recovery(self.name)
        if self.partitions:
            # What waits couldn't be published afterwards.
            self._require_sound(config, head)
        # Its dead letters may wait for a table that somebody has dropped.
        remaking = replace(context, remake=wiring.remaker(self.opened.metastore, self.opened.live))
        return self._recovered(PlanRunner, remaking, config, head)

    def roll(self, result: _Recovered, failed: dict[str, HiveSinkError]) -> _Recovered:
        """Roll what waits, and forget what can't be rolled of the partitions that were named."""
        held: HiveSinkError | None = None
        with _noted(self.name, failed):
            try:
                self.opened.committer(self.name).finish()
            except RowsHeldBack as error:
                held = error
        losses = list(result.losses)
        rows = load(self.opened.writers[self.name]).rows
        if held and self.partitions:
            with _noted(self.name, failed):
                context, config, head = self.opened.for_recovery(self.name)
                runner = self._begin(PlanRunner, context, config, head, [])
                forget_waiting(runner, Accepted(self.partitions, self._noting(losses)))
                runner.clean_up()
                rows = runner.history.rows
        if held and rows.rows:
            failed.setdefault(self.name, held)
        epoch, left = load(self.opened.writers[self.name]).epoch, {waiting.slice for waiting in rows.opened}
        return replace(result, epoch=epoch, losses=tuple(losses), waiting=_rolled(result, left, losses))

    def held_back(self, result: _Recovered) -> list[str]:
        """What the real one would not roll, and why."""
        held = wiring.held_back_rows(self.opened.live, self.opened.writers[self.name].log, result.waiting)
        return [f"writer {self.name}: can't all be rolled: {' '.join(key).strip()}: {why}" for key, why in held.items()]

    def _recovered(
        self, kind: type[PlanRunner], context: CommitContext, config: SinkConfig, head: Manifest | None
    ) -> _Recovered:
        performed: list[Action] = []
        losses: list[Loss] = []
        begin = partial(self._begin, kind, context, config, head, performed)
        finish: Callable[[PlanRunner], None] = PlanRunner.finish
        if self.partitions:
            finish = partial(finish_accepting, accepted=Accepted(self.partitions, self._noting(losses)))
        history = recover_writer(begin, finish).history
        return _Recovered(history.epoch, tuple(performed), tuple(losses), history.rows)

    def _begin(
        self,
        kind: type[PlanRunner],
        context: CommitContext,
        config: SinkConfig,
        head: Manifest | None,
        performed: list[Action],
    ) -> PlanRunner:
        identity = self._identity(context, config, head)
        return kind.begin(context, identity, policy_of(self.opened.live.spec, config), performed.append)

    def _noting(self, losses: list[Loss]) -> Callable[[Sequence[Loss]], None]:
        def noted(lost: Sequence[Loss]) -> None:
            self.ask(lost)
            losses.extend(lost)

        return noted

    def _identity(self, context: CommitContext, config: SinkConfig, head: Manifest | None) -> Identity | None:
        """That of a writer that has decided nothing yet; None: its newest manifest has it."""
        if head is not None:
            return None
        uid = context.log.uid(None)
        if uid is None:
            problem = f"{context.log.location} is no log: it has no uid; restore it, or delete that folder"
            raise InvalidOption((problem,))
        zones = ((self.opened.name, config["sink.bucket.time-zone"].key),)
        return Identity(self.name, uid, (self.opened.name,), zones, context.log.location)

    def _require_sound(self, config: SinkConfig, head: Manifest | None) -> None:
        """Raise InvalidOption where what waits couldn't be published."""
        is_main = head is not None and self.opened.served(head) == self.opened.live.spec.name
        if is_main and (problems := problems_of(self.opened.live.spec, config)):
            raise InvalidOption(problems)


def _rolled(result: _Recovered, left: set[Slice], losses: Sequence[Loss]) -> OpenRows:
    """What waited and was rolled: neither `left` nor forgotten."""
    forgotten = {loss.slice for loss in losses if loss.slice}
    return result.waiting.beside(left | forgotten)


@contextmanager
def _noted(writer: str, failed: dict[str, HiveSinkError]) -> Iterator[None]:
    """One writer's trouble is no matter of the others'."""
    try:
        yield
    except HiveSinkError as error:
        failed[writer] = error


def _ask(lost: Sequence[Loss], *, as_json: bool, is_asked: bool) -> None:
    if is_asked:
        what = _what(lost)
        confirm(_listed(lost), f"Forget {what} for good?", f"this would forget {what} for good", as_json=as_json)


def _what(lost: Sequence[Loss]) -> str:
    return f"{count(sum(loss.rows for loss in lost), 'row')} in {count(len({loss.path for loss in lost}), 'file')}"


def _listed(lost: Sequence[Loss]) -> list[str]:
    return [
        f"{loss.reason.value}: {loss.path} ({count(loss.rows, 'row')} of {' '.join(loss.key).strip()})" for loss in lost
    ]


def _report(
    opened: OpenedTable,
    done: Mapping[str, _Recovered],
    failed: Mapping[str, HiveSinkError],
    left: Sequence[str],
    *,
    dry_run: bool,
) -> Report:
    blocks: list[Line | Grid] = []
    for writer, result in done.items():
        if writer not in failed or result.lines() or result.losses:
            blocks += _blocks(writer, result, dry_run=dry_run)
    blocks += [Line(f"writer {writer}: not done: {error}", "red") for writer, error in failed.items()]
    blocks = blocks or [Line(f"no writer has written to {opened.name} yet")]
    blocks += [Line(text, "yellow") for text in left]
    data = {
        "table": opened.name,
        "dry_run": dry_run,
        "writers": [_data(writer, result) for writer, result in done.items()],
        "not_done": {writer: str(error) for writer, error in failed.items()},
    }
    return Report(data, blocks)


def _data(writer: str, result: _Recovered) -> dict[str, Any]:
    return {
        "writer": writer,
        "epoch": result.epoch,
        "actions": [{"what": what, "subject": subject} for what, subject in result.lines()],
        "forgotten": [{"path": loss.path, "rows": loss.rows, "why": loss.reason.value} for loss in result.losses],
    }


def _blocks(writer: str, result: _Recovered, *, dry_run: bool) -> list[Line | Grid]:
    lines = result.lines()
    if not (lines or result.losses):
        state = f"it is at epoch {result.epoch}" if result.epoch else "it has committed nothing yet"
        return [Line(f"writer {writer}: nothing to recover, {state}")]
    head = "recovery would" if dry_run else f"recovered, at epoch {result.epoch}, with {len(lines)} actions"
    blocks: list[Line | Grid] = []
    if lines:
        blocks.append(Grid(f"writer {writer}: {head}", ("action", "subject"), lines))
    if result.losses:
        forgotten = "would be forgotten" if dry_run else "forgotten"
        blocks += map(Line, _listed(result.losses) if dry_run else ())
        blocks.append(Line(f"writer {writer}: {_what(result.losses)} {forgotten}"))
    return blocks


def clean(  # noqa: PLR0917  each is an option of the command line
    table: Table,
    strays: Strays = False,
    dry_run: DryRun = False,
    metastore: Metastore = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Remove hidden files that nothing can commit any more, and the folders that become empty.

    Searches everything below the table's location. Never touches finished files, files that an open epoch needs, or
    files of a writer that has no log. Safe to run while a job is writing. With --strays, finished files that are in
    no manifest (`verify` lists them) are moved to the trash of HDFS.

    Example: hivesink clean demo.flights --dry-run
    """
    with reporting(as_json=json, debug=debug) as out, open_table(table, metastore) as opened:
        opened.require_same()
        contexts = opened.writers.values()
        leftovers = [find_leftovers(context, opened.name) for context in contexts]
        unknown = sorted(path for stranger in opened.strangers() for path in stranger.staged)
        doubled = [(context, find_strays(context, opened.name)) for context in contexts if strays]
        folders: tuple[str, ...] = ()
        trashed = tuple((stray.path, "the trash") for _, some in doubled for stray in some)
        if not dry_run:
            for context, staged in zip(contexts, leftovers, strict=True):
                folders += clean_writer(context, staged, opened.name)
            trashed = tuple(moved for context, some in doubled for moved in throw_away(context, opened.name, some))
        files = [path for staged in leftovers for path in staged]
        data = {
            "table": opened.name,
            "removed": not dry_run,
            "files": files,
            "folders": list(folders),
            "files_of_no_known_writer": unknown,
            "trashed": dict(trashed),
        }
        removed, moved = ("would remove", "would move") if dry_run else ("removed", "moved")
        blocks = [Line(f"{removed} {path}") for path in (*files, *folders)]
        blocks += [Line(f"{moved} {path} to {home}") for path, home in trashed]
        blocks += [Line(f"kept {path}: its writer has no log here", "yellow") for path in unknown]
        counts = f"; {moved} {len(trashed)} to the trash" if strays else ""
        blocks.append(
            Line(f"{opened.name}: {removed} {count(len(files), 'file')}, {count(len(folders), 'folder')}{counts}")
        )
        out.show(Report(data, blocks))

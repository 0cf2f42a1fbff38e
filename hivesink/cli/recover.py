"""`hivesink recover`: finish what was decided, remove what was not, and rebuild a lost checkpoint."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import typer

from hivesink import wiring
from hivesink.cli.codes import ExitCode
from hivesink.cli.command import command, confirm
from hivesink.cli.output import Grid, Line, Output
from hivesink.config.options import SinkConfig
from hivesink.core import actions
from hivesink.core.epoch import Epoch
from hivesink.core.manifest import Manifest
from hivesink.core.partition import PartitionKey
from hivesink.core.progress import count
from hivesink.core.rolling import OpenRows
from hivesink.errors import HiveSinkError, InvalidOption, RowsHeldBack
from hivesink.logs import file_store, storage_of
from hivesink.sink.commit import recovery
from hivesink.sink.commit.context import CommitContext
from hivesink.sink.commit.observe import load
from hivesink.sink.commit.recovery import Accepted, Loss, Recorder
from hivesink.sink.commit.runner import PlanRunner
from hivesink.sink.commit.writer import policy_of, problems_of
from hivesink.sink.task.segments import held_back
from hivesink.spark.rebuild import batch_to_rebuild, checkpoint_folder, rebuild
from hivesink.tables.opened import OpenedTable
from hivesink.wiring import refit


@command
def recover(
    out: Output,
    opened: OpenedTable,
    *,
    writer: str | None = None,
    dry_run: bool = False,
    forget: list[str] | None = None,
    checkpoint: str | None = None,
    yes: bool = False,
) -> None:
    """Finish decided epochs, remove what was not decided, and publish the rows that wait to be rolled.

    Stop the job first: if it is writing an epoch, it loses that epoch and stops.

    Example: hivesink recover demo.flights --dry-run

    --forget PARTITION|all: Look for this partition's missing files in all folders of the table, publish what is there,
        and give up the rest, and rows that can't be published or encoded. `all`: of each partition. Asks first; may be
        repeated.
    --checkpoint DIR: Only rebuild the lost checkpoint of the table's query in this folder, from the log.
    """

    def ask(lost: Sequence[Loss]) -> None:
        if not (dry_run or yes):
            what = _what(lost)
            confirm(out, _listed(lost), f"Forget {what} for good?", f"this would forget {what} for good")

    if checkpoint is not None:
        _rebuild(out, opened, writer, checkpoint, dry_run=dry_run)
        return
    repairs = [
        _Repair(opened, name, frozenset(forget or ()), ask).run(dry_run=dry_run) for name in opened.chosen(writer)
    ]
    failures = [repair.failure for repair in repairs if repair.failure]
    if not failures or any(repair.epoch is not None for repair in repairs):
        _report(out, opened.name, repairs, dry_run=dry_run, forgets=bool(forget))
    if failures:
        raise failures[0]
    if any(repair.held_back for repair in repairs):
        raise typer.Exit(ExitCode.NEEDS_PERSON)


@dataclass(slots=True)
class _Repair:
    """Recovers `writer`, forgets what can't be published of `partitions`, and rolls what waits.

    `ask` gets what would be forgotten, and raises if it may not be. The other fields say what was done, or would be:
    `epoch` is the newest one, None if recovery failed before it; `rolled` are the rows that stop waiting; `held_back`
    says why rows of a bucket would not.
    """

    opened: OpenedTable
    writer: str
    partitions: frozenset[str]
    ask: Callable[[Sequence[Loss]], None]
    epoch: Epoch | None = None
    actions: list[actions.Action] = field(default_factory=list)
    losses: list[Loss] = field(default_factory=list)
    rolled: OpenRows = field(default_factory=OpenRows)
    held_back: Mapping[PartitionKey, HiveSinkError] = field(default_factory=dict)
    failure: HiveSinkError | None = None

    def run(self, *, dry_run: bool) -> _Repair:
        """Recover the writer, or only see what that would do. What prevents it is the `failure`."""
        opened = self.opened
        try:
            opened.require_same(self.writer)
            config, head = opened.start_of(self.writer)
            store = file_store(opened.live.location, opened.site, config["sink.file.permission"])
            context = replace(opened.writers[self.writer], store=store)
            if dry_run:
                self._recover(Recorder, context, config, head)
                if self.rolled.buckets:
                    self._require_sound(config, head)
                    self.losses += recovery.unreadable(self.rolled, context.log.segments, self._accepted)
                    self.held_back = held_back(self.rolled, opened.live.spec, context.log.segments, refit)
                return self
            if self.partitions:
                # What waits couldn't be published afterwards.
                self._require_sound(config, head)
            # Its dead letters may wait for a table that somebody has dropped.
            remaking = replace(context, remake=wiring.remaker(opened.metastore, opened.live))
            self._recover(PlanRunner, remaking, config, head)
            if self.rolled.buckets:
                try:
                    self._roll(context, config)
                finally:
                    history = load(context)
                    left = {waiting.slice for waiting in history.rows.opened}
                    self.epoch = history.epoch
                    self.rolled = self.rolled.beside(left | {loss.slice for loss in self.losses if loss.slice})
        except HiveSinkError as error:
            self.failure = error
        return self

    @property
    def _accepted(self) -> Accepted:
        def confirm(lost: Sequence[Loss]) -> None:
            self.ask(lost)
            self.losses += lost

        return Accepted(self.partitions, confirm)

    def _recover(
        self, kind: type[PlanRunner], context: CommitContext, config: SinkConfig, head: Manifest | None
    ) -> None:
        if head is None:
            # It has decided nothing yet, and its next start sweeps.
            self.epoch = Epoch(0)
            return
        policy = policy_of(self.opened.live.spec, config)

        def finish(runner: PlanRunner) -> None:
            if self.partitions:
                recovery.finish_accepting(runner, self._accepted)
            else:
                runner.finish()

        history = recovery.recover(lambda: kind.begin(context, None, policy, self.actions.append), finish).history
        self.epoch, self.rolled = history.epoch, history.rows

    def _roll(self, context: CommitContext, config: SinkConfig) -> None:
        """Roll what waits, and forget what can't be rolled of `partitions`."""
        try:
            self.opened.writing(self.writer).committer(tolerant=False).finish()
        except RowsHeldBack:
            if not self.partitions:
                raise
            runner = PlanRunner.begin(context, None, policy_of(self.opened.live.spec, config), lambda _: None)
            recovery.forget_waiting(runner, self._accepted)
            runner.clean_up()
            if runner.history.rows.rows:
                raise

    def _require_sound(self, config: SinkConfig, head: Manifest | None) -> None:
        """Raise InvalidOption where what waits couldn't be published."""
        spec = self.opened.live.spec
        is_main = head is not None and self.opened.served(head) == spec.name
        if is_main and (problems := problems_of(spec, config)):
            raise InvalidOption(problems)


def _report(out: Output, table: str, repairs: Sequence[_Repair], *, dry_run: bool, forgets: bool) -> None:
    blocks: list[Line | Grid] = []
    writers = []
    for repair in repairs:
        about, lost = f"writer {repair.writer}:", repair.losses
        done = [{"what": what, "subject": subject} for action in repair.actions for what, subject in describe(action)]
        done += [
            {"what": "roll", "subject": f"{_name(key)} ({count(bucket.rows, 'row')})"}
            for key, bucket in sorted(repair.rolled.buckets.items())
            if bucket.slices
        ]
        if done:
            head = "recovery would" if dry_run else f"recovered, at epoch {repair.epoch}, with {len(done)} actions"
            blocks.append(Grid.of(f"{about} {head}", done))
        elif not lost and not repair.failure:
            state = f"it is at epoch {repair.epoch}" if repair.epoch else "it has committed nothing yet"
            blocks.append(Line(f"{about} nothing to recover, {state}"))
        if lost:
            blocks += map(Line, _listed(lost) if dry_run else ())
            blocks.append(Line(f"{about} {_what(lost)} {'would be forgotten' if dry_run else 'forgotten'}"))
        if repair.failure:
            blocks.append(Line(f"{about} not done: {repair.failure}", "red"))
        for key, why in repair.held_back.items():
            blocks.append(Line(f"{about} can't all be rolled: {_name(key)}: {why}", "yellow"))
        if repair.epoch is not None:
            forgotten = [{"path": loss.path, "rows": loss.rows, "why": loss.reason} for loss in lost]
            fields = {"writer": repair.writer, "epoch": repair.epoch, "actions": done, "forgotten": forgotten}
            writers.append(fields)
    if not repairs:
        blocks.append(Line(f"no writer has written to {table} yet"))
    if forgets and not any(repair.losses for repair in repairs):
        blocks.append(Line("note: nothing is lost, so nothing is forgotten", "yellow"))
    not_done = {repair.writer: str(repair.failure) for repair in repairs if repair.failure}
    out.show({"table": table, "dry_run": dry_run, "writers": writers, "not_done": not_done}, blocks)


def _name(key: tuple[str, str]) -> str:
    return " ".join(key).strip()


def _what(lost: Sequence[Loss]) -> str:
    return f"{count(sum(loss.rows for loss in lost), 'row')} in {count(len({loss.path for loss in lost}), 'file')}"


def _listed(lost: Sequence[Loss]) -> list[str]:
    return [f"{loss.reason}: {loss.path} ({count(loss.rows, 'row')} of {_name(loss.key)})" for loss in lost]


def describe(action: actions.Action) -> Iterator[tuple[str, str]]:  # noqa: C901  one case per kind of action
    """The action by line: what is done, in the words of its class, and to what."""
    what = re.sub(r"([A-Z])", r" \1", type(action).__name__).strip().lower()
    match action:
        case actions.Decide(manifest):
            yield manifest.kind, f"epoch {manifest.epoch}"
        case actions.Announce(kind, committed):
            yield from ((kind.value.replace("-", " "), _name((new.table, new.partition))) for new in committed)
        case actions.ClearAccurate(table, partitions):
            yield from ((what, _name((table, partition))) for partition in partitions)
        case actions.Register(table, homes):
            yield from ((what, _name((table, partition))) for partition, _ in homes)
        case actions.Publish(part) | actions.AlreadyPublished(part) | actions.PartMissing(part):
            yield what, f"{part.target} ({count(part.rows, 'row')})"
        case actions.DeleteReplaced(parts):
            yield from ((what, part.target) for part in parts)
        case actions.Discard(names) | actions.DropSegments(names):
            yield from ((what, name) for name in names)
        case actions.Forget(lists):
            yield from ((what, f"list of epoch {listed.epoch}, task {listed.task}") for listed in lists)
        case actions.SetMark(mark, epoch):
            yield f"mark {mark.value}", f"epoch {epoch}"
        case actions.Trim(epoch):
            yield what, f"epoch {epoch}"


def _rebuild(out: Output, opened: OpenedTable, writer: str | None, checkpoint: str, *, dry_run: bool) -> None:
    """Rebuild the checkpoint of the query that `writer` belongs to, or of the table's only one."""
    heads = {name: load(context).head for name, context in opened.jobs.items()}
    lasts = {name: head.last_batch for name, head in heads.items() if head and head.last_batch}
    chosen = {name: lasts[name] for name in opened.chosen(writer) if name in lasts}
    queries = {last.ref.query for last in chosen.values()}
    if len(queries) != 1:
        none = f"no log of {opened.name} holds a batch: there is nothing to rebuild; start the job as it is"
        several = f"{', '.join(chosen)} write {opened.name} by several queries: name one of them with --writer"
        raise InvalidOption((several if queries else none,))
    logs = {opened.writers[name].log.location: last for name, last in lasts.items() if last.ref.query in queries}
    last = batch_to_rebuild(logs)
    folder = checkpoint_folder(checkpoint, opened.site)
    aside = rebuild(last, storage_of(folder, opened.site).logs(), folder, dry_run=dry_run)
    becomes = "would be" if dry_run else "is"
    lines = [Line(f"what a refused start left there {becomes} put aside in {aside}")] if aside else []
    told = f"the checkpoint {folder} {becomes} rebuilt at batch {last.ref.batch} (epoch {last.epoch}); start the job"
    data = {"checkpoint": folder, "query": last.ref.query, "batch": last.ref.batch, "put_aside": aside}
    out.show({"table": opened.name, "dry_run": dry_run, **data}, [*lines, Line(told, "green")])

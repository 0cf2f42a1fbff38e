"""`hivesink recover`: finish what was decided, remove what was not, and forget what is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from hivesink.cli.codes import ExitCode
from hivesink.cli.command import DryRun, Writer, Yes, command, confirm
from hivesink.cli.output import Grid, Line, Output, Report
from hivesink.core import actions
from hivesink.core.progress import count
from hivesink.errors import InvalidOption
from hivesink.logs import files_at
from hivesink.sink.commit.observe import load
from hivesink.spark.rebuild import batch_to_rebuild, checkpoint_folder, rebuild
from hivesink.tables.opened import OpenedTable
from hivesink.tables.repair import Repair

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hivesink.sink.commit.recovery import Loss

Checkpoint = Annotated[
    str | None,
    typer.Option(
        "--checkpoint",
        metavar="DIR",
        help="Only rebuild the lost checkpoint of the table's query in this folder, from the log.",
    ),
]
ForgetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--forget",
        metavar="PARTITION|all",
        help="Look for this partition's missing files in all folders of the table, publish what is there, and give up "
        "the rest, and rows that can't be published or encoded. `all`: of each partition. Asks first; may be repeated.",
    ),
]


@command
def recover(
    out: Output,
    opened: OpenedTable,
    *,
    writer: Writer = None,
    dry_run: DryRun = False,
    forget: ForgetOption = None,
    checkpoint: Checkpoint = None,
    yes: Yes = False,
) -> None:
    """Finish decided epochs, remove what was not decided, and publish the rows that wait to be rolled.

    Stop the job first: if it is writing an epoch, it loses that epoch and stops. --forget asks first.

    Example: hivesink recover demo.flights --dry-run
    """

    def ask(lost: Sequence[Loss]) -> None:
        if not (dry_run or yes):
            what = _what(lost)
            confirm(out, _listed(lost), f"Forget {what} for good?", f"this would forget {what} for good")

    if checkpoint is not None:
        out.show(rebuilt(opened, writer, checkpoint, dry_run=dry_run))
        return
    repairs = [
        Repair(opened, name, frozenset(forget or ()), ask).run(dry_run=dry_run) for name in opened.chosen(writer)
    ]
    failures = [repair.failure for repair in repairs if repair.failure]
    if not failures or any(repair.epoch is not None for repair in repairs):
        out.show(_report(opened.name, repairs, dry_run=dry_run, forgets=bool(forget)))
    if failures:
        raise failures[0]
    if any(repair.held_back for repair in repairs):
        raise typer.Exit(ExitCode.NEEDS_PERSON)


def _report(table: str, repairs: Sequence[Repair], *, dry_run: bool, forgets: bool) -> Report:
    blocks: list[Line | Grid] = []
    writers = []
    for repair in repairs:
        about, lines, lost = f"writer {repair.writer}:", list(_lines(repair)), repair.losses
        if lines:
            head = "recovery would" if dry_run else f"recovered, at epoch {repair.epoch}, with {len(lines)} actions"
            blocks.append(Grid(f"{about} {head}", ("action", "subject"), lines))
        elif not lost and not repair.failure:
            state = f"it is at epoch {repair.epoch}" if repair.epoch else "it has committed nothing yet"
            blocks.append(Line(f"{about} nothing to recover, {state}"))
        if lost:
            blocks += map(Line, _listed(lost) if dry_run else ())
            blocks.append(Line(f"{about} {_what(lost)} {'would be forgotten' if dry_run else 'forgotten'}"))
        if repair.failure:
            blocks.append(Line(f"{about} not done: {repair.failure}", "red"))
        for key, why in repair.held_back.items():
            blocks.append(Line(f"{about} can't all be rolled: {' '.join(key).strip()}: {why}", "yellow"))
        if repair.epoch is not None:
            actions = [{"what": what, "subject": subject} for what, subject in lines]
            forgotten = [{"path": loss.path, "rows": loss.rows, "why": loss.reason.value} for loss in lost]
            fields = {"writer": repair.writer, "epoch": repair.epoch, "actions": actions, "forgotten": forgotten}
            writers.append(fields)
    if not repairs:
        blocks.append(Line(f"no writer has written to {table} yet"))
    if forgets and not any(repair.losses for repair in repairs):
        blocks.append(Line("note: nothing is lost, so nothing is forgotten", "yellow"))
    not_done = {repair.writer: str(repair.failure) for repair in repairs if repair.failure}
    return Report({"table": table, "dry_run": dry_run, "writers": writers, "not_done": not_done}, blocks)


def _lines(repair: Repair) -> Iterator[tuple[str, str]]:
    """Each action in words: what it does, and to what. The last are the rolls of what waits."""
    for action in repair.actions:
        yield from describe(action)
    for (table, partition), bucket in sorted(repair.rolled.buckets.items()):
        if bucket.slices:
            yield "roll", f"{table} {partition}".strip() + f" ({count(bucket.rows, 'row')})"


def _what(lost: Sequence[Loss]) -> str:
    return f"{count(sum(loss.rows for loss in lost), 'row')} in {count(len({loss.path for loss in lost}), 'file')}"


def _listed(lost: Sequence[Loss]) -> list[str]:
    return [
        f"{loss.reason.value}: {loss.path} ({count(loss.rows, 'row')} of {' '.join(loss.key).strip()})" for loss in lost
    ]


def describe(action: actions.Action) -> Iterator[tuple[str, str]]:  # noqa: C901, PLR0912  one case per action
    """The action by line: what is done, and to what."""
    match action:
        case actions.Decide(manifest):
            yield manifest.kind, f"epoch {manifest.epoch}"
        case actions.ClearAccurate(table, partitions):
            yield from (("clear accurate flag", _name(table, partition)) for partition in partitions)
        case actions.Register(table, partitions):
            yield from (("register", _name(table, partition)) for partition, _ in partitions)
        case actions.Publish(part):
            yield "publish", part.target
        case actions.AlreadyPublished(part):
            yield "keep", part.target
        case actions.PartMissing(part):
            yield "stop at", f"{part.target} ({count(part.rows, 'row')})"
        case actions.DeleteReplaced(parts):
            yield from (("delete", part.target) for part in parts)
        case actions.SetMark(mark, epoch):
            yield f"mark {mark.value}", f"epoch {epoch}"
        case actions.Announce(kind, committed):
            yield from ((kind.value.replace("-", " "), _name(new.table, new.partition)) for new in committed)
        case actions.Discard(staged):
            yield from (("discard", path) for path in staged)
        case actions.Forget(lists):
            yield from (("forget", f"list of epoch {listed.epoch}, task {listed.task}") for listed in lists)
        case actions.DropSegments(names):
            yield from (("drop segment", name) for name in names)
        case actions.Trim(epoch):
            yield "trim", f"manifests up to epoch {epoch}"


def _name(table: str, partition: str) -> str:
    return f"{table} {partition}".strip()


def rebuilt(opened: OpenedTable, writer: str | None, checkpoint: str, *, dry_run: bool) -> Report:
    """Rebuild the checkpoint of the query that `writer` belongs to, or of the table's only one.

    Raises InvalidOption, Unsupported, LogDamaged, StoreUnavailable, NotWritable.
    """
    heads = {name: load(context).head for name, context in opened.jobs.items()}
    lasts = {name: head.last_batch for name, head in heads.items() if head and head.last_batch}
    chosen = {name: lasts[name] for name in opened.chosen(writer) if name in lasts}
    queries = {last.ref.query for last in chosen.values()}
    if not queries:
        problem = f"no log of {opened.name} holds a batch: there is nothing to rebuild; start the job as it is"
        raise InvalidOption((problem,))
    if len(queries) > 1:
        problem = f"{', '.join(chosen)} write {opened.name} by several queries: name one of them with --writer"
        raise InvalidOption((problem,))
    logs = {opened.writers[name].log.location: last for name, last in lasts.items() if last.ref.query in queries}
    last = batch_to_rebuild(logs)
    folder = checkpoint_folder(checkpoint, opened.site)
    aside = rebuild(last, files_at(folder, opened.site), folder, dry_run=dry_run)
    becomes = "would be" if dry_run else "is"
    told = f"the checkpoint {folder} {becomes} rebuilt at batch {last.ref.batch} (epoch {last.epoch}); start the job"
    lines = [Line(told, "green")]
    if aside:
        lines.insert(0, Line(f"what a refused start left there {becomes} put aside in {aside}"))
    data = {"checkpoint": folder, "query": last.ref.query, "batch": last.ref.batch, "put_aside": aside}
    return Report({"table": opened.name, "dry_run": dry_run, **data}, lines)

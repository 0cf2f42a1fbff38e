"""`hivesink recover`: finish what was decided, remove what was not; `hivesink reset`: start without a history."""

from __future__ import annotations

import re
from dataclasses import asdict
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import typer

from hivesink.cli.codes import ExitCode
from hivesink.cli.command import command, confirm
from hivesink.cli.output import Grid, Line, Output
from hivesink.core import actions
from hivesink.core.progress import count
from hivesink.errors import InvalidOption, WrongUsage, few
from hivesink.logs import storage_of
from hivesink.sink.commit.observe import load
from hivesink.sink.inspect.clean import is_made_again, plan_reset, require_free, unknown_uids
from hivesink.sink.inspect.clean import reset as reset_writers
from hivesink.spark.rebuild import batch_to_rebuild, checkpoint_folder, rebuild
from hivesink.tables.opened import OpenedTable
from hivesink.tables.repair import Repair

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hivesink.sink.commit.recovery import Loss
    from hivesink.sink.inspect.clean import Reset


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

    Stop the job first: if it is writing an epoch, it loses that epoch and stops. --forget asks first.

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
        Repair(opened, name, frozenset(forget or ()), ask).run(dry_run=dry_run) for name in opened.chosen(writer)
    ]
    failures = [repair.failure for repair in repairs if repair.failure]
    if not failures or any(repair.epoch is not None for repair in repairs):
        _report(out, opened.name, repairs, dry_run=dry_run, forgets=bool(forget))
    if failures:
        raise failures[0]
    if any(repair.held_back for repair in repairs):
        raise typer.Exit(ExitCode.NEEDS_PERSON)


def _report(out: Output, table: str, repairs: Sequence[Repair], *, dry_run: bool, forgets: bool) -> None:
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
            forgotten = [{"path": loss.path, "rows": loss.rows, "why": loss.reason.value} for loss in lost]
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
    return [f"{loss.reason.value}: {loss.path} ({count(loss.rows, 'row')} of {_name(loss.key)})" for loss in lost]


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


@command
def reset(
    out: Output,
    opened: OpenedTable,
    *,
    writer: str | None = None,
    discard: int = 0,
    dry_run: bool = False,
    yes: bool = False,
) -> None:
    """Put the logs of a table's writers aside, so that their next start has no history. Finished files stay.

    Stop the jobs first. Shows what it would do, and asks. Refuses while rows wait or parts are unpublished, unless
    --discard says how many, and while another table names the log. Finished files whose log is gone are the table's
    own from then on. Deletes nothing: each log is kept beside its old place under another name.

    Example: hivesink reset demo.flights --writer flights

    --discard N: Give up so many rows that wait or aren't published: as many as there are.
    """
    owner, live = opened.owner, opened.live
    logs = owner.root.logs()
    if writer is not None and writer not in logs:
        opened.chosen(writer)
    if writer is not None and is_made_again(owner, live):
        why = "leave --writer out, since no writer's log is this table's"
        raise WrongUsage((f"{opened.name} was made again: {why}",))
    resets = [plan_reset(name, log) for name, log in logs.items() if writer in {None, name}]
    uids = unknown_uids(owner, live) if writer is None else ()
    require_free(owner, live, resets, discard)
    lines = [*map(_about, resets), *(f"the files of uid {uid} are kept as they are" for uid in uids)]
    lines += [f"{owner.root.location} becomes the log of {opened.name}"] if is_made_again(owner, live) else []
    end = Line(f"{opened.name}: nothing to reset")
    if lines and dry_run:
        end = Line(f"{opened.name}: dry run, nothing was changed")
    elif lines:
        if not yes:
            confirm(out, lines, "Are the jobs stopped, and do you want this?", "; ".join(lines))
        names = [planned.writer for planned in resets]
        folders = reset_writers(owner, live, names, uids, datetime.now(timezone.utc))
        lines += [f"put aside as {folder}" for folder in folders]
        text = "done; with a new checkpoint a job reads its source from the beginning; with the old one and append=0"
        end = Line(f"{opened.name}: {text} it reads on where that stands", "bold green")
    writers = [asdict(planned) for planned in resets]
    data = {"done": bool(lines) and not dry_run, "writers": writers, "accepted": list(uids)}
    out.show({"table": opened.name, **data}, [*map(Line, lines), end])


def _about(planned: Reset) -> str:
    text = f"writer {planned.writer}: its log {planned.log}, at epoch {planned.epoch} with "
    text += f"{count(planned.rows, 'row')} written, is put aside; its finished files stay"
    if planned.unreadable:
        gaps = few([str(epoch) for epoch in planned.unreadable], 3)
        text += f"; the manifests of epoch {gaps} can't be read, and their rows are counted nowhere here"
    if planned.unpublished:
        text += f"; {count(planned.unpublished, 'row')} that can't be read yet are given up"
    return text

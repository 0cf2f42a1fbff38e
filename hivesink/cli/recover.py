"""`hivesink recover`: finish what was decided, throw away what was not, and accept what is lost."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hivesink import wiring
from hivesink.cli.opened import OpenedTable, OpenedWriter, opened
from hivesink.cli.options import Debug, DryRun, Json, Metastore, Table, Writer, Yes
from hivesink.cli.output import Grid, Line, Report
from hivesink.cli.reporting import reporting
from hivesink.config.options import SinkConfig
from hivesink.core.lifecycle import Identity
from hivesink.core.plan import GivenUp
from hivesink.errors import InvalidOption
from hivesink.sink.commit.observe import load
from hivesink.sink.commit.recovery import Loss, Recovered, find_losses, preview
from hivesink.sink.commit.recovery import recover as recover_writer
from hivesink.sink.commit.writer import policy_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence


AcceptLost = Annotated[
    bool, typer.Option("--accept-lost", help="Record that decided parts are gone for good, so that the log can go on.")
]

GiveUp = Annotated[
    list[str] | None,
    typer.Option(
        "--give-up",
        metavar="PARTITION",
        help="Give up the waiting rows of a partition, such as dt=2024-01-02, that the metastore refuses to list; "
        "their files are kept aside. May be given several times.",
    ),
]


def recover(
    table: Table,
    *,
    writer: Writer = None,
    dry_run: DryRun = False,
    accept_lost: AcceptLost = False,
    give_up: GiveUp = None,
    yes: Yes = False,
    metastore: Metastore = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Finish decided epochs and remove what was not decided, as the next start of the job would.

    Stop the job first: a job that is writing an epoch meanwhile is shut out of it, and stops. With --accept-lost
    the rows of parts that can't be found any more are given up, after a question; with --give-up those of a partition
    that the metastore refuses.

    Example: hivesink recover demo.flights --dry-run
    """
    with reporting(as_json=json, debug=debug) as out, opened(table, metastore) as found:
        policy = policy_of(SinkConfig.parse(found.live.spec.options))
        chosen = found.chosen(writer)
        partitions = frozenset(give_up or ())
        losses = [_given_up(one, partitions, accept_lost=accept_lost) for one in chosen]
        lost = [loss for own in losses for loss in own]
        _require_known(partitions, lost)
        if lost and not dry_run and not yes:
            _ask(lost, as_json=json)
        done = []
        for one, own in zip(chosen, losses, strict=True):
            given_up = GivenUp(frozenset(loss.part.target for loss in own), partitions)
            if dry_run:
                result = preview(one.context, policy, given_up=given_up)
            else:
                # Its dead letters may wait for a table that somebody has dropped.
                context = replace(one.context, remake=wiring.remaker(found.metastore, found.live))
                result = recover_writer(context, _identity(found, one), policy, given_up=given_up)
            done.append(_Done(one.name, result))
        out.show(_report(found, done, dry_run=dry_run))


def _given_up(one: OpenedWriter, partitions: frozenset[str], *, accept_lost: bool) -> tuple[Loss, ...]:
    found = find_losses(one.context, GivenUp(partitions=partitions))
    return tuple(loss for loss in found if accept_lost or loss.part.partition in partitions)


def _require_known(partitions: Collection[str], lost: Sequence[Loss]) -> None:
    unknown = sorted(set(partitions) - {loss.part.partition for loss in lost})
    if unknown:
        problem = f"no unfinished epoch has written to {', '.join(unknown)}: `hivesink status` lists what waits"
        raise InvalidOption((problem,))


def _identity(found: OpenedTable, one: OpenedWriter) -> Identity | None:
    """Who a writer is that has decided nothing yet; None where its newest manifest says it."""
    if load(one.context).head is not None:
        return None
    log = one.context.log
    uid = log.uid(None)
    if uid is None:
        raise InvalidOption((f"{log.location} is no log: it has no uid; restore it, or remove the writer's pointer",))
    zone = SinkConfig.parse(found.live.spec.options)["sink.bucket.time-zone"].key
    return Identity(one.name, uid, (found.name,), ((found.name, zone),), log.location)


@dataclass(frozen=True, slots=True)
class _Done:
    writer: str
    result: Recovered


def _ask(lost: Sequence[Loss], *, as_json: bool) -> None:
    rows = sum(loss.part.rows for loss in lost)
    if as_json:
        raise InvalidOption((f"{rows} rows in {len(lost)} files would be given up: --json needs --yes to do so",))
    for loss in lost:
        typer.echo(f"lost: {loss.part.target} ({loss.part.rows} rows): {loss.reason}", err=True)
    typer.confirm(f"Give up {rows} rows in {len(lost)} files for good?", abort=True, err=True)


def _report(found: OpenedTable, done: Sequence[_Done], *, dry_run: bool) -> Report:
    data = [_data(one) for one in done]
    blocks: list[Line | Grid] = []
    for one in done:
        blocks += _blocks(one, dry_run=dry_run)
    nobody = [Line(f"no writer has written to {found.name} yet")]
    return Report({"table": found.name, "dry_run": dry_run, "writers": data}, blocks or nobody)


def _data(one: _Done) -> dict[str, Any]:
    return {
        "writer": one.writer,
        "epoch": one.result.epoch,
        "actions": [{"what": what, "subject": subject} for what, subject in one.result.told()],
        "lost": [{"target": loss.part.target, "rows": loss.part.rows, "why": loss.reason} for loss in one.result.lost],
    }


def _blocks(one: _Done, *, dry_run: bool) -> list[Line | Grid]:
    result, told = one.result, one.result.told()
    if not result.epoch and not told:
        return [Line(f"writer {one.writer}: it has committed nothing, there is nothing to recover")]
    if not told:
        return [Line(f"writer {one.writer}: nothing to recover, at epoch {result.epoch}")]
    head = "recovery would" if dry_run else f"recovered, at epoch {result.epoch}: {len(told)} actions"
    blocks: list[Line | Grid] = [Grid(f"writer {one.writer}: {head}", ("do", "to"), told)]
    if result.lost:
        word = "would be accepted as lost" if dry_run else "accepted as lost"
        blocks.append(Line(f"writer {one.writer}: {len(result.lost)} files {word}"))
    return blocks

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
from hivesink.errors import InvalidOption
from hivesink.options import SinkConfig
from hivesink.optionvalues import PolicyKind
from hivesink.sink.history import Identity, load, pending_actions
from hivesink.sink.history import recover as recover_writer
from hivesink.sink.losses import Loss, accept_losses, find_losses

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from hivesink.core.epoch import Epoch
    from hivesink.sink.backlog import Backlog
    from hivesink.sink.history import Action

AcceptLost = Annotated[
    bool, typer.Option("--accept-lost", help="Record that decided parts are gone for good, so that the log can go on.")
]


def recover(
    table: Table,
    *,
    writer: Writer = None,
    dry_run: DryRun = False,
    accept_lost: AcceptLost = False,
    yes: Yes = False,
    metastore: Metastore = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Finish decided epochs and remove what was not decided, as the next start of the job would.

    Stop the job first: a job that is writing an epoch meanwhile is shut out of it, and stops. With --accept-lost
    the rows of parts that can't be found any more are given up, after a question.

    Example: hivesink recover demo.flights --dry-run
    """
    with reporting(as_json=json, debug=debug) as out, opened(table, metastore) as found:
        chosen = found.chosen(writer)
        losses = [_losses(one) for one in chosen]
        if dry_run:
            plans = [_Plan(one.name, pending_actions(one.world), own) for one, own in zip(chosen, losses, strict=True)]
            out.show(_plan_report(found, plans, accept_lost=accept_lost))
            return
        losses = losses if accept_lost else [()] * len(chosen)
        lost = [loss for own in losses for loss in own]
        if lost and not yes:
            _ask(lost, as_json=json)
        done = [
            _recover(found, one, {loss.part.target for loss in own}) for one, own in zip(chosen, losses, strict=True)
        ]
        out.show(_done_report(found, done))


def _losses(opened_writer: OpenedWriter) -> tuple[Loss, ...]:
    backlog = load(opened_writer.world)
    return find_losses(backlog) if backlog else ()


def _ask(lost: Sequence[Loss], *, as_json: bool) -> None:
    rows = sum(loss.part.rows for loss in lost)
    if as_json:
        raise InvalidOption((f"{rows} rows in {len(lost)} files would be given up: --json needs --yes to do so",))
    for loss in lost:
        typer.echo(f"lost: {loss.part.target} ({loss.part.rows} rows): {loss.reason}", err=True)
    typer.confirm(f"Give up {rows} rows in {len(lost)} files for good?", abort=True, err=True)


@dataclass(frozen=True, slots=True)
class _Done:
    writer: str
    actions: tuple[Action, ...]
    epoch: Epoch | None
    lost: tuple[str, ...]


def _recover(found: OpenedTable, opened_writer: OpenedWriter, targets: Collection[str]) -> _Done:
    # Its dead letters may wait for a table that somebody has dropped.
    world = replace(opened_writer.world, remake=wiring.remaker(found.metastore, found.live))
    actions = tuple(pending_actions(world))
    lost: tuple[str, ...] = ()

    def finish(backlog: Backlog) -> None:
        nonlocal lost
        if targets:
            manifest = accept_losses(backlog, targets)
            lost += manifest.lost if manifest else ()
        backlog.finish()

    config = SinkConfig.parse(found.live.spec.options)
    backlog = recover_writer(world, _identity(found, opened_writer), _success_file(config), finish)
    return _Done(opened_writer.name, actions, backlog.head.epoch if backlog else None, lost)


def _success_file(config: SinkConfig) -> str | None:
    name: str = config["sink.partition-commit.success-file.name"]
    return name if PolicyKind.SUCCESS_FILE in config["sink.partition-commit.policy.kind"] else None


def _identity(found: OpenedTable, opened_writer: OpenedWriter) -> Identity:
    """Who the writer is: by its newest manifest, or by its table's settings where it has none yet."""
    backlog = load(opened_writer.world)
    if backlog is not None:
        head = backlog.head
        return Identity(head.writer, head.uid, head.tables, head.zones)
    zone = SinkConfig.parse(found.live.spec.options)["sink.bucket.time-zone"].key
    uid = opened_writer.world.log.uid(None)
    if uid is None:
        where = opened_writer.world.log.location
        raise InvalidOption((f"{where} is no log: it has no uid; restore it, or remove the writer's pointer",))
    return Identity(opened_writer.name, uid, (found.name,), ((found.name, zone),))


@dataclass(frozen=True, slots=True)
class _Plan:
    writer: str
    pending: Sequence[Action]
    losses: Sequence[Loss]

    @property
    def actions(self) -> list[Action]:
        """What recovery can do; a lost part can't be published."""
        lost = {loss.part.target for loss in self.losses}
        return [action for action in self.pending if action.subject not in lost]


def _plan_report(found: OpenedTable, plans: Sequence[_Plan], *, accept_lost: bool) -> Report:
    data: list[dict[str, Any]] = []
    blocks: list[Line | Grid] = []
    for plan in plans:
        data.append(
            {
                "writer": plan.writer,
                "actions": [{"what": action.what, "subject": action.subject} for action in plan.actions],
                "lost": [
                    {"target": loss.part.target, "rows": loss.part.rows, "why": loss.reason} for loss in plan.losses
                ],
            }
        )
        word = "accept as lost" if accept_lost else "stop at"
        rows: list[tuple[str, str]] = [(action.what, action.subject) for action in plan.actions]
        rows += [(word, f"{loss.part.target} ({loss.part.rows} rows): {loss.reason}") for loss in plan.losses]
        if rows:
            blocks.append(Grid(f"writer {plan.writer}: recovery would", ("do", "to"), rows))
        else:
            blocks.append(Line(f"writer {plan.writer}: nothing to recover"))
    return Report({"table": found.name, "dry_run": True, "writers": data}, blocks or [_nobody(found)])


def _done_report(found: OpenedTable, done: Sequence[_Done]) -> Report:
    data = [
        {
            "writer": one.writer,
            "epoch": one.epoch,
            "actions": [{"what": action.what, "subject": action.subject} for action in one.actions],
            "lost": list(one.lost),
        }
        for one in done
    ]
    lines = [
        Line(
            f"writer {one.writer}: recovered, at epoch {one.epoch}: {len(one.actions)} actions"
            + (f", {len(one.lost)} files accepted as lost" if one.lost else "")
            if one.epoch
            else f"writer {one.writer}: it has committed nothing, there is nothing to recover"
        )
        for one in done
    ]
    return Report({"table": found.name, "dry_run": False, "writers": data}, lines or [_nobody(found)])


def _nobody(found: OpenedTable) -> Line:
    return Line(f"no writer has written to {found.name} yet")

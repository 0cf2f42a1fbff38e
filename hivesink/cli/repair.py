"""`hivesink recover` and `hivesink clean`: finish what was decided, remove what was not, and accept what is lost."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from hivesink import wiring
from hivesink.cli.codes import ExitCode
from hivesink.cli.command import Debug, DryRun, Json, Metastore, Table, Writer, Yes, confirm, reporting
from hivesink.cli.output import Grid, Line, Report
from hivesink.cli.rebuild import Checkpoint, rebuilt
from hivesink.config.options import SinkConfig
from hivesink.core.actions import Refuse
from hivesink.core.lifecycle import Identity
from hivesink.core.progress import count
from hivesink.core.seen import NOTHING, GivenUp
from hivesink.errors import HiveSinkError, InvalidOption
from hivesink.sink.commit.context import CommitContext, policy_of, problems_of
from hivesink.sink.commit.observe import load
from hivesink.sink.commit.recovery import (
    Loss,
    LostSlice,
    Recovered,
    find_losses,
    find_lost_slices,
    find_maybe_read,
    preview,
)
from hivesink.sink.commit.recovery import recover as recover_writer
from hivesink.sink.inspect.clean import clean as clean_writer
from hivesink.sink.inspect.clean import find_leftovers, find_strays, throw_away
from hivesink.tables.opened import OpenedTable, open_table

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from hivesink.core.manifest import Manifest
    from hivesink.core.partition import PartitionKey

T = TypeVar("T")

AcceptLost = Annotated[
    bool,
    typer.Option("--accept-lost", help="Give up lost parts and segments for good, so that the log can continue."),
]
_ANSWERS = "add --accept-lost to accept the loss, or --encode-again PARTITION for those that it names with that"
ALL = "all"
EncodeAgain = Annotated[
    list[str] | None,
    typer.Option(
        "--encode-again",
        metavar="PARTITION|all",
        help="Publish the rows of this partition's lost parts again, though readers may have had them before. May be "
        "repeated.",
    ),
]
GiveUp = Annotated[
    list[str] | None,
    typer.Option(
        "--give-up",
        metavar="PARTITION",
        help="Give up the waiting rows of a partition, such as dt=2024-01-02, that the metastore refuses to list, or "
        "that don't fit the table; their files are set aside. May be repeated.",
    ),
]
Strays = Annotated[
    bool, typer.Option("--strays", help="Also move finished files that are in no manifest to the trash.")
]


def recover(
    table: Table,
    *,
    writer: Writer = None,
    dry_run: DryRun = False,
    accept_lost: AcceptLost = False,
    encode_again: EncodeAgain = None,
    give_up: GiveUp = None,
    checkpoint: Checkpoint = None,
    yes: Yes = False,
    metastore: Metastore = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Finish decided epochs, remove what was not decided, and publish the rows that wait to be rolled.

    Stop the job first: if it is writing an epoch, it loses that epoch and stops. --accept-lost gives up the rows of
    lost parts and segments, --give-up those of a partition that can't be published. --encode-again publishes rows of
    lost parts that the log still has. All three ask first.

    Example: hivesink recover demo.flights --dry-run
    """
    with reporting(as_json=json, debug=debug) as out, open_table(table, metastore) as opened:
        if checkpoint is not None:
            out.show(rebuilt(opened, writer, checkpoint, dry_run=dry_run))
            return
        failed: dict[str, HiveSinkError] = {}
        partitions = frozenset((opened.name, partition) for partition in give_up or ())
        wanted = frozenset(encode_again or ())
        search = partial(_search, opened, partitions=partitions, accept=accept_lost, wanted=wanted)
        found = _each(opened.chosen(writer), search, failed)
        lost = [one for own, _ in found.values() for one in own]
        again = [one for _, own in found.values() for one in own]
        if not failed:
            _require_known(partitions, lost)
            _require_lost(wanted, again)
        if not dry_run and not yes:
            _ask(lost, "give up", "for good", as_json=json)
            _ask(again, "publish", "again", as_json=json)
        given_up = {name: _given_up(*own, partitions) for name, own in found.items()}
        done = _each(found, lambda name: _recovered(opened, name, given_up[name], dry_run=dry_run), failed)
        for name in [name for name, result in done.items() if result.waiting.buckets]:
            if dry_run:
                with _noted(name, failed):
                    _require_sound(opened, *opened.for_recovery(name)[1:])
            else:
                done[name] = _published(opened, name, done[name], failed)
        left = [text for name, result in done.items() for text in _left(opened, name, result)] if dry_run else []
        if done or not failed:
            asked = {
                "nothing is lost, so nothing is given up": accept_lost and not lost,
                "nothing lost can be encoded again, so nothing is published again": ALL in wanted and not again,
            }
            nothing = [what for what, is_nothing in asked.items() if is_nothing]
            out.show(_report(opened, done, failed, left, again, dry_run=dry_run, nothing=nothing))
        if failed:
            raise next(iter(failed.values()))
        if left:
            raise typer.Exit(ExitCode.NEEDS_PERSON)


def _each(writers: Iterable[str], work: Callable[[str], T], failed: dict[str, HiveSinkError]) -> dict[str, T]:
    """What `work` returns for each; those that have `failed` are added there. They are no matter of the others'."""
    done = {}
    for name in writers:
        with _noted(name, failed):
            done[name] = work(name)
    return done


@contextmanager
def _noted(writer: str, failed: dict[str, HiveSinkError]) -> Iterator[None]:
    try:
        yield
    except HiveSinkError as error:
        failed[writer] = error


def _search(
    opened: OpenedTable, writer: str, *, partitions: frozenset[PartitionKey], accept: bool, wanted: frozenset[str]
) -> tuple[list[Loss | LostSlice], list[Loss]]:
    """What is given up, and what is published again."""
    opened.require_same(writer)
    context = opened.writers[writer]
    named = {(opened.name, partition) for partition in wanted}
    again = [
        loss
        for loss in (find_maybe_read(context) if wanted else ())
        if (ALL in wanted or loss.key in named) and loss.key not in partitions
    ]
    parts = find_losses(context, partitions, accept=accept, again=frozenset(loss.target for loss in again))
    return [*parts, *find_lost_slices(context, partitions, accept=accept)], again


def _given_up(lost: Sequence[Loss | LostSlice], again: Sequence[Loss], partitions: frozenset[PartitionKey]) -> GivenUp:
    parts = [one for one in lost if isinstance(one, Loss)]
    waiting = frozenset(one.target for one in parts if one.key in partitions)
    slices = frozenset(one.opened for one in lost if isinstance(one, LostSlice))
    targets, wanted = (frozenset(one.target for one in some) for some in (parts, again))
    return GivenUp(targets, waiting, slices, again=wanted)


def _recovered(opened: OpenedTable, writer: str, given_up: GivenUp, *, dry_run: bool) -> Recovered:
    context, config, head = opened.for_recovery(writer)
    policy = policy_of(opened.live.spec, config)
    if dry_run:
        return preview(context, policy, given_up=given_up)
    _require_sound(opened, config, None if given_up == NOTHING else head)
    # Its dead letters may wait for a table that somebody has dropped.
    remaking = replace(context, remake=wiring.remaker(opened.metastore, opened.live))
    identity = None if head else _identity(opened, writer, context, config)
    return recover_writer(remaking, identity, policy, given_up=given_up)


def _published(opened: OpenedTable, writer: str, result: Recovered, failed: dict[str, HiveSinkError]) -> Recovered:
    """Roll what waits. Of what can't be rolled, nothing is told but why."""
    with _noted(writer, failed):
        opened.committer(writer).finish()
    history = load(opened.writers[writer])
    left = {one.slice for one in history.rows.opened}
    return replace(result, epoch=history.epoch, waiting=result.waiting.beside(left))


def _require_sound(opened: OpenedTable, config: SinkConfig, head: Manifest | None) -> None:
    """Raise InvalidOption before anything is given up, where what waits couldn't be published afterwards."""
    is_main = head is not None and head.tables[0] == opened.name
    if is_main and (problems := problems_of(opened.live.spec, config)):
        raise InvalidOption(problems)


def _require_known(partitions: Collection[PartitionKey], lost: Sequence[Loss | LostSlice]) -> None:
    unknown = sorted(set(partitions) - {loss.key for loss in lost})
    if unknown:
        names = ", ".join(f"{partition} of {table}" for table, partition in unknown)
        problem = f"--give-up: no rows wait for {names}; `hivesink status` lists what waits, by table and exact name"
        raise InvalidOption((problem,))


def _require_lost(wanted: Collection[str], again: Sequence[Loss]) -> None:
    unknown = sorted(set(wanted) - {ALL} - {loss.part.partition for loss in again})
    if unknown:
        problem = f"--encode-again: nothing of {', '.join(unknown)} waits for that; `hivesink verify` lists what does"
        raise InvalidOption((problem,))


def _identity(opened: OpenedTable, writer: str, context: CommitContext, config: SinkConfig) -> Identity:
    """The identity of a writer that has decided nothing yet: of another, its newest manifest has it."""
    log = context.log
    uid = log.uid(None)
    if uid is None:
        raise InvalidOption((f"{log.location} is no log: it has no uid; restore it, or delete that folder",))
    return Identity(writer, uid, (opened.name,), ((opened.name, config["sink.bucket.time-zone"].key),), log.location)


def _ask(lost: Sequence[Loss | LostSlice], todo: str, how: str, *, as_json: bool) -> None:
    if lost:
        what = f"{count(sum(loss.rows for loss in lost), 'row')} in {_files(lost)}"
        confirm(_listed(lost), f"{todo.capitalize()} {what} {how}?", f"this would {todo} {what} {how}", as_json=as_json)


def _listed(lost: Iterable[Loss | LostSlice]) -> list[str]:
    return [f"lost: {loss.target} ({count(loss.rows, 'row')}{_bucket(loss)}): {loss.reason}" for loss in lost]


def _all(result: Recovered) -> list[Loss | LostSlice]:
    return [*result.lost, *result.given_up]


def _accepted(result: Recovered) -> list[Loss | LostSlice]:
    stopping = _stopping(result)
    return [loss for loss in _all(result) if loss.target not in stopping]


def _files(lost: Sequence[Loss | LostSlice]) -> str:
    return count(len({loss.target for loss in lost}), "file")


def _bucket(loss: Loss | LostSlice) -> str:
    # A part's path names its partition.
    return f" of {' '.join(loss.key).strip()}" if isinstance(loss, LostSlice) else ""


def _report(
    opened: OpenedTable,
    done: Mapping[str, Recovered],
    failed: Mapping[str, HiveSinkError],
    left: Sequence[str],
    again: Sequence[Loss],
    *,
    dry_run: bool,
    nothing: Sequence[str],
) -> Report:
    data = [_data(writer, result) for writer, result in done.items()]
    shown = ((writer, result) for writer, result in done.items() if writer not in failed or result.described())
    blocks: list[Line | Grid] = [
        block for writer, result in shown for block in _blocks(writer, result, dry_run=dry_run)
    ]
    todo = "would be published" if dry_run else "published"
    blocks += [Line(f"{one.target} ({count(one.rows, 'row')}): {todo} again; {one.reason}", "yellow") for one in again]
    blocks += map(Line, nothing)
    blocks += [Line(f"writer {writer}: not done: {error}", "red") for writer, error in failed.items()]
    blocks = blocks or [Line(f"no writer has written to {opened.name} yet")]
    blocks += [Line(text, "yellow") for text in left]
    errors = {writer: str(error) for writer, error in failed.items()}
    told = {"table": opened.name, "dry_run": dry_run, "writers": data, "not_done": errors}
    return Report(told, blocks)


def _left(opened: OpenedTable, writer: str, result: Recovered) -> list[str]:
    """Why the real one would not end well."""
    held = wiring.held_back_rows(opened.live, opened.writers[writer].log, result.waiting)
    left = [f"can't all be rolled: {' '.join(key).strip()}: {why}" for key, why in held.items()]
    stopping = _stopping(result).values()
    if rows := sum(one.part.rows for one in stopping):
        answers = _ANSWERS if any(one.astray is None for one in stopping) else "move back those that it found elsewhere"
        lists = f"`hivesink verify {opened.name}` lists them: {answers}"
        first = " before anything is given up" if _accepted(result) else ""
        left.append(f"stops at {count(rows, 'row')} in lost files{first}; {lists}")
    return [f"writer {writer}: {text}" for text in left]


def _stopping(result: Recovered) -> dict[str, Refuse]:
    """The lost parts that nobody has given up, by their targets."""
    return {action.part.target: action for action in result.actions if isinstance(action, Refuse)}


def _data(writer: str, result: Recovered) -> dict[str, Any]:
    return {
        "writer": writer,
        "epoch": result.epoch,
        "actions": [{"what": what, "subject": subject} for what, subject in result.described()],
        "lost": [{"target": loss.target, "rows": loss.rows, "why": loss.reason} for loss in _all(result)],
    }


def _blocks(writer: str, result: Recovered, *, dry_run: bool) -> list[Line | Grid]:
    actions = result.described()
    if not actions:
        state = f"it is at epoch {result.epoch}" if result.epoch else "it has committed nothing yet"
        return [Line(f"writer {writer}: nothing to recover, {state}")]
    head = "recovery would" if dry_run else f"recovered, at epoch {result.epoch}, with {len(actions)} actions"
    blocks: list[Line | Grid] = [Grid(f"writer {writer}: {head}", ("action", "subject"), actions)]
    if lost := _accepted(result):
        accepted = "would be accepted as lost" if dry_run else "accepted as lost"
        rows = sum(loss.rows for loss in lost)
        # Whoever gives them up for good was shown them before the question.
        blocks += [Line(line) for line in _listed(lost) if dry_run]
        blocks.append(Line(f"writer {writer}: {_files(lost)} with {count(rows, 'row')} {accepted}"))
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

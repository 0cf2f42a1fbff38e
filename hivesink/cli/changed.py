"""`hivesink changed`: which partitions must be computed again, for schedulers."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from hivesink.cli.codes import ExitCode
from hivesink.cli.command import command, moment
from hivesink.cli.output import Grid, Line, Output
from hivesink.core import changes as core
from hivesink.core.log import require_writer_name
from hivesink.core.manifest import recorded
from hivesink.core.progress import count
from hivesink.core.table import is_letters, main_table
from hivesink.errors import InvalidOption, LogDamaged
from hivesink.sink.inspect.facts import LogFacts, read_log
from hivesink.tables.opened import OpenedTable

if TYPE_CHECKING:
    from hivesink.ports import CommitLog


@command
def changed(
    out: Output,
    opened: OpenedTable,
    *,
    since: str | None = None,
    until: str | None = None,
    consumer: str | None = None,
    ack: bool = False,
) -> None:
    """List the partitions whose committed rows have changed: revision, rows before and after, and why.

    Only what can be read counts. Ends with 3 if nothing has changed.

    Example: hivesink changed demo.events --consumer daily --json

    --since REVISION|TIME: Changes after this revision of the table, or this time (ISO 8601; UTC without a zone).
    --until REVISION: Only changes up to this revision, which an earlier call has printed.
    --consumer NAME: Changes since this consumer's last --ack: all partitions, if there is none.
    --ack: Then note that the consumer has seen what is printed.
    """
    if (ack and consumer is None) or None not in {consumer, since}:
        raise InvalidOption(("--ack needs a --consumer, and --since is for calls without a consumer",))
    if consumer is not None:
        require_writer_name(consumer, "consumer")
    if is_letters(opened.name):
        raise InvalidOption((f"{opened.name} holds the dead letters of {main_table(opened.name)}: name that",))
    read = {
        "/".join(log.location.rsplit("/", 2)[1:]): commits_of(log, opened.name) for log in opened.every_log().values()
    }
    end = None if until is None else core.parse_revision(until, read)
    looks = {name: commits.read(end[name] if end else None) for name, (commits, _) in read.items()}
    now = {name: seen for name, (_, seen) in looks.items()}
    revision = core.revision_text({name: upto for name, (upto, _) in looks.items()})
    before: core.Seens = {}
    receipts, number = opened.owner.root.receipts(consumer or ""), 0
    if consumer is not None:
        number, receipt = receipts.newest()
        before = {} if receipt is None else core.decode_receipt(receipt, receipts.path(number))
    elif since is not None:
        time = None if "/" in since or since.isdecimal() else moment(since, "--since")
        begin = {} if time else core.parse_revision(since, read)
        for name, (commits, facts) in read.items():
            upto = commits.at(time, facts.manifests) if time else begin[name]
            before[name] = commits.read(upto)[1]
    damaged = [name for name, (_, facts) in read.items() if facts.unreadable or facts.view.missing]
    for name, seen in now.items():
        # Neither an older look nor lost manifests take anything back.
        was = before.get(name, {})
        seen |= {key: max(seen[key], was[key]) for key in seen.keys() & was.keys()}
    heads = [facts.head for _, facts in read.values() if facts.head]
    rule = opened.policies(max(heads, key=lambda head: head.at, default=None)).rule
    knows_all = since is None or not any(facts.view.floor for _, facts in read.values())
    every = core.changes(
        before, now, is_held=lambda name: rule.end((opened.name, name)) is not None, knows_all=knows_all
    )
    rows = [asdict(each) for each in every]
    grid = Grid.of(f"changed in {opened.name}", rows, "revision", "rows_before", "rows")
    told = f"{count(len(every), 'partition')} changed; revision {revision or 'none: no writer has begun'}"
    data = {"table": opened.name, "revision": revision, "consumer": consumer, "damaged": damaged}
    note = "note: manifests of {} can't be read: what they alone have committed isn't listed"
    out.show({**data, "partitions": rows}, [grid, *(Line(note.format(name), "yellow") for name in damaged), Line(told)])
    # Before the receipt: what nobody could print was not seen.
    sys.stdout.flush()
    if ack and every:
        kept = {name: {**before.get(name, {}), **seen} for name, seen in now.items()}
        receipts.add(number + 1, core.encode_receipt(kept))
    if not every:
        raise typer.Exit(ExitCode.NOTHING)


def commits_of(log: CommitLog, table: str) -> tuple[core.LogCommits, LogFacts]:
    """What `log` has committed of `table`, and its facts.

    Raises StoreUnavailable; unless the log is over, LogDamaged, also for a settled manifest that is missing: it may
    have had a commit.
    """
    facts = read_log(log)
    view = facts.view
    if not view.is_over:
        facts.require_readable()
        for epoch in view.missing:
            raise LogDamaged(log.location, f"the manifest of epoch {epoch} is missing")
    # After the manifests: what was trimmed meanwhile is in both.
    every = [*log.records(), *(record for manifest in facts.manifests for record in recorded(manifest))]
    if not view.is_over:
        return core.LogCommits(table, tuple(every), facts.settled), facts
    # Nobody settles it. What its last epochs have published stays, and the rest is given up, moved files too.
    lost = {part.key for part in facts.waiting}
    unpublished = (record.commit for record in every if not facts.is_published(record.epoch))
    given_up = {commit for commit in unpublished if commit.key in lost}
    return core.LogCommits(table, tuple(record for record in every if record.commit not in given_up), view.head), facts

"""What has happened to a table: its epochs, and which partitions must be computed again."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from itertools import chain, zip_longest
from typing import Any

import typer
from rich.filesize import decimal

from hivesink.cli.codes import ExitCode
from hivesink.cli.command import command, moment
from hivesink.cli.output import Grid, Line, Output
from hivesink.core import changes as core
from hivesink.core.log import require_writer_name
from hivesink.core.manifest import FORGET, REQUEUE, Manifest, recorded
from hivesink.core.offsets import read_between
from hivesink.core.progress import count
from hivesink.core.table import is_letters, main_table
from hivesink.errors import InvalidOption, LogDamaged, few
from hivesink.ports import CommitLog
from hivesink.sink.inspect.facts import LogFacts, read_log
from hivesink.tables.opened import OpenedTable

_WHY = {
    "roll": "rows that waited became files",
    "commit": "partitions are complete",
    "watermark": "the watermark passed a partition's end",
    "fence": "a start shut out an older try at this epoch",
    "move": "files went where their partitions live",
    REQUEUE: "files were lost before anybody could read them: their rows wait again",
    FORGET: "a person accepted a loss",
}
"""Why there are epochs, beside batches."""
_BESIDE = {
    "reset": "the log was put aside",
    "missing": "its manifest is missing",
    "trimmed": "the sum of the epochs up to this, whose manifests are trimmed",
}
"""What a log tells beside its epochs."""
_MOST = 3
"""Partitions that a line names."""


@command
def history(
    out: Output, opened: OpenedTable, *, writer: str | None = None, limit: int = 20, until: str | None = None
) -> None:
    """Show a table's epochs, the newest first: when, which batch, rows, files, offsets, changed settings and columns.

    `flights/1` is a log that a reset has put aside. Read-only: safe to run while a job is writing.

    Example: hivesink history demo.flights

    --limit N: How many epochs to show; more, if more have the same time.
    --until TIME: Only epochs up to this time (ISO 8601; UTC if it names no zone): the end of a page names the next.
    """
    last = None if until is None else moment(until, "--until")
    told = [entry for name, log in opened.every_log(writer).items() for entry in _newest_first(name, log)]
    told = [entry for entry in told if last is None or entry["at"] <= last]
    told.sort(key=lambda entry: entry["at"], reverse=True)
    # A page ends between two times, so that the next one repeats nothing.
    ends = [entry["at"] for entry in told[:limit]]
    page = [entry for entry in told if ends and entry["at"] >= ends[-1]]
    following = told[len(page)]["at"] if len(told) > len(page) else None
    blocks = [line for entry in page for line in _lines(entry)]
    if following:
        blocks.append(Line(f"older: hivesink history {opened.name} --until {following.isoformat()}", "bold"))
    if not blocks:
        blocks.append(Line(f"no writer has written to {opened.name} yet"))
    out.show({"table": opened.name, "epochs": page, "next": following}, blocks)


def _newest_first(name: str, log: CommitLog) -> Iterator[dict[str, Any]]:
    """The epochs of `log`, each with its differences from the epoch before. Raises LogDamaged, StoreUnavailable."""
    facts = read_log(log)
    if not facts.view.is_over:
        facts.require_readable()
    view, floor, newest = facts.view, facts.floor, facts.manifests[::-1]
    if over := log.ended() if view.is_over else None:
        yield {"at": over, "writer": name, "epoch": view.head, "kind": "reset"}
    for manifest, before in zip_longest(newest, newest[1:]):
        yield _entry(name, manifest, before)
        for gap in range(manifest.epoch - 1, before.epoch if before else view.floor, -1):
            yield {"at": manifest.at, "writer": name, "epoch": gap, "kind": "missing"}
    if floor and newest:
        trimmed = {"kind": "trimmed", "rows": asdict(floor.totals), "files": floor.files}
        yield {"at": newest[-1].at, "writer": name, "epoch": floor.epoch, **trimmed}


def _entry(name: str, manifest: Manifest, before: Manifest | None) -> dict[str, Any]:
    """The JSON of an epoch. Settings and columns that have changed are pairs; None: a default, or no such column."""
    known = before or manifest
    last = manifest.last_batch if manifest.last_batch and manifest.last_batch.epoch == manifest.epoch else None
    return {
        "at": manifest.at,
        "writer": name,
        "epoch": manifest.epoch,
        "kind": manifest.kind,
        "query": last and last.ref.query,
        "batch": last and last.ref.batch,
        "appended": last is not None and last.appended,
        "rows": asdict(manifest.rows),
        "waiting_rows": sum(opened.slice.rows for opened in manifest.opened),
        "files": len(manifest.add),
        "file_rows": sum(part.rows for part in manifest.add),
        "bytes": sum(part.length for part in manifest.add),
        "partitions": sorted({part.partition for part in manifest.add}),
        "committed": sorted(commit.partition for commit in manifest.commits),
        "forgotten": manifest.forgotten,
        "offsets": [*chain.from_iterable(map(read_between, last.ref.start, last.ref.end))] if last else [],
        "settings": _changed(known.settings, manifest.settings),
        "columns": _changed(known.columns, manifest.columns),
    }


def _changed(before: Iterable[tuple[str, str]], after: Iterable[tuple[str, str]]) -> dict[str, list[str | None]]:
    old, new = dict(before), dict(after)
    return {key: [old.get(key), new.get(key)] for key in sorted({*old, *new}) if old.get(key) != new.get(key)}


def _rows(rows: Mapping[str, int]) -> str:
    became = (f"{number:,} {name}" for name, number in rows.items() if number and name not in {"read", "extra"})
    return f"{count(rows['read'], 'row')} read: {', '.join(became)}"


def _offset(offset: Mapping[str, Any]) -> str:
    place = f"{offset['topic']}-{offset['partition']}: " if "topic" in offset else ""
    return f"{place}{'the beginning' if offset['from'] is None else offset['from']} → {offset['to']}"


def _lines(entry: Mapping[str, Any]) -> Iterator[Line]:
    kind, at = entry["kind"], f"{entry['at']:%Y-%m-%d %H:%M:%S}"
    what = f"batch {entry['batch']} of query {entry['query'][:8]}" if kind == "batch" else {**_WHY, **_BESIDE}[kind]
    yield Line(f"{at}  {entry['writer']} {entry['epoch']}: {what}", "bold")
    facts = [_rows(entry["rows"])] if entry.get("rows", {}).get("read") else []
    if kind in _BESIDE:
        yield from (Line(f"    {fact}") for fact in facts)
        return
    facts += [f"{entry['waiting_rows']:,} wait for their files"] if entry["waiting_rows"] else []
    if entry["files"]:
        files, places = count(entry["files"], "file"), count(len(entry["partitions"]), "partition")
        facts.append(f"{files} ({count(entry['file_rows'], 'row')}, {decimal(entry['bytes'])}) in {places}")
    changes = [(f"setting {key}", pair, "default") for key, pair in entry["settings"].items()]
    changes += [(f"column {name}", pair, "none") for name, pair in entry["columns"].items()]
    notes = {
        "; ".join(facts): facts,
        f"committed: {few(entry['committed'], _MOST)}": any(entry["committed"]),
        few([*map(_offset, entry["offsets"])], _MOST): entry["offsets"],
        **{f"{what}: {old or absent} → {new or absent}": True for what, (old, new), absent in changes},
        "another history follows from here: the job was started with `append`": entry["appended"],
        f"{count(entry['forgotten'], 'row')} forgotten": entry["forgotten"],
    }
    yield from (Line(f"    {note}") for note, is_so in notes.items() if is_so)


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

"""`hivesink history`: a table's epochs as people read them, the newest first."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import asdict
from heapq import merge
from itertools import chain, islice, pairwise
from typing import TYPE_CHECKING, Any

from rich.filesize import decimal

from hivesink.cli.command import command, moment
from hivesink.cli.output import Line, Output
from hivesink.core.epoch import Epoch
from hivesink.core.manifest import FORGET, REQUEUE
from hivesink.core.offsets import read_between
from hivesink.core.progress import count
from hivesink.errors import few
from hivesink.sink.commit.observe import newest_first
from hivesink.tables.opened import OpenedTable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime

    from hivesink.core.manifest import Manifest
    from hivesink.ports import CommitLog

_KINDS = {
    "roll": "rows that waited became files",
    "commit": "partitions are complete",
    "watermark": "the watermark went on",
    "fence": "a start shut out an older run",
    "move": "files went where their partitions live",
    REQUEUE: "files were lost before anybody could read them: their rows wait again",
    FORGET: "a person accepted a loss",
    "reset": "the log was put aside",
    "missing": "its manifest is missing",
}
_MOST = 3
"""Partitions that a line names."""


@command
def history(
    out: Output, opened: OpenedTable, *, writer: str | None = None, limit: int = 20, until: str | None = None
) -> None:
    """Show a table's epochs, the newest first: when, which batch, rows, files, offsets, changed settings and columns.

    `flights/1` is a log that a reset has put aside. Read-only: safe to run while a job is writing.

    Example: hivesink history demo.flights

    --limit N: How many epochs to show.
    --until TIME: Only epochs up to this time (ISO 8601; UTC if it names no zone): the end of a page names the next.
    """
    last, logs = None if until is None else moment(until, "--until"), opened.every_log(writer)
    pages = [_newest_first(name, log, last) for name, log in logs.items()]
    page = list(islice(merge(*pages, key=lambda entry: entry["at"], reverse=True), limit + 1))
    following = page[limit]["at"] if len(page) > limit else None
    floors = {} if following else {name: floor for name, log in logs.items() if (floor := log.floor())}
    trimmed = [
        {"writer": name, "epoch": floor.epoch, "rows": asdict(floor.totals), "files": floor.files}
        for name, floor in floors.items()
    ]
    blocks = [line for entry in page[:limit] for line in _lines(entry)]
    blocks += [
        Line(f"{name}: {_rows(asdict(floor.totals))} in epochs up to {floor.epoch}, whose manifests are trimmed")
        for name, floor in floors.items()
    ]
    if following:
        blocks.append(Line(f"older: hivesink history {opened.name} --until {following.isoformat()}", "bold"))
    if not blocks:
        blocks.append(Line(f"no writer has written to {opened.name} yet"))
    out.show({"table": opened.name, "epochs": page[:limit], "trimmed": trimmed, "next": following}, blocks)


def _newest_first(name: str, log: CommitLog, until: datetime | None) -> Iterator[dict[str, Any]]:
    """The epochs of `log` up to a time, each with its differences from the epoch before. Reads as it is asked.

    Raises LogDamaged, StoreUnavailable.
    """
    view = log.view()
    epochs = view.manifests
    settled = view.settled(log.manifest(view.head).settled) if epochs else Epoch(0)
    over = log.ended() if view.is_over else None
    if over and (until is None or over <= until):
        yield {"at": over, "writer": name, "epoch": view.head, "kind": "reset"}
    if until:
        epochs = epochs[: bisect_right(epochs, until, key=lambda epoch: log.manifest(epoch).at)]
    for manifest, before in pairwise(chain(newest_first(log, epochs), (None,))):
        if manifest is not None:
            yield _entry(name, manifest, before, settled)
            for gap in range(manifest.epoch - 1, before.epoch if before else manifest.epoch, -1):
                yield {"at": manifest.at, "writer": name, "epoch": gap, "kind": "missing"}


def _entry(name: str, manifest: Manifest, before: Manifest | None, settled: Epoch) -> dict[str, Any]:
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
        "finished": manifest.epoch <= settled or manifest.is_bare,
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
    what = _KINDS.get(kind, kind) if kind != "batch" else f"batch {entry['batch']} of query {entry['query'][:8]}"
    yield Line(f"{at}  {entry['writer']} {entry['epoch']}: {what}", "bold")
    if kind in {"reset", "missing"}:
        return
    facts = [_rows(entry["rows"])] if entry["rows"]["read"] else []
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
        "not finished yet": not entry["finished"],
    }
    yield from (Line(f"    {note}") for note, is_so in notes.items() if is_so)

"""`hivesink where`: what became of a record."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hivesink.cli.command import command
from hivesink.cli.output import Line, Output, cell_text
from hivesink.core.column_source import Metadata, named_file
from hivesink.core.manifest import REPLAYS
from hivesink.core.table import is_letters, quoted
from hivesink.errors import InvalidOption
from hivesink.tables.opened import OpenedTable
from hivesink.tables.rejects import Wanted, dead_letters
from hivesink.tables.where import LETTERS, Trace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Record = Annotated[str, typer.Argument(help="topic:partition:offset, or FILE:LINE.", metavar="RECORD")]


@command
def where(out: Output, opened: OpenedTable, record: Record) -> None:
    """Say where a record of Kafka's went: its epoch, files or what it waits for, or why it isn't in the table.

    Of a record of a file the log knows nothing: only dead letters are looked through. Read-only.

    Example: hivesink where demo.flights flights:0:17

    """
    kafka = re.fullmatch(r"([\w.-]+):([^:/]*):([^:/]*)", record, re.ASCII)
    file = re.fullmatch(r"(.+):(\d+)", record, re.ASCII)
    if kafka and not (kafka[2].isdecimal() and kafka[3].isdecimal()):
        raise InvalidOption((f"{record!r}: partition and offset are numbers, as in flights:0:17",))
    if not (kafka or file):
        raise InvalidOption((f"{record!r} is no record: write topic:partition:offset, or FILE:LINE",))
    topic, partition, offset = (kafka[1], int(kafka[2]), int(kafka[3])) if kafka else ("", -1, -1)
    now, logs = datetime.now(timezone.utc), opened.every_log() if kafka else {}
    logs = {name: log for name, log in logs.items() if name.partition("/")[0] != REPLAYS}
    traces = [Trace(opened, name, log, (topic, partition), offset, now) for name, log in logs.items()]
    told = [each for trace in traces if (each := trace.told())]
    if kafka and not told:
        raise InvalidOption((f"no writer of {opened.name} has read partition {partition} of topic {topic!r}",))
    # What a log hasn't, another log of the writer may have, before or after a reset.
    others = {each["writer"].partition("/")[0] for each in told if each["state"] != "never read"}
    told = [t for t in told if t["state"] != "never read" or t["writer"].partition("/")[0] not in others]
    letters = [] if file is None or kafka else list(_letters(opened, file[1], int(file[2])))
    table = next((place["table"] for each in told for place in each["places"] if place["has_it"]), opened.name)
    columns: Mapping[Any, str] = {source: name for name, source in opened.of_last_run(None).sources.items()}
    columns = LETTERS if is_letters(table) else columns
    wanted = {Metadata.TOPIC: f"'{topic}'", Metadata.PARTITION: partition, Metadata.OFFSET: offset}
    conditions = [f"{quoted(columns[source])} = {value}" for source, value in wanted.items() if source in columns]
    needed = Metadata.OFFSET in columns and any(each["places"] for each in told)
    needed = columns is LETTERS or (needed and any(trace.columns for trace in traces))
    if not kafka and Metadata.PATH in columns:
        # It is a URI there.
        end = file[1].replace("'", "''") if file else ""
        needed, conditions = True, [f"{quoted(columns[Metadata.PATH])} LIKE '%{end}'"]
    select = f"SELECT * FROM {table} WHERE {' AND '.join(conditions)}" if needed else None  # noqa: S608  printed
    lines = [Line(text) for each in told for text in _lines(each)]
    lines += [Line(f"a dead letter: {letter['field'] or 'the record'}: {letter['reason']}") for letter in letters]
    if not (lines or needed):
        lines.append(Line(f"no dead letter is of it: {opened.name} doesn't keep which file a row came from"))
    lines += [Line(select)] if select else []
    out.show({"table": opened.name, "record": record, "writers": told, "letters": letters, "select": select}, lines)


def _letters(opened: OpenedTable, file: str, line: int) -> Iterator[Mapping[str, Any]]:
    letters = dead_letters(opened)
    for _, rows in letters.wanted(Wanted()) if letters else ():
        for row in rows.select(["reason", "field", "source", "line"]).to_pylist():
            if row["line"] == line and f"/{named_file(row['source'] or '')}".endswith(f"/{named_file(file)}"):
                yield row


def _lines(told: Mapping[str, Any]) -> Iterator[str]:
    state, writer = told["state"], f"writer {told['writer']}"
    if state == "not read yet":
        yield f"{writer}: not read yet: its next record is {told['read_up_to']}"
        return
    if state == "never read":
        yield f"{writer}: never read: it expired, or the job began behind it or ended before it"
        return
    if state == "trimmed":
        text = f"if the job read it, an epoch after {told['after']}, up to {told['by']}, did; their manifests are gone"
        yield f"{writer}: {text}"
        return
    batch = f"batch {told['batch']} of query {told['query']}"
    yield f"{writer}: {state} by epoch {told['epoch']} at {cell_text(told['at'])} UTC ({batch})"
    for place in told["places"]:
        words = [place["partition"] or "the table", place["state"]]
        words += [f"since {cell_text(place['since'])} UTC"] if "since" in place else []
        words += [place["why"]] if "why" in place else []
        words += [f"{place['field'] or 'the record'}: {place['reason']}"] if "reason" in place else []
        replay = f"epoch {place['replayed']}" if place.get("replayed") else "a trimmed epoch"
        words += [f"replayed in {replay} of rejects-replay"] if "replayed" in place else []
        yield f"    {'' if place['has_it'] else 'perhaps '}{', '.join(words)}"
        yield from (f"        {path}" for path in place.get("files", ()))
    if told["or"]:
        others = ", ".join(f"{what} ({count:,})" for what, count in told["or"].items())
        yield f"    {'or' if told['places'] else 'in no file of the epoch:'} {others}"

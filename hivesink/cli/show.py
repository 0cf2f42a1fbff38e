"""`hivesink show`: a picture of a table in the terminal: partitions and files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from functools import partial
from typing import Any

from rich.filesize import decimal

from hivesink.cli.command import command
from hivesink.cli.output import Grid, Line, Output
from hivesink.cli.status import offsets_grid
from hivesink.core.partfile import Finished
from hivesink.core.partition_commit import TimeExtractor, start_of
from hivesink.core.progress import count
from hivesink.errors import Unsupported
from hivesink.logs import file_store
from hivesink.ports import FileStore
from hivesink.sink.inspect.facts import PartitionState, read_log
from hivesink.sink.task.events import time_extractor
from hivesink.tables.opened import OpenedTable


@command
def show(out: Output, opened: OpenedTable, *, limit: int = 50) -> None:
    """Draw a table's partitions over time: rows, bytes, files, rows that wait and small files.

    Read-only: safe to run while a job is writing.

    Example: hivesink show demo.flights

    --limit N: How many partitions to show, the newest ones.
    """
    picture = _picture(opened, datetime.now(timezone.utc), limit)
    out.show(picture, _blocks(picture))


def _blocks(picture: Mapping[str, Any]) -> Iterator[Line | Grid]:
    partitions = picture["partitions"]
    yield Line(f"{picture['table']} at {picture['location']}", "bold")
    if not partitions:
        yield Line("it has no partitions yet")
    else:
        which = count(len(partitions), "partition")
        if len(partitions) < picture["partitions_in_all"]:
            which = f"the newest {len(partitions):,} of {picture['partitions_in_all']:,} partitions"
        small = sum(partition["small_files"] > 0 for partition in partitions)
        waiting = sum(partition["waits_for"] is not None for partition in partitions)
        yield Line(f"{which}, {small:,} with small files, {waiting:,} not complete")
    most = max((partition["rows"] or 0 for partition in partitions), default=0)
    yield Grid.of("partitions, the newest last", [_row(each, most) for each in partitions], "rows", "bytes", "files")
    for writer, rows in picture["offsets"].items():
        yield offsets_grid(writer, rows)
    if picture["rejected"]:
        yield Line(f"{count(picture['rejected'], 'rejected row')}; `hivesink rejects` shows dead letters", "bold red")


def _row(partition: Mapping[str, Any], most: int) -> dict[str, object]:
    rows, length, files, small = (partition[name] for name in ("rows", "bytes", "files", "small_files"))
    marks = {
        "not registered": not partition["registered"],
        "no files": partition["registered"] and files == 0,
        f"{count(partition['waiting_rows'], 'row')} not readable yet": partition["waiting_rows"],
        count(small, "small file"): small,
        f"waits: {partition['waits_for']}": partition["waits_for"],
    }
    return {
        "partition": partition["partition"] or "(the whole table)",
        "rows": None if rows is None else f"{rows:,}",
        "": Line(bar(rows, most), "cyan"),
        "bytes": None if length is None else decimal(length),
        "files": Line("-" if files is None else f"{files:,}", "bold red" if small else ""),
        "marks": Line("; ".join(mark for mark, is_so in marks.items() if is_so), "yellow"),
    }


def bar(value: int | None, most: int) -> str:
    """`value` as a bar, of 20 characters for `most`; at least one for what isn't 0."""
    return "█" * max(1, round(value * 20 / most)) if value and most > 0 else ""


def count_small(lengths: Sequence[int], file_size: int) -> int:
    """How many files of a partition are small: below a tenth of `file_size` (bytes).

    A single small file counts only if the whole partition is below a hundredth of `file_size`: else it is what was
    left over when the others were full.
    """
    small = sum(length * 10 < file_size for length in lengths)
    return small if small > 1 or sum(lengths) * 100 < file_size else 0


def _picture(opened: OpenedTable, now: datetime, limit: int) -> dict[str, Any]:
    """The JSON document, with the newest `limit` partitions. Lists only the folders of these.

    Figures of a partition that aren't known are None; rows are those that the jobs have published. Raises
    InvalidOption, LogDamaged, StoreUnavailable, MetastoreUnreachable, OwnCodeFailed.
    """
    logs = {writer: read_log(context.log) for writer, context in opened.writers.items()}
    for log in logs.values():
        log.require_readable()
    heads = [log.head for log in logs.values() if log.head]
    config = opened.of_last_run(max(heads, key=lambda head: head.at, default=None))
    file_size: int = config["sink.rolling-policy.file-size"]
    waiting: dict[str, list[PartitionState]] = {}
    for state in (state for writer in logs for state in opened.states(writer, now) if state.table == opened.name):
        waiting.setdefault(state.partition, []).append(state)
    live = opened.metastore.lookup(opened.live, None)
    order = _by_time(live.keys() | waiting.keys(), time_extractor(opened.live.spec, config))
    shown = order[-limit:]
    store = file_store(opened.live.location, opened.site)
    registered = [partition for partition in shown if partition in live]
    listed = store.run_parallel(partial(_visible, store, live[partition].location) for partition in registered)
    files = {partition: look for partition, look in zip(registered, listed, strict=True) if look is not None}

    def about(partition: str) -> dict[str, Any]:
        lengths = [file.length for file in files[partition]] if partition in files else None
        states = waiting.get(partition, [])
        committed = sum(state.record.commit.rows for state in states if state.record)
        rows = committed + sum(state.published_rows for state in states)
        waits = [f"writer {state.writer}: {state.waits_for}" for state in states if state.waits_for]
        return {
            "partition": partition,
            "registered": partition in live,
            "rows": None if lengths is None else rows if lengths else 0,
            "bytes": None if lengths is None else sum(lengths),
            "files": None if lengths is None else len(lengths),
            "small_files": count_small(lengths, file_size) if lengths else 0,
            "waiting_rows": sum(state.open_rows + state.decided_rows for state in states),
            "waits_for": "; ".join(waits) or None,
        }

    replayed = sum(part.rows for log in logs.values() for part in log.replaced.values())
    return {
        "table": opened.name,
        "location": opened.live.location,
        "at": now,
        "file_size": file_size,
        "partitions_in_all": len(order),
        "partitions": [*map(about, shown)],
        "offsets": {writer: log.lag.data for writer, log in logs.items()},
        # The log that wrote them may have been reset since.
        "rejected": max(0, sum(log.total.totals.rejected for log in logs.values()) - replayed),
    }


def _by_time(partitions: Iterable[str], extractor: TimeExtractor | None) -> list[str]:
    """By their times, those without one first; else by their names, in which 10 comes after 9."""

    def key(partition: str) -> tuple[datetime, list[str | int]]:
        start = start_of(partition, extractor) if extractor and partition else None
        if start is None:
            start = datetime.min.replace(tzinfo=timezone.utc)
        # An extractor of the user's own may return times with a zone.
        time = start if start.tzinfo else start.replace(tzinfo=timezone.utc)
        texts = re.split(r"(\d+)", partition, flags=re.ASCII)
        return time, [int(text) if number % 2 else text for number, text in enumerate(texts)]

    return sorted(partitions, key=key)


def _visible(store: FileStore, location: str) -> Sequence[Finished] | None:
    """The files that readers see; None of a folder on a file system that can't be listed from here."""
    try:
        return store.visible(location)
    except Unsupported:
        return None

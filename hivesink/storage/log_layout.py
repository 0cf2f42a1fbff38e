"""The names of a log's files, formatted and parsed here and nowhere else.

<log>/uid
<log>/manifests/0000000012.json, and beside it 0000000012.publishing, .published, .verified, .settled
<log>/manifests/floor-0000000007
<log>/manifests/.0000000012.json.<attempt>.tmp        not yet decided
<log>/touched/<epoch>-<attempt>t<task attempt>-<task>-<chunk>
<log>/segments/<epoch>-<attempt>t<task attempt>-<task>.arrow    rows that wait (`core.rolling`)
<log>/commits/<floor>.json                            partition commits of trimmed epochs, the newest of each partition
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hivesink.core.epoch import Epoch
from hivesink.core.log import LogView, Mark, StagingIntent

if TYPE_CHECKING:
    from collections.abc import Iterable

_NUMBER = r"(\d{10,})"
_MANIFEST = re.compile(rf"{_NUMBER}\.(json|{'|'.join(mark.value for mark in Mark)})", re.ASCII)
_FLOOR = re.compile(rf"floor-{_NUMBER}", re.ASCII)
_TEMPORARY = re.compile(rf"\.(?:floor-)?{_NUMBER}(?:\.json)?\.[0-9a-f]+\.tmp", re.ASCII)
_TOUCHED = re.compile(r"(\d+)-([0-9a-f]{8,32})t(\d+)-(\d+)-(\d+)", re.ASCII)


def manifest_name(epoch: Epoch) -> str:
    """The point of no return."""
    return f"{epoch:010d}.json"


def mark_name(epoch: Epoch, mark: Mark) -> str:
    """An empty file beside the manifest."""
    return f"{epoch:010d}.{mark.value}"


def floor_name(epoch: Epoch) -> str:
    """The running totals of every epoch up to `epoch`."""
    return f"floor-{epoch:010d}"


def temporary_name(name: str, token: str) -> str:
    """`token` is hex and differs wherever the bytes may."""
    return f".{name}.{token}.tmp"


def touched_name(touched: StagingIntent) -> str:
    """One file a task attempt and chunk."""
    return f"{touched.epoch}-{touched.attempt}t{touched.task_attempt}-{touched.task}-{touched.chunk}"


def parse_touched(name: str) -> StagingIntent | None:
    """The inverse of `touched_name`, but for the folders; None for any other name."""
    parts = _TOUCHED.fullmatch(name)
    if parts is None:
        return None
    epoch, attempt, task_attempt, task, chunk = parts.groups()
    return StagingIntent(Epoch(int(epoch)), attempt, int(task_attempt), int(task), int(chunk))


def parse_view(names: Iterable[str]) -> LogView:
    """What a listing of `manifests` says; names that aren't a log's are passed over."""
    floor, manifests, marks = Epoch(0), set[Epoch](), dict[Epoch, frozenset[Mark]]()
    for name in names:
        if parts := _FLOOR.fullmatch(name):
            floor = max(floor, Epoch(int(parts[1])))
        elif parts := _MANIFEST.fullmatch(name):
            epoch = Epoch(int(parts[1]))
            if parts[2] == "json":
                manifests.add(epoch)
            else:
                marks[epoch] = marks.get(epoch, frozenset()) | {Mark(parts[2])}
    return LogView(
        floor=floor,
        manifests=tuple(sorted(epoch for epoch in manifests if epoch > floor)),
        marks={epoch: known for epoch, known in marks.items() if epoch > floor},
    )


def is_dead(name: str, floor: Epoch, head: Epoch) -> bool:
    """Whether a floor at `floor` makes a file of `manifests` useless, in a log that has come to `head`.

    Its own bytes in waiting aside, a temporary file is dead once its epoch is decided.
    """
    if parts := _TEMPORARY.fullmatch(name):
        return int(parts[1]) <= head
    if parts := _FLOOR.fullmatch(name):
        return int(parts[1]) < floor
    parts = _MANIFEST.fullmatch(name)
    return parts is not None and int(parts[1]) <= floor

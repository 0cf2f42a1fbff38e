"""The enumeration of crashes over any file system: how one case goes."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from hivesink.errors import HiveSinkError
from tests.crash.faults import FaultyFileSystem, Kill, Mode, Plan
from tests.crash.site import Site
from tests.sink.harness import Source, events

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hivesink.storage.fs import FileSystem
    from tests.crash.faults import Call

EVENTS = 12
BATCH = 4


class ByCount:
    """A rolling policy by the number of rows beside the ages."""

    count = 3

    def __init__(self, *_: object) -> None: ...

    def should_roll(self, _partition: str, rows: int, _size: int, open_for: timedelta, idle_for: timedelta) -> bool:
        return rows >= self.count or open_for >= timedelta(minutes=5) or idle_for >= timedelta(minutes=1)


By1, By2, By4 = (type(f"By{count}", (ByCount,), {"count": count}) for count in (1, 2, 4))
By3 = ByCount


def by_count(count: int) -> dict[str, str]:
    """Options with which a bucket is rolled once it has `count` rows, 1 to 4."""
    return {"sink.rolling-policy.on-epoch": "false", "sink.rolling-policy.class": f"tests.crash.steps:By{count}"}


ROLLING = by_count(3)
"""Rows wait, and some buckets are rolled in the middle of a run, the others at its end."""


def new_site(
    options: dict[str, str],
    count: int = EVENTS,
    tasks: int = 2,
    connect: Callable[[], FileSystem] | None = None,
    root: str = "",
) -> Site:
    return Site(Source(events(count)), options=dict(options), connect=connect, root=root, tasks=tasks)


def check(site: Site, case: object = "") -> None:
    """Every row once, no staged file that the log doesn't list, and no row that still waits."""
    site.check(range(len(site.source.events)), case)
    assert site.log.segments.lengths() == {}, case


def dies(site: Site, fs: FaultyFileSystem) -> None:
    """Run until the fault: a death, or an error that stops the query."""
    with contextlib.suppress(Kill, HiveSinkError):
        site.job(fs).run(BATCH)
    fs.release()


@dataclass(frozen=True, slots=True)
class Case:
    """A fault at one call. `late_first`: what is held back arrives before the restart, not after it."""

    call: Call
    mode: Mode
    late_first: bool = False


def calls_of(site: Site) -> list[Call]:
    """The calls of a run without faults."""
    faulty = FaultyFileSystem(site.files())
    site.job(faulty).run(BATCH)
    check(site)
    return faulty.calls


def cases(call: Call) -> Iterator[Case]:
    """The ways in which `call` can fail."""
    yield from (Case(call, Mode.BEFORE), Case(call, Mode.AFTER))
    if call.changes:
        yield from (Case(call, Mode.LOST), Case(call, Mode.TORN))
        yield from (Case(call, Mode.LATE, late_first) for late_first in (True, False))


def play(site: Site, case: Case, faults: type[FaultyFileSystem] = FaultyFileSystem) -> None:
    """Fail, start again, and again; then all must be as if nothing had happened."""
    faulty = faults(site.files(), Plan(case.call.number, case.mode))
    dies(site, faulty)
    assert [call.name for call in faulty.calls][case.call.number - 1] == case.call.name, case
    if case.late_first:
        faulty.apply_late()
    site.job().run(BATCH)
    faulty.apply_late()
    site.job().run(BATCH)
    check(site, case)

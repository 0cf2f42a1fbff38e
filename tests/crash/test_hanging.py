"""A NameNode that hangs: changing calls in a row get no answer, and take place some calls later."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from hivesink.errors import HiveSinkError
from tests.crash.faults import FaultyFileSystem, Mode
from tests.crash.site import Watched
from tests.crash.test_metastore_faults import Scenario, make_durable, moves, once, start

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.crash.site import Site, SiteJob

SCENARIOS = [
    pytest.param(lambda: Scenario("plain"), id="plain"),
    pytest.param(
        lambda: Scenario("retained", options={"sink.log.retained-epochs": "1"}), id="retained", marks=pytest.mark.long
    ),
    # This user acts one time, so each site has its own.
    pytest.param(lambda: Scenario("moved", user=once(4, moves)), id="moved"),
]
QUICK = ((1, 2, 6), (1, 3, 12))
WHOLE = ((1, 2, 3, 6), (1, 2, 3, 4, 5, 7, 12, 20))


class Hanging(FaultyFileSystem):
    """From call `first` on `count` changing calls are held; all take place before the call that is `after` later."""

    def __init__(self, site: Site, first: int, count: int, after: int) -> None:
        super().__init__(site.fs)
        self._first = first
        self._left = count
        self._until = first + after
        self._over = False

    def _begin(self, name: str, path: str, *, changes: bool) -> Mode | None:
        found = super()._begin(name, path, changes=changes)
        if not self._over and len(self.calls) >= self._until:
            self._over = True
            self.apply_late()
        if changes and self._left and len(self.calls) >= self._first:
            self._left -= 1
            return Mode.LATE
        return found


def finish(site: Site, fs: Hanging) -> list[HiveSinkError]:
    """Run until it is done, as --restart does, on the file system that hangs; the errors on the way."""
    errors = []
    begin: list[Callable[[], SiteJob]] = [start(site, Watched(site), fs), *[lambda: site.job(fs)] * 4]
    for job in begin:
        try:
            job().run()
            break
        except HiveSinkError as error:
            errors.append(error)
    fs.apply_late()
    return errors


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize(
    ("counts", "laters"),
    [pytest.param(*QUICK, id="quick"), pytest.param(*WHOLE, id="whole", marks=pytest.mark.long)],
)
def test_what_is_done_late_loses_nothing_and_needs_nobody(
    scenario: Callable[[], Scenario], counts: tuple[int, ...], laters: tuple[int, ...]
) -> None:
    probe = scenario().site()
    counting = FaultyFileSystem(probe.fs)
    start(probe, Watched(probe), counting)().run()
    changing = [call.number for call in counting.calls if call.changes]
    for case in itertools.product(changing, counts, laters):
        site = scenario().site()
        errors = finish(site, Hanging(site, *case))
        assert [error for error in errors if not error.retryable] == [], case
        make_durable(site, case)

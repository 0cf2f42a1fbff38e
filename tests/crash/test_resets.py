"""`hivesink reset`: killed at each of its calls and done again, and beside a job that nobody has stopped."""

from __future__ import annotations

import contextlib
from datetime import datetime, timedelta, timezone
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from hivesink import logs
from hivesink.cli import reset as command
from hivesink.config.site import Site as SiteFiles
from hivesink.core.log import missing
from hivesink.errors import HiveSinkError, LogGone
from hivesink.logs import TableLogs
from hivesink.sink.commit.context import CommitContext
from hivesink.sink.inspect.resets import plan_reset
from hivesink.storage.commit_log import RenameCommitLog
from hivesink.storage.rename_store import RenameFileStore
from tests.crash.faults import FaultyFileSystem, Kill, Mode, Plan, Stalling
from tests.crash.site import LOG, Site
from tests.sink.harness import LOCATION, TABLE, Event, Source, token

if TYPE_CHECKING:
    from hivesink.storage.fs import FileSystem

AT = datetime(2026, 1, 1, tzinfo=timezone.utc)
EVENTS = [Event(number, day) for number, day in enumerate("aabbccdd")]


class Resets:
    """The command, on one file system. Each reset is an hour after the last."""

    def __init__(self, site: Site, patch: pytest.MonkeyPatch) -> None:
        self.site, self.patch, self.hours = site, patch, 0

    def __call__(self, fs: FileSystem | None = None) -> bool:
        """False: there is no writer to reset."""
        self.patch.setattr(logs, "file_system", lambda *_: fs or self.site.fs)
        self.hours += 1
        now = AT + timedelta(hours=self.hours)
        found = TableLogs(TABLE, LOCATION)
        if "w" not in found.writers():
            return False
        context = CommitContext(
            RenameCommitLog(fs or self.site.fs, LOG, "w"),
            RenameFileStore(fs or self.site.fs),
            self.site.metastore,
            self.site.clock.now,
            self.site.clock.tick,
            token,
        )
        opened = cast("Any", SimpleNamespace(logs=found, site=SiteFiles(), name=str(TABLE)))
        command._set_aside(opened, command._named(opened, plan_reset(context, "w", str(TABLE), now), now), now)
        return True

    def has_log(self) -> bool:
        return any(path.startswith(f"{LOG}/") for path in self.site.fs._files)


def meddle(reset: Resets) -> None:
    reset()


def begun() -> Site:
    site = Site(Source(list(EVENTS)))
    site.job().run(batches=1)
    return site


@pytest.mark.parametrize("mode", list(Mode))
def test_a_reset_that_is_killed_is_finished_by_the_next(mode: Mode, monkeypatch: pytest.MonkeyPatch) -> None:
    site = begun()
    whole = FaultyFileSystem(site.fs)
    Resets(site, monkeypatch)(whole)
    for at in range(1, len(whole.calls) + 1):
        site = begun()
        reset = Resets(site, monkeypatch)
        dying = FaultyFileSystem(site.fs, Plan(at, mode))
        with contextlib.suppress(Kill, HiveSinkError):
            reset(dying)
        dying.apply_late()
        reset()
        assert not reset(), at
        assert not reset.has_log(), at
        assert len(TableLogs(TABLE, LOCATION).accepted()) == 1, at


def test_a_job_beside_a_reset_stops_and_leaves_nothing_that_a_reset_cannot_heal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site = begun()
    whole = FaultyFileSystem(site.fs)
    site.job(whole).run()
    stopped = 0
    for at in range(1, len(whole.calls) + 1):
        site = begun()
        reset = Resets(site, monkeypatch)
        try:
            site.job(Stalling(site.fs, at, partial(meddle, reset))).run()
        except LogGone:
            stopped += 1
        except HiveSinkError:
            # Before its first commit it may see an empty log, which isn't what its checkpoint says.
            pass
        view = site.log.view()
        assert not missing(view), at
        assert not site.log.touched() or view.head, at
        reset()
        assert not reset(), at
    assert stopped

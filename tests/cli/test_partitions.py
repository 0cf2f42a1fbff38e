"""`hivesink partitions` and `hivesink wait`, on the real metastore, while writers go on."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.cli.site import Capsys, alter, hivesink, rename
from tests.tables import daily
from tests.tables.daily import Daily

DAY = "dt=2024-01-02"
ONCE = ("--timeout", "1ms")
"""Gives up after the first look."""


@pytest.fixture
def days(uri: str, tmp_path: Path) -> str:
    """The name of a table without a writer."""
    return daily.create(uri, tmp_path)


@pytest.fixture
def writer(days: str, uri: str) -> Iterator[Daily]:
    with closing(Daily(days, uri)) as opened:
        yield opened


@contextmanager
def waiting(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """`hivesink wait` as a process of its own, which is read and written for meanwhile."""
    quick = "from hivesink.cli import main, status; status._PAUSE = 0.05; main()"
    command = [sys.executable, "-c", quick, "wait", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def says(process: subprocess.Popen[str], reason: str) -> bool:
    """Whether it comes to say that it waits for `reason`; there may be other reasons on the way."""
    assert process.stderr is not None
    return any(line.startswith(f"{DAY}: {reason}") for line in process.stderr)


def test_partitions_are_listed_with_their_commits_and_what_they_wait_for(
    days: str, writer: Daily, capsys: Capsys
) -> None:
    writer.read(1, 1, 2, mark=2)
    said = hivesink(capsys, "partitions", days)
    assert f"partitions of {days} by writer ingest" in said.out
    first, second, waits = (row for row in said.out.splitlines() if "dt=" in row)
    assert first.strip("│").split() == ["dt=2024-01-01", *"│1│2│1│", "2024-01-02", "00:00:00"]
    assert second.strip("│").split() == [DAY, *"│-│-│-│-"]
    assert waits.startswith(f"{DAY} waits: it is over at 2024-01-03 00:00:00 UTC, the watermark is 2024-01-02 00:00")
    listed = hivesink(capsys, "partitions", days, "--json").data
    complete, waits = listed["partitions"]
    assert (listed["table"], complete["complete"], complete["waits_for"]) == (days, True, None)
    assert [complete["commit"][name] for name in ("revision", "rows", "files")] == [1, 2, 1]
    assert complete["commit"]["offsets"] == [{"kafka": {"t": {"0": 10}}}]
    assert (waits["partition"], waits["complete"], waits["commit"], waits["open_rows"]) == (DAY, False, None, 1)


def test_a_partition_that_is_not_over_goes_along_with_its_renamed_table(
    uri: str, writer: Daily, capsys: Capsys
) -> None:
    writer.read(1, 2, mark=2)
    writer.committer.finish()
    writer.table = new = rename(writer, "renamed")
    alter(writer, {"sink.log-location": str(writer.log.parent.parent)})
    assert hivesink(capsys, "recover", new).code == 0
    told = hivesink(capsys, "wait", new, "dt=2024-01-01", *ONCE)
    assert (told.code, told.out) == (0, "dt=2024-01-01: committed: revision 1 of writer ingest (1 row)\n")
    waits = hivesink(capsys, "wait", new, DAY, *ONCE)
    assert (waits.code, "it is over at 2024-01-03 00:00:00 UTC" in waits.out) == (75, True)
    with closing(Daily(new, uri, batches=1)) as again:
        again.read(2, mark=3)
    told = hivesink(capsys, "wait", new, DAY, *ONCE)
    assert (told.code, told.out) == (0, f"{DAY}: committed: revision 1 of writer ingest (2 rows)\n")
    (listed,) = [one for one in hivesink(capsys, "partitions", new, "--json").data["partitions"] if DAY in one.values()]
    assert hivesink(capsys, "wait", new, DAY, "--json").data == {"partition": DAY, "commits": [listed]}


def test_it_says_what_it_waits_for_whenever_that_changes(days: str, uri: str) -> None:
    with waiting(days, DAY, "--metastore", uri) as process:
        assert says(process, f"no writer has written to {days} yet\n")
        first = Daily(days, uri)
        first.read(2, mark=2)
        assert says(process, "writer ingest: it is over at 2024-01-03 00:00:00 UTC, the watermark is 2024-01-02 00:00")
        second = Daily(days, uri, "second")
        second.read(2, 2, mark=2)
        first.read(mark=3)
        assert says(process, "writer second: it is over at 2024-01-03 00:00:00 UTC, the watermark is 2024-01-02 00:00")
        second.read(mark=3)
        out, _ = process.communicate()
    assert process.returncode == 0
    assert out == f"{DAY}: committed: revision 1 of writer ingest (1 row), revision 1 of writer second (2 rows)\n"
    first.close()
    second.close()


def test_after_the_timeout_it_says_what_is_missing(days: str, writer: Daily, capsys: Capsys) -> None:
    writer.read(2, mark=2)
    told = hivesink(capsys, "wait", days, DAY, *ONCE, "--json")
    assert (told.code, told.data["partition"]) == (75, DAY)
    assert told.data["waits_for"].startswith("writer ingest: it is over at 2024-01-03 00:00:00 UTC")
    assert hivesink(capsys, "wait", days, DAY, *ONCE).out == f"{DAY}: timed out: {told.data['waits_for']}\n"

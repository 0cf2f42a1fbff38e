"""`hivesink partitions` and `hivesink wait`, on the real metastore, while writers go on."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.cli.site import hivesink
from tests.tables import daily
from tests.tables.daily import Daily

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

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
    command = [sys.executable, "-m", "hivesink.cli", "wait", *arguments, "--every", "50ms"]
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
    days: str, writer: Daily, capsys: pytest.CaptureFixture[str]
) -> None:
    writer.read(1, 1, 2, mark=2)
    said = hivesink(capsys, "partitions", days)
    assert said.code == 0
    first, second = (row.split("│") for row in said.out.splitlines() if "dt=" in row)
    assert [cell.strip() for cell in first[1:-1]] == [
        "ingest",
        days,
        "dt=2024-01-01",
        "1",
        "2",
        "1",
        "2024-01-02 00:00:00",
        "",
    ]
    assert "it is over at 2024-01-03 00:00:00 UTC, the watermark is 2024-01-02 00:00:00 UTC" in second[-2]

    listed = hivesink(capsys, "partitions", days, "--json").data
    assert listed["table"] == days
    complete, waits = listed["partitions"]
    assert (complete["partition"], complete["complete"], complete["waits_for"]) == ("dt=2024-01-01", True, None)
    assert (complete["commit"]["revision"], complete["commit"]["rows"], complete["commit"]["files"]) == (1, 2, 1)
    assert complete["commit"]["offsets"] == [{"kafka": {"t": {"0": 10}}}]
    assert (waits["partition"], waits["complete"], waits["commit"], waits["open_rows"]) == (DAY, False, None, 1)


def test_partitions_of_one_writer(days: str, uri: str, writer: Daily, capsys: pytest.CaptureFixture[str]) -> None:
    other = Daily(days, uri, "other")
    writer.read(1, mark=2)
    other.read(1, mark=2)
    both = hivesink(capsys, "partitions", days, "--json").data["partitions"]
    assert [one["writer"] for one in both] == ["ingest", "other"]
    [one] = hivesink(capsys, "partitions", days, "--writer", "other", "--json").data["partitions"]
    assert one["writer"] == "other"
    other.close()


def test_a_table_without_a_writer_has_none(days: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert hivesink(capsys, "partitions", days, "--json").data == {"table": days, "partitions": []}


def test_a_committed_partition_ends_the_wait_at_once(
    days: str, writer: Daily, capsys: pytest.CaptureFixture[str]
) -> None:
    writer.read(2, 3, mark=3)
    said = hivesink(capsys, "wait", days, DAY)
    assert (said.code, said.err) == (0, "")
    assert said.out == f"{DAY}: committed: revision 1 of writer ingest (1 rows)\n"
    told = hivesink(capsys, "wait", days, DAY, "--json").data
    [listed] = [
        one for one in hivesink(capsys, "partitions", days, "--json").data["partitions"] if one["partition"] == DAY
    ]
    assert told == {"partition": DAY, "commits": [listed]}


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
    assert out == f"{DAY}: committed: revision 1 of writer ingest (1 rows), revision 1 of writer second (2 rows)\n"
    first.close()
    second.close()


def test_one_writer_of_several(days: str, uri: str, writer: Daily, capsys: pytest.CaptureFixture[str]) -> None:
    other = Daily(days, uri, "other")
    writer.read(2, mark=3)
    other.read(2, mark=2)
    assert hivesink(capsys, "wait", days, DAY, "--writer", "ingest").code == 0
    assert hivesink(capsys, "wait", days, DAY, *ONCE).code == 75
    said = hivesink(capsys, "wait", days, DAY, "--writer", "nobody")
    assert said.code == 65
    assert f"no writer 'nobody' has written to {days}; known: ingest, other" in said.error
    other.close()


def test_a_day_that_is_over_without_rows_is_waited_for_no_longer(
    days: str, writer: Daily, capsys: pytest.CaptureFixture[str]
) -> None:
    writer.read(1, mark=3)
    said = hivesink(capsys, "wait", days, DAY)
    assert (said.code, said.out) == (0, f"{DAY}: committed: it is over, and has no rows\n")
    told = hivesink(capsys, "wait", days, DAY, "--json").data
    assert [(one["complete"], one["commit"]) for one in told["commits"]] == [(True, None)]


def test_after_the_timeout_it_says_what_is_missing(
    days: str, writer: Daily, capsys: pytest.CaptureFixture[str]
) -> None:
    writer.read(2, mark=2)
    said = hivesink(capsys, "wait", days, DAY, *ONCE)
    assert said.code == 75
    assert said.out.startswith(f"{DAY}: timed out: writer ingest: it is over at 2024-01-03 00:00:00 UTC")
    told = hivesink(capsys, "wait", days, DAY, *ONCE, "--json")
    assert told.code == 75
    assert told.data["partition"] == DAY
    assert told.data["waits_for"].startswith("writer ingest: it is over at ")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("day=2024-01-02",), "'day=2024-01-02' is no partition of {table}: write dt=…"),
        (("dt=2024-01-02/hour=03",), "'dt=2024-01-02/hour=03' is no partition of {table}: write dt=…"),
        (("2024-01-02",), "partition path '2024-01-02': "),
        ((DAY, "--timeout", "soon"), "--timeout = 'soon': write a duration such as 30min, 10s or 1h"),
        ((DAY, "--every", "0s"), "--every = '0s': write a duration above 0"),
    ],
)
def test_what_can_never_be_is_refused(
    days: str, arguments: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said = hivesink(capsys, "wait", days, *arguments)
    assert said.code == 65
    assert told.format(table=days) in said.error


def test_a_table_that_is_not_there_is_refused(days: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = hivesink(capsys, "wait", f"{days}s", DAY)
    assert said.code == 65
    assert f"table {days}s is not in the metastore" in said.error


def test_a_metastore_that_is_away_ends_it_with_75(days: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = hivesink(capsys, "wait", days, DAY, "--metastore", "thrift://127.0.0.1:1")
    assert said.code == 75
    assert "doesn't answer" in said.error

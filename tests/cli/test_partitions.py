"""`hivesink partitions` and `hivesink wait`, on the real metastore, while writers go on."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.cli.site import Ingest, alter, hivesink, rename
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


def test_a_partition_that_is_not_over_goes_along_with_its_renamed_table(
    uri: str, writer: Daily, capsys: pytest.CaptureFixture[str]
) -> None:
    writer.read(1, 2, mark=2)
    writer.committer.finish()
    writer.table = new = rename(writer, "renamed")
    alter(writer, {"sink.log-location": str(writer.log.parent)})
    assert hivesink(capsys, "recover", new).code == 0
    told = hivesink(capsys, "wait", new, "dt=2024-01-01", *ONCE)
    assert (told.code, told.out) == (0, "dt=2024-01-01: committed: revision 1 of writer ingest (1 row)\n")
    waits = hivesink(capsys, "wait", new, DAY, *ONCE)
    assert (waits.code, "it is over at 2024-01-03 00:00:00 UTC" in waits.out) == (75, True)
    for batches, day, mark in ((1, 2, 3), (2, 4, 3)):
        with closing(Daily(new, uri, batches=batches)) as again:
            again.read(day, mark=mark)
        second = {one["partition"]: one for one in hivesink(capsys, "partitions", new, "--json").data["partitions"]}[
            DAY
        ]
        assert second["table"] == new
        assert [second["commit"][name] for name in ("revision", "rows", "files")] == [1, 2, 2]
    with closing(Daily(new, uri, batches=3)) as late:
        late.read(1, mark=3)
    for segment in late.setup.context.log.segments.lengths():
        late.setup.context.log.segments.drop([segment])
    assert hivesink(capsys, "recover", new, "--forget", "all", "--yes").code == 0
    told = hivesink(capsys, "wait", new, "dt=2024-01-01", *ONCE)
    # The late row is forgotten, so nothing has changed.
    assert told.out == "dt=2024-01-01: committed: revision 1 of writer ingest (1 row)\n"
    with closing(Daily(new, uri, batches=4)) as late:
        late.read(1, mark=3)
        late.committer.finish()
    told = hivesink(capsys, "wait", new, "dt=2024-01-01", *ONCE)
    assert told.out == "dt=2024-01-01: committed: revision 2 of writer ingest (2 rows)\n"


def test_a_committed_partition_ends_the_wait_at_once(
    days: str, writer: Daily, capsys: pytest.CaptureFixture[str]
) -> None:
    writer.read(2, 3, mark=3)
    said = hivesink(capsys, "wait", days, DAY)
    assert (said.code, said.err) == (0, "")
    assert said.out == f"{DAY}: committed: revision 1 of writer ingest (1 row)\n"
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
    assert out == f"{DAY}: committed: revision 1 of writer ingest (1 row), revision 1 of writer second (2 rows)\n"
    first.close()
    second.close()


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
        (("2024-01-02",), "'2024-01-02' can't name a partition: "),
        ((DAY, "--timeout", "soon"), "--timeout = 'soon': write a duration such as 30min, 10s or 1h"),
        ((DAY, "--every", "0s"), "--every = '0s': write a duration above 0"),
    ],
)
def test_what_can_never_be_is_refused(
    days: str, arguments: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said = hivesink(capsys, "wait", days, *arguments)
    assert said.code == 2
    assert told.format(table=days) in said.error


def test_status_says_what_the_table_has_and_the_last_run_has_not(
    days: str, uri: str, capsys: pytest.CaptureFixture[str]
) -> None:
    name, interval, limit = (
        "sink.partition-commit.delay",
        "sink.rolling-policy.rollover-interval",
        "sink.open-bytes-limit",
    )
    with closing(Daily(days, uri, options={limit: "1GB"})) as writer:
        writer.read(1, 2, mark=2)
        alter(writer, {name: "2d", interval: "300s", limit: "2GB", "sink.partition-commit.watermark-column": "id"})
        said = hivesink(capsys, "status", days).out
        told = "which counts from the job's next start on"
        assert f"{name}: the last run has '1d', the table '2d', {told}\n" in said
        assert f"sink.partition-commit.watermark-column: the last run has unset, the table 'id', {told}\n" in said
        assert said.count(told) == 2, "300s is 5min, and the job's own limit outranks the table's"
        assert "it is over at 2024-01-03 00:00:00 UTC" in said
        [status] = hivesink(capsys, "status", days, "--json").data["writers"]
        assert {"name": name, "run": "1d", "table": "2d"} in status["altered"]
        alter(writer, {name: "soon"})
        said = hivesink(capsys, "status", days).out
        assert f"no job can start: {name} = 'soon': write a duration such as 30min, 10s or 1h" in said
        assert "it is over at 2024-01-03 00:00:00 UTC" in said


def test_rows_of_an_epoch_that_is_not_published_are_not_called_readable(
    uri: str, table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    delayed = {"sink.partition-commit.delay": "1h"}
    with closing(Ingest(table, uri, options=delayed)) as ingest:
        ingest.lose_metastore()
        ingest.commit(6)
        for one in hivesink(capsys, "partitions", table, "--json").data["partitions"]:
            assert (one["open_rows"], one["decided_rows"], one["published_rows"]) == (0, 3, 0)
            assert one["waits_for"].startswith("3 rows are decided as epoch 1, which isn't published as a whole yet: ")
        cells = [
            row.split("│") for row in hivesink(capsys, "status", table).out.splitlines() if "decided as epoch" in row
        ]
        assert [[cell.strip() for cell in row[2:6]] for row in cells] == [
            [f"dt=2026-01-0{day}", "0", "3", "0"] for day in (1, 2)
        ]

"""`hivesink show`, on the real metastore: what is drawn, where it is from."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from hivesink.cli.show import bar, count_small
from tests.cli.site import Capsys, Ingest, hivesink
from tests.tables import daily
from tests.tables.daily import Daily

AT_ONCE = daily.DDL.replace(
    "'sink.rolling-policy.on-epoch'='false',\n  'sink.partition-commit.trigger'='partition-time',\n"
    "  'sink.partition-commit.delay'='1d'",
    "'sink.rolling-policy.on-epoch'='true', 'sink.on-bad-record'='dead-letter'",
)


@pytest.fixture
def january(uri: str, tmp_path: Path) -> Iterator[Daily]:
    """A writer that has published the first, third and fourth of January, and waits for the end of the sixth."""
    with closing(Daily(daily.create(uri, tmp_path), uri)) as writer:
        writer.read(1, 3, 3, mark=4)
        writer.read(4, 6, mark=5)
        yield writer


def test_partitions_over_time(january: Daily, capsys: Capsys) -> None:
    said = hivesink(capsys, "show", january.table)
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in said.out.splitlines() if "│ " in line]
    rows = [row for row in rows if row[0]]  # Without the further lines of long cells.
    assert [(row[0], row[1], len(row[2]), row[4]) for row in rows[:4]] == [
        ("dt=2024-01-01", "1", 10, "1"),
        ("dt=2024-01-03", "2", 20, "1"),
        ("dt=2024-01-04", "1", 10, "1"),
        ("dt=2024-01-06", "-", 0, "-"),
    ]
    assert [" ".join(cell for number, cell in enumerate(row) if number != 3) for row in rows[4:]] == [
        "t 0 20 10",  # Its offsets: read, and complete.
    ]
    assert "4 partitions, 3 with small files, 1 not complete" in said.out
    assert all(char.isprintable() or char == "\n" for char in said.out)


def test_the_newest_and_all(january: Daily, capsys: Capsys) -> None:
    newest = ("show", january.table, "--limit", "2")
    found = hivesink(capsys, *newest, "--json").data
    assert [one["partition"] for one in found["partitions"]] == ["dt=2024-01-04", "dt=2024-01-06"]
    assert "the newest 2 of 4 partitions" in hivesink(capsys, *newest).out
    assert len(hivesink(capsys, *newest[:-1], "99", "--json").data["partitions"]) == found["partitions_in_all"] == 4
    assert hivesink(capsys, "show", january.table, "--limit", "0").code == 2


def test_the_newest_by_time(uri: str, tmp_path: Path, capsys: Capsys) -> None:
    with closing(Daily(daily.create(uri, tmp_path, daily.BY_BROWSER), uri)) as writer:
        writer.read(2, 1, mark=None)
        found = hivesink(capsys, "show", writer.table, "--json").data
    # By time, though b0 comes before b1.
    assert [one["partition"] for one in found["partitions"]] == ["browser=b1/dt=2024-01-01", "browser=b0/dt=2024-01-02"]


def test_small_files_and_rejected_rows(uri: str, tmp_path: Path, capsys: Capsys) -> None:
    with closing(Ingest(daily.create(uri, tmp_path, AT_ONCE), uri)) as writer:
        for _ in range(2):
            writer.commit(1)
        writer.committer.finish()
        [one] = (found := hivesink(capsys, "show", writer.table, "--json").data)["partitions"]
        assert (one["files"], one["rows"], one["small_files"]) == (2, 2, 2)
        assert found["rejected"] == 2
        said = hivesink(capsys, "show", writer.table).out
        assert "2 small files" in said
        assert "2 rejected rows; `hivesink rejects` shows dead letters" in said


def test_rows_are_those_of_the_jobs(ingest: Ingest, table: str, capsys: Capsys) -> None:
    folder = ingest.location / "dt=2026-01-01"
    shutil.copy(next(folder.glob("part-*")), folder / "a-users-own.parquet")
    first, second = hivesink(capsys, "show", table, "--json").data["partitions"]
    assert (first["files"], first["rows"]) == (4, 6)
    assert (second["files"], second["rows"]) == (3, 6)
    shutil.rmtree(folder)
    assert "│ no files" in hivesink(capsys, "show", table).out


def test_names_that_steer_a_terminal_are_escaped(uri: str, tmp_path: Path, capsys: Capsys) -> None:
    with closing(Daily(daily.create(uri, tmp_path, AT_ONCE), uri)) as writer:
        writer.read("\u202eturned \u009b31m", 1, 3, mark=2)
        writer.committer.finish()
        for command in ("show", "partitions"):
            assert "dt=\\u202eturned \\u009b31m" in hivesink(capsys, command, writer.table).out


def test_which_files_are_small() -> None:
    # A single one is what was left over, unless it is very small.
    small: dict[int, list[list[int]]] = {
        0: [[], [10_000], [999, 10_000], [1000, 1000], [100]],
        1: [[99]],
        2: [[999, 999, 10_000]],
        3: [[7] * 3],
    }
    for count, cases in small.items():
        assert {count_small(lengths, 10_000) for lengths in cases} == {count}


def test_bars() -> None:
    assert [len(bar(value, 1000)) for value in (None, 0, 1, 500, 1000)] == [0, 0, 1, 10, 20]

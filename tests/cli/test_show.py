"""`hivesink show`, on the real metastore: what is drawn, where it is from, and what the page may replace."""

from __future__ import annotations

import re
import shutil
from contextlib import closing
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import pytest

from hivesink.cli.marks import bar, size
from tests.cli.site import Ingest, hivesink
from tests.tables import daily
from tests.tables.daily import Daily

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOSTILE = "<script>alert(1)</script>"
AT_ONCE = daily.DDL.replace(
    "'sink.rolling-policy.on-epoch'='false',\n  'sink.partition-commit.trigger'='partition-time',\n"
    "  'sink.partition-commit.delay'='1d'",
    "'sink.rolling-policy.on-epoch'='true', 'sink.on-bad-record'='dead-letter'",
)


@pytest.fixture
def days(uri: str, tmp_path: Path) -> Iterator[Daily]:
    """A writer that has published the first, third and fourth of January, and waits for the end of the sixth."""
    with closing(Daily(daily.create(uri, tmp_path), uri)) as writer:
        writer.read(1, 3, 3, mark=4)
        writer.read(4, 6, mark=5)
        yield writer


def test_partitions_over_time_with_their_gaps(days: Daily, capsys: pytest.CaptureFixture[str]) -> None:
    said = hivesink(capsys, "show", days.table)
    assert said.code == 0
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in said.out.splitlines() if "│ " in line]
    assert [(row[0], row[1], len(row[2]), row[3], row[5]) for row in rows[:6]] == [
        ("dt=2024-01-01", "1", 10, "log", "1"),
        ("⋮ 1 day missing: 2024-01-02", "", 0, "", ""),
        ("dt=2024-01-03", "2", 20, "log", "1"),
        ("dt=2024-01-04", "1", 10, "log", "1"),
        ("⋮ 1 day missing: 2024-01-05", "", 0, "", ""),
        ("dt=2024-01-06", "-", 0, "-", "-"),
    ]
    marks = "not registered yet; 1 row not readable yet; waits: it is over at 2024-01-07 00:00:00 UTC"
    assert rows[5][6].startswith(marks)
    assert rows[5][6].endswith("…")
    assert "4 partitions, 0 with small files, 2 gaps in all, 1 not complete" in said.out
    assert all(char.isprintable() or char == "\n" for char in said.out)


def test_the_newest_and_all(days: Daily, capsys: pytest.CaptureFixture[str]) -> None:
    found = hivesink(capsys, "show", days.table, "--limit", "2", "--epochs", "1", "--json").data
    assert [one["partition"] for one in found["partitions"]] == ["dt=2024-01-04", "dt=2024-01-06"]
    assert (found["partitions_in_all"], found["gaps_in_all"], len(found["epochs"])) == (4, 2, 1)
    assert "the newest 2 of 4 partitions" in hivesink(capsys, "show", days.table, "--limit", "2").out
    found = hivesink(capsys, "show", days.table, "--limit", "2", "--all", "--json").data
    assert len(found["partitions"]) == 4
    assert hivesink(capsys, "show", days.table, "--limit", "0").code == 2


def test_json_has_what_is_drawn(days: Daily, capsys: pytest.CaptureFixture[str]) -> None:
    found = hivesink(capsys, "show", days.table, "--json").data
    first, third, _, waits = found["partitions"]
    assert (first["rows"], first["rows_from"], first["files"], first["waits_for"]) == (1, "log", 1, [])
    assert first["time"] == "2024-01-01T00:00:00"
    day = "2024-01-02T00:00:00"
    assert third["missing_before"] == {"unit": "day", "count": 1, "first": day, "last": day}
    assert (waits["registered"], waits["rows"], waits["waiting_rows"]) == (False, None, 1)
    assert [(one["kind"], one["read"], one["published_rows"]) for one in found["epochs"]] == [
        ("batch", 3, 0),
        ("roll", 0, 3),
        ("batch", 2, 0),
        ("roll", 0, 1),
    ]
    assert found["notes"] == []


def test_the_lag_of_event_times(uri: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "page.html"
    with closing(Daily(daily.create(uri, tmp_path, daily.BY_HOUR), uri)) as writer:
        writer.read(1, 2, mark=None)
        [batch, *_] = hivesink(capsys, "show", writer.table, "--json").data["epochs"]
        assert hivesink(capsys, "show", writer.table, "--html", file).code == 0
    newest = datetime(2024, 1, 2, 3, tzinfo=timezone.utc)
    assert batch["lag_seconds"] == (datetime.fromisoformat(batch["at"]) - newest).total_seconds()
    assert "Writer ingest: time from the newest event time to the epoch&#x27;s decision" in file.read_text()


def test_small_files_and_rejects_by_reason(uri: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with closing(Ingest(daily.create(uri, tmp_path, AT_ONCE), uri)) as writer:
        for _ in range(2):
            writer.commit(1)
        writer.committer.finish()
        [one] = (found := hivesink(capsys, "show", writer.table, "--json").data)["partitions"]
        assert (one["files"], one["rows"], one["small_files"]) == (2, 2, True)
        assert found["rejects"] == {
            "counted": 2,
            "table": f"{writer.table}__rejected",
            "reasons": {"wrong type: text into bigint": 2},
            "unknown": None,
        }
        said = hivesink(capsys, "show", writer.table).out
        assert "small files: " in said
        assert "2: wrong type: text into bigint" in said


def test_files_that_no_log_knows_are_asked_for_their_rows(
    ingest: Ingest, table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = ingest.location / "dt=2026-01-01"
    shutil.copy(next(folder.glob("part-*")), folder / "a-users-own.parquet")
    first, second = hivesink(capsys, "show", table, "--json").data["partitions"]
    assert (first["files"], first["rows"], first["rows_from"]) == (4, 8, "footers")
    assert (second["files"], second["rows"], second["rows_from"]) == (3, 6, "log")
    (folder / "a-users-own.parquet").write_bytes(b"no Parquet")
    first, _ = hivesink(capsys, "show", table, "--json").data["partitions"]
    assert (first["rows"], first["rows_from"]) == (None, None)


def test_rows_are_known_after_the_log_was_trimmed(uri: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keep = {"sink.log.retained-epochs": "2"}
    with closing(Ingest(daily.create(uri, tmp_path, AT_ONCE), uri, options=keep)) as writer:
        for _ in range(6):
            writer.commit(1)
        writer.committer.finish()
        found = hivesink(capsys, "show", writer.table, "--json").data
        assert len(found["epochs"]) < 6
        assert [(one["rows"], one["rows_from"]) for one in found["partitions"]] == [(6, "log")]


def test_a_folder_that_is_gone_is_marked(ingest: Ingest, table: str, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(ingest.location / "dt=2026-01-01")
    assert "│ no files" in hivesink(capsys, "show", table).out


def test_a_table_without_partitions(table: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = hivesink(capsys, "show", table)
    assert (said.code, said.out.splitlines()[1]) == (0, "it has no partitions yet")


def test_the_page_holds_everything_escaped_and_nothing_from_elsewhere(
    uri: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "page.html"
    with closing(Daily(daily.create(uri, tmp_path, AT_ONCE), uri)) as writer:
        writer.read(HOSTILE, "\u202eturned \u009b31m", 1, 3, mark=2)
        writer.committer.finish()
        said = hivesink(capsys, "show", writer.table, "--html", file)
        assert (said.code, said.out) == (0, f"{writer.table}: written to {file}\n")
        for command in ("show", "partitions"):
            assert "dt=\\u202eturned \\u009b31m" in hivesink(capsys, command, writer.table).out
    text = file.read_text()
    assert "dt=&lt;script&gt;alert(1)&lt;%2Fscript&gt;" in text
    assert "dt=\\u202eturned \\u009b31m" in text
    assert "1 day missing: 2024-01-02" in text
    assert "<script" not in text
    assert re.findall(r'(?:src|href)="([^"]*)"|url\(|@import', text) == ["data:,"]
    sections = re.findall(r'<section id="(\w+)">', text)
    assert sections == ["partitions", "rows", "lag", "rejects", "life"]
    charts = dict(re.findall(r"<figcaption>(\w+) .*?</figcaption>(.*?)</figure>", text, re.DOTALL))
    # Four partitions and a gap.
    bars = {name: charts[name].count("<rect") for name in ("Rows", "Bytes", "Files")}
    assert bars == dict.fromkeys(("Rows", "Bytes", "Files"), 5)
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".tmp"] == []


def test_only_a_page_is_replaced(table: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "notes.html"
    file.write_text("<p>mine</p>")
    said = hivesink(capsys, "show", table, "--html", file)
    assert said.code == 2
    assert "is no page of `hivesink show`; name another one, or replace it with --force" in said.error
    assert file.read_text() == "<p>mine</p>"
    assert hivesink(capsys, "show", table, "--html", file, "--force").code == 0
    link = tmp_path / "link.html"
    link.symlink_to(file)
    found = hivesink(capsys, "show", table, "--html", link, "--json")
    assert (found.code, found.data["html"]) == (0, str(link))
    assert link.is_symlink()


@pytest.mark.parametrize(
    ("name", "told"), [("none/page.html", "there is no such folder; make it first"), ("", "that is no file")]
)
def test_where_no_page_can_be(
    name: str, told: str, table: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = hivesink(capsys, "show", table, "--html", tmp_path / name, "--force")
    assert said.code == 2
    assert told in said.error


@pytest.mark.parametrize(
    ("value", "drawn"), [(None, ""), (0, ""), (1, "▏"), (500, "█" * 10), (506, "█" * 10 + "▏"), (1000, "█" * 20)]
)
def test_bars(value: int | None, drawn: str) -> None:
    assert bar(value, 1000) == drawn


@pytest.mark.parametrize(
    ("length", "text"),
    [(None, "-"), (0, "0 B"), (999, "999 B"), (1000, "1.0 KB"), (99_600, "100 KB"), (999_999, "1.0 MB")],
)
def test_sizes(length: int | None, text: str) -> None:
    assert size(length) == text

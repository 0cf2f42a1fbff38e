"""`hivesink history` and `hivesink changed`, on the real metastore: a table's epochs, and what they have changed."""

from __future__ import annotations

import re
import sys
from contextlib import closing
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hivesink.cli.history import _WHY, commits_of
from hivesink.core.changes import Upto
from hivesink.core.epoch import Epoch
from hivesink.core.lifecycle import EpochState
from hivesink.core.manifest import KINDS, Commit, PartEntry
from hivesink.core.table import TableName
from hivesink.logs import commit_log
from tests.cli.site import Capsys, Ingest, changed, committed, hivesink
from tests.contracts.manifests import AT, small
from tests.tables import daily
from tests.tables.daily import Daily

if TYPE_CHECKING:
    import pytest


def test_epochs_are_told_newest_first_with_what_has_changed(ingest: Ingest, uri: str, capsys: Capsys) -> None:
    table = ingest.table

    def add_column(live: Any) -> None:
        more = copy(live.sd.cols[0])
        more.name, more.type = "more", "int"
        live.sd.cols.append(more)

    changed(uri, TableName.parse(table), add_column)
    committed(table, uri, 0, batches=3, options={"sink.late-rows": "drop"})
    assert hivesink(capsys, "reset", table, "--yes").code == 0
    (ingest.log / "manifests/0000000002.json").unlink()
    with closing(Ingest(table, uri, "second", options={"sink.rolling-policy.on-epoch": "false"})) as second:
        second.commit(2)
    said = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "TIME", hivesink(capsys, "history", table).out)
    newest, _, oldest = said.partition("TIME  ingest/1 3: ")
    assert newest.splitlines() == [
        "TIME  second 1: batch 0 of query q",
        "    3 rows read: 2 written, 1 dropped; 2 wait for their files",
        "    t-0: 0 → 10",
        "TIME  ingest/1 4: the log was put aside",
        "TIME  ingest/1 4: batch 3 of query q",
        "    1 row read: 1 dropped",
        "    t-0: 30 → 40",
        "    setting sink.late-rows: default → drop",
        "    column more: none → int",
    ]
    assert oldest.splitlines()[:5] == [
        "batch 2 of query q",
        "    5 rows read: 4 written, 1 dropped; 2 files (4 rows, 820 bytes) in 2 partitions",
        "    committed: dt=2026-01-01, dt=2026-01-02",
        "    t-0: 20 → 30",
        "TIME  ingest/1 2: its manifest is missing",
    ]


def test_pages_have_each_epoch_once(ingest: Ingest, table: str, uri: str, capsys: Capsys) -> None:
    committed(table, uri, 2, writer="second")
    ingest.commit()
    everything = hivesink(capsys, "history", table, "--json").data
    numbers = [(told["writer"], told["epoch"]) for told in everything["epochs"]]
    assert numbers == [("ingest", 4), ("second", 1), ("ingest", 3), ("ingest", 2), ("ingest", 1)]
    assert everything["next"] is None
    first = hivesink(capsys, "history", table, "--json", "--limit", "2").data
    second_page = hivesink(capsys, "history", table, "--json", "--limit", "3", "--until", first["next"]).data
    assert first["epochs"] + second_page["epochs"] == everything["epochs"]
    assert f"older: hivesink history {table} --until 20" in hivesink(capsys, "history", table, "--limit", "2").out
    of_one = hivesink(capsys, "history", table, "--json", "--writer", "second").data
    assert [told["writer"] for told in of_one["epochs"]] == ["second"]
    committed(table, uri, 2, 2, batches=4, options={"sink.log.retained-epochs": "1"})
    told = hivesink(capsys, "history", table, "--writer", "ingest").out.splitlines()
    first = hivesink(capsys, "history", table, "--json", "--writer", "ingest", "--limit", "1").data
    # They have the same time.
    assert ([each["kind"] for each in first["epochs"]], first["next"]) == (["batch", "trimmed"], None)
    assert re.fullmatch(
        r"2.* ingest 5: the sum of the epochs up to this, whose manifests are trimmed\n"
        r"    2\d rows read: \d+ written, \d dropped",
        "\n".join(told[-2:]),
    ), told


def test_a_terminal_of_80_columns_shows_what_a_pipe_gets(
    ingest: Ingest, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = (("history", ingest.table), ("where", ingest.table, "t:0:12"), ("changed", ingest.table))
    piped = [hivesink(capsys, *look).out for look in looks]
    for name, value in {"COLUMNS": "80", "TERM": "xterm", "NO_COLOR": ""}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    shown = [hivesink(capsys, *look).out for look in looks]
    assert "\x1b[1m" in shown[0]
    assert [re.sub(r"\x1b\[[\d;]*m", "", each) for each in shown] == piped


def told(data: Any) -> list[tuple[Any, ...]]:
    keys = ("partition", "revision", "rows_before", "rows", "why")
    return [tuple(each[key] for key in keys) for each in data["partitions"]]


def test_a_consumer_sees_each_change_once_whatever_becomes_of_the_log(ingest: Ingest, uri: str, capsys: Capsys) -> None:
    table = ingest.table

    def look(*options: str) -> Any:
        said = hivesink(capsys, "changed", table, "--consumer", "daily", "--json", *options)
        assert said.code == (0 if said.data["partitions"] else 3), said.err
        return said.data

    first, second = "dt=2026-01-01", "dt=2026-01-02"
    shown = look()
    assert shown["revision"] == "ingest/1:3"
    assert told(shown) == [(first, 3, 0, 6, ["new"]), (second, 3, 0, 6, ["new"])]
    committed(table, uri, 1, writer="other")
    # What came since the look isn't acknowledged with it.
    assert told(look("--until", shown["revision"], "--ack")) == told(shown)
    assert told(look()) == [(first, 4, 6, 7, ["more rows"])]
    again = committed(table, uri, 2, 2, batches=3, options={"sink.log.retained-epochs": "1"})
    assert len([*again.log.glob("manifests/*.json")]) == 1
    assert told(look("--ack")) == [(first, 6, 6, 9, ["more rows"]), (second, 5, 6, 8, ["more rows"])]
    assert look()["revision"] == "ingest/1:5,other/1:1"
    assert hivesink(capsys, "reset", table, "--yes").code == 0
    assert look()["partitions"] == []
    committed(table, uri, 1)
    assert told(look("--ack")) == [(first, 7, 9, 10, ["more rows"])]
    assert told(look()) == []
    # An older look takes nothing back, and a log that a reset has put aside may be damaged.
    assert told(look("--until", shown["revision"], "--ack")) == []
    for manifest in ingest.log.glob("manifests/*.json"):
        manifest.unlink()
    assert (told(look()), look()["damaged"]) == ([], ["ingest/1"])
    assert "note: manifests of ingest/1 can't be read" in hivesink(capsys, "changed", table).out
    # Another consumer has its own receipts, and without any everything is new.
    assert [row[0] for row in told(hivesink(capsys, "changed", table, "--json").data)] == [first, second]


def test_late_rows_since_a_revision_or_a_time(uri: str, tmp_path: Path, capsys: Capsys) -> None:
    with closing(Daily(daily.create(uri, tmp_path), uri, options={"sink.late-rows": "append"})) as writer:
        writer.read(1, 2, 4, mark=3)
        said = hivesink(capsys, "changed", writer.table)
        rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in said.out.splitlines() if "dt=" in line]
        assert rows == [["dt=2024-01-01", "1", "0", "1", "new"], ["dt=2024-01-02", "1", "0", "1", "new"]]
        assert said.out.splitlines()[-1] == "2 partitions changed; revision ingest/1:2"
        assert max(map(len, said.out.splitlines())) <= 80
        at = hivesink(capsys, "history", writer.table, "--json").data["epochs"][0]["at"]
        writer.read(1, 4, mark=3)
        writer.committer.finish()
        for since in ("ingest/1:2", "2"):
            data = hivesink(capsys, "changed", writer.table, "--json", "--since", since).data
            assert told(data) == [("dt=2024-01-01", 2, 1, 2, ["late rows"])]
        # Epoch 2 was decided then, and settled a moment later.
        both = told(hivesink(capsys, "changed", writer.table, "--json", "--since", at).data)
        assert both == [("dt=2024-01-01", 2, 0, 2, ["new"]), ("dt=2024-01-02", 1, 0, 1, ["new"])]
        assert hivesink(capsys, "changed", writer.table, "--since", data["revision"]).code == 3


def test_a_log_that_is_over_has_given_up_what_it_has_not_published(tmp_path: Path) -> None:
    """Epoch 1 and the move of `c` were never published, epochs 2 and 3 were."""
    log = commit_log(str(tmp_path))
    log.uid("0a1b2c3d")
    for number, (names, revision) in enumerate((("ab", 1), ("b", 2), ("c", 1), ("c", 1)), start=1):
        parts = tuple(PartEntry("d.t", name, f"/t/.{name}{number}", f"/t/{name}{number}", 1, 5) for name in names)
        commits = tuple(Commit("d.t", name, revision, 5, 1) for name in names)
        log.create(replace(small(number), add=parts, commits=commits, remove=("/t/c3",) if number == 4 else ()))
    for number in (2, 3):
        log.mark(Epoch(number), EpochState.PUBLISHED)
    log.end(AT)
    read, _ = commits_of(log, "d.t")
    upto, seen = read.read()
    assert (upto, [*seen]) == (Upto(Epoch(4)), ["b"])
    # So what a consumer has seen is never listed again.
    assert read.read(upto) == (upto, seen)


def test_each_kind_of_epoch_has_its_text() -> None:
    assert {"batch", *_WHY} == {*KINDS}

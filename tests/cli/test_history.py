"""`hivesink history`, on the real metastore: a table's epochs, page by page."""

from __future__ import annotations

import re
import sys
from contextlib import closing
from copy import copy
from typing import Any

import pytest

from hivesink.core.table import TableName
from tests.cli.site import Capsys, Ingest, changed, hivesink

LATER = {"sink.late-rows": "drop"}


def test_epochs_are_told_newest_first_with_what_has_changed(ingest: Ingest, uri: str, capsys: Capsys) -> None:
    table = ingest.table

    def add_column(live: Any) -> None:
        more = copy(live.sd.cols[0])
        more.name, more.type = "more", "int"
        live.sd.cols.append(more)

    changed(uri, TableName.parse(table), add_column)
    with closing(Ingest(table, uri, batches=3, options=LATER)) as again:
        again.commit(0)
        again.committer.finish()
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
    with closing(Ingest(table, uri, "second")) as second:
        second.commit(2)
        second.committer.finish()
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
    with closing(Ingest(table, uri, batches=4, options={"sink.log.retained-epochs": "1"})) as again:
        again.commit(2)
        again.commit(2)
        again.committer.finish()
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


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--until", "noon"), "--until 'noon' is no time: write it as in 2024-01-02T03:04:05"),
        (("--writer", "nobody"), "no writer 'nobody' has written to "),
    ],
)
def test_what_cannot_be_told(options: tuple[str, str], expected: str, ingest: Ingest, capsys: Capsys) -> None:
    said = hivesink(capsys, "history", ingest.table, *options)
    assert (said.code, expected in said.error) == (65, True)

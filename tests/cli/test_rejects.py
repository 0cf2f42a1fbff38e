"""`hivesink rejects`: the list, the way back, and that nothing comes back twice."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from hivesink.sink.task.messages import InputShape
from hivesink.storage.rename_store import RenameFileStore
from tests.cli.site import Capsys, Ingest, alter, hivesink
from tests.sink.harness import TABLE
from tests.tables.replays import World

GOOD = [{"id": number, "dt": f"2026-01-0{1 + number % 2}"} for number in range(4)]
NAME = str(TABLE)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """Three epochs of four good rows and one dead letter each, `{"id": "seven"}`, without a server."""
    made = World()
    made.patch(monkeypatch)
    records = [json.dumps(row).encode() for row in GOOD] + [b'{"id": "seven"}']
    for _ in range(3):
        made.ingest(pa.RecordBatch.from_pydict({"value": records}), InputShape(value="value", topic_name="t"))
    monkeypatch.setattr("hivesink.tables.opened.open_table", lambda *_: made.opened())
    return made


@pytest.fixture
def letters(uri: str, table: str) -> Iterator[Ingest]:
    """The same on the real metastore."""
    with closing(Ingest(table, uri, options={"sink.on-bad-record": "dead-letter"})) as writer:
        for _ in range(3):
            writer.commit()
        writer.committer.finish()
        yield writer


def values(writer: Ingest) -> list[int]:
    """The ids of the rows that readers find; -1 for null."""
    found = ds.dataset(writer.location, format="parquet", partitioning="hive").to_table(columns=["id"])
    return sorted(-1 if one is None else one for one in found.column("id").to_pylist())


def mend(file: Path, text: str) -> None:
    """As a user does with an editor."""
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    file.write_text("".join(json.dumps({**line, "value": text}) + "\n" for line in lines))


def test_the_list_by_reason(world: World, capsys: Capsys) -> None:
    said = hivesink(capsys, "rejects", NAME)
    assert said.code == 0, said.err
    assert re.search(r"bigint.* │ id +│ +3 │", said.out)
    assert f"{NAME}: 3 rejected records" in said.out
    data = hivesink(capsys, "rejects", NAME, "--json").data
    (entry,) = data["rejects"]
    assert (entry["records"], entry["field"], data["waiting"]) == (3, "id", 0)
    (home,) = world.metastore.partitions(TABLE.rejected).values()
    file = RenameFileStore(world.files).visible(home)[0].path
    world.files.rename(file, f"{home}/compacted")
    told = "1 can't be replayed: their files are not (or not yet) what a job of this table has written"
    for command in ([], ["replay", "--dry-run"]):
        assert told in hivesink(capsys, "rejects", *command, NAME).out


def test_those_that_wait_for_a_roll_are_told_of(world: World, capsys: Capsys) -> None:
    world.options = {"sink.rolling-policy.on-epoch": "false", "sink.rolling-policy.rollover-interval": "1h"}
    world.ingest(pa.RecordBatch.from_pydict({"value": [b"{"]}), InputShape(value="value"), ends=False)
    for arguments in ([], ["replay", "--dry-run"]):
        said = hivesink(capsys, "rejects", *arguments, NAME)
        assert "1 more wait in the jobs' logs; they are in the table once it is rolled" in said.out
    before = world.ids()
    said = hivesink(capsys, "rejects", "replay", NAME, "--json", "--yes")
    (failing,) = said.data["failing"]
    assert (said.code, said.data["waiting"], said.data["replayed"], failing["records"]) == (1, 1, 0, 3)
    assert (failing["field"], "text into bigint" in failing["reason"], world.ids()) == ("id", True, before)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (None, (65, "--mended {file}: No such file or directory")),
        ('{{"id": "{id}", "value": "{{}}", "base64": "e30="}}', (65, "{file} line 1 isn't an object")),
        ('{{"id": "{id}", "value": 7}}', (65, "{file} line 1 isn't an object with an id, each once, and a value")),
        ('{{"id": "1", "value": "a"}}\n' * 2, (65, "{file} line 2 isn't an object")),
    ],
)
def test_a_file_that_mends_nothing_is_refused_with_the_line(
    line: str | None, expected: tuple[int, str], world: World, tmp_path: Path, capsys: Capsys
) -> None:
    file = tmp_path / "mend.jsonl"
    if line is not None:
        file.write_text(line.format(id=world.ids()[0]))
    refused = hivesink(capsys, "rejects", "replay", NAME, "--mended", file, "--yes")
    code, told = expected
    assert (refused.code, told.format(file=file) in refused.error) == (code, True), refused.error


def test_a_table_without_dead_letters(world: World, capsys: Capsys) -> None:
    world.metastore.drop_table(TABLE.rejected)
    said = hivesink(capsys, "rejects", NAME)
    none = f"no record of {NAME} was ever rejected into {NAME}__rejected, or that table was dropped or renamed"
    assert (said.code, said.out) == (0, f"{none}\n")
    refused = hivesink(capsys, "rejects", "replay", NAME, "--yes")
    assert refused.code == 65
    assert f"nothing to replay: {none}; with sink.on-bad-record" in refused.error


def test_mended_records_come_back_once(world: World, capsys: Capsys, tmp_path: Path) -> None:
    file, before = tmp_path / "mend.jsonl", len(world.rows(TABLE))
    assert hivesink(capsys, "rejects", NAME, "--export", file).code == 0
    twice = hivesink(capsys, "rejects", NAME, "--export", file)
    assert (twice.code, "File exists" in twice.error) == (65, True)
    mend(file, '{"id": 77, "dt": "2026-01-09"}')
    replay = "rejects", "replay", NAME, "--mended", file
    tried = hivesink(capsys, *replay, "--dry-run")
    assert (tried.code, len(world.rows(TABLE))) == (0, before)
    assert "3 records would come back, 0 fail again" in tried.out
    # Some editors put a mark of the byte order in front.
    file.write_text(file.read_text(), encoding="utf-8-sig")
    said = hivesink(capsys, *replay, "--yes")
    assert (said.code, said.err) == (0, "")
    assert "3 records came back, 0 fail again" in said.out
    again = hivesink(capsys, *replay, "--yes")
    assert (again.code, again.err) == (0, "")
    assert "0 records came back, 0 fail again\n3 of " in again.out
    assert hivesink(capsys, "rejects", NAME, "--json").data["rejects"] == []
    assert [row["id"] for row in world.rows(TABLE)].count(77) == 3


def test_records_without_a_value_today_come_back(world: World, capsys: Capsys) -> None:
    (entry,) = hivesink(capsys, "rejects", NAME, "--json").data["rejects"]
    assert (entry["field"], entry["records"]) == ("id", 3)
    tried = hivesink(capsys, "rejects", "replay", NAME, "--dry-run", "--json").data
    assert tried["failing"][0]["records"] == 3
    world.alter({"sink.column.id.from": "$.number"})
    assert hivesink(capsys, "rejects", "replay", NAME, "--yes").code == 0
    assert [row["id"] for row in world.rows(TABLE)].count(None) == 3


@pytest.mark.parametrize("arguments", [["list"], ["replay", "--yes"]])
def test_the_dead_letter_table_is_not_the_one_to_name(letters: Ingest, arguments: list[str], capsys: Capsys) -> None:
    said = hivesink(capsys, "rejects", *arguments, f"{letters.table}__rejected")
    assert said.code != 0
    told = f"{letters.table}__rejected holds the dead letters of {letters.table}: name {letters.table}"
    assert said.error == f"hivesink: {told}"


def test_a_replay_says_nothing_of_whether_a_partition_is_complete(
    letters: Ingest, capsys: Capsys, tmp_path: Path
) -> None:
    hourly = {
        "sink.partition-commit.trigger": "partition-time",
        "sink.partition-commit.watermark-column": "id",
        "sink.partition-commit.policy.kind": "metastore,success-file",
        "sink.late-rows": "drop",
    }
    alter(letters, hourly)
    file = tmp_path / "mend.jsonl"
    hivesink(capsys, "rejects", letters.table, "--export", file)
    mend(file, '{"id": 77, "dt": "2026-01-09"}')
    said = hivesink(capsys, "rejects", "replay", letters.table, "--mended", file, "--yes")
    assert (said.code, said.err) == (0, "")
    assert not (letters.location / "dt=2026-01-09" / "_SUCCESS").exists()
    # `ingest` has committed by process time, before the table was altered; nobody waits for the replay.
    waited = hivesink(capsys, "wait", letters.table, "dt=2026-01-01", "--timeout", "1s")
    assert "rejects-replay" not in waited.out + waited.err


def test_a_table_is_mended_and_what_was_replayed_is_known_even_after_a_reset(
    letters: Ingest, ddl: Path, capsys: Capsys
) -> None:
    before, name = values(letters), letters.table
    ddl.write_text(ddl.read_text().replace("TBLPROPERTIES (", "TBLPROPERTIES ('sink.column.id.from'='$.number', "))
    assert hivesink(capsys, "ddl", "apply", ddl).code == 0
    said = hivesink(capsys, "rejects", "replay", name, "--yes")
    assert (said.code, said.err, values(letters)) == (0, "", sorted([*before, -1, -1, -1]))
    for command in ("recover", "clean", "verify", "show", "status", "partitions"):
        done = hivesink(capsys, command, name)
        assert done.code == 0, (command, done)
    assert hivesink(capsys, "reset", name, "--writer", "rejects-replay", "--yes").code == 0
    letters.commit()
    again = hivesink(capsys, "rejects", "replay", name, "--yes")
    assert (again.code, f"{name}: 1 record came back" in again.out) == (0, True)
    assert values(letters).count(-1) == 4

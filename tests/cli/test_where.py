"""`hivesink where`, on the real metastore: each thing that becomes of a record."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hivesink.core.epoch import Epoch
from hivesink.core.offsets import KafkaOffset
from hivesink.errors import HiveSinkError
from hivesink.sink.task.messages import InputShape
from tests.cli.site import Capsys, Ingest, alter, hivesink
from tests.tables import daily

DDL = """CREATE TABLE {name} (id BIGINT, pos BIGINT, part INT)
PARTITIONED BY (dt STRING)
STORED AS PARQUET
LOCATION '{location}'
TBLPROPERTIES (
  'sink.on-bad-record'='dead-letter',
  'sink.column.pos.from'='kafka.offset',
  'sink.column.part.from'='kafka.partition'
)
"""


class Placed(Ingest):
    """A writer of records with their places: every tenth is bad, days change each five."""

    def read(self, first: int, last: int, topic: str = "t", start: KafkaOffset | None = None) -> None:
        """Commit the offsets from `first` to before `last`, of which every fourth is no record."""
        offsets = [offset for offset in range(first, last) if offset % 4 != 3]
        texts = [
            json.dumps({"id": "x" if each % 10 == 0 else each, "dt": f"2026-01-0{1 + each // 5 % 2}"})
            for each in offsets
        ]
        columns = {
            "value": pa.array([text.encode() for text in texts], pa.binary()),
            "topic": pa.array([topic] * len(offsets)),
            "partition": pa.array([0] * len(offsets), pa.int32()),
            "offset": pa.array(offsets, pa.int64()),
        }
        shape = InputShape("value", topic="topic", partition="partition", offset="offset")
        batch = pa.RecordBatch.from_pydict(columns)
        self.put(batch, shape, start or KafkaOffset.of({topic: {"0": first}}), KafkaOffset.of({topic: {"0": last}}))


@pytest.fixture
def placed(uri: str, tmp_path: Path) -> Iterator[Placed]:
    """Offsets from 100 to 120 are in files, those up to 130 wait."""
    with closing(
        Placed(daily.create(uri, tmp_path, DDL), uri, options={"sink.rolling-policy.on-epoch": "false"})
    ) as writer:
        writer.read(100, 110)
        writer.read(110, 120)
        writer.committer.finish()
        writer.read(120, 130)
        yield writer


def test_what_becomes_of_records(placed: Placed, capsys: Capsys) -> None:
    def look(offset: int) -> tuple[Any, ...]:
        data = hivesink(capsys, "where", placed.table, f"t:0:{offset}", "--json").data
        [told] = data["writers"]
        return told["state"], told["epoch"], [(each["partition"], each["state"]) for each in told["places"]], told["or"]

    first, second, letters = "dt=2026-01-01", "dt=2026-01-02", (capsys, "where", placed.table)
    assert look(101) == ("read", 1, [(first, "visible")], {})
    assert look(116) == ("read", 2, [(second, "visible")], {})
    assert look(122) == ("read", 4, [(first, "waits")], {})
    assert look(103) == ("read", 1, [], {"no record": 2})
    assert look(130) == ("not read yet", None, [], {})
    assert look(99) == ("never read", None, [], {})
    state, epoch, [(day, what)], _ = look(110)
    assert (state, epoch, day[:3], what) == ("read", 2, "dt=", "a dead letter, visible")
    said = hivesink(*letters, "t:0:110").out
    assert "a dead letter, visible, since 20" in said
    assert " UTC, id: wrong type: text into bigint" in said
    seen = hivesink(*letters, "t:0:101").out.splitlines()
    assert seen[0].startswith("writer ingest: read by epoch 1 at 20")
    assert (seen[1][:36], len(seen)) == (f"    {first}, visible, since 20", 4)
    assert seen[-1] == f"SELECT * FROM {placed.table} WHERE `part` = 0 AND `pos` = 101"
    assert "waits, 3 rows wait to be rolled, by 20" in hivesink(*letters, "t:0:122").out


def test_what_was_replayed_or_trimmed(placed: Placed, capsys: Capsys) -> None:
    def replay(of: str) -> None:
        placed.committer.finish()
        exported = placed.location.parent / f"mend{placed.batches}.jsonl"
        assert hivesink(capsys, "rejects", placed.table, "--export", exported).code == 0
        letters = exported.read_text().splitlines(keepends=True)
        exported.write_text("".join(each.replace('\\"x\\"', "7") if of in each else each for each in letters))
        replayed = hivesink(capsys, "rejects", "replay", placed.table, "--mended", exported, "--yes")
        assert replayed.code == bool(of)  # The others fail again.

    replay("110")
    shown = hivesink(capsys, "where", placed.table, "t:0:110").out.splitlines()
    assert shown[1].startswith("    dt=2026-01-01, visible, since 20")
    assert shown[-1] == f"SELECT * FROM {placed.table} WHERE `part` = 0 AND `pos` = 110"
    shown = hivesink(capsys, "where", placed.table, "t:0:100").out.splitlines()
    assert re.match(r"    dt=20[-\d]+, a dead letter, visible, since 20.*, id: wrong type: text into bigint$", shown[1])
    assert shown[-1].startswith(f"SELECT * FROM {placed.table}__rejected WHERE `topic` = 't' AND ")
    alter(placed, {"sink.log.retained-epochs": "1"})
    for first in (130, 140, 150):
        placed.read(first, first + 10)
        replay("")
    assert "replayed in a trimmed epoch of rejects-replay" in hivesink(capsys, "where", placed.table, "t:0:110").out
    with closing(Placed(placed.table, placed.metastore, batches=6)) as again:
        again.read(160, 170)
        again.read(170, 180)
        again.committer.finish()
    said = hivesink(capsys, "where", placed.table, "t:0:101").out
    assert said.startswith("writer ingest: if the job read it, an epoch after 0, up to ")
    assert said.endswith(", did; their manifests are gone\n")
    assert "writer ingest: read by epoch " in hivesink(capsys, "where", placed.table, "t:0:171").out


def test_what_another_history_has_read(placed: Placed, capsys: Capsys) -> None:
    placed.committer.finish()
    with closing(Placed(placed.table, placed.metastore, batches=3, append=Epoch(4))) as moved:
        # The partition is new to the batch.
        moved.read(1000, 1003, "u", KafkaOffset.of({}))
        moved.committer.finish()
    expected = {
        "t:0:101": "writer {}: read by epoch 1 at",
        "u:0:5": "writer {}: perhaps read by epoch ",
        "u:0:1001": "writer {}: read by epoch ",
    }

    def look(writer: str) -> None:
        for record, text in expected.items():
            said = hivesink(capsys, "where", placed.table, record)
            assert (said.out[: len(text) - 2 + len(writer)], said.code) == (text.format(writer), 0)
            assert said.out.count("writer ") == 1
            assert ("\n    dt=2026-01-0" in said.out) == (record != "u:0:5")

    look("ingest")
    assert hivesink(capsys, "reset", placed.table, "--yes").code == 0
    look("ingest/1")
    with closing(Placed(placed.table, placed.metastore, batches=4, append=Epoch(0))) as again:
        again.read(130, 140)
        again.committer.finish()
    look("ingest/1")
    assert "writer ingest: read by epoch 1 at" in hivesink(capsys, "where", placed.table, "t:0:131").out


def test_the_file_of_rows_that_waited_again_or_is_gone(uri: str, tmp_path: Path, capsys: Capsys) -> None:
    """The first rows have no column of offsets, and their roll's file is lost before it is published."""
    waits, without = (
        {"sink.rolling-policy.on-epoch": "false"},
        DDL.replace("  'sink.column.pos.from'='kafka.offset',\n", ""),
    )
    with closing(Placed(daily.create(uri, tmp_path, without), uri, options=waits)) as first:
        first.read(101, 104)
        first.lose_metastore()
        with suppress(HiveSinkError):
            first.committer.finish()
    [staged] = first.location.rglob(".part-*")
    staged.unlink()
    alter(first, {"sink.column.pos.from": "kafka.offset"})
    with closing(Placed(first.table, uri, batches=1, options=waits)) as again:
        again.committer.recover()
        again.committer.finish()
        again.read(104, 107)
        again.committer.finish()
    [file, *_] = sorted(first.location.rglob("part-*"), key=lambda path: path.stat().st_mtime)
    said = hivesink(capsys, "where", first.table, "t:0:101").out
    assert "read by epoch 1 at" in said
    assert "    perhaps dt=2026-01-01, visible, since 20" in said
    assert file.name in said
    [newer] = first.location.glob("dt=2026-01-02/part-*")
    assert f"\n        file:{newer}\n" in hivesink(capsys, "where", first.table, "t:0:105").out
    file.unlink()
    assert "perhaps dt=2026-01-01, its file is gone, " in hivesink(capsys, "where", first.table, "t:0:101").out


def test_without_a_column_of_offsets_only_the_candidates_are_told(ingest: Ingest, capsys: Capsys) -> None:
    said = hivesink(capsys, "where", ingest.table, "t:0:12").out.splitlines()
    days = [line.partition(", visible, since 20")[0] for line in said if "perhaps" in line]
    assert days == ["    perhaps dt=2026-01-01", "    perhaps dt=2026-01-02"]
    assert said[-1] == "    or dropped (1), no record (5)"
    assert "no dead letter of " in hivesink(capsys, "where", ingest.table, "/in/a.json:7").out

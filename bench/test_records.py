from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import pytest
from pyarrow import parquet

from bench.ground import DATABASE, Ground
from bench.records import all_due, chunks, differences, due, land, partitions
from bench.workloads import AVRO, AVRO_SCHEMA, WORKLOADS, Workload

GENERATED = [one for one in WORKLOADS.values() if one.name != "flights"]
ROWS = 3_000


def texts(workload: Workload, rows: int = ROWS) -> list[bytes]:
    return [text for chunk in chunks(workload, rows) for text in chunk.texts]


@pytest.mark.parametrize("workload", GENERATED, ids=lambda one: one.name)
def test_the_same_records_come_every_time_and_in_chunks_of_any_size(workload: Workload) -> None:
    once = texts(workload)
    assert once == texts(workload)
    if not workload.bad:
        assert once == texts(replace(workload, chunk=700))
    assert len(set(once)) > ROWS * 0.99


@pytest.mark.parametrize("workload", GENERATED, ids=lambda one: one.name)
def test_what_is_due_is_what_the_texts_say(workload: Workload) -> None:
    good = list(fitting(texts(workload), workload))
    found = all_due(workload, ROWS)
    assert found["rows"] == len(good)
    for name, one in workload.fields.items():
        if one.type in {"int", "bigint"}:
            assert found[f"{name.lower()} sum"] == sum(record[name] or 0 for record in good)
        assert found[f"{name.lower()} values"] == sum(record[name] is not None for record in good)
    assert (len(good) < ROWS) == bool(workload.bad)
    assert ROWS - len(good) <= 2 * workload.bad * ROWS


def fitting(records: Iterable[bytes], workload: Workload) -> Iterator[dict[str, Any]]:
    schema = fastavro.parse_schema(json.loads(AVRO_SCHEMA.read_text()))
    for text in records:
        with suppress(ValueError):
            is_avro = workload.name == AVRO
            record: Any = fastavro.schemaless_reader(io.BytesIO(text), schema, None) if is_avro else json.loads(text)
            if record.get("userId") != "none":
                yield record


def test_one_changed_value_is_found() -> None:
    (chunk,) = chunks(WORKLOADS["wide"], 100)
    wanted = due(chunk, WORKLOADS["wide"])
    names = chunk.rows["customer"].to_pylist()
    names[17]["address"]["city"] += "!"
    place = chunk.rows.column_names.index("customer")
    changed = chunk.rows.set_column(place, "customer", [names])
    assert differences(wanted, wanted) == []
    (wrong,) = differences(due(replace(chunk, rows=changed), WORKLOADS["wide"]), wanted)
    assert wrong.startswith("customer hash is ")


def test_nine_tenths_of_a_skewed_topic_are_in_one_partition() -> None:
    whole = partitions(WORKLOADS["skewed"], 0, 3_000)
    assert [whole.count(number) for number in range(4)] == [2_700, 100, 100, 100]
    assert whole[1_000:] == partitions(WORKLOADS["skewed"], 1_000, 2_000)
    even = partitions(WORKLOADS["narrow"], 0, 4_000)
    assert [even.count(number) for number in range(4)] == [1_000] * 4


@pytest.mark.parametrize("name", ["narrow", "wide", "flights", "avro", "many-partitions", "dirty"])
def test_rows_written_from_memory_pass_the_check_and_missing_ones_do_not(tmp_path: Path, name: str) -> None:
    workload = WORKLOADS[name]
    # No contender that registers: nobody calls this metastore.
    ground = Ground("thrift://127.0.0.1:1", tmp_path.as_uri(), (tmp_path / "checkpoints").as_uri())
    folder = tmp_path / f"{DATABASE}.db" / "t"
    for chunk in chunks(workload, ROWS):
        parquet.write_to_dataset(chunk.rows, folder, partition_cols=[workload.partition.column])
    due = all_due(workload, ROWS)
    landed = land(ground, "t", workload, registered=False)
    files = sorted(folder.rglob("*.parquet"))
    assert differences(landed.figures, due) == []
    assert (landed.files, landed.bytes) == (len(files), sum(file.stat().st_size for file in files))
    # A hidden file is none of readers' business; one that is gone is missed.
    files[0].rename(files[0].with_name(".hidden"))
    fewer = differences(land(ground, "t", workload, registered=False).figures, due)
    assert any(found.startswith("rows is ") for found in fewer)
    assert len(fewer) > len(workload.columns)

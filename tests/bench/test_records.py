from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from bench.content import differences, total
from bench.records import all_due, chunks, due
from bench.topics import partitions
from bench.workloads import ALL_FLIGHTS, WORKLOADS, Workload
from jobs.demo.flights import Flights

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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
    good = list(fitting(texts(workload)))
    found = all_due(workload, ROWS)
    assert found["rows"] == len(good)
    for name, one in workload.fields.items():
        if one.type in {"int", "bigint"}:
            assert found[f"{name.lower()} sum"] == sum(record[name] or 0 for record in good)
        assert found[f"{name.lower()} values"] == sum(record[name] is not None for record in good)
    assert (len(good) < ROWS) == bool(workload.bad)
    assert ROWS - len(good) <= 2 * workload.bad * ROWS


def fitting(records: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    for text in records:
        with suppress(ValueError):
            record = json.loads(text)
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


def test_figures_of_parts_add_up() -> None:
    workload = WORKLOADS["narrow"]
    whole = all_due(workload, ROWS)
    assert total(due(chunk, workload) for chunk in chunks(replace(workload, chunk=1_000), ROWS)) == whole


def test_flights_are_the_real_ones_repeated() -> None:
    workload = WORKLOADS["flights"]
    assert workload.rows == 30 * Flights.load().total
    first, second, third = chunks(workload, 2 * ALL_FLIGHTS + 10)
    assert first.texts == second.texts
    assert third.texts == first.texts[:10]
    one = json.loads(first.texts[0])
    assert (one["year"], one["month"], one["time_hour"]) == (2013, 1, "2013-01-01T10:00:00Z")
    assert due(third, workload)["flight sum"] == sum(json.loads(text)["flight"] for text in third.texts)


def test_sizes_are_what_the_docs_say() -> None:
    narrow, wide = WORKLOADS["narrow"], WORKLOADS["wide"]
    assert 73 < sum(map(len, texts(narrow))) / ROWS < 77
    size = sum(map(len, texts(wide))) / ROWS
    assert 1_400 < size < 1_600
    assert size * wide.rows < 4e9
    assert len(wide.fields) == 60
    nulls = sum(text.count(b":null") for text in texts(wide)) / ROWS
    assert 1 < nulls < 2


def test_nine_tenths_of_a_skewed_topic_are_in_one_partition() -> None:
    whole = partitions(WORKLOADS["skewed"], 0, 3_000)
    assert [whole.count(number) for number in range(4)] == [2_700, 100, 100, 100]
    assert whole[1_000:] == partitions(WORKLOADS["skewed"], 1_000, 2_000)
    even = partitions(WORKLOADS["narrow"], 0, 4_000)
    assert [even.count(number) for number in range(4)] == [1_000] * 4

"""Records that don't fit: the query stops and names them, or they go to a table, or they are counted."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from hivesink import errors
from jobs.cluster.kafka import end_offsets
from tests.integration.stage import wait_until

if TYPE_CHECKING:
    from hivesink.sink.commit.committed import Committed
    from tests.integration.stage import Stage, Topic

pytestmark = [pytest.mark.spark, pytest.mark.main_path]


def put_good_and_bad(topic: Topic) -> None:
    topic.put(range(0, 20, 2))
    topic.put_raw([(1, b'{"id": 1, "dt": "2024-01-02"}'), (1, b'{"id": "many", "dt": "2024-01-02"}'), (1, None)])


@pytest.mark.kafka
def test_fail_names_the_record_publishes_nothing_and_goes_on_once_the_setting_is_mended(
    stage: Stage, topic: Topic
) -> None:
    stage.create()
    put_good_and_bad(topic)
    with pytest.raises(errors.BadRecord) as refused:
        stage.drain(events=topic.stream(stage.spark))
    said = str(refused.value)
    assert "\n" not in said
    assert f"topic {topic.name} partition 1 offset 1, field id: " in said
    assert "text into bigint" in said
    assert "dead-letter or drop" in said
    assert stage.ids() == []
    assert stage.staged() == []
    stage.drain(stage.sink(options={"sink.on-bad-record": "drop"}), topic.stream(stage.spark))
    assert stage.ids() == sorted([*range(0, 20, 2), 1])


@pytest.mark.kafka
def test_dead_letters_hold_the_record_its_error_and_its_position(stage: Stage, topic: Topic) -> None:
    stage.create(properties={"sink.on-bad-record": "dead-letter"})
    put_good_and_bad(topic)
    done: list[Committed] = []
    for _ in range(2):
        stage.drain(stage.sink(on_commit=done.append), topic.stream(stage.spark))
    (epoch,) = done
    assert (epoch.rows.read, epoch.rows.written, epoch.rows.rejected, epoch.rows.skipped) == (13, 11, 1, 1)
    assert stage.ids() == sorted([*range(0, 20, 2), 1])
    (letter,) = stage.query(f"SELECT * FROM {stage.table}__rejected")
    assert bytes(letter.value) == b'{"id": "many", "dt": "2024-01-02"}'
    assert (letter.field, letter.topic, letter.partition_id, letter.record_offset) == ("id", topic.name, 1, 1)
    assert "text into bigint" in letter.reason


@pytest.mark.kafka
def test_a_bad_record_behind_an_aborted_transaction_has_its_own_offset(stage: Stage, topic: Topic) -> None:
    stage.create()
    topic.put([0])
    topic.abort(range(100, 103))
    # The mark that ends their transaction is the broker's, and comes after the answer.
    wait_until(lambda: end_offsets(topic.servers, topic.name, 2)[0] == 5)
    topic.put_raw([(0, b'{"id": "many"}')])
    with pytest.raises(errors.BadRecord) as refused:
        stage.drain(events=topic.stream(stage.spark))
    assert f"topic {topic.name} partition 0 offset 5, field id: " in str(refused.value)


def test_partitions_that_the_metastore_can_not_hold_are_bad_records_and_stop_no_other(stage: Stage) -> None:
    stage.create(
        partitioned="PARTITIONED BY (a STRING, b STRING, c STRING, d STRING)",
        properties={"sink.on-bad-record": "dead-letter"},
    )
    for rows in (["a"], ["a ", "y" * 200, "b"]):
        lines = [
            json.dumps({"id": row, **dict.fromkeys("abcd", value)}) for row, value in enumerate(rows, 10 * len(rows))
        ]
        stage.put_text("\n".join(lines) + "\n")
    stage.drain()
    assert stage.ids() == [10, 32]
    letters = stage.query(f"SELECT field, reason FROM {stage.table}__rejected ORDER BY reason")
    assert [letter.field for letter in letters] == [None, None]
    assert letters[0].reason == "a partition name of 811 characters; the metastore takes 767"
    assert "'a=a /b=a /c=a /d=a ' ends in a blank" in letters[1].reason


def test_dropped_records_are_counted(stage: Stage) -> None:
    stage.create(properties={"sink.on-bad-record": "drop"})
    stage.put_text('{"id": 1, "dt": "2024-01-01"}\nno JSON\n{"id": 2.5, "dt": "2024-01-01"}\n')
    done: list[Committed] = []
    stage.drain(stage.sink(on_commit=done.append))
    assert (done[0].rows.read, done[0].rows.written, done[0].rows.dropped) == (3, 1, 2)
    assert stage.ids() == [1]


def test_a_file_that_is_not_json_is_named_and_once_mended_all_rows_are_there(stage: Stage) -> None:
    stage.create()
    stage.put(range(10))
    stage.drain()
    bad = stage.put_text("PK\x03\x04 this is no JSON\n")
    with pytest.raises(errors.BadRecord) as refused:
        stage.drain()
    assert "\n" not in str(refused.value)
    assert bad.name in str(refused.value)
    bad.write_text('{"id": 10, "dt": "2024-01-01"}\n')
    stage.put(range(11, 15))
    stage.drain()
    assert stage.ids() == list(range(15))


def test_a_line_that_is_not_utf_8_is_named_kept_byte_by_byte_or_counted(stage: Stage) -> None:
    stage.create()
    line = b'{"id": 2, "name": "J\xfcrgen", "dt": "2024-01-01"}'
    good = b'{"id": 1, "dt": "2024-01-01"}'
    file = stage.put_bytes(b"\n".join([good, line, b""]))
    with pytest.raises(errors.BadRecord) as refused:
        stage.drain()
    said = str(refused.value)
    assert f'/{file.name} line 2: {{"id": 2, "name": "J\ufffdrgen", "dt": "2024-01-01"}}: not UTF-8; fix' in said
    assert "\n" not in said
    assert stage.staged() == []
    done: list[Committed] = []
    stage.drain(stage.sink(options={"sink.on-bad-record": "dead-letter"}, on_commit=done.append))
    (letter,) = stage.query(f"SELECT * FROM {stage.table}__rejected")
    assert bytes(letter.value) == line
    assert (letter.field, letter.reason) == (None, "not UTF-8")
    assert letter.source.endswith(f"/{file.name}")
    stage.put_bytes(line)
    stage.drain(stage.sink(options={"sink.on-bad-record": "drop"}, on_commit=done.append))
    assert [(epoch.rows.written, epoch.rows.rejected, epoch.rows.dropped) for epoch in done] == [(1, 1, 0), (0, 0, 1)]
    assert stage.ids() == [1]

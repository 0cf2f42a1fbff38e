"""Records that don't fit: the query stops and names them, or they go to a table, or they are counted."""

from __future__ import annotations

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
def test_records_of_an_aborted_transaction_are_none_and_a_bad_one_behind_them_has_its_own_offset(
    stage: Stage, topic: Topic
) -> None:
    stage.create()
    topic.put([0])
    topic.abort(range(100, 103))
    # The mark that ends their transaction is the broker's, and comes after the answer.
    wait_until(lambda: end_offsets(topic.servers, topic.name, 2)[0] == 5)
    topic.put_raw([(0, b'{"id": "many"}')])
    with pytest.raises(errors.BadRecord) as refused:
        stage.drain(events=topic.stream(stage.spark))
    assert f"topic {topic.name} partition 0 offset 5, field id: " in str(refused.value)
    stage.drain(stage.sink(options={"sink.on-bad-record": "drop"}), topic.stream(stage.spark))
    assert stage.ids() == [0]


def test_a_line_that_is_not_utf_8_is_named_and_kept_byte_by_byte(stage: Stage) -> None:
    stage.create()
    line = b'{"id": 2, "name": "J\xfcrgen", "dt": "2024-01-01"}'
    file = stage.put_bytes(b"\n".join([b'{"id": 1, "dt": "2024-01-01"}', line, b""]))
    with pytest.raises(errors.BadRecord) as refused:
        stage.drain()
    said = str(refused.value)
    assert f'/{file.name} line 2: {{"id": 2, "name": "J\ufffdrgen", "dt": "2024-01-01"}}: not UTF-8; fix' in said
    assert "\n" not in said
    assert stage.staged() == []
    stage.drain(stage.sink(options={"sink.on-bad-record": "dead-letter"}))
    (letter,) = stage.query(f"SELECT * FROM {stage.table}__rejected")
    assert (bytes(letter.value), letter.field, letter.reason) == (line, None, "not UTF-8")
    assert letter.source.endswith(f"/{file.name}")
    assert stage.ids() == [1]

"""Records that hold many, and change events, through Spark into a table that Hive's reader reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hivesink.core.column_source import named_file
from tests.cli.site import Capsys, hivesink
from tests.decode.test_explode import WRAPPED
from tests.integration.stage import ON_EPOCH, Stage

if TYPE_CHECKING:
    from hivesink.sink.commit.committed import Committed

pytestmark = [pytest.mark.spark, pytest.mark.main_path]
BY_TIME = {
    "sink.bucket.assigner": "date-time",
    "sink.bucket.time-column": "at",
    "sink.bucket.time-pattern": "yyyy-MM-dd",
    "sink.on-bad-record": "dead-letter",
}


@pytest.mark.parametrize("shuffled", [pytest.param("false", marks=pytest.mark.long), "true"])
def test_elements_are_rows_and_what_is_broken_has_its_line_and_its_place(
    stage: Stage, shuffled: str, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.create(
        columns="id BIGINT, at TIMESTAMP, line STRING",
        properties={"sink.json.explode": "$.Records", "sink.column.line.from": "file.path", **BY_TIME},
    )
    stage.put_text(b"\n".join([*WRAPPED, b'{"Records": [{"id": 7, "at": "2024-03-06T00:00:00Z"}]}', b""]))
    done: list[Committed] = []
    options = {**ON_EPOCH, "sink.shuffle-by-partition.enable": shuffled}
    stage.drain(stage.sink(options=options, on_commit=done.append))
    assert stage.ids() == [1, 2, 5, 7]
    assert stage.ids("dt = '2024-03-06'") == [7]
    (epoch,) = done
    rows = epoch.rows
    assert (rows.read, rows.written, rows.rejected, rows.skipped, rows.records) == (7, 4, 2, 1, 5)
    letters = stage.query(f"SELECT * FROM {stage.table}__rejected ORDER BY line")
    assert [(one.line, one.element, one.field) for one in letters] == [(2, None, None), (4, 1, "id")]
    assert bytes(letters[0].value) == WRAPPED[1]
    assert bytes(letters[1].value) == b'{"Records": [{"id": "six", "at": "2024-03-05T06:07:12Z"}]}'
    monkeypatch.setenv("HIVESINK_METASTORE", stage.uri)
    said = [hivesink(capsys, "where", stage.table, f"{letter.source}:{letter.line}").out for letter in letters]
    assert said == [
        f"a dead letter, {named_file(letters[0].source)}:2: the record: not JSON\n",
        f"a dead letter, {named_file(letters[1].source)}:4 element 1: id: wrong type: text into bigint\n",
    ]
    stage.verify()

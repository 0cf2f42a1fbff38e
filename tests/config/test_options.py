from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from hivesink.config.options import SinkConfig, as_texts, require_columns
from hivesink.core.table import Array, Column, Primitive, SortKey, TableName, TableSpec
from hivesink.errors import InvalidOption

INTERVAL, DELAY = "sink.rolling-policy.check-interval", "sink.registration.max-delay"
SUCCESS_FILE = "sink.partition-commit.success-file.name"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (INTERVAL, "0s"),
        (INTERVAL, "0ms"),
        (DELAY, "36501d"),
        (DELAY, f"{10**20}ms"),
        (SUCCESS_FILE, "."),
        (SUCCESS_FILE, ".."),
        (SUCCESS_FILE, "x"),
        ("sink.log-location", "logs/events"),
        ("sink.log-location", "file:logs"),
    ],
)
def test_a_value_that_can_not_work_is_refused(name: str, text: str) -> None:
    with pytest.raises(InvalidOption, match=rf"^{name} = '{text}': write a "):
        SinkConfig.parse({name: text})


def test_a_job_may_refuse_to_wait_or_wait_for_a_century() -> None:
    for text, days in (("0s", 0), ("36500d", 36_500)):
        assert SinkConfig.parse({DELAY: text})[DELAY] == timedelta(days=days)


@pytest.mark.parametrize("text", ["_SUCCESS", ".done", "..done", "_"])
def test_a_success_file_is_hidden_from_readers(text: str) -> None:
    assert SinkConfig.parse({SUCCESS_FILE: text})[SUCCESS_FILE] == text


def test_a_jobs_own_options_must_all_be_settings_and_may_be_numbers() -> None:
    properties = {"sink.task-memory": "64MB", "comment": "of another tool"}
    config = SinkConfig.parse(properties, as_texts({"sink.log.retained-epochs": 10}))
    assert (config["sink.log.retained-epochs"], config["sink.task-memory"]) == (10, 64 * 1024 * 1024)
    with pytest.raises(InvalidOption, match=r"did you mean sink\.on-bad-record") as told:
        SinkConfig.parse(properties, as_texts({"on-bad-record": "drop", "sink.task-memory": -5}))
    assert "sink.task-memory = '-5'" in str(told.value)


def test_only_what_is_not_at_its_default_is_changed() -> None:
    given = {
        "sink.rolling-policy.rollover-interval": "300s",
        "sink.partition-commit.delay": "1h",
        "sink.partition-commit.idle-timeout": "1min",
        "password": "of another tool",
    }
    config = SinkConfig.parse(given, {"sink.partition-commit.idle-timeout": "2min"})
    assert config.changed == {"sink.partition-commit.delay": "1h", "sink.partition-commit.idle-timeout": "2min"}
    texts = [config.text(name) for name in (*given, "sink.late-rows", "sink.sort-by")]
    assert texts == ["5min", "1h", "2min", None, "append", None]
    assert SinkConfig.parse({}, config.changed) == config


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("success-file", "metastore must be among them"),
        ("metastore,custom", "none of metastore, success-file, insert-event, or module:Class"),
        ("metastore,own:A,own:B", "a single module:Class"),
    ],
)
def test_commit_policies_that_are_refused(text: str, told: str) -> None:
    with pytest.raises(InvalidOption, match=told):
        SinkConfig.parse({"sink.partition-commit.policy.kind": text})


SPEC = TableSpec(
    TableName("db", "t"),
    (Column("id", Primitive.INT), Column("flag", Primitive.BOOLEAN), Column("tags", Array(Primitive.STRING))),
    (Column("dt", Primitive.STRING),),
)


@pytest.mark.parametrize("name", ["a.b.c", "", None])
def test_what_is_no_name_of_a_table(name: Any) -> None:
    with pytest.raises(InvalidOption, match=r"database\.table"):
        TableName.parse(name)


def test_sort_keys() -> None:
    keys = (SortKey("a"), SortKey("b c", descending=True), SortKey("desc"), SortKey("d"))
    assert SinkConfig.parse({"sink.sort-by": "A, b c DESC ,desc,d asc"})["sink.sort-by"] == keys


@pytest.mark.parametrize("text", ["", "a,", "a,a desc", "desc desc,desc"])
def test_sort_keys_that_are_refused(text: str) -> None:
    with pytest.raises(InvalidOption, match=r"sink\.sort-by = '.*': write columns, separated by commas, each once"):
        SinkConfig.parse({"sink.sort-by": text})


def test_columns_of_all_settings_are_checked_at_once() -> None:
    config = SinkConfig.parse(
        {
            "sink.sort-by": "flag, nope, tags desc, dt",
            "sink.timestamp-format": "gone=epoch-millis,dt=text",
        }
    )
    with pytest.raises(InvalidOption) as refused:
        require_columns(SPEC, config)
    problems = (
        "sink.sort-by names 'nope', which is no column of db.t",
        "sink.sort-by names 'tags', which is array<string>: write columns that are not nested",
        "sink.sort-by names 'dt', a partition column: it has the same value for all rows of a file",
        "sink.timestamp-format names 'gone', which is no column of db.t",
    )
    assert str(refused.value) == str(InvalidOption(problems))

from __future__ import annotations

from datetime import timedelta

import pytest

from hivesink.config.options import SinkConfig, as_texts
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

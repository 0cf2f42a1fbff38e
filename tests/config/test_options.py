from __future__ import annotations

from datetime import timedelta

import pytest

from hivesink.config.options import SinkConfig
from hivesink.errors import InvalidOption

INTERVAL, DELAY = "sink.registration.retry-interval", "sink.registration.max-delay"
SUCCESS_FILE = "sink.partition-commit.success-file.name"


@pytest.mark.parametrize(
    ("name", "text"),
    [(INTERVAL, "0s"), (INTERVAL, "0ms"), (SUCCESS_FILE, "."), (SUCCESS_FILE, ".."), (SUCCESS_FILE, "x")],
)
def test_a_value_that_can_not_work_is_refused(name: str, text: str) -> None:
    with pytest.raises(InvalidOption, match=rf"^{name} = '{text}': write a "):
        SinkConfig.parse({name: text})


@pytest.mark.parametrize("text", ["_SUCCESS", ".done", "..done", "_"])
def test_a_success_file_is_hidden_from_readers(text: str) -> None:
    assert SinkConfig.parse({SUCCESS_FILE: text})[SUCCESS_FILE] == text


def test_a_job_may_refuse_to_wait() -> None:
    assert SinkConfig.parse({DELAY: "0s"})[DELAY] == timedelta(0)

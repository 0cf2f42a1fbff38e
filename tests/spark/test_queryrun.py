"""How a run of a query names what ended it."""

from __future__ import annotations

from hivesink.errors import StoreUnavailable
from hivesink.spark.queryrun import _told


def test_the_end_of_a_query_is_told_by_its_cause() -> None:
    java = (
        "An error occurred while calling o261.collectToPython.\n: org.apache.spark.SparkException: no space\n\tat a.B"
    )
    assert _told(RuntimeError(java)) == "RuntimeError: org.apache.spark.SparkException: no space"
    assert _told(ValueError("no")) == "ValueError: no"
    assert _told(StoreUnavailable("write", "/w/t", "the disk is full")) == "could not write /w/t: the disk is full"

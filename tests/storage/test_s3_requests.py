"""What the sink asks of S3 in its normal course, counted: docs/sites.md has the figures."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from hivesink.storage.s3_checks import check
from tests.crash.ons3 import s3_site
from tests.inmemory.s3 import MemoryS3, objects_of
from tests.sink.harness import Source, events

WAITS = {"sink.rolling-policy.on-epoch": "false", "sink.rolling-policy.rollover-interval": "100h"}
ON_EPOCH = {"sink.rolling-policy.on-epoch": "true"}
A_PART = {
    "create_multipart_upload": 1,
    "upload_part": 1,
    "list_parts": 2,
    "complete_multipart_upload": 1,
    "head_object": 2,
    "get_object": 1,
}
"""Begun, sent, looked at before the manifest and before its publish, completed, judged; and its rows are read back."""


class Counting:
    """A client of S3, with answers of a thousand names as S3's, that counts requests by their method."""

    def __init__(self) -> None:
        self._inner, self.requests = MemoryS3(page=1000), Counter[str]()

    def __getattr__(self, name: str) -> Any:
        self.requests[name] += 1
        return getattr(self._inner, name)

    def get_bucket_lifecycle_configuration(self, **_: Any) -> dict[str, Any]:
        self.requests["get_bucket_lifecycle_configuration"] += 1
        return {}

    def since(self) -> Counter[str]:
        """What was asked since the last call."""
        asked, self.requests = self.requests, Counter()
        return asked


@pytest.mark.parametrize("buckets", [8, 24])
def test_an_epoch_and_a_roll(buckets: int) -> None:
    def steady(options: dict[str, str], epochs: int) -> tuple[Any, Counter[str], Counting]:
        client = Counting()
        job = s3_site(Source(events(120 * epochs, buckets)), options, client=client, tasks=1).job()
        job.committer.recover()
        for _ in range(epochs):
            client.since()
            job.step(120)
        return job, client.since(), client

    _, asked, _ = steady(ON_EPOCH, 5)
    assert asked == Counter({name: count * buckets for name, count in A_PART.items()}) + Counter(
        {"list_objects_v2": 7, "put_object": 7, "delete_object": 2}
    )
    job, asked, client = steady(WAITS, 5)
    assert asked == {"put_object": 2, "list_objects_v2": 2}
    job.committer.finish()
    # A part's, each of its slices and its new partition's two; for the estimates at the query's end, three more.
    a_bucket = sum(A_PART.values()) - A_PART["get_object"] + 5 + 2 + 3
    assert client.since().total() == 25 + a_bucket * buckets


def test_the_check_of_a_start() -> None:
    client = Counting()
    objects = objects_of(client)
    check(objects, "s3a://bucket/w/.hivesink/t", "s3a://bucket/w/t")
    assert client.since().total() == 73

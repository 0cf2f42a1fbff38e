"""What the sink asks of S3 in its normal course, counted: docs/sites.md has the figures."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from hivesink.storage.s3_checks import check
from tests.crash.site import s3_site
from tests.docs.pages import ROOT
from tests.inmemory.s3 import ANSWERED, MemoryS3, objects_of
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

    def get_bucket_lifecycle_configuration(self, **_: Any) -> Any:
        self.requests["get_bucket_lifecycle_configuration"] += 1
        return ANSWERED

    def since(self) -> Counter[str]:
        """What was asked since the last call."""
        asked, self.requests = self.requests, Counter()
        return asked

    def row(self, what: str) -> str:
        """What was asked since the last call, as a row of the table in docs/sites.md."""
        kinds = dict.fromkeys(KINDS, 0)
        for name, count in self.since().items():
            kinds[next(kind for kind, prefix in KINDS.items() if re.match(prefix, name))] += count
        return f"| {what} | {' | '.join(map(str, kinds.values()))} |"


KINDS = {"PUT, POST": "put|create|upload|complete", "LIST": "list", "GET, HEAD": "get|head", "DELETE": "delete|abort"}


def steady(options: dict[str, str], buckets: int) -> tuple[Any, Counting]:
    """A job after five epochs, and its client, which has counted the last of them."""
    client = Counting()
    job = s3_site(Source(events(600, buckets)), options, client=client, tasks=1).job()
    job.committer.recover()
    for _ in range(5):
        client.since()
        job.step(120)
    return job, client


def rows() -> Iterator[str]:
    for buckets, epoch, roll in (
        (8, "an epoch with `on-epoch`, 8 partitions", "a roll of 8 new partitions, the rows of five epochs"),
        (24, "", "the same, 24 partitions"),
    ):
        if epoch:
            yield steady(ON_EPOCH, buckets)[1].row(epoch)
        job, client = steady(WAITS, buckets)
        yield client.row("an epoch whose rows wait, whatever its partitions")
        job.committer.finish()
        yield client.row(roll)
    client = Counting()
    check(objects_of(client), "s3a://bucket/w/.hivesink/t", "s3a://bucket/w/t")
    yield client.row("a start's check")


def test_the_docs_have_what_is_asked() -> None:
    page = (ROOT / "docs/sites.md").read_text(encoding="utf-8")
    head = f"| | {' | '.join(KINDS)} |"
    table = page[page.index(head) :].partition("\n\n")[0].splitlines()[2:]
    assert sorted(table) == sorted(set(rows()))


@pytest.mark.parametrize("buckets", [8, 24])
def test_what_a_part_takes(buckets: int) -> None:
    _, client = steady(ON_EPOCH, buckets)
    assert client.since() == Counter({name: count * buckets for name, count in A_PART.items()}) + Counter(
        {"list_objects_v2": 7, "put_object": 7, "delete_object": 2}
    )

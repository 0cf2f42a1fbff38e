"""Topics that were created again, by the ids that logs and one run know."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hivesink.core.epoch import BatchId, BatchRef, Epoch, LastBatch, NextBatch
from hivesink.core.offsets import KafkaOffset
from hivesink.core.topics import KnownTopics

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hivesink.core.offsets import SourceOffset

NEW = {"t": "new"}


def at(offset: int, ids: Mapping[str, str] | None = None) -> tuple[SourceOffset, ...]:
    return (KafkaOffset.of({"t": {"0": offset}}, ids),)


LAST = LastBatch(Epoch(8), BatchRef("q", BatchId(4), at(40), at(50, {"t": "old"})))


@pytest.mark.parametrize(
    ("first", "again"),
    [
        (NextBatch("/c", "q", BatchId(5), at(50)), ("t",)),
        (NextBatch("/c", "q", BatchId(5), at(50), at(60)), ("t",)),
        # Where the log's last batch comes again, as with a rebuilt checkpoint.
        (NextBatch("/c", "q", BatchId(4), at(40), at(50)), ("t",)),
        # With `append`: planned from elsewhere, another query's, or not planned yet.
        (NextBatch("/c", "p", BatchId(0), at(50), at(60)), ()),
        (NextBatch("/c", "q", BatchId(7), at(70)), ()),
        (NextBatch("/c", None, BatchId(0)), ()),
    ],
)
def test_a_topic_that_is_read_on_has_the_id_that_the_log_knows(first: NextBatch, again: tuple[str, ...]) -> None:
    for now, found in (({"t": "old"}, ()), (NEW, again), ({}, ())):
        topics = KnownTopics()
        topics.begin(LAST, first, ())
        assert topics.learn((now,)) == found
        # A checkpoint's own ids count whatever the log knows.
        topics = KnownTopics()
        topics.begin(None, first, ({"t": "old"},))
        assert topics.learn((now,)) == (("t",) if now == NEW else ())


def test_a_topic_of_which_nothing_was_read_skips_no_record() -> None:
    topics = KnownTopics()
    last = LastBatch(Epoch(1), BatchRef("q", BatchId(0), at(0), at(0, {"t": "old"})))
    topics.begin(last, NextBatch("/c", "q", BatchId(1), at(0)), ())
    assert topics.learn((NEW,)) == ()


def test_a_run_notices_another_id_whenever_it_asks_and_keeps_those_of_topics_that_are_gone() -> None:
    topics = KnownTopics()
    both = (*at(5), KafkaOffset.of({"t": {"0": 1}, "u": {"0": 1}}))
    assert topics.lacks(both)
    # Two clusters may have a topic of the same name.
    assert topics.learn(({"t": "1"}, {"t": "2"})) == ()
    assert topics.lacks(both)
    assert topics.learn(({}, {"u": "3"})) == ()
    assert not topics.lacks(both)
    assert topics.ids == ({"t": "1"}, {"t": "2", "u": "3"})
    assert topics.learn(({"t": "2"}, {"t": "2", "u": "4"})) == ("t", "u")
    assert topics.ids == ({"t": "1"}, {"t": "2", "u": "3"})

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hivesink.core.offsets import (
    FilesOffset,
    KafkaOffset,
    NoOffset,
    OtherOffset,
    SourceOffset,
    canonical,
    chain,
    from_json,
    runs_back,
    to_json,
)

offsets: st.SearchStrategy[SourceOffset] = st.one_of(
    st.dictionaries(
        st.text(max_size=9),
        st.dictionaries(st.integers(0, 99).map(str), st.integers(0, 2**60), min_size=1),
    ).map(KafkaOffset.of),
    st.builds(FilesOffset, st.integers(), st.text(), st.integers()),
    st.builds(OtherOffset, st.text()),
    st.just(NoOffset()),
)


@given(offsets)
def test_an_offset_round_trips(offset: SourceOffset) -> None:
    assert from_json(json.loads(json.dumps(to_json(offset)))) == offset


def test_topics_keep_their_ids_in_a_form_that_older_versions_read() -> None:
    offset = KafkaOffset.of({"t": {"0": 5}, "u": {"0": 1}}, {"t": "one"})
    assert to_json(offset) == {"kafka": {"t": {"0": 5}, "u": {"0": 1}}, "ids": {"t": "one"}}
    found = from_json(json.loads(json.dumps(to_json(offset))))
    assert isinstance(found, KafkaOffset)
    assert found.ids == {"t": "one"}
    without = KafkaOffset.of(offset.topics())
    assert to_json(without) == {"kafka": offset.topics()}
    # A batch that comes again brings no ids, and is the same batch.
    assert (without, hash(without)) == (offset, hash(offset))


@given(offsets)
def test_every_offset_follows_itself(offset: SourceOffset) -> None:
    assert chain((offset,), (offset,)) is None
    assert replace(offset) == offset


@pytest.mark.parametrize("value", [{}, [], 1, "x", {"kafka": 1}, {"files": {"counter": "1"}}, {"other": 1}])
def test_anything_else_is_no_offset(value: object) -> None:
    with pytest.raises(ValueError, match="is not an offset"):
        from_json(value)


def kafka(**topics: dict[str, int]) -> KafkaOffset:
    return KafkaOffset.of(topics)


@pytest.mark.parametrize(
    ("end", "start", "words"),
    [
        (kafka(t={"0": 5}), kafka(t={"0": 5, "1": 0}), None),
        (kafka(t={"0": 5}), kafka(t={"0": 5}, u={"0": 9}), None),
        (kafka(t={"0": 5}), kafka(t={"0": 6}), "t-0: log ends at 5, batch starts at 6"),
        (kafka(t={"0": 5, "1": 1}), kafka(t={"0": 5}), "t-1: log ends at 1, batch starts at nothing"),
        (FilesOffset(3, "a", 1), FilesOffset(3, "", 0), None),
        (FilesOffset(3, "a", 2), FilesOffset(3, "b", 1), "3 (2 in this batch, digest a), batch starts at files up to"),
        (FilesOffset(3, "a", 1), FilesOffset(4, "a", 1), "file log offset 3, batch starts at 4"),
        (OtherOffset("1"), OtherOffset("2"), "log ends at 1, batch starts at 2"),
        (NoOffset(), kafka(t={"0": 5}), "log ends at the source's beginning"),
    ],
)
def test_how_batches_follow(end: SourceOffset, start: SourceOffset, words: str | None) -> None:
    found = chain((end,), (start,))
    assert found is None if words is None else words in (found or "")


@pytest.mark.parametrize(
    ("start", "end", "words"),
    [
        (kafka(t={"0": 5}), kafka(t={"0": 5, "1": 3}, u={"0": 9}), ()),
        (kafka(t={"0": 20}), kafka(t={"0": 5}), ("t-0: starts at 20, ends at 5",)),
        (kafka(t={"0": 5}, u={"0": 0, "1": 2}), kafka(t={"0": 6}, u={"1": 2}), ("u-0: starts at 0, ends at nothing",)),
        (NoOffset(), kafka(t={"0": 5}), ()),
        (FilesOffset(3, "a", 1), FilesOffset(2, "a", 1), ()),
    ],
)
def test_a_batch_that_runs_back(start: SourceOffset, end: SourceOffset, words: tuple[str, ...]) -> None:
    assert runs_back((NoOffset(), start), (NoOffset(), end)) == words


def test_another_number_of_sources_does_not_follow() -> None:
    assert chain((NoOffset(),), ()) == "the log knows 1 sources, the query has 0"


def test_canonical_text() -> None:
    assert canonical('{"b": 1, "a": [1, 2]}') == canonical('{"a":[1,2],"b":1}')
    assert canonical("not json") == "not json"

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
    all_known,
    canonical,
    chain,
    from_json,
    remade,
    runs_back,
    to_json,
    topic_ids,
    with_ids,
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
    assert topic_ids((found,)) == ({"t": "one"},)
    without = KafkaOffset.of(offset.topics())
    assert to_json(without) == {"kafka": offset.topics()}
    # A batch that comes again brings no ids, and is the same batch.
    assert (without, hash(without)) == (offset, hash(offset))


@pytest.mark.parametrize(
    ("before", "after", "want"),
    [
        ({"t": "one"}, {"t": "one"}, ()),
        ({"t": "one", "u": "three"}, {"t": "two", "u": "three"}, ("t",)),
        ({}, {"t": "two"}, ()),
        ({"t": "one"}, {}, ()),
    ],
)
def test_topics_that_were_made_again(before: dict[str, str], after: dict[str, str], want: tuple[str, ...]) -> None:
    # Of two sources, each knows its own topics.
    assert remade(({"t": "other"}, before), ({}, after)) == want
    assert remade((), (after,)) == ()


def test_what_is_known_of_topics_goes_with_them() -> None:
    ends = (NoOffset(), KafkaOffset.of({"t": {"0": 5}, "u": {"0": 1}}))
    assert not all_known(ends)
    named = with_ids(ends, ({}, {"t": "one", "gone": "x"}), ({}, {"u": "two"}))
    assert topic_ids(named) == ({}, {"t": "one", "u": "two"})
    assert all_known(named)
    assert topic_ids(with_ids(ends, ())) == ({}, {})


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

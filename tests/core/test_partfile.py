from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hivesink.core.partfile import (
    Finished,
    InProgress,
    PartName,
    Pending,
    PublishStep,
    Stage,
    decide_publish,
    parse_staged,
)
from hivesink.errors import HiveSinkError, PartLost, TargetTaken

hexes = st.text("0123456789abcdef", min_size=8, max_size=32)
numbers = st.integers(0, 10**12)
suffixes = st.from_regex(r"(\.[A-Za-z0-9_]{1,6}){0,4}", fullmatch=True) | st.sampled_from(["", ".a.b", ".pending"])


NAMES = st.builds(PartName, hexes, st.integers(1, 10**12), hexes, numbers, numbers, numbers, suffixes)


@given(NAMES, st.sampled_from(Stage))
def test_a_name_round_trips(name: PartName, stage: Stage) -> None:
    assert PartName.parse(str(name)) == name
    assert parse_staged(name.staged(stage)) == (name, stage)
    assert PartName.parse(name.staged(stage)) is None


@given(
    st.text()
    | st.lists(hexes | st.sampled_from(["part", "1", "01", "0", "aaaabbbbt0", "0.a.b", "", "ü", "٣"])).map("-".join)
)
def test_what_parses_formats_back_to_itself(text: str) -> None:
    name = PartName.parse(text)
    assert name is None or str(name) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "part-0a1b2c3d-0-aaaabbbbt0-0-0.parquet",
        "part-0a1b2c3d-01-aaaabbbbt0-0-0.parquet",
        "part-0A1B2C3D-1-aaaabbbbt0-0-0.parquet",
        "part-0a1b2c3d-1-aaaabbbb-0-0.parquet",
        "part-0a1b2c3d-1-aaaabbbbt0-0-0.parquet\n",
        "_part-0a1b2c3d-1-aaaabbbbt0-0-0.parquet",
        "other-0a1b2c3d-1-aaaabbbbt0-0-0.parquet",
        "part-00000-0a1b2c3d-c000.snappy.parquet",
    ],
)
def test_other_names_are_nobodys(text: str) -> None:
    assert PartName.parse(text) is None
    assert parse_staged(f".{text}.pending") is None


PART = Pending("/t/.p.pending", "/t/p", 5)
LENGTHS = (None, 0, 4, 5)


def expected(staged: int | None, target: int | None, *, one_file: bool) -> PublishStep | type[HiveSinkError]:
    table: dict[tuple[bool, bool], PublishStep | type[HiveSinkError]] = {
        (False, False): PartLost,
        (True, False): PublishStep.RENAME if staged == 5 else PartLost,
        (False, True): PublishStep.DONE if target == 5 else PartLost,
        (True, True): PublishStep.UNLINK if one_file and target == 5 else TargetTaken,
    }
    return table[staged is not None, target is not None]


@pytest.mark.parametrize(("staged", "target", "one_file"), list(itertools.product(LENGTHS, LENGTHS, (False, True))))
def test_every_pair_of_lengths(staged: int | None, target: int | None, one_file: bool) -> None:
    want = expected(staged, target, one_file=one_file)
    if isinstance(want, PublishStep):
        assert decide_publish(PART, staged, target, one_file=one_file) is want
    else:
        with pytest.raises(want):
            decide_publish(PART, staged, target, one_file=one_file)


def test_a_part_goes_through_its_states_in_one_folder() -> None:
    name = PartName("0a1b2c3d", 1, "aaaabbbb", 0, 2, 3, suffix=".snappy.parquet")
    begun = InProgress("/t/dt=1", name)
    assert begun.staged == "/t/dt=1/.part-0a1b2c3d-1-aaaabbbbt0-2-3.snappy.parquet.inprogress"
    pending = begun.close(7)
    assert pending.staged == "/t/dt=1/.part-0a1b2c3d-1-aaaabbbbt0-2-3.snappy.parquet.pending"
    assert pending.finish() == Finished("/t/dt=1/part-0a1b2c3d-1-aaaabbbbt0-2-3.snappy.parquet", 7)

from __future__ import annotations

import itertools

import pytest

from hivesink.core.partfile import Finished, InProgress, Pending, Publish, decide_publish
from hivesink.core.partname import PartName
from hivesink.errors import HiveSinkError, LengthMismatch, PartLost, TargetTaken

PART = Pending("/t/.p.pending", "/t/p", 5)
LENGTHS = (None, 0, 4, 5)


def expected(staged: int | None, target: int | None, *, one_file: bool) -> Publish | type[HiveSinkError]:
    table: dict[tuple[bool, bool], Publish | type[HiveSinkError]] = {
        (False, False): PartLost,
        (True, False): Publish.RENAME if staged == 5 else LengthMismatch,
        (False, True): Publish.DONE if target == 5 else LengthMismatch,
        (True, True): Publish.UNLINK if one_file and target == 5 else TargetTaken,
    }
    return table[staged is not None, target is not None]


@pytest.mark.parametrize(("staged", "target", "one_file"), list(itertools.product(LENGTHS, LENGTHS, (False, True))))
def test_every_pair_of_lengths(staged: int | None, target: int | None, one_file: bool) -> None:
    want = expected(staged, target, one_file=one_file)
    if isinstance(want, Publish):
        assert decide_publish(PART, staged, target, one_file=one_file) is want
    else:
        with pytest.raises(want):
            decide_publish(PART, staged, target, one_file=one_file)


def test_a_part_goes_through_its_states_in_one_folder() -> None:
    name = PartName("0a1b2c3d", 1, "aaaabbbb", 0, 2, 3)
    begun = InProgress("/t/dt=1", name)
    assert begun.staged == "/t/dt=1/.part-0a1b2c3d-1-aaaabbbbt0-2-3.snappy.parquet.inprogress"
    pending = begun.close(7)
    assert pending.staged == "/t/dt=1/.part-0a1b2c3d-1-aaaabbbbt0-2-3.snappy.parquet.pending"
    assert pending.finish() == Finished("/t/dt=1/part-0a1b2c3d-1-aaaabbbbt0-2-3.snappy.parquet", 7)

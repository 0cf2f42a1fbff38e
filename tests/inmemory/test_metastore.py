"""The hooks by which tests stand for a metastore's other users."""

from __future__ import annotations

from pathlib import Path

import pytest

from hivesink.core.partition import Estimate
from hivesink.core.table import Column, Primitive
from hivesink.errors import MetastoreUnreachable, RegistrationUnknown, TableExists
from tests.crash.faults import Kill, Mode, Plan
from tests.crash.faulty_registrar import FaultyMetastore
from tests.inmemory.metastore import MemoryMetastore
from tests.metastore.live import declared, dt, new

SPEC = declared(Path("/w"), Column("dt", Primitive.STRING))


def test_down_and_up() -> None:
    metastore = MemoryMetastore(SPEC)
    live = metastore.table(SPEC.name)
    metastore.add(live, [new(live, dt(1))])
    metastore.go_down()
    for call in (
        lambda: metastore.table(SPEC.name),
        lambda: metastore.lookup(live, [dt(1)]),
        lambda: metastore.add(live, [new(live, dt(2))]),
        lambda: metastore.clear_accurate(live, [dt(1)]),
        lambda: metastore.estimate(live, [Estimate(dt(1), 1, 1, 1, 0)]),
    ):
        with pytest.raises(MetastoreUnreachable):
            call()
    metastore.come_up()
    assert metastore.partitions(SPEC.name) == {dt(1): f"{live.location}/{dt(1)}"}


def test_a_table_is_created_once() -> None:
    with pytest.raises(TableExists):
        MemoryMetastore(SPEC, SPEC)


@pytest.mark.parametrize(
    ("mode", "error", "at_once", "in_the_end"),
    [
        (Mode.BEFORE, Kill, [], []),
        (Mode.AFTER, Kill, [dt(1), dt(2)], [dt(1), dt(2)]),
        (Mode.TORN, Kill, [dt(1)], [dt(1)]),
        (Mode.LOST, RegistrationUnknown, [dt(1), dt(2)], [dt(1), dt(2)]),
        (Mode.LATE, RegistrationUnknown, [], [dt(1), dt(2)]),
    ],
)
def test_a_faulty_change(mode: Mode, error: type[BaseException], at_once: list[str], in_the_end: list[str]) -> None:
    metastore = MemoryMetastore(SPEC)
    faulty = FaultyMetastore(metastore, Plan(2, mode))
    live = faulty.table(SPEC.name)
    with pytest.raises(error):
        faulty.add(live, [new(live, dt(1)), new(live, dt(2))])
    assert list(metastore.partitions(SPEC.name)) == at_once
    faulty.apply_late()
    assert list(metastore.partitions(SPEC.name)) == in_the_end
    assert [call.name for call in faulty.calls] == ["table", "add"]
    assert faulty.dead is (error is Kill)


def test_a_dead_one_stays_dead_and_a_lost_answer_does_not_matter_for_long() -> None:
    metastore = MemoryMetastore(SPEC)
    faulty = FaultyMetastore(metastore, Plan(1, Mode.BEFORE))
    for _ in range(2):
        with pytest.raises(Kill):
            faulty.table(SPEC.name)
    unlucky = FaultyMetastore(metastore, Plan(1, Mode.LOST))
    with pytest.raises(MetastoreUnreachable):
        unlucky.table(SPEC.name)
    assert unlucky.table(SPEC.name).spec.name == SPEC.name

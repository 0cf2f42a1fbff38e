"""A call that is refused for the sake of one partition; real metastores that do so are in `contracts`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hivesink.errors import MetastoreUnreachable, RegistrationFailed
from hivesink.metastore.one_by_one import change_all

if TYPE_CHECKING:
    from collections.abc import Sequence


class Picky:
    """Refuses every call with one of `bad` in it, and after `most` calls doesn't answer questions any more."""

    def __init__(self, *bad: int, most: int = 1000) -> None:
        self.bad = bad
        self.most = most
        self.done: list[int] = []
        self.calls = 0

    def change(self, keys: Sequence[int]) -> None:
        self.calls += 1
        at_fault = [key for key in keys if key in self.bad]
        if at_fault:
            table, action = "db.t", f"register {len(keys)} partitions"
            raise RegistrationFailed(table, action, f"not {at_fault[0] % 2}")
        self.done += keys

    def ask(self) -> None:
        if self.calls >= self.most:
            where, why = "memory", "it is tired"
            raise MetastoreUnreachable(where, why)

    def run(self, number: int) -> None:
        names = {key: f"dt={key}" for key in range(number)}
        change_all(names, self.change, table="db.t", action="register", address="here", parallelism=10, ask=self.ask)


def test_nothing_and_nothing_refused() -> None:
    picky = Picky()
    picky.run(0)
    assert picky.calls == 0
    picky.run(25)
    assert (picky.done, picky.calls) == ([*range(25)], 3)


def test_all_others_are_changed_and_one_error_names_those_at_fault() -> None:
    picky = Picky(3, 14, 15, 19)
    with pytest.raises(RegistrationFailed) as told:
        picky.run(30)
    assert sorted(picky.done) == [key for key in range(30) if key not in picky.bad]
    assert picky.calls == 3 + 20
    assert told.value.partitions == ("dt=3", "dt=14", "dt=15", "dt=19")
    assert str(told.value) == (
        "the metastore at here couldn't register partitions 'dt=3', 'dt=14', 'dt=15' and 1 more of db.t: "
        "not 1; not 0; fix this and retry"
    )


def test_a_metastore_that_can_not_answer_is_not_tried_with_each() -> None:
    picky = Picky(*range(10), most=4)
    with pytest.raises(MetastoreUnreachable):
        picky.run(10)
    assert picky.calls == 4


def test_a_long_name_is_cut() -> None:
    told = RegistrationFailed("db.t", "register", "too long", partitions=("a" * 900,))
    assert f"partition '{'a' * 100}…' of db.t" in str(told)
    assert told.partitions == ("a" * 900,)

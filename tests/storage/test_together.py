from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING

import pytest

from hivesink.storage.together import together

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize("at_a_time", [1, 3, 16])
def test_results_come_in_the_order_of_the_calls(at_a_time: int) -> None:
    assert together([partial(int, str(n)) for n in range(20)], at_a_time) == list(range(20))
    assert together([], at_a_time) == []


def test_calls_wait_for_each_other_only_where_one_at_a_time_is_asked_for() -> None:
    meet = threading.Barrier(4, timeout=60)
    assert sorted(together([meet.wait] * 4, 4)) == [0, 1, 2, 3]


@pytest.mark.parametrize("at_a_time", [1, 4])
def test_the_first_error_in_order_is_raised_when_all_that_were_begun_have_ended(at_a_time: int) -> None:
    begun: list[int] = []
    ended: list[int] = []
    never = threading.Event()

    def call(number: int) -> Callable[[], None]:
        def run() -> None:
            begun.append(number)
            if number > 2:
                never.wait(0.2)
            ended.append(number)
            if number in {1, 2}:
                raise ValueError(number)

        return run

    with pytest.raises(ValueError, match=r"^1$"):
        together([call(number) for number in range(1000)], at_a_time)
    assert sorted(ended) == sorted(begun)
    assert len(begun) < 100

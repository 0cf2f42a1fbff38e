from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING

import pytest

from hivesink.storage.parallel import run_parallel

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize("parallelism", [1, 3, 16])
def test_results_come_in_the_order_of_the_calls(parallelism: int) -> None:
    assert run_parallel([partial(int, str(n)) for n in range(20)], parallelism) == list(range(20))
    assert run_parallel([], parallelism) == []


def test_calls_wait_for_each_other_only_where_one_at_a_time_is_asked_for() -> None:
    meet = threading.Barrier(4, timeout=60)
    assert sorted(run_parallel([meet.wait] * 4, 4)) == [0, 1, 2, 3]


@pytest.mark.parametrize("parallelism", [1, 4])
def test_the_first_error_in_order_is_raised_when_all_that_were_begun_have_ended(parallelism: int) -> None:
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
        run_parallel([call(number) for number in range(1000)], parallelism)
    assert sorted(ended) == sorted(begun)
    assert len(begun) < 100

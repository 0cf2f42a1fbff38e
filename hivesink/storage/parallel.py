"""Several calls of a store at a time, where it is far away: each then waits for a server, not for a core."""

from __future__ import annotations

from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_T = TypeVar("_T")


def run_parallel(calls: Iterable[Callable[[], _T]], parallelism: int) -> list[_T]:
    """The results of independent `calls`, in their order, or the first error in that order.

    `at_a_time` 1 means one after the other, in this thread. None is begun after one that failed: with a server
    that is away each would wait its whole time for it. All that were begun have ended.
    """
    waiting = list(calls)
    if parallelism <= 1 or len(waiting) <= 1:
        return [call() for call in waiting]
    with ThreadPoolExecutor(min(parallelism, len(waiting)), thread_name_prefix="hivesink-store") as pool:
        calls_made = [pool.submit(call) for call in waiting]
        wait(calls_made, return_when=FIRST_EXCEPTION)
        # Calls begin in their order: what is cancelled comes after the one that failed.
        pool.shutdown(cancel_futures=True)
    return [one.result() for one in calls_made]

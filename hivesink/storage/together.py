"""Several calls of a store at a time, where it is far away: each then waits for a server, not for a core."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_T = TypeVar("_T")


def together(calls: Iterable[Callable[[], _T]], at_a_time: int) -> list[_T]:
    """The results of independent `calls`, in their order, or the first error in that order.

    `at_a_time` 1 means one after the other, in this thread, and none after one that fails. Otherwise all are
    made, and have ended, whatever some of them raise.
    """
    waiting = list(calls)
    if at_a_time <= 1 or len(waiting) <= 1:
        return [call() for call in waiting]
    with ThreadPoolExecutor(min(at_a_time, len(waiting)), thread_name_prefix="hivesink-store") as pool:
        begun = [pool.submit(call) for call in waiting]
    return [one.result() for one in begun]

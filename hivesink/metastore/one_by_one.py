"""Many partitions in one call: a metastore refuses all of it for the sake of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from hivesink.errors import RegistrationFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

Key = TypeVar("Key")

_MOST_REASONS = 3


def change_all(
    partitions: Mapping[Key, str],
    change: Callable[[Sequence[Key]], None],
    *,
    table: str,
    action: str,
    address: str,
    parallelism: int,
    ask: Callable[[], object],
) -> None:
    """Call `change` with the keys of `partitions` (their names by key), and where that is refused with each alone.

    `ask` puts a question to the metastore: one that can't answer refuses everything, and isn't tried with each.
    Raises RegistrationFailed once all others are changed; it names every partition that was refused.
    """
    keys = list(partitions)
    refused: dict[Key, RegistrationFailed] = {}
    for start in range(0, len(keys), parallelism):
        refused.update(_refused(keys[start : start + parallelism], change, ask))
    if refused:
        first, *_ = refused.values()
        reasons = list(dict.fromkeys(error.reason for error in refused.values()))
        at_fault = tuple(partitions[key] for key in refused)
        raise RegistrationFailed(table, action, "; ".join(reasons[:_MOST_REASONS]), address, at_fault) from first


def _refused(
    keys: Sequence[Key], change: Callable[[Sequence[Key]], None], ask: Callable[[], object]
) -> Iterator[tuple[Key, RegistrationFailed]]:
    try:
        change(keys)
    except RegistrationFailed as error:
        ask()
        if len(keys) == 1:
            yield keys[0], error
            return
        for key in keys:
            yield from _refused([key], change, ask)

"""What tries that lost have left, and which of it may go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hivesink.core.actions import Action, Discard, Forget
from hivesink.core.epoch import Epoch
from hivesink.core.partfile import parse_staged

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hivesink.core.lifecycle import History
    from hivesink.core.log import Touched

LINGER = 16
"""Epochs for which a loser's touched-list stays: a file that it asked for may yet be created, late."""

Winner = tuple[str, int]
"""An attempt, and a task attempt of it whose report was committed."""


@dataclass(frozen=True, slots=True)
class Tracks:
    """What tasks have left word of: touched-lists, the folders that were followed, and the staged files in them.

    A winner's list points at no leftovers. During a query, which says who won, only tries at the head itself are
    news; recovery looks wherever a list points.
    """

    lists: tuple[Touched, ...] = ()
    folders: tuple[str, ...] = ()
    staged: tuple[str, ...] = ()
    winners: frozenset[Winner] = frozenset()


def newest(touched: Iterable[Touched]) -> Epoch:
    """The highest epoch that any task has begun to write."""
    return max((found.epoch for found in touched), default=Epoch(0))


def followed(tracks: Tracks, head: Epoch) -> tuple[Touched, ...]:
    """The touched-lists whose folders are to be looked into."""
    losers = _losers(tracks, head)
    return tuple(found for found in losers if not tracks.winners or found.epoch == head or found.epoch <= head - LINGER)


def _losers(tracks: Tracks, head: Epoch) -> list[Touched]:
    return [
        found
        for found in tracks.lists
        if found.epoch <= head and (found.attempt, found.task_attempt) not in tracks.winners
    ]


def sweep(history: History, tracks: Tracks) -> Iterator[Action]:
    """Discard what nothing can commit any more, and forget the lists that lead to nothing."""
    head = history.epoch
    gone = leftovers(tracks.staged, history.identity.uid, history)
    if tracks.folders:
        yield Discard(tuple(gone), tracks.folders)
    losers = set(_losers(tracks, head))
    old = [found for found in tracks.lists if found.epoch <= head]
    forgotten = tuple(found for found in old if found not in losers or found.epoch <= head - LINGER)
    if forgotten:
        yield Forget(forgotten)


def leftovers(staged: Iterable[str], uid: str, history: History) -> list[str]:
    """Which of these staged files of writer `uid` nothing can commit any more.

    One of epoch e may go once a manifest at or above e exists and no decided part waits under its name.
    """
    # By name, of which there is one: one folder may have two spellings (a NameNode's, and its nameservice's).
    kept = {part.staged.rpartition("/")[2] for part in history.waiting()}
    found = []
    for path in staged:
        name = path.rpartition("/")[2]
        parsed = parse_staged(name)
        if parsed and parsed[0].uid == uid and parsed[0].epoch <= history.epoch and name not in kept:
            found.append(path)
    return found

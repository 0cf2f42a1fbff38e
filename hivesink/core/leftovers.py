"""Leftovers: the files of tries that lost, and which of them may go."""

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
"""Epochs for which a loser's touched-list stays: a file that the loser asked for may yet be created, late."""

Winner = tuple[str, int]
"""An attempt, and a task attempt of it whose report was committed."""


@dataclass(frozen=True, slots=True)
class Tracks:
    """What tasks have recorded: touched-lists, the folders of these that were looked into, their staged files.

    A winner's list leads to no leftovers. A running query knows its `winners`, and only tries at the head itself are
    news to it; recovery looks into all folders of all lists.
    """

    lists: tuple[Touched, ...] = ()
    folders: tuple[str, ...] = ()
    staged: tuple[str, ...] = ()
    winners: frozenset[Winner] = frozenset()


def newest(touched: Iterable[Touched]) -> Epoch:
    """The highest epoch that any task has begun to write."""
    return max((one.epoch for one in touched), default=Epoch(0))


def followed(tracks: Tracks, head: Epoch) -> tuple[Touched, ...]:
    """The touched-lists whose folders must be looked into."""
    losers = _losers(tracks, head)
    return tuple(one for one in losers if not tracks.winners or one.epoch == head or one.epoch <= head - LINGER)


def _losers(tracks: Tracks, head: Epoch) -> list[Touched]:
    return [one for one in tracks.lists if one.epoch <= head and (one.attempt, one.task_attempt) not in tracks.winners]


def sweep(history: History, tracks: Tracks) -> Iterator[Action]:
    """Discard what nothing can commit any more, and forget the lists that no longer lead to a file."""
    head = history.epoch
    if tracks.folders:
        yield Discard(tuple(leftovers(tracks.staged, history.identity.uid, history)), tracks.folders)
    losers = set(_losers(tracks, head))
    old = (one for one in tracks.lists if one.epoch <= head)
    forgotten = tuple(one for one in old if one not in losers or one.epoch <= head - LINGER)
    if forgotten:
        yield Forget(forgotten)


def leftovers(staged: Iterable[str], uid: str, history: History) -> list[str]:
    """Which of these staged files of writer `uid` nothing can commit any more.

    A file of epoch e may go once a manifest at or above e exists, unless a decided part waits under its name.
    """
    # By name, which is unique: one folder may have two spellings (a NameNode's, and its nameservice's).
    kept = {part.staged.rpartition("/")[2] for part in history.waiting()}
    gone = []
    for path in staged:
        name = path.rpartition("/")[2]
        parsed = parse_staged(name)
        if parsed and parsed[0].uid == uid and parsed[0].epoch <= history.epoch and name not in kept:
            gone.append(path)
    return gone

"""What a writer's log holds beside its manifests: marks, touched-lists, and one listing of it all."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hivesink.core.epoch import Epoch


class Mark(Enum):
    """What is known to be done about a decided epoch; the value is the ending of the mark's name."""

    PUBLISHED = "published"
    REGISTERED = "registered"


@dataclass(frozen=True, slots=True, order=True)
class Touched:
    """A task attempt's word that it is about to create files of `epoch` in `folders` (empty in a listing)."""

    epoch: Epoch
    attempt: str
    task_attempt: int
    task: int
    chunk: int
    folders: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LogView:
    """What a log holds, by one listing. `manifests` are those above the floor, sorted."""

    floor: Epoch
    manifests: tuple[Epoch, ...]
    marks: Mapping[Epoch, frozenset[Mark]]

    @property
    def head(self) -> Epoch:
        return self.manifests[-1] if self.manifests else self.floor

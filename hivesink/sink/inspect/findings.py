"""What `verify` finds. An error makes a reader's answer differ from the log; the rest are notes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hivesink.core.epoch import Epoch


class Level(Enum):
    """How bad a finding is: only errors make `verify` fail."""

    ERROR = "error"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that isn't as the log says; `epoch` is None if it isn't about a single epoch."""

    level: Level
    epoch: Epoch | None
    text: str


error, note = partial(Finding, Level.ERROR), partial(Finding, Level.NOTE)

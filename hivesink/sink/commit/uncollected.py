"""A pause of Python's garbage collector, which would look at every part of a large epoch several times."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def uncollected() -> Iterator[None]:
    """For work that makes objects for each part, and hardly any cycles. Never around a user's own code."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        # Where two threads overlap, only the one that came first enables it again.
        if was_enabled:
            gc.enable()

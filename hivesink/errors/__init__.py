"""What can go wrong, as types, each with a line that says what, where and what to do.

`HiveSinkError.retryable` tells a supervisor (`hivesink run --restart`) whether the same command may succeed
later by itself, or needs a person.
"""

from __future__ import annotations

from hivesink.errors.base import *
from hivesink.errors.history import *
from hivesink.errors.machines import *

__all__ = [name for name, kind in globals().items() if getattr(kind, "__module__", "").startswith(f"{__name__}.")]

# Traces, and the driver that reads an error of a task, name errors by where they are imported from.
for _name in __all__:
    globals()[_name].__module__ = __name__

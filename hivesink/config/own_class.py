"""Objects of the user's own classes, which options name as `module:Class`."""

from __future__ import annotations

import importlib
from functools import wraps
from typing import TYPE_CHECKING, Any

from hivesink.errors import HiveSinkError, OwnClassMissing, OwnCodeFailed, raised

if TYPE_CHECKING:
    from hivesink.config.options import SinkConfig
    from hivesink.core.table import TableSpec


def own_object(option: str, spec: TableSpec, config: SinkConfig) -> Any:
    """What the class that `option` names makes of the table's spec and settings. Raises OwnClassMissing.

    Its methods raise OwnCodeFailed for what they raise themselves, and for what would end the process.
    """
    module, _, name = config[option].partition(":")
    try:
        made = getattr(importlib.import_module(module), name)(spec, config)
    except (Exception, SystemExit) as error:
        hint = "write module:Class, and put the module beside the job, or on PYTHONPATH; it gets (spec, config)"
        what = error if isinstance(error, (ImportError, AttributeError, TypeError)) else raised(error)
        raise OwnClassMissing((f"{option} = {config[option]!r}: {what}; {hint}",)) from error
    return _Guarded(made, f"{option} = {config[option]!r}")


class _Guarded:
    """A user's object whose errors say whose they are."""

    def __init__(self, made: Any, whose: str) -> None:
        self._made = made
        self._whose = whose

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._made, name, None)
        if method is None:
            raise OwnClassMissing((f"{self._whose}: it has no method {name}",))

        @wraps(method)
        def guarded(*arguments: Any) -> Any:
            try:
                return method(*arguments)
            except HiveSinkError:
                raise
            except (Exception, SystemExit) as error:
                raise OwnCodeFailed(self._whose, name, error) from error

        return guarded

"""Objects of the user's own classes, which options name as `module:Class`."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from hivesink.errors import OwnClassMissing

if TYPE_CHECKING:
    from hivesink.config.options import SinkConfig
    from hivesink.core.table import TableSpec


def own_object(option: str, spec: TableSpec, config: SinkConfig) -> Any:
    """What the class that `option` names makes of the table's spec and settings. Raises OwnClassMissing."""
    module, _, name = config[option].partition(":")
    try:
        return getattr(importlib.import_module(module), name)(spec, config)
    except (ImportError, AttributeError, TypeError) as error:
        hint = "write module:Class, and put the module beside the job, or on PYTHONPATH; it gets (spec, config)"
        raise OwnClassMissing((f"{option} = {config[option]!r}: {error}; {hint}",)) from error

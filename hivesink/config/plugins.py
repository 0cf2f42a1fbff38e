"""Objects of the user's own classes, which options name as `module:Class`."""

from __future__ import annotations

import importlib
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from hivesink.config.options import SinkConfig
from hivesink.core.table import TableSpec
from hivesink.errors import HiveSinkError, InvalidOption, OwnCodeFailed, raised

_MADE_IN_TASKS = ("sink.bucket.assigner", "partition.time-extractor.class")


def load_plugin(option: str, plugin: str, method: str, spec: TableSpec, config: SinkConfig) -> Any:
    """An object with the `method` of an object of the class `plugin`, which `option` names.

    That is made of the table's spec and settings. Raises InvalidOption, also for a class without `method`, which
    raises OwnCodeFailed for what it raises itself, and for what would end the process.
    """
    module, _, name = plugin.partition(":")
    whose = f"{option} = {plugin!r}"
    try:
        made = getattr(importlib.import_module(module), name)(spec, config)
    except (Exception, SystemExit) as error:
        hint = "write module:Class, and put the module beside the job, or on PYTHONPATH; it gets (spec, config)"
        what = str(error) if isinstance(error, (ImportError, AttributeError, TypeError)) else raised(error)
        if isinstance(error, ModuleNotFoundError) and module.startswith(error.name or "?"):
            what += f"; looked for in {', '.join(_folders())}"
        raise InvalidOption((f"{whose}: {what}; {hint}",)) from error
    call = getattr(made, method, None)
    if not callable(call):
        raise InvalidOption((f"{whose}: it has no method {method}; write it, as in docs/python.md",))

    def guarded(*arguments: Any) -> Any:
        try:
            return call(*arguments)
        except HiveSinkError:
            raise
        except (Exception, SystemExit) as error:
            raise OwnCodeFailed(whose, method, error) from error

    return SimpleNamespace(**{method: guarded})


def modules_for_tasks(config: SinkConfig) -> dict[str, bytes]:
    """The modules of own classes that tasks make, and what was imported from the same folders: a zip's entries."""
    named = {text.partition(":")[0] for option in _MADE_IN_TASKS if ":" in (text := str(config[option]))}
    if not named:
        return {}
    places = {name: place for name in list(sys.modules) if (place := _place(name))}
    roots = {places[name][0] for name in named & places.keys() if str(places[name][0]) in _folders()}
    entries: dict[str, bytes] = {}
    for root, source in places.values():
        if root in roots:
            path = source.relative_to(str(root))
            entries[path.as_posix()] = source.read_bytes()
            # From a zip, a package without an __init__.py can be imported only if its folder has an entry.
            entries |= {f"{folder.as_posix()}/": b"" for folder in path.parents[:-1]}
    return entries


def _place(name: str) -> tuple[Path, Path] | None:
    """The folder in which the module `name` was found, and its file; None if not in a folder, or of the sink's own."""
    # Not by getattr: modules that load themselves late would do so now.
    source = Path(getattr(sys.modules[name], "__dict__", {}).get("__file__") or "").resolve()
    names, path = name.split("."), source.parent if source.name == "__init__.py" else source.with_suffix("")
    is_named_so = source.suffix == ".py" and source.is_file() and list(path.parts[-len(names) :]) == names
    return (path.parents[len(names) - 1], source) if is_named_so and names[0] != "hivesink" else None


def _folders() -> list[str]:
    """Where modules are looked for, but for Python's own folders and those of installed packages."""
    installed = {str(Path(path).resolve()) for path in sysconfig.get_paths().values()}
    folders = dict.fromkeys(str(Path(entry).resolve()) for entry in sys.path if not entry.endswith(".zip"))
    return [folder for folder in folders if folder not in installed and "/lib-dynload" not in folder]


@contextmanager
def also_in(folder: Path) -> Iterator[None]:
    """Look for modules of users in `folder`, too, after all other places."""
    before = list(sys.path)
    sys.path.append(str(folder.resolve()))
    try:
        yield
    finally:
        sys.path[:] = before

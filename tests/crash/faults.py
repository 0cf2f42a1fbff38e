"""A file system that fails at a chosen call, in every way that a remote one can. See `Mode`."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO

import pytest

from hivesink.errors import HiveSinkError, OutcomeUnknown

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from _pytest.mark import ParameterSet

    from hivesink.storage.fs import Entry, FileSystem


class Kill(BaseException):
    """The process dies: no handler of the sink's own errors may eat it."""


def moments(last: int, every: int, skip: int = 1) -> list[ParameterSet]:
    """From 1 to `last` by `skip`, as parameters: every `every`th for each run of the suite, the rest for long ones."""
    numbers = range(1, last + 1, skip)
    return [pytest.param(n, marks=pytest.mark.long if at % every else ()) for at, n in enumerate(numbers)]


class Mode(Enum):
    """What happens at the chosen call. Reads know only the first two: there is nothing to apply."""

    BEFORE = "dies before it"
    AFTER = "dies after it"
    LOST = "applied, but the reply is lost"
    LATE = "applied late: no reply, and the effect comes when `apply_late` is called"
    TORN = "dies in it: half a file is written, or both names are there"


@dataclass(frozen=True, slots=True)
class Call:
    """One primitive, numbered from 1 in the order of calls."""

    number: int
    name: str
    path: str
    changes: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """Fail at call number `step` in `mode`, once."""

    step: int
    mode: Mode


class Faulty:
    """`calls` records each call that was begun, numbered from 1.

    Once killed it stays dead: every later call raises Kill too, as a dead process makes none.
    """

    def __init__(self, plan: Plan | None) -> None:
        self.plan = plan
        self.calls: list[Call] = []
        self.dead = False
        self._late: list[Callable[[], Any]] = []
        self._lock = threading.Lock()

    def apply_late(self) -> int:
        """Let what was held back take place now, or fail unheard. Returns how many calls were held back."""
        held, self._late = self._late, []
        for effect in held:
            with contextlib.suppress(OSError, HiveSinkError, ValueError):
                effect()
        return len(held)

    def _begin(self, name: str, path: str, *, changes: bool) -> Mode | None:
        with self._lock:
            if self.dead:
                raise Kill
            self.calls.append(Call(len(self.calls) + 1, name, path, changes))
            return self.plan.mode if self.plan and self.plan.step == len(self.calls) else None

    def _die(self) -> None:
        self.dead = True
        raise Kill


class FaultyFileSystem(Faulty):
    """Implements `storage.fs.FileSystem` over `inner`."""

    def __init__(self, inner: FileSystem, plan: Plan | None = None) -> None:
        super().__init__(plan)
        self.inner = inner
        self._streams: list[BinaryIO] = []

    def release(self) -> None:
        """Close the handles that a killed run left open, without writing what is still in their buffers."""
        for stream in self._streams:
            with contextlib.suppress(OSError, HiveSinkError, ValueError):
                getattr(stream, "raw", stream).close()

    @property
    def parallel(self) -> int:
        """One after the other, so that calls have numbers."""
        return 1

    def canonical(self, location: str) -> str:
        return self.inner.canonical(location)

    def open_new(self, path: str) -> BinaryIO:
        def late() -> None:
            self.inner.open_new(path).close()

        stream: BinaryIO = self._do("open_new", path, partial(self._open_new, path), late)
        return stream

    def sync_close(self, stream: BinaryIO, path: str) -> None:
        self._do("sync_close", path, partial(self.inner.sync_close, stream, path))

    def write_new(self, path: str, data: bytes) -> None:
        torn = partial(self.inner.write_new, path, data[: len(data) // 2])
        self._do("write_new", path, partial(self.inner.write_new, path, data), torn=torn)

    def rename(self, source: str, target: str) -> None:
        link: Callable[[str, str], None] | None = getattr(self.inner, "link", None)
        torn = partial(link, source, target) if link else None
        self._do("rename", f"{source} -> {target}", partial(self.inner.rename, source, target), torn=torn)

    def rename_folder(self, source: str, target: str) -> None:
        self._do("rename_folder", f"{source} -> {target}", partial(self.inner.rename_folder, source, target))

    def make_durable(self, path: str) -> None:
        self._do("make_durable", path, partial(self.inner.make_durable, path))

    def delete(self, path: str) -> bool:
        return bool(self._do("delete", path, partial(self.inner.delete, path)))

    def remove_empty(self, folder: str) -> bool:
        return bool(self._do("remove_empty", folder, partial(self.inner.remove_empty, folder)))

    def length(self, path: str) -> int | None:
        found: int | None = self._look("length", path, partial(self.inner.length, path))
        return found

    def is_folder(self, path: str) -> bool:
        return bool(self._look("is_folder", path, partial(self.inner.is_folder, path)))

    def same_file(self, one: str, other: str) -> bool:
        return bool(self._look("same_file", one, partial(self.inner.same_file, one, other)))

    def list(self, folder: str) -> Sequence[Entry]:
        found: Sequence[Entry] = self._look("list", folder, partial(self.inner.list, folder))
        return found

    def read(self, path: str) -> bytes | None:
        found: bytes | None = self._look("read", path, partial(self.inner.read, path))
        return found

    def open(self, path: str) -> BinaryIO:
        found: BinaryIO = self._look("open", path, partial(self.inner.open, path))
        return found

    def _open_new(self, path: str) -> BinaryIO:
        stream = self.inner.open_new(path)
        self._streams.append(stream)
        return stream

    def _look(self, name: str, path: str, call: Callable[[], Any]) -> Any:
        mode = self._begin(name, path, changes=False)
        if mode in {Mode.BEFORE, Mode.AFTER}:
            self._die()
        return call()

    def _do(
        self,
        name: str,
        path: str,
        call: Callable[[], Any],
        late: Callable[[], Any] | None = None,
        torn: Callable[[], Any] | None = None,
    ) -> Any:
        match self._begin(name, path, changes=True):
            case Mode.BEFORE:
                self._die()
            case Mode.AFTER:
                with contextlib.suppress(OSError, HiveSinkError):
                    call()
                self._die()
            case Mode.TORN:
                if torn:
                    torn()
                self._die()
            case Mode.LOST:
                with contextlib.suppress(OSError, HiveSinkError):
                    call()
                raise OutcomeUnknown(name, path, "the reply is lost")
            case Mode.LATE:
                self._late.append(late or call)
                raise OutcomeUnknown(name, path, "no reply yet")
        return call()


class Stalling(FaultyFileSystem):
    """Before call `at`, something else happens, once."""

    def __init__(self, inner: FileSystem, at: int, meanwhile: Callable[[], object]) -> None:
        super().__init__(inner)
        self._at = at
        self._meanwhile = meanwhile

    def _begin(self, name: str, path: str, *, changes: bool) -> Mode | None:
        if len(self.calls) + 1 == self._at:
            self._at = 0
            self._meanwhile()
        return super()._begin(name, path, changes=changes)

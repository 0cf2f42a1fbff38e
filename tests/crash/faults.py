"""A file system and a metastore that fail at a chosen call, in every way that a remote one can. See `Mode`."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import partial
from itertools import islice
from typing import Any, BinaryIO, TypeVar

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError

from hivesink.core.table import TableSpec
from hivesink.errors import HiveSinkError, MetastoreUnreachable, OutcomeUnknown, RegistrationUnknown
from hivesink.ports import Metastore
from hivesink.storage.fs import FileSystem


class Kill(BaseException):
    """The process dies: no handler of the sink's own errors may eat it."""


class Mode(Enum):
    """What happens at the chosen call. Reads know only the first two; a metastore's may be LOST, too."""

    BEFORE = "dies before it"
    AFTER = "dies after it"
    LOST = "applied, but the reply is lost"
    LATE = "applied late: no reply, and the effect comes when `apply_late` is called"
    TORN = "dies in it: half a file is written, both names are there, or half of the partitions are done"


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

    Once killed it stays dead: every later call raises Kill too, as a dead process makes none. `unheard` is what a call
    may raise whose reply is lost.
    """

    unheard: tuple[type[Exception], ...] = (OSError, HiveSinkError, ValueError)

    def __init__(self, plan: Plan | None) -> None:
        self.plan = plan
        self.calls: list[Call] = []
        self.dead = False
        self._late: list[Callable[[], Any]] = []
        self._lock = threading.Lock()

    def release(self) -> None:
        """The process is gone, and what it held open."""

    def apply_late(self) -> int:
        """Let what was held back take place now, or fail unheard. Returns how many calls were held back."""
        held, self._late = self._late, []
        for effect in held:
            with contextlib.suppress(*self.unheard):
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

    def _unanswered(self, name: str, path: str, *, changes: bool, reason: str) -> Exception | None:
        """The error of a call without a reply; None where it can't be."""
        raise NotImplementedError

    def _look(self, name: str, path: str, call: Callable[[], Any]) -> Any:
        mode = self._begin(name, path, changes=False)
        if mode in {Mode.BEFORE, Mode.AFTER}:
            self._die()
        lost = self._unanswered(name, path, changes=False, reason="the reply is lost") if mode is Mode.LOST else None
        if lost:
            raise lost
        return call()

    def _do(
        self,
        name: str,
        path: str,
        call: Callable[[], Any],
        late: Callable[[], Any] | None = None,
        torn: Callable[[], Any] | None = None,
    ) -> Any:
        mode = self._begin(name, path, changes=True)
        if mode is None:
            return call()
        if mode is Mode.LATE:
            self._late.append(late or call)
        elif mode is Mode.TORN and torn:
            torn()
        elif mode in {Mode.AFTER, Mode.LOST}:
            with contextlib.suppress(*self.unheard):
                call()
        reason = {Mode.LOST: "the reply is lost", Mode.LATE: "no reply yet"}.get(mode)
        error = self._unanswered(name, path, changes=True, reason=reason) if reason else None
        if error:
            raise error
        return self._die()


def _method(name: str, *, changes: bool) -> Any:
    """The method of that name, which may fail; it is torn where its last argument is a list or a mapping."""

    def method(self: Any, first: Any, *more: Any) -> Any:
        subject, call = str(getattr(getattr(first, "spec", first), "name", first)), getattr(self.inner, name)
        if not changes:
            return self._look(name, subject, partial(call, first, *more))
        torn = partial(call, first, _half(more[0])) if more and not isinstance(more[0], str) else None
        return self._do(name, subject, partial(call, first, *more), torn=torn)

    return method


def _half(items: Any) -> Any:
    if isinstance(items, Mapping):
        return dict(islice(items.items(), len(items) // 2))
    return items[: len(items) // 2]


class FaultyFileSystem(Faulty, FileSystem):
    """Implements `storage.fs.FileSystem` over `inner`, one call after the other, so that calls have numbers."""

    parallel = 1
    length, is_folder, same_file, list, read, open = (
        _method(name, changes=False) for name in ("length", "is_folder", "same_file", "list", "read", "open")
    )
    make_durable, delete, remove_empty = (
        _method(name, changes=True) for name in ("make_durable", "delete", "remove_empty")
    )

    def __init__(self, inner: FileSystem, plan: Plan | None = None) -> None:
        super().__init__(plan)
        self.inner = inner
        self._streams: list[BinaryIO] = []

    def release(self) -> None:
        """Close the handles that a killed run left open, without writing what is still in their buffers."""
        for stream in self._streams:
            with contextlib.suppress(OSError, HiveSinkError, ValueError):
                getattr(stream, "raw", stream).close()

    def canonical(self, location: str) -> str:
        return self.inner.canonical(location)

    def open_new(self, path: str) -> BinaryIO:
        def opened() -> BinaryIO:
            self._streams.append(self.inner.open_new(path))
            return self._streams[-1]

        stream: BinaryIO = self._do("open_new", path, opened, late=lambda: self.inner.open_new(path).close())
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

    def _unanswered(self, name: str, path: str, *, changes: bool, reason: str) -> HiveSinkError | None:
        return OutcomeUnknown(name, path, reason) if changes else None


class At(FaultyFileSystem):
    """Dies in `mode` at the first change whose name and path `pattern` matches, or `meanwhile` happens before each."""

    def __init__(
        self,
        inner: FileSystem,
        pattern: str,
        mode: Mode = Mode.BEFORE,
        meanwhile: Callable[[], object] | None = None,
    ) -> None:
        super().__init__(inner)
        self.pattern, self.mode, self.meanwhile = re.compile(pattern), mode, meanwhile

    def _begin(self, name: str, path: str, *, changes: bool) -> Mode | None:
        if changes and self.pattern.search(f"{name} {path}"):
            if self.meanwhile:
                self.meanwhile()
            else:
                self.plan = Plan(len(self.calls) + 1, self.mode)
        return super()._begin(name, path, changes=changes)


_READS = frozenset({"head_object", "get_object", "list_objects_v2", "list_multipart_uploads", "list_parts"})


_REQUESTS = ("_object", "_upload", "_part", "_copy")


class FaultyS3(Faulty):
    """A client of S3 over `inner`: each call is a request, and an unknown outcome is a time-out of boto3."""

    unheard = (*Faulty.unheard, ClientError)

    def __init__(self, inner: Any, plan: Plan | None = None) -> None:
        super().__init__(plan)
        self.inner = inner

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def request(**given: Any) -> Any:
            if hasattr(given.get("Body"), "read"):
                given["Body"] = given["Body"].read()
            place, call = str(given.get("Key", given.get("Prefix"))), partial(getattr(self.inner, name), **given)
            return self._look(name, place, call) if name in _READS else self._do(name, place, call)

        return request

    def _unanswered(self, name: str, path: str, *, changes: bool, reason: str) -> Exception | None:
        return ReadTimeoutError(endpoint_url=f"{name} {path}: {reason}") if changes else None


class FaultyMetastore(Faulty):
    """Implements `ports.Metastore` over `inner`."""

    table, names, lookup, tables_with = (
        _method(name, changes=False) for name in ("table", "names", "lookup", "tables_with")
    )
    add, clear_accurate, estimate, announce, set_property = (
        _method(name, changes=True) for name in ("add", "clear_accurate", "estimate", "announce", "set_property")
    )

    def __init__(self, inner: Metastore, plan: Plan | None = None) -> None:
        super().__init__(plan)
        self.inner = inner

    @property
    def address(self) -> str:
        return self.inner.address

    def create(self, spec: TableSpec) -> None:
        self.inner.create(spec)

    def close(self) -> None:
        self.inner.close()

    def _unanswered(self, name: str, path: str, *, changes: bool, reason: str) -> HiveSinkError:
        if changes:
            return RegistrationUnknown(path, name, reason, "memory")
        return MetastoreUnreachable(self.address, reason)


class _Stalls(Faulty):
    def __init__(self, inner: Any, at: int, meanwhile: Callable[[], object]) -> None:
        super().__init__(inner)
        self._at = at
        self._meanwhile = meanwhile

    def _begin(self, name: str, path: str, *, changes: bool) -> Mode | None:
        if len(self.calls) + 1 == self._at:
            self._at = 0
            self._meanwhile()
        return super()._begin(name, path, changes=changes)


class Stalling(_Stalls, FaultyFileSystem):
    """Before call `at`, something else happens, once."""


class StallingS3(_Stalls, FaultyS3):
    """The same before a request."""


_World = TypeVar("_World")
_Faulty = TypeVar("_Faulty", bound=Faulty)


def sampled(every: int, *, timeout: int = 600) -> pytest.MarkDecorator:
    """The parameter `every`: each so-many-th call for each run of the suite, and every one for long ones."""
    whole = pytest.param(1, marks=[pytest.mark.long, pytest.mark.timeout(timeout)])
    return pytest.mark.parametrize("every", [every, whole] if every > 1 else [1])


def modes(call: Call, *, metastore: bool = False) -> Iterator[Mode]:
    """The ways in which a call can fail that leave something of their own.

    Who dies before a change, or at a read, leaves what the change before it has left.
    """
    if call.changes:
        # A request to S3 is done or not.
        yield from (Mode.AFTER, Mode.LOST, Mode.LATE, *(() if call.name.endswith(_REQUESTS) else (Mode.TORN,)))
    elif metastore:
        yield Mode.LOST


def calls_of(
    make: Callable[[], _World], faulty: Callable[..., Faulty], work: Callable[[_World, Any], Any]
) -> list[Call]:
    """The calls of `work` without a fault."""
    world = make()
    counting = faulty(world, None)
    with contextlib.suppress(HiveSinkError):
        work(world, counting)
    assert counting.calls
    return counting.calls


def faults(
    make: Callable[[], _World],
    faulty: Callable[[_World, Plan | None], _Faulty],
    work: Callable[[_World, _Faulty], object],
    modes_of: Callable[[Call], Iterator[Mode]] = modes,
    every: int = 1,
) -> Iterator[tuple[_World, _Faulty, tuple[Call, Mode]]]:
    """For every `every`th call of `work` and each way in which it can fail: a world after that, and what failed."""
    for call in [call for call in calls_of(make, faulty, work) if any(modes_of(call))][::every]:
        for mode in modes_of(call):
            world = make()
            broken = faulty(world, Plan(call.number, mode))
            with contextlib.suppress(Kill, HiveSinkError):
                work(world, broken)
            assert broken.calls[call.number - 1].name == call.name, (call, mode)
            broken.release()
            yield world, broken, (call, mode)

"""What stores of part files have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from posixpath import basename
from threading import Lock, Thread
from typing import TypeVar

from hivesink.core.partfile import Finished, parse_staged
from hivesink.storage.fs import Files, delete, join

_T = TypeVar("_T")


def run_parallel(calls: Iterable[Callable[[], _T]], parallelism: int) -> list[_T]:
    """The results of independent `calls`, in their order, or the first error in that order.

    With `parallelism` 1 they run in turn in this thread. No call starts after a failed call, since each would
    wait its full timeout for a server that is down. All started calls have ended.
    """
    waiting = list(calls)
    if parallelism <= 1 or len(waiting) <= 1:
        return [call() for call in waiting]
    left, lock = iter(enumerate(waiting)), Lock()
    done: dict[int, _T] = {}
    failed: dict[int, BaseException] = {}

    def work() -> None:
        while not failed:
            with lock:
                number, call = next(left, (-1, None))
            if call is None:
                return
            try:
                done[number] = call()
            except BaseException as error:  # noqa: BLE001  the caller's thread raises it
                failed[number] = error

    # No executor: it takes no work any more once Python's main thread has ended, where queries may run on.
    threads = [Thread(target=work, name="hivesink-store") for _ in range(min(parallelism, len(waiting)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[min(failed)]
    return [done[number] for number in range(len(waiting))]


class PartStore:
    """The part of `ports.FileStore` that needs no more than the storage's `files`."""

    def __init__(self, files: Files, parallelism: int) -> None:
        self._files, self.parallelism = files, parallelism

    def run_parallel(self, calls: Iterable[Callable[[], _T]]) -> list[_T]:
        return run_parallel(calls, self.parallelism)

    def discard(self, staged: Iterable[str]) -> None:
        paths = list(staged)
        for path in paths:
            if parse_staged(basename(path)) is None:
                message = f"{path} is not a staged part"
                raise ValueError(message)
        self.run_parallel(partial(self.drop, path) for path in paths)

    def drop(self, staged: str) -> None:
        """Delete a staged part."""
        delete(self._files, staged)

    def remove(self, files: Iterable[Finished]) -> None:
        def unless_changed(file: Finished) -> None:
            if self.find(file.path) == file:
                delete(self._files, file.path)

        self.run_parallel(partial(unless_changed, file) for file in files)

    def visible(self, folder: str) -> Sequence[Finished]:
        return [
            Finished(join(folder, entry.name), entry.length)
            for entry in self._files.list(folder)
            if entry.length is not None and entry.name[0] not in "._"
        ]

    def find(self, path: str) -> Finished | None:
        length = self._files.length(path)
        return None if length is None else Finished(path, length)

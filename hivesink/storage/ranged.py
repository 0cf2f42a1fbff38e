"""Files that are read by ranges, of stores that have no streams."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class RangedFile(io.RawIOBase):
    """A file to read, seekable. `read_range` takes a range's start and size, and returns less only at the end.

    `length` may be a function, which is asked where it is needed.
    """

    def __init__(self, read_range: Callable[[int, int], bytes], length: int | Callable[[], int]) -> None:
        super().__init__()
        self._read_range, self._length, self._at = read_range, length, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at}.get(whence)
        if base is None:
            base = self._length = self._length if isinstance(self._length, int) else self._length()
        if base + offset < 0:
            message = f"a negative position to read from: {base + offset}"
            raise ValueError(message)
        self._at = base + offset
        return self._at

    def readinto(self, buffer: Any, /) -> int:
        view = memoryview(buffer).cast("B")
        wanted = min(len(view), self._length - self._at) if isinstance(self._length, int) else len(view)
        data = self._read_range(self._at, wanted) if wanted > 0 else b""
        view[: len(data)] = data
        self._at += len(data)
        return len(data)

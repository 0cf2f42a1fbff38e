"""The end of an ORC file, with what pyarrow's writer leaves out of its footer."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    import io

RAW_BYTES = "hivesink.raw-bytes"
"""In a file's user metadata: its rows' bytes in memory. ORC's own footer has only what they weigh compressed."""


class Tail:
    """The stream that ORC's writer writes to. Where it is `held`, that keeps what comes: the file's tail."""

    closed = False

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.held: io.BytesIO | None = None

    def write(self, content: bytes) -> int:
        return (self.held or self._stream).write(content)

    def finish(self, raw_bytes: int, *, packed: bool) -> None:
        """Write the tail with more fields in the footer; in a `packed` file it consists of chunks.

        A Protobuf message may be continued by its other fields, and one chunk, not packed, may follow others.
        """
        held = self.held.getvalue() if self.held else b""
        postscript = held[-1 - held[-1] : -1]
        if postscript[:1] != _FOOTER_LENGTH:
            message = "pyarrow's ORC writer ended a file in an unknown way"
            raise ValueError(message)
        length, size = _varint_of(postscript, 1)
        item = _message(0x0A, RAW_BYTES.encode()) + _message(0x12, str(raw_bytes).encode())
        more = _message(0x2A, item) + _PROLEPTIC
        more = ((len(more) << 1 | 1).to_bytes(3, "little") if packed else b"") + more
        changed = _FOOTER_LENGTH + _varint(length + len(more)) + postscript[1 + size :]
        self._stream.write(held[: -1 - len(postscript)] + more + changed + bytes([len(changed)]))


_MORE = 0x80
"""Set in each byte of a number but the last."""
_FOOTER_LENGTH = b"\x08"
_PROLEPTIC = b"\x58\x02"
"""The footer's field `calendar`."""


def _message(tag: int, content: bytes) -> bytes:
    return bytes([tag]) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    """In Protobuf's coding: seven bits a byte, the lowest first."""
    more = number >> 7
    return bytes([number % _MORE | (_MORE if more else 0)]) + (_varint(more) if more else b"")


def _varint_of(content: bytes, start: int) -> tuple[int, int]:
    """The number that begins at `start`, and its bytes."""
    size = next(size for size, byte in enumerate(content[start:], 1) if not byte & _MORE)
    return sum((byte & ~_MORE) << 7 * place for place, byte in enumerate(content[start : start + size])), size

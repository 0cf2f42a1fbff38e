"""A staged part that isn't what its task wrote, found before the decision: after it only a person could mend that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.crash.steps import Site
from tests.inmemory.filesystem import MemoryFileSystem

if TYPE_CHECKING:
    from typing import BinaryIO


class Short(MemoryFileSystem):
    """The first part to be closed loses its last byte, and nobody is told."""

    torn = False

    def sync_close(self, stream: BinaryIO, path: str) -> None:
        super().sync_close(stream, path)
        data = self.read(path) or b""
        if data and not self.torn:
            self.torn = True
            self.delete(path)
            self.write_new(path, data[:-1])


def test_a_part_that_was_cut_short_is_written_again() -> None:
    fs = Short()
    site = Site(connect=lambda: fs)
    site.run()
    assert fs.torn
    site.check()

"""What a storage with rename gives the sink: its file store and its logs, on one file system."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hivesink.storage.log_root import RenameLogRoot
from hivesink.storage.rename_store import RenameFileStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from hivesink.storage.fs import FileSystem


@dataclass(frozen=True, slots=True)
class RenameStorage:
    """Implements `ports.Storage`. `for_tables` opens the file system whose new files get a mode, or the site's."""

    for_tables: Callable[[int | None], FileSystem]
    for_logs: Callable[[], FileSystem]

    def files(self, permission: int | None) -> RenameFileStore:
        return RenameFileStore(self.for_tables(permission))

    def root(self, folder: str) -> RenameLogRoot:
        return RenameLogRoot(self.for_logs(), folder)

"""Looks whether a log is older than its table: an epoch of such a log would publish again what is there already."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from hivesink.core.epoch import Epoch
from hivesink.core.outdated import own_parts, tries, undecided
from hivesink.errors import FileSystemUnknown, LogDamaged, LogOutdated, Unsupported

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from collections.abc import Set as AbstractSet

    from hivesink.ports import CommitLog, FileStore


@dataclass(slots=True)
class NewestLog:
    """Whether `log`, which is that of `writer` and has this uid, knows of each of the writer's files in some folders.

    A folder is looked at once: whatever this log publishes there later, it has decided.
    """

    log: CommitLog
    store: FileStore
    writer: str
    uid: str | None
    known: dict[Epoch, frozenset[str]] = field(default_factory=dict)
    """As `tries`, of the epochs whose manifests were read."""
    _looked: set[str] = field(default_factory=set)

    def require(self, table: str, folders: Iterable[str], head: Epoch) -> None:
        """Raise LogOutdated if a visible file of this writer in these folders of `table` isn't in the log.

        The caller knows the log up to `head`. One that ends before is passed over: the next decision raises LogGone.
        """
        new = set(folders) - self._looked
        if not new:
            return
        by_canonical = {self.store.canonical(folder): folder for folder in new}
        looks = [partial(self._visible, by_canonical[one]) for one in sorted(by_canonical.keys() - self._looked)]
        listed = self.store.run_parallel(looks)
        if parts := own_parts((path for paths in listed for path in paths), self.uid):
            # After the look at files: a run that works beside this one has decided them before they are visible.
            view = self.log.view()
            if view.head < head:
                return
            self._read({Epoch(name.epoch) for name in parts} & set(view.manifests))
            if unknown := undecided(parts, view.head, self.known):
                newest = unknown[-1]
                is_later, where = newest.epoch > view.head, self.log.location
                raise LogOutdated(table, self.writer, where, view.head, parts[newest], decided=not is_later)
        self._looked |= new | by_canonical.keys()

    def _visible(self, folder: str) -> Sequence[str]:
        # It has written nothing on a file system that it can't reach.
        with suppress(Unsupported, FileSystemUnknown):
            return [file.path for file in self.store.visible(folder)]
        return ()

    def _read(self, epochs: AbstractSet[Epoch]) -> None:
        new = sorted(epochs - self.known.keys())
        read = self.store.run_parallel(partial(self._tries, epoch) for epoch in new)
        self.known |= {epoch: found for epoch, found in zip(new, read, strict=True) if found is not None}

    def _tries(self, epoch: Epoch) -> frozenset[str] | None:
        # Trimmed meanwhile, or lost after it was settled: no row depends on it.
        with suppress(LogDamaged):
            return tries(self.log.manifest(epoch))
        return None

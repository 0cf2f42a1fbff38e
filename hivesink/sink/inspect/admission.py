"""Whether a writer may begin on its table: the table is the one that its log knows, and no part in it is unknown."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from hivesink.core.manifest import standing
from hivesink.core.partfile import PartName, parse_staged
from hivesink.errors import ForeignParts, TableRemade
from hivesink.sink.inspect.facts import is_hidden, read_log

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from hivesink.core.manifest import PartEntry
    from hivesink.ports import CommitLog, FileStore, LiveTable

_AT_ONCE = 256
"""Folders listed between two looks at what was found."""


@dataclass(frozen=True, slots=True)
class FoundPart:
    """A file that is named as a part; `staged`: hidden from readers."""

    path: str
    uid: str
    staged: bool


def parts_below(store: FileStore, location: str, *, staged: bool = True) -> Iterator[tuple[FoundPart, ...]]:
    """Every part below `location`, some folders at a time, so that who has seen enough can stop."""
    folders, base = iter(store.walk(location)), location.rstrip("/")
    while some := list(islice(folders, _AT_ONCE)):
        hidden = store.run_parallel(partial(store.staged, folder) for folder in some if staged)
        visible = store.run_parallel(
            partial(store.visible, folder) for folder in some if not is_hidden(folder[len(base) :])
        )
        yield (*_staged(path for inside in hidden for path in inside), *_visible(f.path for v in visible for f in v))


def _staged(paths: Iterable[str]) -> Iterator[FoundPart]:
    for path in paths:
        parsed = parse_staged(path.rpartition("/")[2])
        if parsed is not None:
            yield FoundPart(path, parsed[0].uid, staged=True)


def _visible(paths: Iterable[str]) -> Iterator[FoundPart]:
    for path in paths:
        name = PartName.parse(path.rpartition("/")[2])
        if name is not None:
            yield FoundPart(path, name.uid, staged=False)


@dataclass(frozen=True, slots=True)
class Admission:
    """The question that a writer asks before it writes. Nothing is changed by asking.

    `known` says whose parts have a log here, or were accepted; `search` finds the log of a uid elsewhere.
    """

    writer: str
    log: CommitLog
    store: FileStore
    live: LiveTable
    known: Callable[[], Collection[str]]
    search: Callable[[str], str | None]

    def require(self) -> None:
        """Raises ForeignParts, TableRemade, LogDamaged, NewerFormat, StoreUnavailable."""
        if self.log.view().head:
            self.require_same_table()
        else:
            # All parts of a table are looked at only until the writer's first epoch: then it has a history here.
            self._require_no_foreign_parts()

    def require_same_table(self) -> None:
        """Raises TableRemade where the table was created again, and the log's newest rows are not in it."""
        if self.is_other_table() and not self._holds_newest_rows():
            raise TableRemade(str(self.live.spec.name), self.writer, self.log.location, self.log.view().head)

    def is_other_table(self) -> bool:
        """Whether the table was created after the log has come to know one of its name."""
        admitted = self.log.admitted(self.live.spec.name)
        if admitted:
            return self.live.created not in admitted
        # The log is older than this rule, or the table had another name then.
        manifests = self.log.view().manifests
        return bool(manifests) and self.live.created > self.log.manifest(manifests[-1]).at.timestamp()

    def _holds_newest_rows(self) -> bool:
        """Whether every part of the newest epoch that has any is in the table: its files have outlived it."""
        facts = read_log(self.log)
        facts.require_readable()
        parts = [
            (manifest.epoch, part) for manifest, part in standing(facts.manifests) if part.table in facts.tables[:1]
        ]
        if not parts:
            return facts.floor is None or facts.floor.files == 0
        newest = max(epoch for epoch, _ in parts)
        return all(self.store.run_parallel(partial(self._is_here, part) for epoch, part in parts if epoch == newest))

    def _is_here(self, part: PartEntry) -> bool:
        """Whether `part` is in the table's own folder, which may have been moved, published or not."""
        base, name = self.live.location.rstrip("/"), part.target.rpartition("/")[2]
        own = self.store.canonical(base)
        default = "/".join(text for text in (base, part.partition, name) if text)
        places = [path for path in (part.target, part.staged) if self.store.canonical(path).startswith(f"{own}/")]
        found = (self.store.find(path) for path in [*places, default])
        return any(file is not None and file.length == part.length for file in found)

    def _require_no_foreign_parts(self) -> None:
        known = self.known()
        for found in parts_below(self.store, self.live.location, staged=False):
            foreign = self._foreign(found, known)
            if foreign:
                # A second writer that has begun meanwhile left its pointer before its first part.
                known = self.known()
                foreign = self._foreign(found, known)
            # So has another run of this writer, which has decided an epoch then.
            if foreign and not self.log.view().head:
                self._refuse(foreign)

    def _foreign(self, found: Iterable[FoundPart], known: Collection[str]) -> list[FoundPart]:
        own = self.log.uid(None)
        return [part for part in found if part.uid not in known or part.uid == own]

    def _refuse(self, foreign: list[FoundPart]) -> None:
        first = foreign[0]
        count = Counter((part.path.rpartition("/")[0], part.uid) for part in foreign)
        own = first.uid == self.log.uid(None)
        found = self.log.location if own else self.search(first.uid)
        same = count[first.path.rpartition("/")[0], first.uid]
        table = str(self.live.spec.name)
        raise ForeignParts(table, self.writer, first.uid, path=first.path, count=same, found=found, own=own)

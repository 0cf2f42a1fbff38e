"""What a look at a writer's log, files and partitions shows, for `verify` and others to judge."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from posixpath import dirname

from hivesink.core.epoch import Epoch
from hivesink.core.manifest import Manifest, Opened, PartEntry
from hivesink.core.partfile import PartName, Stage, parse_staged
from hivesink.core.partition import LivePartition, PartitionKey, is_aside, is_hidden
from hivesink.core.table import is_letters, main_table
from hivesink.errors import SegmentLost, UnknownTable
from hivesink.ports import FileStore
from hivesink.ports.rows import Measure
from hivesink.sink.commit.context import CommitContext, listings
from hivesink.sink.commit.observe import names_today
from hivesink.sink.inspect.facts import LogFacts, read_log
from hivesink.sink.task.segments import lost_slices


@dataclass(frozen=True, slots=True)
class FoundPart:
    """A file that is named as a part; `stage` is None for a finished file, which readers see."""

    path: str
    name: PartName
    stage: Stage | None

    @classmethod
    def among(cls, paths: Iterable[str]) -> Iterator[FoundPart]:
        """Those of `paths` that are named as parts."""
        for path in paths:
            text = path.rpartition("/")[2]
            if name := PartName.parse(text):
                yield cls(path, name, None)
            elif staged := parse_staged(text):
                yield cls(path, *staged)


@dataclass(frozen=True)
class Evidence:
    """What was found for one writer. Paths are spelled as by `canonical` (`FileStore.canonical`).

    `names` says what the log's tables are called now. `tables` are the locations of the writer's tables, by these
    names, `live` all their partitions. `visible` are the lengths of files.
    `rows` counts a part's rows in its file, or says why that can't be read. `lost` are rows that wait and can't
    be read. `later` were decided and `head` was the log's head after all that: a job may be running meanwhile.
    `replaced` names dead letters' parts that a replay has replaced, by any log of the table.
    """

    log: LogFacts
    head: Epoch
    later: Sequence[Manifest]
    names: Mapping[str, str]
    tables: Mapping[str, str]
    live: Mapping[PartitionKey, LivePartition]
    staged: Sequence[FoundPart]
    visible: Mapping[str, int]
    canonical: Callable[[str], str]
    lost: Mapping[Opened, SegmentLost]
    replaced: Collection[str]
    rows: Callable[[PartEntry, str], int | str]

    @cached_property
    def by_name(self) -> Mapping[str, Sequence[str]]:
        by_name: dict[str, list[str]] = {}
        for path in (*self.visible, *(part.path for part in self.staged)):
            by_name.setdefault(path.rpartition("/")[2], []).append(path)
        return by_name

    def key(self, part: PartEntry) -> PartitionKey:
        """The part's partition, by the table's name of today."""
        return self.names.get(part.table, part.table), part.partition

    @cached_property
    def homes(self) -> Mapping[PartitionKey, str]:
        """Where readers find each partition."""
        return {place: self.canonical(live.location) for place, live in self.live.items()}

    @cached_property
    def shown(self) -> frozenset[str]:
        """The folders that readers look into."""
        return frozenset(self.homes.values())

    @cached_property
    def places(self) -> Mapping[str, str]:
        """The visible file of each live part, by its name, which is unique; none of a part that is gone.

        Of a part's copies it is one that readers find, best a whole one, best where it was.
        """

        def rank(part: PartEntry, path: str) -> tuple[bool, bool, bool, bool, str]:
            folder, is_torn = dirname(path), self.visible[path] != part.length
            is_home = folder == self.homes.get(self.key(part))
            return folder not in self.shown, is_torn, path != self.canonical(part.target), not is_home, path

        by_name = ((part, self.by_name.get(part.name)) for _, part in self.log.parts)
        return {part.name: min(paths, key=partial(rank, part)) for part, paths in by_name if paths}


def gather(
    context: CommitContext, table: str, measure: Measure | None = None, replaced: Collection[str] = ()
) -> Evidence:
    """Look at everything once: log, metastore, files, log again, and with `measure` segments and footers."""
    log, store, canonical = read_log(context.log), context.store, context.store.canonical
    tables, formats = {}, dict[bool, str]()
    names = names_today(context, log.tables, main_table(table))
    for name in dict.fromkeys((*names.values(), table)):
        # A dropped table has no files to look at; its epochs are still in the log.
        with suppress(UnknownTable):
            tables[name] = context.table(name).location
            formats[is_letters(name)] = context.table(name).spec.format
    live = {
        (name, partition): home
        for name in tables
        for partition, home in context.registrar.lookup(context.table(name), None).items()
    }
    homes = {home.location for home in live.values()} | {part.folder for _, part in log.parts}
    staged, visible = files_in(store, tables.values(), homes)
    lengths = {part.hidden: part.length for part in log.waiting}
    hidden = (part.path for part in staged if part.path.rpartition("/")[2] in lengths)
    listed = store.run_parallel(partial(context.find, path) for path in hidden)
    # A file that is missing by now was published meanwhile.
    torn = {file.path for file in listed if file and file.length != lengths[file.path.rpartition("/")[2]]}
    lost = lost_slices(log.open_rows, context.log.segments, whole=measure is not None)
    # After the segments: a job that has rolled them since, and deleted them, has moved the head on.
    after = read_log(context.log, log.manifests)

    def rows(part: PartEntry, path: str) -> int | str:
        form = formats.get(is_letters(part.table))
        if measure is None or form is None or visible[path] != part.length:
            return part.rows
        try:
            with store.open(path) as stream:
                return measure(form, stream).rows
        except Exception as error:  # noqa: BLE001  whatever the format's reader raises is the finding
            return str(error).partition("\n")[0]

    return Evidence(
        log=log,
        head=after.view.head,
        later=[manifest for manifest in after.manifests if manifest.epoch > log.view.head],
        names=names,
        tables=tables,
        live=live,
        staged=[part for part in staged if part.path not in torn],
        visible=visible,
        canonical=canonical,
        lost=lost,
        replaced=replaced,
        rows=rows,
    )


def files_in(
    store: FileStore, locations: Collection[str], folders: Iterable[str]
) -> tuple[Sequence[FoundPart], Mapping[str, int]]:
    """The staged parts and the visible files below the tables' `locations`, and in `folders`, which may lie elsewhere.

    Paths are canonical; visible files come with their lengths.
    """
    by_canonical: dict[str, str] = {}
    for location in locations:
        base = store.canonical(location)
        for folder in store.walk(location):
            canonical = store.canonical(folder)
            if is_aside(canonical) or not is_hidden(canonical[len(base) :]):
                by_canonical.setdefault(canonical, folder)
    by_canonical.update((store.canonical(folder), folder) for folder in folders)
    # Staged files first, those that are set aside last: a part that is moved meanwhile is then seen twice, not missed.
    ordered = sorted(by_canonical.values(), key=lambda folder: (is_aside(folder), folder))
    staged = list(FoundPart.among(map(store.canonical, listings(store, store.staged, ordered))))
    return staged, {store.canonical(file.path): file.length for file in listings(store, store.visible, ordered)}

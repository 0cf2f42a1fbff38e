"""Whether a writer may begin on its table: its log must know this table, and every part in it must be known."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING

from hivesink import errors
from hivesink.core.bucket import is_hidden
from hivesink.core.manifest import REPLAYS, PartEntry, standing
from hivesink.core.outdated import tries
from hivesink.core.partition import LivePartition, is_partition, parse_path
from hivesink.core.partition_value import canonical
from hivesink.core.table import TableName
from hivesink.sink.commit.outdated import NewestLog
from hivesink.sink.inspect.facts import FoundPart, LogFacts, outside, read_log

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from hivesink.core.epoch import Epoch
    from hivesink.core.partfile import Finished
    from hivesink.ports import CommitLog, FileStore, LiveTable, Registrar

_AT_ONCE = 256
"""Folders that are listed before the parts in them are handed out."""
_QUARTER, _FARTHEST = 15 * 60, 26 * 3600
"""Seconds: all zones are whole quarter hours apart, from UTC-12 to UTC+14."""


def parts_below(store: FileStore, location: str, *, staged: bool = True) -> Iterator[tuple[FoundPart, ...]]:
    """Every part below `location`, some folders at a time, so that the caller can stop early."""
    folders, base = iter(store.walk(location)), location.rstrip("/")
    while chunk := list(islice(folders, _AT_ONCE)):
        hidden = store.run_parallel(partial(store.staged, folder) for folder in chunk if staged)
        shown = [folder for folder in chunk if not is_hidden(folder[len(base) :])]
        yield (*FoundPart.among(chain.from_iterable(hidden)), *_visible(store, shown))


def parts_of(
    store: FileStore, registrar: Registrar, live: LiveTable, *, staged: bool = True
) -> Iterator[tuple[FoundPart, ...]]:
    """Every part below the table's location, then the visible ones of partitions elsewhere, if this store can look."""
    yield from parts_below(store, live.location, staged=staged)
    homes = (one.location for one in registrar.lookup(live, None).values())
    yield tuple(_visible(store, outside(store, homes, [live.location])))


def _visible(store: FileStore, folders: Iterable[str]) -> Iterator[FoundPart]:
    def listed(folder: str) -> Sequence[Finished]:
        # It has written nothing on a file system that it can't reach.
        with suppress(errors.Unsupported, errors.FileSystemUnknown):
            return store.visible(folder)
        return ()

    files = store.run_parallel(partial(listed, folder) for folder in folders)
    return FoundPart.among(file.path for found in files for file in found)


def others_of(log: CommitLog, registrar: Registrar, table: str) -> tuple[str, ...]:
    """The living tables that `log` serves, but for `table`. One that was renamed or made anew is another by then."""
    found = []
    for name, created in log.admitted().items():
        with suppress(errors.UnknownTable, errors.Unsupported, ValueError):
            if name != table and registrar.table(TableName.parse(name)).created in created:
                found.append(name)
    return tuple(sorted(found))


def other_owners(log: CommitLog, registrar: Registrar, table: str) -> tuple[str, ...]:
    """As `others_of`, but for the table whose dead letters `table` holds: a log that serves the one serves both."""
    return tuple(one for one in others_of(log, registrar, table) if f"{one}__rejected" != table)


def waiting_elsewhere(
    live: LiveTable, beside: Iterable[CommitLog], registrar: Registrar
) -> Iterator[errors.TableRenamed]:
    """For each of the logs `beside` in which rows wait for a table that is gone, and may be this one's old name.

    All that is known of it is the second in which it was made: others may have been made then, too.
    """
    name = str(live.spec.name)
    for log in beside:
        # What is wrong with another table's log is its own problem.
        with suppress(errors.HiveSinkError):
            before = [old for old, created in log.admitted().items() if live.created in created]
            if before and name.removesuffix("__rejected") not in before and _is_gone(before[0], live, registrar):
                facts = read_log(log)
                if rows := facts.open_rows.rows:
                    yield errors.TableRenamed(name, before[0], facts.view.head, log.location, rows=rows)


def _is_gone(table: str, live: LiveTable, registrar: Registrar) -> bool:
    """Whether the name stands for no table, or for a newer one than `live`, which may have had it."""
    try:
        return registrar.table(TableName.parse(table)).created != live.created
    except (errors.HiveSinkError, ValueError) as error:
        return isinstance(error, errors.UnknownTable)


@dataclass(frozen=True, slots=True)
class Admission:
    """Whether `writer` may begin. Changes nothing.

    `known` returns the uids whose parts have a log here or were accepted; `search` finds the log of a uid elsewhere;
    `beside` returns the logs of this table and of those beside it.
    """

    writer: str
    log: CommitLog
    store: FileStore
    live: LiveTable
    registrar: Registrar
    known: Callable[[], Collection[str]]
    search: Callable[[str], str | None]
    beside: Callable[[], Iterable[CommitLog]] = tuple

    def require(self) -> None:
        """Raise ForeignParts, TableRenamed, LogDamaged, NewerFormat, StoreUnavailable; and as `require_same_table`."""
        self.require_same_table()
        if not self.log.view().head:
            # All parts of a table are looked at only until the writer's first epoch. Then it has a history here.
            same_writer = (log for log in self.beside() if log.location.endswith(f"/{self.writer}"))
            renamed = list(waiting_elsewhere(self.live, same_writer, self.registrar))
            self._require_no_foreign_parts({one.log for one in renamed})
            for one in renamed:
                raise one

    def require_same_table(self) -> None:
        """Raises LogDamaged for its uid, LogShared, TableRenamed, TableFolderGone, LogOutdated.

        TableRemade if the table was made again without the newest rows, or with partition columns that can't hold them.
        """
        self.log.uid(None)
        name = str(self.live.spec.name)
        if others := other_owners(self.log, self.registrar, name):
            raise errors.LogShared(self.log.location, self.writer, name, others)
        facts = read_log(self.log)
        if self.log.view().head and self.is_other_table() and not self._holds_newest_rows(facts):
            waiting = next((epoch for epoch, _ in self._open_parts()), None)
            head, rows = self.log.view().head, facts.open_rows.rows
            replays, shifted = self.writer == REPLAYS, self._shifted()
            raise errors.TableRemade(
                name, self.writer, self.log.location, head, waiting=waiting, rows=rows, replays=replays, shifted=shifted
            )
        tables = [(epoch, part.table) for epoch, part in self._open_parts()]
        # A partition that only waits for its end goes along with its table.
        tables += [(facts.view.head, one.table) for one in facts.open_rows.opened]
        for epoch, table in tables:
            if table.removesuffix("__rejected") != name.removesuffix("__rejected"):
                raise errors.TableRenamed(name, table, epoch, self.log.location)
        self._require_folders(facts)
        self._require_newest(facts)

    def _require_folders(self, facts: LogFacts) -> None:
        """Raises TableFolderGone for a disk that isn't mounted: the job would write into the mount point."""
        table = str(self.live.spec.name)
        parts = [part for _, part in facts.effective() if part.table == table]
        folders = [self.live.location] if parts or (facts.floor and facts.floor.files) else []
        far = outside(self.store, {part.folder for part in parts}, [self.live.location])
        if far:
            names = sorted({part.partition for part in parts if part.folder in far})
            homes, written = self.registrar.lookup(self.live, names).values(), set(map(self.store.canonical, far))
            folders += [home.location for home in homes if self.store.canonical(home.location) in written]
        for folder in folders:
            if next(iter(self.store.walk(folder)), None) is None:
                raise errors.TableFolderGone(table, folder, self.log.location)

    def _require_newest(self, facts: LogFacts) -> None:
        """Raises LogOutdated if the table holds a file that the log lacks: the log was restored from a backup, say.

        Looks where the newest epoch published, and where rows that wait would be. A run looks at other folders before
        it writes there.
        """
        last = next((manifest.parts for manifest in reversed(facts.manifests) if manifest.parts), ())
        places = {part.key for part in last} | facts.open_rows.buckets.keys()
        own = {partition for table, partition in places if table == str(self.live.spec.name)}
        folders = {part.folder for part in last} | {f"{self.live.location}/{name}".rstrip("/") for name in own}
        folders |= {home.location for home in self.registrar.lookup(self.live, sorted(own)).values()}
        known = {manifest.epoch: tries(manifest) for manifest in facts.manifests}
        look = NewestLog(self.log, self.store, self.writer, facts.uid, known)
        look.require(str(self.live.spec.name), folders, facts.view.head)

    def _open_parts(self) -> Iterator[tuple[Epoch, PartEntry]]:
        """The parts for which unsettled epochs answer. Raises LogDamaged, NewerFormat."""
        view = self.log.view()
        if view.head in view.manifests:
            settled = view.settled(self.log.manifest(view.head).settled)
            for manifest, part in standing([self.log.manifest(epoch) for epoch in view.manifests if epoch > settled]):
                yield manifest.epoch, part

    def is_other_table(self) -> bool:
        """Whether the table was created after the log came to know one of that name."""
        admitted, name = self.log.admitted(), str(self.live.spec.name)
        if name in admitted:
            return self.live.created not in admitted[name]
        if name.endswith("__rejected") and name.removesuffix("__rejected") in admitted:
            # The sink makes the table of dead letters again itself.
            return False
        # The log is older than this rule, or the table had another name then.
        manifests = self.log.view().manifests
        return bool(manifests) and self.live.created > self.log.manifest(manifests[-1]).at.timestamp()

    def _shifted(self) -> int | None:
        """The creation time, where it may be one that the log knows: HiveServer2 shows it in its own time zone."""
        created, known = self.live.created, self.log.admitted().get(str(self.live.spec.name), ())
        apart = [abs(created - before) for before in known]
        return created if any(one % _QUARTER == 0 and one <= _FARTHEST for one in apart) else None

    def _holds_newest_rows(self, facts: LogFacts) -> bool:
        """Whether every part of the newest epoch that has any is in the table: then its files have survived.

        Rows that wait must have a partition in it.
        """
        facts.require_readable()
        parts = [
            (manifest.epoch, part) for manifest, part in standing(facts.manifests) if part.table in facts.tables[:1]
        ]
        waiting = (partition for table, partition in facts.open_rows.buckets if table in facts.tables[:1])
        if not all(map(self._can_be_its, waiting)):
            return False
        if not parts:
            # A table that is older had another name when these rows were read: two may have been swapped.
            is_newer = self.live.created >= int(facts.manifests[-1].at.timestamp())
            return (is_newer or not facts.open_rows.rows) and (facts.floor is None or facts.floor.files == 0)
        last = max(epoch for epoch, _ in parts)
        newest = [part for epoch, part in parts if epoch == last]
        if not all(self._can_be_its(part.partition) for part in newest):
            return False
        homes = self.registrar.lookup(self.live, sorted({part.partition for part in newest}))
        return all(self.store.run_parallel(partial(self._is_here, part, homes.get(part.partition)) for part in newest))

    def _can_be_its(self, partition: str) -> bool:
        """Whether the table could have that partition: its columns, each with a value as Hive writes it today."""
        columns = self.live.spec.partition_columns
        if not is_partition(partition, [column.name for column in columns]):
            return False
        values = [value for _, value in parse_path(partition)] if columns else []
        try:
            return all(canonical(value, column.type) == value for value, column in zip(values, columns, strict=True))
        except errors.ValueUnfit:
            return False

    def _is_here(self, part: PartEntry, home: LivePartition | None) -> bool:
        """Whether `part` is in the table's own folder, which may have been moved, or its partition's; staged or not."""
        base = self.live.location.rstrip("/")
        own = self.store.canonical(base)
        folders = [base if not part.partition else f"{base}/{part.partition}", *([home.location] if home else [])]
        paths = [path for path in (part.target, part.staged) if self.store.canonical(path).startswith(f"{own}/")]
        files = (self.store.find(path) for path in [*paths, *(f"{folder}/{part.name}" for folder in folders)])
        return any(file is not None and file.length == part.length for file in files)

    def _require_no_foreign_parts(self, passed: Collection[str]) -> None:
        """Passes over the parts of the writer in one of the logs `passed`."""
        known = self.known()
        for parts in parts_of(self.store, self.registrar, self.live, staged=False):
            foreign = self._foreign(parts, known)
            if foreign:
                # A second writer that has begun meanwhile left its pointer before its first part.
                known = self.known()
                foreign = self._foreign(parts, known)
            # Another run of this writer that has begun meanwhile has decided an epoch by then.
            if foreign and not self.log.view().head:
                self._refuse(foreign, passed)

    def _foreign(self, parts: Iterable[FoundPart], known: Collection[str]) -> list[FoundPart]:
        own = self.log.uid(None)
        return [part for part in parts if part.name.uid not in known or part.name.uid == own]

    def _refuse(self, foreign: list[FoundPart], passed: Collection[str]) -> None:
        logs = {uid: self.search(uid) for uid in dict.fromkeys(part.name.uid for part in foreign)}
        # The log of this writer's own name is the one that its job wants.
        foreign.sort(key=lambda part: not (logs[part.name.uid] or "").endswith(f"/{self.writer}"))
        path, uid, table = foreign[0].path, foreign[0].name.uid, str(self.live.spec.name)
        own = uid == self.log.uid(None)
        log = self.log.location if own else logs[uid]
        if log in passed:
            return
        # Those beside it, of the same writer.
        same = [(part.path.rpartition("/")[0], part.name.uid) for part in foreign].count((path.rpartition("/")[0], uid))
        raise errors.ForeignParts(table, self.writer, uid, path=path, count=same, found=log, own=own)

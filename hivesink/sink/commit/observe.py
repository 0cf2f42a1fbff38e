"""What a plan needs: a writer's history from its log, and looks at files, partitions and touched-lists."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial

from hivesink.core.actions import Snapshot, StagingArea, Winner, followed, missing_parts, paths_to_look
from hivesink.core.epoch import Epoch
from hivesink.core.lifecycle import History, Identity, OpenEpoch
from hivesink.core.log import LogView, rebased, require_whole
from hivesink.core.manifest import Commit, Manifest, PartEntry, Recorded, recorded
from hivesink.core.manifest import newest as newest_records
from hivesink.core.partition import LivePartition, PartitionKey, is_aside, known_as
from hivesink.core.repair import rolled_buckets
from hivesink.core.rolling import open_rows
from hivesink.core.table import TableName, is_letters
from hivesink.errors import LogDamaged, UnknownTable, Unsupported
from hivesink.sink.commit.context import CommitContext, listings


def load(context: CommitContext, identity: Identity | None = None) -> History:
    """The log's history; `identity` is by default the head's. Raises LogDamaged."""
    while True:
        view = context.log.view()
        try:
            return _load(context, view, identity)
        except LogDamaged:
            # A running job may have trimmed what the listing showed, or created what it didn't: look again.
            now = context.log.view()
            if (now.floor, now.head, now.missing) == (view.floor, view.head, view.missing):
                raise


def _load(context: CommitContext, view: LogView, identity: Identity | None) -> History:
    log = context.log
    head = log.manifest(view.head) if view.manifests else None
    settled = view.settled(head.settled if head else Epoch(0))
    require_whole(log.location, view, settled)
    if head is None:
        return History(identity or Identity("", log.uid(None) or "", (), (), log.location))
    if identity is None:
        names = {name: known_as((name, ""), context.today or name)[0] for name in head.tables}
        zones = tuple((names.get(name, name), zone) for name, zone in head.zones)
        run = head.options, head.settings, head.columns
        identity = Identity(head.writer, head.uid, tuple(names.values()), zones, log.location, *run)
    epochs: list[OpenEpoch] = []
    moved: dict[str, str] = {}
    for epoch in view.manifests:
        if epoch > settled:
            manifest = head if epoch == head.epoch else log.manifest(epoch)
            if not manifest.is_bare:
                # Some manifests don't name their tables.
                today = _as_today(context, manifest, identity.tables[0], moved) if identity.tables else manifest
                epochs.append(OpenEpoch(today, view.state(epoch)))
    known = {epoch.manifest.epoch: epoch.manifest for epoch in epochs} | {head.epoch: head}
    # Each of them, also where the listing lacks it: it may say that rows wait, or that they no longer do.
    older = (known.get(epoch) or log.manifest(epoch) for epoch in map(Epoch, range(view.head, view.floor, -1)))
    rows = open_rows(older)
    rows = rows.renamed(identity.tables[0]) if identity.tables else rows
    return History(identity, head, tuple(epochs), view.floor, rows)


def _as_today(context: CommitContext, manifest: Manifest, table: str, moved: dict[str, str]) -> Manifest:
    """`manifest` where the log's table is called `table` now, and may have been renamed with its folder.

    `moved` are the targets that have changed so far, by the old ones.
    """
    former = context.former
    names = names_today(context, {part.table for part in (*manifest.add, *manifest.replaces)}, table)

    def today(part: PartEntry) -> PartEntry:
        staged, target = part.staged, part.target
        for old in former[:-1]:
            path = rebased(staged, old, former[-1])
            if path != staged and context.find(staged) is None and context.find(path) is not None:
                staged = path
                for before in former[:-1]:
                    target = rebased(target, before, former[-1])
                moved[part.target] = target
                break
        return replace(part, table=names[part.table], staged=staged, target=target)

    def table_today(key: PartitionKey) -> str:
        return names.get(key[0]) or known_as(key, table)[0]

    return replace(
        manifest,
        add=tuple(map(today, manifest.add)),
        remove=tuple(moved.get(target, target) for target in manifest.remove),
        replaces=tuple(replace(part, table=names[part.table]) for part in manifest.replaces),
        rolled=tuple((table_today(key), key[1]) for key in manifest.rolled),
        commits=tuple(replace(commit, table=table_today(commit.key)) for commit in manifest.commits),
    )


def names_today(context: CommitContext, tables: Iterable[str], table: str) -> dict[str, str]:
    """What `tables` of a log are called, whose own is called `table` now: another may have its old name."""
    names: dict[str, str] = {}
    for name in tables:
        names[name], _ = known_as((name, ""), table)
        if names[name] != name and is_letters(name):
            # Dead letters stay in their own table, unless that was renamed too.
            with suppress(UnknownTable, Unsupported):
                context.registrar.table(TableName.parse(name))
                names[name] = name
    return names


def load_commits(context: CommitContext, table: str | None = None) -> dict[PartitionKey, Commit]:
    """The newest commit of each partition that the log knows of, by `newest`. Raises StoreUnavailable."""

    def read(epoch: Epoch) -> tuple[Recorded, ...]:
        # No row depends on a settled manifest: `verify` names a manifest that can't be read.
        with suppress(LogDamaged):
            return recorded(context.log.manifest(epoch))
        return ()

    read_all = context.store.run_parallel(partial(read, epoch) for epoch in context.log.view().manifests)
    records = [*context.log.records(), *(record for some in read_all for record in some)]
    return {key: record.commit for key, record in newest_records(records, table).items()}


def take_snapshot(
    context: CommitContext, history: History, live: Mapping[PartitionKey, LivePartition] | None = None
) -> Snapshot:
    """The partitions of open epochs (`live`, if they were looked up), and the files that decide what to do about them.

    Raises MetastoreUnreachable, UnknownTable, StoreUnavailable, LogDamaged.
    """
    if live is None:
        live = context.lookup(history.places)
    files = lengths(context, paths_to_look(history, live))
    if not missing_parts(history, files, live):
        return Snapshot(files, live)
    floor, segments = context.log.view().floor, context.log.segments.lengths()
    rolled = rolled_buckets(history, floor, cache(context.log.manifest), segments)
    return Snapshot(files, live, rolled=rolled)


def search(context: CommitContext, parts: Collection[PartEntry]) -> dict[str, bool]:
    """The files of `parts` in all folders of their tables, and whether readers find them there.

    RENAME PARTITION and EXCHANGE carry hidden files along. Raises StoreUnavailable, MetastoreUnreachable.
    """
    names = {name: name == part.name for part in parts for name in (part.name, part.hidden)}
    store, canonical, files = context.store, context.store.canonical, dict[str, bool]()
    for table in map(context.table, sorted({part.table for part in parts})):
        homes = {canonical(home.location): home.location for home in context.registrar.lookup(table, None).values()}
        folders = {**{canonical(folder): folder for folder in store.walk(table.location)}, **homes}.values()
        visible = (file.path for file in listings(store, store.visible, folders))
        for path in (*listings(store, store.staged, folders), *visible):
            folder, _, name = path.rpartition("/")
            if name in names:
                files[path] = names[name] and canonical(folder) in homes
    return files


def lengths(context: CommitContext, paths: Iterable[str]) -> dict[str, int]:
    """The lengths of the files at `paths`; no entry for a missing file. Raises StoreUnavailable."""
    files = context.store.run_parallel(partial(context.find, path) for path in sorted(paths))
    return {file.path: file.length for file in files if file is not None}


def look_at_staging(
    context: CommitContext, head: Epoch, winners: frozenset[Winner] = frozenset(), *, segments: bool = True
) -> StagingArea:
    """The touched-lists, and the staged files in the folders of those that lost. Raises StoreUnavailable.

    With `segments` the segments too, of which there may be thousands.
    """
    lists = StagingArea(tuple(context.log.touched()), winners=winners)
    folders = sorted({folder for intent in followed(lists, head) for folder in context.log.folders(intent)})
    # Parts move from their own folder to where they are set aside: looking there last misses none.
    staged: list[str] = []
    for is_last in (False, True):
        now = [folder for folder in folders if is_aside(folder) is is_last]
        for paths in context.store.run_parallel(partial(context.store.staged, folder) for folder in now):
            staged += paths
    names = tuple(context.log.segments.lengths()) if segments else ()
    return StagingArea(lists.lists, tuple(folders), tuple(staged), winners, names)

"""What is left of tries that lost: staged files, and folders that were made for them."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from hivesink.core.bucket import is_aside
from hivesink.errors import MetastoreUnreachable, NotWritable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from hivesink.sink.commit.context import CommitContext


def discard(context: CommitContext, staged: Collection[str], folders: Iterable[str]) -> None:
    """Delete staged files, and those of `folders` that are empty then, unless the metastore lists them.

    Raises StoreUnavailable.
    """
    context.store.discard(staged)
    emptied = {path.rpartition("/")[0] for path in staged}
    others = [folder for folder in folders if folder not in emptied]
    seen = context.store.run_parallel(partial(context.store.visible, folder) for folder in others)
    emptied |= {folder for folder, files in zip(others, seen, strict=True) if not files}
    _prune_unlisted(context, emptied)


def _prune_unlisted(context: CommitContext, folders: Collection[str]) -> None:
    prune(context, filter(is_aside, folders))
    places = {}
    for folder in folders:
        table = context.owner(folder)
        if table is not None:
            partition = folder[len(context.table(table).location.rstrip("/")) + 1 :]
            # A partition that was moved may live in a folder of any name, which is then left alone.
            if partition and context.is_partition(table, partition):
                places[table, partition] = folder
    if not places:
        return
    # An empty folder harms nobody.
    with suppress(MetastoreUnreachable):
        registered = context.lookup(places)
        prune(context, (folder for place, folder in places.items() if place not in registered))


def prune(context: CommitContext, folders: Iterable[str]) -> None:
    """Remove those of `folders` that are empty and may be removed, the longest first."""
    for folder in sorted(folders, key=len, reverse=True):
        with suppress(NotWritable):
            context.store.prune([folder])

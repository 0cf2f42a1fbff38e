"""What recovery does, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hivesink.core import actions
from hivesink.core.progress import count

if TYPE_CHECKING:
    from collections.abc import Iterator


def describe(action: actions.Action) -> Iterator[tuple[str, str]]:  # noqa: C901, PLR0912  one case per action
    """The action by line: what is done, and to what."""
    match action:
        case actions.Decide(manifest):
            yield manifest.kind, f"epoch {manifest.epoch}"
        case actions.ClearAccurate(table, partitions):
            yield from (("clear accurate flag", _name(table, partition)) for partition in partitions)
        case actions.Register(table, partitions):
            yield from (("register", _name(table, partition)) for partition, _ in partitions)
        case actions.Publish(part):
            yield "publish", part.target
        case actions.AlreadyPublished(part):
            yield "keep", part.target
        case actions.PartMissing(part):
            yield "stop at", f"{part.target} ({count(part.rows, 'row')})"
        case actions.DeleteReplaced(parts):
            yield from (("delete", part.target) for part in parts)
        case actions.BeginPublish(epoch):
            yield "mark publishing", f"epoch {epoch}"
        case actions.MarkPublished(epoch):
            yield "mark published", f"epoch {epoch}"
        case actions.Announce(kind, committed):
            yield from ((kind.value.replace("-", " "), _name(new.table, new.partition)) for new in committed)
        case actions.MarkVerified(epoch):
            yield "mark verified", f"epoch {epoch}"
        case actions.MarkSettled(epoch):
            yield "mark settled", f"epoch {epoch}"
        case actions.Discard(staged):
            yield from (("discard", path) for path in staged)
        case actions.Forget(lists):
            yield from (("forget", f"list of epoch {listed.epoch}, task {listed.task}") for listed in lists)
        case actions.DropSegments(names):
            yield from (("drop segment", name) for name in names)
        case actions.Trim(epoch):
            yield "trim", f"manifests up to epoch {epoch}"


def _name(table: str, partition: str) -> str:
    return f"{table} {partition}".strip()

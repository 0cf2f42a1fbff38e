"""Whether what a listing of a log shows can be all of it, and the log's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hivesink.core.epoch import Epoch
from hivesink.errors import LogDamaged

if TYPE_CHECKING:
    from hivesink.core.log import LogView
    from hivesink.core.manifest import Manifest


def missing(view: LogView) -> tuple[Epoch, ...]:
    """Epochs above the floor without a manifest, though a later one, or a mark, shows that they were decided.

    A listing isn't a snapshot: what is missing from one alone may have been created, or let go of, meanwhile.
    """
    newest = max((view.floor, *view.manifests, *view.marks))
    there = set(view.manifests)
    return tuple(Epoch(number) for number in range(view.floor + 1, newest + 1) if number not in there)


def require_whole(location: str, view: LogView, settled: Epoch) -> None:
    """Raise LogDamaged where a manifest above `settled`, which the newest one says, is missing.

    What is settled is finished: a log can do without it, and `verify` names it.
    """
    for epoch in missing(view):
        if epoch > view.head:
            reason = f"the manifest of epoch {epoch} is missing, while marks of epoch {max(view.marks)} are there"
            raise LogDamaged(location, reason)
        if epoch > settled:
            raise LogDamaged(location, f"the manifest of epoch {epoch} is missing")
    if view.floor and not view.manifests:
        raise LogDamaged(location, f"its floor is {view.floor}, but every manifest above it is missing")


def require_own(file: str, manifest: Manifest, uid: str) -> None:
    """Raise LogDamaged where a manifest is of another log than that of `uid`, as after a copy."""
    if manifest.uid != uid:
        reason = (
            f"its uid is {manifest.uid}, this log's is {uid}: it is another log's; if none belongs here, move it away"
        )
        raise LogDamaged(file, reason)

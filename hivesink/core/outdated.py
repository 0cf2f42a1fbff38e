"""Whether a log is older than its table, as after a restore from a backup: by the names of the table's files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hivesink.core.epoch import Epoch
from hivesink.core.partfile import PartName

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hivesink.core.manifest import Manifest


def tries(manifest: Manifest) -> frozenset[str]:
    """The attempts whose parts `manifest` has decided: one, or none. A part's name keeps it wherever the part goes."""
    return frozenset(name.attempt for part in manifest.parts if (name := PartName.parse(part.name)))


def own_parts(paths: Iterable[str], uid: str | None) -> dict[PartName, str]:
    """The paths of those that are named as finished parts of `uid`."""
    named = ((PartName.parse(path.rpartition("/")[2]), path) for path in paths)
    return {name: path for name, path in named if name and name.uid == uid}


def undecided(parts: Iterable[PartName], head: Epoch, decided: Mapping[Epoch, frozenset[str]]) -> list[PartName]:
    """Those of a log's own visible `parts` that it can't have decided, the newest last.

    They are of epochs after its `head`, or of one that the log has decided with other parts. Nothing is known of an
    epoch that `decided` lacks: its manifest was trimmed, or can't be read. A part is visible only after its decision.
    """

    def is_unknown(name: PartName) -> bool:
        return name.epoch > head or name.attempt not in decided.get(Epoch(name.epoch), {name.attempt})

    return sorted(filter(is_unknown, parts), key=lambda name: name.epoch)

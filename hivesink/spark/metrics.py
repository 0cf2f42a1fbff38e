"""The metrics of all queries of this process: where they are served or written, once for each place."""

from __future__ import annotations

import os
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from hivesink.config.parsers import address
from hivesink.spark.query import queries

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hivesink.core.metrics import Sample

_PLACES = ("HIVESINK_METRICS", "HIVESINK_METRICS_FILE")
"""What `hivesink run --metrics`, and `--metrics-file`, tell the job's process."""
_begun: set[str] = set()
# In a forked process nobody serves or writes.
os.register_at_fork(after_in_child=_begun.clear)


def begin(*places: str | os.PathLike[str] | None) -> bool:
    """Serve at each of `places`, or of the environment's, that is an address, and write to each that is a folder.

    Returns whether anybody wants metrics. Raises NotWritable.
    """
    for place in (os.fspath(place) for place in (*places, *map(os.environ.get, _PLACES)) if place):
        if place not in _begun:
            # The client library is loaded where somebody wants metrics.
            from hivesink.metrics import Families, serve, write_always

            families = Families(_ask)
            if (at := address(place)) is not None:
                serve(families, *at)
            else:
                write_always(families, place)
            _begun.add(place)
    return bool(_begun)


def _ask() -> Mapping[tuple[str, str], list[Sample]]:
    now, specs = datetime.now(timezone.utc), [(query, query.run.setup.spec) for query in queries()]
    return {(spec.target.name, spec.identity.writer): [*query.samples(now)] for query, spec in specs}

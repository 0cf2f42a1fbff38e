"""A Spark session for a job: on the metastore that is named, or on the embedded one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from hivesink.embedded import metastore as embedded
from hivesink.embedded.session import local_session
from hivesink.errors import InvalidOption

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession


def session(
    app: str,
    *,
    metastore: str | None = None,
    kafka: bool = False,
    extra: Mapping[str, str] | None = None,
) -> SparkSession:
    """A local Spark session whose catalog is the metastore at `metastore`.

    Without it `$HIVESINK_METASTORE`, else the embedded metastore of this folder (`hivesink metastore start`).
    On a cluster a job makes its own session, as any Spark job does. Raises InvalidOption where no metastore is
    named and none runs.
    """
    uri = metastore or os.environ.get("HIVESINK_METASTORE")
    state = embedded.status()
    warehouse = Path(state.warehouse) if state.warehouse else embedded.default_home() / "warehouse"
    if not uri:
        if not state.running or state.uri is None:
            problem = "no metastore: start the embedded one with `hivesink metastore start`, or set HIVESINK_METASTORE"
            raise InvalidOption((problem,))
        uri = state.uri
    return local_session(app, uri, warehouse, kafka=kafka, extra=extra)

"""`hivesink prepare`: what the first start would fetch, and what makes later ones fast."""

from __future__ import annotations

import importlib.metadata

from hivesink.cli.command import command
from hivesink.cli.output import Line, Output, Report, tell
from hivesink.embedded.metastore import loopback_classes
from hivesink.jvm import archive, jars
from hivesink.spark.settings import LOGGING, log4j_file


@command
def prepare(out: Output) -> None:
    """Fetch Spark's connectors into the cache, and write an archive of its classes: jobs then start faster.

    For an image or a new machine. Safe to repeat; repeat it after a new version of PySpark or Java.

    Example: hivesink prepare
    """
    connector = jars.kafka_connector(importlib.metadata.version("pyspark"))
    sets = (connector, jars.HIVE_CLIENT)
    for jar_set in sets:
        if not jars.fetched(jar_set):
            tell(f"fetching {jar_set.name}: {len(jar_set.coordinates)} jars")
            jars.fetch(jar_set)
    # All else that a start writes into the cache, which may be read-only later.
    loopback_classes()
    for kind in LOGGING:
        log4j_file(kind)
    tell("writing an archive of Spark's classes, which takes half a minute")
    path = archive.make(jars.fetched(connector))
    names = [jar_set.name for jar_set in sets]
    lines = (f"ready: {', '.join(names)}", f"ready: {path} ({path.stat().st_size >> 20} MB)")
    out.show(Report({"jars": names, "archive": str(path)}, tuple(Line(line) for line in lines)))

"""A job to be killed: run by test_kills.py in a process of its own.

At the step that `die_at` names, in the epoch that it names, the job says so in the file `reached` and stands still,
so that the kill falls just there. The steps are the protocol's own; the sink is what users run.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from hivesink import HiveSink, sources
from hivesink.spark.session import session


class Halting:
    """Passes everything on to `inner`; stands still before or after one call of the method `name`."""

    def __init__(self, inner: Any, name: str, *, after: bool, reached: Path) -> None:
        self._inner = inner
        self._name = name
        self._after = after
        self._reached = reached

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name != self._name:
            return found

        def halting(*args: Any, **kwargs: Any) -> Any:
            if not self._after:
                self._halt()
            result = found(*args, **kwargs)
            if self._after:
                self._halt()
            return result

        return halting

    def _halt(self) -> None:
        self._reached.write_text(self._name)
        time.sleep(600)


STEPS = {
    "before-manifest": ("log", "create", False),
    "after-manifest": ("log", "create", True),
    "while-publishing": ("store", "publish", True),
    "after-publish": ("log", "mark", True),
    "before-register": ("registrar", "add", False),
    "after-register": ("registrar", "add", True),
}


def main() -> None:
    order = json.loads(sys.argv[1])
    reached = Path(order["reached"])
    settings = {"spark.sql.warehouse.dir": Path(order["warehouse"]).as_uri(), **order["spark"]}
    spark = session("killed job", metastore=order["metastore"], kafka="servers" in order, extra=settings)
    committed = Path(order["committed"])

    def on_commit(_: Any) -> None:
        with committed.open("a") as file:
            file.write("epoch\n")
        if order["die_at"] == "after-commit":
            reached.write_text("commit")
            time.sleep(600)

    sink = HiveSink.for_table(spark, order["table"], writer="killed", on_commit=on_commit)
    if order["die_at"] in STEPS:
        port, method, after = STEPS[order["die_at"]]
        context = sink.setup.context
        object.__setattr__(context, port, Halting(getattr(context, port), method, after=after, reached=reached))
    if "servers" in order:
        events = sources.kafka(
            spark, order["servers"], order["topic"], options={"maxOffsetsPerTrigger": str(order["batch"])}
        )
    else:
        events = sources.lines(spark, order["source"], options={"maxFilesPerTrigger": "1"})
    if order["distinct"]:
        events = events.dropDuplicates(["value"])
    query = sink.start(events, checkpoint=order["checkpoint"], trigger={"availableNow": True})
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()

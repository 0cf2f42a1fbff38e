"""A job whose metastore may refuse to add partitions: run by test_metastore_down.py in a process of its own."""

from __future__ import annotations

import json
import sys
from typing import Any

from hivesink import HiveSink, errors, session, sources
from hivesink.metastore.thrift import ThriftRegistrar


def refuse(_: ThriftRegistrar, table: Any, __: Any) -> None:
    raise errors.RegistrationFailed(str(table.spec.name), "register partitions", "refused by the test")


def main() -> None:
    order = json.loads(sys.argv[1])
    if order["refused"]:
        ThriftRegistrar.add = refuse  # type: ignore[method-assign]
    spark = session("refused job", extra=order["spark"])
    sink = HiveSink.for_table(spark, order["table"])
    query = sink.start(
        sources.lines(spark, order["source"]), checkpoint=order["checkpoint"], trigger={"availableNow": True}
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()

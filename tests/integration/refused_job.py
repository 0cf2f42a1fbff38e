"""A job whose metastore may refuse to add partitions: run by test_metastore_down.py in a process of its own."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING

from hivesink import HiveSink, errors, session, sources
from hivesink.metastore.thrift import ThriftMetastore
from hivesink.metastore.thrift_connection import Connection

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hivesink.core.partition import NewPartition
    from hivesink.ports import LiveTable


class Refusing(ThriftMetastore):
    """Everything but what counts."""

    def add(self, table: LiveTable, partitions: Sequence[NewPartition]) -> None:
        what, why = f"register {len(partitions)} partitions", "refused by the test"
        raise errors.RegistrationFailed(str(table.spec.name), what, why)


def main() -> None:
    order = json.loads(sys.argv[1])
    spark = session("refused job", extra=order["spark"])
    sink = HiveSink.for_table(spark, order["table"])
    if order["refused"]:
        object.__setattr__(sink.setup.context, "registrar", Refusing(Connection(os.environ["HIVESINK_METASTORE"])))
    query = sink.start(
        sources.lines(spark, order["source"]), checkpoint=order["checkpoint"], trigger={"availableNow": True}
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()

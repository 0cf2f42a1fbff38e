"""A sensor for Apache Airflow: a task that ends once every writer of a table has committed a partition.

Airflow 2.10 and later, and 3. It asks what `hivesink wait` asks, and returns what that prints with `--json`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

try:
    from airflow.sdk import BaseSensorOperator, PokeReturnValue
except ModuleNotFoundError:
    # Airflow 2 has them here.
    from airflow.sensors.base import BaseSensorOperator, PokeReturnValue
try:
    from airflow.sdk.exceptions import AirflowFailException
except ImportError:
    # Until Airflow 3.0 it was here; later that is deprecated.
    from airflow.exceptions import AirflowFailException

if TYPE_CHECKING:
    from hivesink.tables.waiting import PartitionWait


__all__ = ["HivesinkPartitionSensor"]


class HivesinkPartitionSensor(BaseSensorOperator):
    """Waits until every writer of `table` has committed `partition` (`dt={{ ds }}`), or is past it without a row.

    `writer` restricts it to one. `metastore` is `thrift://HOST:PORT[,...]`; without it `$HIVESINK_METASTORE` or
    `hive-site.xml` of the worker says where it is. `poke_interval` and `timeout` (seconds), `mode` and `soft_fail` are
    Airflow's own: with `mode="reschedule"` no worker is held between two looks.

    The task returns `{"partition": …, "commits": […]}`, one commit for each writer. It logs what it waits for, whenever
    that changes. A metastore or file system that doesn't answer is waited for. A table, writer or partition column that
    doesn't exist, and a log that can't be read, fail the task without a retry (AirflowFailException); after `timeout`
    it fails with AirflowSensorTimeout.
    """

    template_fields: Sequence[str] = ("table", "partition", "metastore", "writer")

    def __init__(
        self, *, table: str, partition: str, metastore: str | None = None, writer: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.partition = partition
        self.metastore = metastore
        self.writer = writer
        self._wait: PartitionWait | None = None

    def poke(self, context: Any) -> PokeReturnValue:  # noqa: ARG002  Airflow's signature
        """Look once."""
        # Not above: Airflow imports DAG files again and again, and this imports Arrow.
        from hivesink.errors import HiveSinkError
        from hivesink.tables.waiting import PartitionWait

        if self._wait is None:
            self._wait = PartitionWait(**{name: getattr(self, name) for name in self.template_fields}, tolerant=True)
        try:
            look = self._wait.look()
        except HiveSinkError as error:
            raise AirflowFailException(str(error)) from None
        if look.is_news:
            self.log.info("%s", look)
        is_done = look.waits_for is None
        return PokeReturnValue(is_done=is_done, xcom_value=look.commits if is_done else None)

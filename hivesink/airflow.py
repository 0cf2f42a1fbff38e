"""A sensor for Apache Airflow: a task that ends once every writer of a table has committed a partition.

Airflow 2.10 and later, and 3. It asks what `hivesink wait` asks, and returns what that prints with `--json`.
"""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.configuration import conf
from airflow.triggers.base import BaseTrigger, TriggerEvent

try:
    from airflow.sdk import BaseSensorOperator, PokeReturnValue
except ModuleNotFoundError:
    # Airflow 2 has them here.
    from airflow.sensors.base import BaseSensorOperator, PokeReturnValue
try:
    from airflow.sdk.exceptions import AirflowFailException, AirflowSensorTimeout
except ImportError:
    # Until Airflow 3.0 they were here; later that is deprecated.
    from airflow.exceptions import AirflowFailException, AirflowSensorTimeout

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from hivesink.tables.waiting import PartitionWait

__all__ = ["HivesinkPartitionSensor", "PartitionTrigger"]

_GRACE = timedelta(minutes=5)
"""How much later than the trigger Airflow gives up: only the trigger can say why."""


class HivesinkPartitionSensor(BaseSensorOperator):
    """Waits until every writer of `table` has committed `partition` (`dt={{ ds }}`), or is past it without a row.

    `writer` restricts it to one. `metastore` is `thrift://HOST:PORT[,...]`; without it `$HIVESINK_METASTORE` or
    `hive-site.xml` of the worker and the triggerer say where it is. With `deferrable` (default: Airflow's setting
    `operators.default_deferrable`) the triggerer waits, in place of a worker; `exponential_backoff` is then unused.
    `poke_interval` and `timeout` (seconds), `mode` and `soft_fail` are Airflow's own.

    The task returns `{"partition": …, "commits": […]}`, one commit for each writer. It logs what it waits for, whenever
    that changes. A metastore or file system that doesn't answer is waited for. A table, writer or partition column that
    doesn't exist, and a log that can't be read, fail the task without a retry (AirflowFailException); after `timeout`
    it fails with AirflowSensorTimeout.
    """

    template_fields: Sequence[str] = ("table", "partition", "metastore", "writer")

    def __init__(
        self,
        *,
        table: str,
        partition: str,
        metastore: str | None = None,
        writer: str | None = None,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.partition = partition
        self.metastore = metastore
        self.writer = writer
        self.deferrable = deferrable
        self._wait: PartitionWait | None = None

    def poke(self, context: Any) -> PokeReturnValue:  # noqa: ARG002  Airflow's signature
        """Look once. What defers the task is no Exception: the base class, which handles `soft_fail`, lets it pass."""
        from hivesink.errors import HiveSinkError

        what = {name: getattr(self, name) for name in self.template_fields}
        self._wait = self._wait or _wait(**what)
        try:
            look = self._wait.look()
        except HiveSinkError as error:
            raise AirflowFailException(str(error)) from None
        if look.is_news:
            self.log.info("%s", look)
        if look.waits_for is None:
            return PokeReturnValue(is_done=True, xcom_value=look.commits)
        if self.deferrable:
            trigger = PartitionTrigger(**what, poke_interval=self.poke_interval, until=time.time() + self.timeout)
            limit = timedelta(seconds=self.timeout) + _GRACE
            self.defer(trigger=trigger, method_name="execute_complete", timeout=limit)
        return PokeReturnValue(is_done=False)

    def execute_complete(self, context: Any, event: Mapping[str, Any]) -> Any:  # noqa: ARG002  Airflow's signature
        """What the task returns, or its failure, as the trigger says."""
        if "failed" in event:
            raise AirflowFailException(event["failed"])
        if "timed_out" in event:
            raise AirflowSensorTimeout(event["timed_out"])
        return event["committed"]


class PartitionTrigger(BaseTrigger):
    """Looks every `poke_interval` seconds, in a thread, until it is committed or `until` (Unix time) is past.

    `what` is the sensor's `table`, `partition`, `metastore` and `writer`.

    It sends one event, with one key: `committed` (what the task returns), `timed_out` or `failed` (a text).
    """

    def __init__(self, *, poke_interval: float, until: float, **what: str | None) -> None:
        super().__init__()
        self._what = what
        self._poke_interval = poke_interval
        self._until = until

    def serialize(self) -> tuple[str, dict[str, Any]]:
        own = {"poke_interval": self._poke_interval, "until": self._until}
        return f"{__name__}.{type(self).__qualname__}", {**self._what, **own}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        from hivesink.errors import HiveSinkError

        try:
            # The import takes its time, too.
            wait = await asyncio.to_thread(_wait, **self._what)
            while (look := await asyncio.to_thread(wait.look)).waits_for is not None:
                if look.is_news:
                    self.log.info("%s", look)
                left = self._until - time.time()
                if left <= 0:
                    yield TriggerEvent({"timed_out": f"{look.partition}: timed out: {look.waits_for}"})
                    return
                await asyncio.sleep(min(self._poke_interval, left))
        except HiveSinkError as error:
            yield TriggerEvent({"failed": str(error)})
            return
        self.log.info("%s", look)
        yield TriggerEvent({"committed": look.commits})


def _wait(**what: Any) -> PartitionWait:
    # Not above: Airflow imports DAG files again and again, and this imports Arrow.
    from hivesink.tables.waiting import PartitionWait

    return PartitionWait(**what, tolerant=True)

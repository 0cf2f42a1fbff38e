"""Run by Airflow's Python: the trigger asks a metastore that lives in the trigger's own event loop, and hangs up.

A look that blocks the loop ends before the loop has let that server run.
"""

from __future__ import annotations

import asyncio
import time
from unittest import mock

from hivesink.airflow import PartitionTrigger
from hivesink.tables.waiting import Look, PartitionWait

happened: list[str] = []
look = PartitionWait.look


def noted(wait: PartitionWait) -> Look:
    found = look(wait)
    happened.append("looked")
    return found


async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    happened.append("asked")
    writer.close()


async def main() -> None:
    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    uri = f"thrift://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    until = time.time() + 1
    trigger = PartitionTrigger(
        table="a.b", partition="dt=1", metastore=uri, writer=None, poke_interval=0.1, until=until
    )
    [event] = [event async for event in trigger.run()]
    server.close()
    print(event.payload["timed_out"])
    print(happened[0])


with mock.patch.object(PartitionWait, "look", noted):
    asyncio.run(main())

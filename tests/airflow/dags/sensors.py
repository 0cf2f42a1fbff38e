"""A DAG with the sensors that `SENSORS` names (task to arguments, as JSON), and what they return, a file each in `OUT`.

Run as a program it is one `dag.test()`, which leaves the states of all tasks in `OUT/states.json`.
"""

from __future__ import annotations

import json
import os
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from hivesink.airflow import HivesinkPartitionSensor

try:
    from airflow.sdk import DAG, task
except ModuleNotFoundError:
    from airflow import DAG
    from airflow.decorators import task

OUT = Path(os.environ["OUT"])
SENSORS: dict[str, dict[str, Any]] = json.loads(os.environ["SENSORS"])


def keep(name: str, value: Any) -> None:
    """Write what a sensor has returned: at once, since the file is waited for."""
    new = OUT / f"{name}.new"
    new.write_text(json.dumps(value))
    new.rename(OUT / f"{name}.json")


# A failure that Airflow may try again isn't "failed" but "up for retry".
AGAIN = {"retries": 1}
BEGIN = datetime(2024, 1, 2, tzinfo=timezone.utc)
with DAG("sensors", start_date=BEGIN, schedule="@once", default_args=AGAIN, params={"day": "2024-01-02"}) as dag:
    for one, arguments in SENSORS.items():
        sensor = HivesinkPartitionSensor(task_id=one, **arguments)
        task(keep).override(task_id=f"keep_{one}")(one, sensor.output)

if __name__ == "__main__":
    run = dag.test()
    (OUT / "states.json").write_text(json.dumps({one.task_id: str(one.state) for one in run.get_task_instances()}))

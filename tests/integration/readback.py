"""A Spark session in a process of its own, whose JVM runs in a given zone: Hive's reader looks at that zone.

`python readback.py` reads a request as JSON from its input and writes the answers as its last line of output.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[2]


def in_zone(zone: str, metastore: str, warehouse: Path, steps: list[dict[str, Any]]) -> list[Any]:
    """The answers to `steps`, read by a JVM whose own zone and Spark session are in `zone`.

    A step is `{"sql": …, "conf": {…}}`; its answer is a list of rows, or the first line of an error as text.
    """
    request = {"metastore": metastore, "warehouse": str(warehouse), "zone": zone, "steps": steps}
    environment = {**os.environ, "TZ": zone, "PYTHONPATH": str(REPOSITORY)}
    command, text = [sys.executable, __file__], json.dumps(request)
    done = subprocess.run(command, env=environment, input=text, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    answers: list[Any] = json.loads(done.stdout.splitlines()[-1])
    return answers


def _main() -> None:
    from hivesink.spark.session import session
    from hivesink.spark.settings import logging_settings

    request = json.load(sys.stdin)
    metastore, warehouse, zone = request["metastore"], Path(request["warehouse"]), request["zone"]
    options = logging_settings(os.environ, {})["spark.driver.extraJavaOptions"]
    extra = {
        "spark.driver.extraJavaOptions": f"{options} -Duser.timezone={zone}",
        "spark.sql.session.timeZone": zone,
        "spark.sql.warehouse.dir": warehouse.as_uri(),
    }
    spark = session("read back", metastore=metastore, master="local[1]", extra=extra)
    try:
        print(json.dumps([_answer(spark, step) for step in request["steps"]]))
    finally:
        spark.stop()


def _answer(spark: Any, step: dict[str, Any]) -> Any:
    conf: dict[str, str] = step.get("conf", {})
    for name, value in conf.items():
        spark.conf.set(name, value)
    try:
        return [list(row) for row in spark.sql(step["sql"]).collect()]
    except Exception as error:  # noqa: BLE001  whatever the reader says is the answer
        return next(line for line in str(error).splitlines() if line.strip())
    finally:
        for name in conf:
            spark.conf.unset(name)


if __name__ == "__main__":
    _main()

"""The package as a zip: the same bytes for the same code, and all of it can be imported from there."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from typing import TYPE_CHECKING

import pytest

from hivesink.spark import shipping

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

IMPORTS = """
import importlib, pkgutil, sys, hivesink
for module in pkgutil.walk_packages(hivesink.__path__, "hivesink."):
    importlib.import_module(module.name)
from hivesink.jvm.jars import HIVE_CLIENT
from hivesink.spark.shipping import zipped
from pathlib import Path
Path(sys.argv[1]).write_bytes(zipped())
print(hivesink.spark.sink.__file__, len(HIVE_CLIENT.coordinates))
"""


def test_the_zip_is_the_package_without_its_servers_and_makes_itself_again(tmp_path: Path) -> None:
    first, again = tmp_path / "hivesink-1.zip", tmp_path / "again.zip"
    first.write_bytes(shipping.zipped())
    environment = {**os.environ, "PYTHONPATH": str(first), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", IMPORTS, str(again)],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    where, jars = done.stdout.split()
    assert where == f"{first}/hivesink/spark/sink.py"
    assert int(jars) > 0
    assert again.read_bytes() == first.read_bytes()
    with zipfile.ZipFile(first) as archive:
        packages = {name.split("/")[1] for name in archive.namelist()}
    assert {"core", "sink", "spark"} <= packages
    assert not {"cli", "embedded"} & packages


def test_tasks_need_no_more_than_the_environment_that_make_dist_makes() -> None:
    script = "import sys, hivesink.spark.sink; print(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert {"pyarrow", "msgspec", "numpy"} <= set(done.stdout.split())
    others = {"click", "hive_metastore", "puresasl", "pyhive", "rich", "sqlglot", "TCLIService", "thrift", "typer"}
    assert not others & set(done.stdout.split())


@pytest.mark.spark
def test_local_tasks_need_no_zip(spark: SparkSession) -> None:
    assert shipping.ship(spark) is None

"""An archive of the classes that a Spark driver loads: a driver that has it starts in half the CPU time.

JEP 350, "Dynamic CDS Archives". It belongs to one virtual environment: a JVM ignores an archive of other jars.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from hivesink.jvm.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ARCHIVE = Path(sys.prefix) / "spark-driver.jsa"
# What a JVM says about an archive that it can't take is no test's output.
USE = f"-XX:SharedArchiveFile={ARCHIVE} -Xlog:disable"


def make() -> None:
    """Write the archive, which takes half a minute. Raises CalledProcessError where Java can't."""
    pyspark = find_spec("pyspark")
    assert pyspark is not None
    assert pyspark.origin is not None
    with tempfile.TemporaryDirectory(dir=ARCHIVE.parent) as folder:
        new = Path(folder, ARCHIVE.name)
        environment = {
            "JAVA_HOME": str(find_java().home),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_SUBMIT_OPTS": f"-XX:ArchiveClassesAtExit={new} -Xlog:disable",
        }
        # spark-submit ends with its JVM, which writes the archive at its end.
        command = [str(Path(pyspark.origin).parent / "bin" / "spark-submit"), __file__, folder]
        subprocess.run(command, env=os.environ | environment, capture_output=True, check=True)
        new.replace(ARCHIVE)


def job(folder: str) -> None:
    """A job that uses what the tests' jobs use: files, a stream, Python workers, Parquet, Hive's client."""
    from pyspark.sql import SparkSession

    settings = {
        "spark.hadoop.javax.jdo.option.ConnectionURL": "jdbc:derby:memory:classes;create=true",
        "spark.hadoop.datanucleus.schema.autoCreateAll": "true",
        "spark.hadoop.hive.metastore.schema.verification": "false",
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        "spark.ui.enabled": "false",
    }
    builder = SparkSession.builder.master("local[2]").enableHiveSupport()
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()

    def write(batch: DataFrame, _: int) -> None:
        batch.mapInArrow(lambda rows: rows, batch.schema).collect()
        batch.groupBy("value").count().write.parquet(f"{folder}/out")

    spark.range(100).selectExpr("id", "cast(id AS string) AS value").write.json(f"{folder}/in")
    stream = spark.readStream.schema("id BIGINT, value STRING").json(f"{folder}/in").writeStream
    stream = stream.foreachBatch(write).option("checkpointLocation", f"{folder}/checkpoint")
    stream.trigger(availableNow=True).start().awaitTermination()
    spark.sql("CREATE TABLE t (id BIGINT) PARTITIONED BY (dt STRING) STORED AS PARQUET")
    spark.sql("INSERT INTO t PARTITION (dt = 'a') SELECT id FROM range(10)")
    spark.sql("SELECT dt, sum(id) FROM t GROUP BY dt").collect()
    spark.stop()


if __name__ == "__main__":
    job(sys.argv[1]) if sys.argv[1:] else make()

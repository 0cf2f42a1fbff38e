"""An archive of the classes that a Spark driver loads: a driver that has it starts faster.

JEP 350, "Dynamic CDS Archives". A JVM goes on without an archive that isn't there, or is of another build of Java or of
other jars.
"""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from hivesink.config.cache import cache_folder, scratch_beside
from hivesink.errors import JavaFailed
from hivesink.jvm.jars import spark_home
from hivesink.jvm.java import find_java

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame

# What a JVM says on standard output about an archive that it can't take helps nobody.
_SILENT = "-Xlog:cds*=off"


def archive() -> Path:
    """Where the archive of this environment's Java and PySpark is kept. Raises JavaFailed."""
    key = sha256(f"{find_java().home}\n{spark_home()}".encode()).hexdigest()[:12]
    return cache_folder() / "archives" / f"spark-{key}.jsa"


def options() -> str:
    """The options of a JVM that uses the archive, if it exists. Raises JavaFailed."""
    return f"-XX:SharedArchiveFile={archive()} {_SILENT}"


def make(class_path: Sequence[Path]) -> Path:
    """Write the archive, which takes half a minute; return it.

    It holds all classes of the jars in `class_path`, which a JVM must then have at the front of its own. Raises
    JavaFailed, NotWritable.
    """
    path, java = archive(), find_java()
    # A JVM dies of half an archive: it appears whole.
    with scratch_beside(path) as folder:
        new = folder / path.name
        environment = os.environ | {
            "JAVA_HOME": str(java.home),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_SUBMIT_OPTS": f"-XX:ArchiveClassesAtExit={new} {_SILENT}",
        }
        command = [sys.executable, __file__, str(folder), *map(str, class_path)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode or not new.is_file():
            said = (done.stderr or done.stdout).strip().rpartition("\n")[2]
            problem = f"{java.program} wrote no archive of Spark's classes: {said or 'it says nothing'}"
            raise JavaFailed(problem, "jobs run without it, but start more slowly")
        new.replace(path)
    return path


def job(folder: str, jars: Sequence[str]) -> None:
    """A job that uses what jobs use: files, a stream, Python workers, Parquet, Hive's client, classes of these jars."""
    from py4j.protocol import Py4JJavaError
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    settings = {
        "spark.driver.extraClassPath": os.pathsep.join(jars),
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
    jvm: Any = spark._jvm  # noqa: SLF001  the only way to it
    loader = jvm.java.lang.ClassLoader.getSystemClassLoader()
    for name in (name for jar in jars for name in zipfile.ZipFile(jar).namelist()):
        if name.endswith(".class") and "-" not in name:
            # Some are for libraries that nobody has here.
            with suppress(Py4JJavaError):
                jvm.java.lang.Class.forName(name.removesuffix(".class").replace("/", "."), False, loader)
    spark.stop()
    # The JVM writes the archive at its end, which is that of its input.
    gateway: Any = SparkContext._gateway  # noqa: SLF001  nobody else knows the JVM's process
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


if __name__ == "__main__":
    job(sys.argv[1], sys.argv[2:])

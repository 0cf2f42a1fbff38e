"""A local Spark session over a running metastore."""

from __future__ import annotations

import importlib.metadata
import logging
import os
from typing import TYPE_CHECKING

from hivesink.config.cache import cache_folder, write_atomically
from hivesink.jvm.conf import log4j2
from hivesink.jvm.jars import fetch, kafka_connector
from hivesink.jvm.java import find_java

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

LOOPBACK = "127.0.0.1"
# Streaming is off since the handle of a failed query raises what Spark would log with a stack trace.
LOGGING = log4j2("error", {"org.apache.spark.sql.execution.streaming": "off"})
# Spark 4's loggers in Python of failed statements, with the JVM's stack trace.
STATEMENTS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")

SETTINGS: Mapping[str, str] = {
    "spark.sql.catalogImplementation": "hive",
    # The default of 10,000 rows makes Arrow tasks slow.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def start(app: str, master: str, settings: Mapping[str, str]) -> SparkSession:
    """Return the Spark session of this process, made with these settings if none runs.

    Sets JAVA_HOME for this process, and SPARK_LOCAL_IP for a driver on the loopback, since Spark reads them only
    from the environment. Raises JavaNotFound.
    """
    from pyspark.sql import SparkSession

    os.environ["JAVA_HOME"] = str(find_java().home)
    if settings.get("spark.driver.bindAddress") == LOOPBACK:
        os.environ["SPARK_LOCAL_IP"] = LOOPBACK
    for name in STATEMENTS:
        logging.getLogger(name).disabled = True
    builder = SparkSession.builder.appName(app).master(master).enableHiveSupport()
    for name, value in {**logging_settings(), **settings}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def kafka_settings(jars: str = "") -> dict[str, str]:
    """Return the Spark settings that add the Kafka connector, fetched on first use, to `jars`."""
    connector = [path.as_uri() for path in fetch(kafka_connector(importlib.metadata.version("pyspark")))]
    return {"spark.jars": ",".join([*filter(None, jars.split(",")), *connector])}


def logging_settings() -> dict[str, str]:
    """Return the Spark settings of a driver that logs little."""
    log4j = cache_folder() / "spark-log4j2.properties"
    write_atomically(log4j, LOGGING)
    options = f"-Dlog4j2.configurationFile={log4j.as_uri()} -Djava.net.preferIPv4Stack=true"
    return {"spark.driver.extraJavaOptions": options}

"""The jars that PySpark ships: Hive's metastore, Spark's Thrift server, Ivy and Janino are among them."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

# What Spark's launcher opens on Java 17 and later: `JavaModuleOptions` in Spark's sources.
OPENS = tuple(
    f"--add-opens={package}=ALL-UNNAMED"
    for package in (
        "java.base/java.lang",
        "java.base/java.lang.invoke",
        "java.base/java.lang.reflect",
        "java.base/java.io",
        "java.base/java.net",
        "java.base/java.nio",
        "java.base/java.util",
        "java.base/java.util.concurrent",
        "java.base/java.util.concurrent.atomic",
        "java.base/jdk.internal.ref",
        "java.base/sun.nio.ch",
        "java.base/sun.nio.cs",
        "java.base/sun.security.action",
        "java.base/sun.util.calendar",
        "java.security.jgss/sun.security.krb5",
    )
)


def spark_home() -> Path:
    """Return the folder of the installed pyspark, which serves as SPARK_HOME."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        message = "pyspark is a dependency of hivesink but is not installed here"
        raise ModuleNotFoundError(message)
    return Path(spec.origin).parent


def all_jars() -> str:
    """Return the class path entry for all jars of the installed pyspark."""
    return str(spark_home() / "jars" / "*")


def jar(name: str) -> Path:
    """Return the path of the jar `<name>-<version>.jar` of the installed pyspark."""
    (path,) = (p for p in (spark_home() / "jars").glob(f"{name}-*.jar") if re.search(rf"{name}-\d", p.name))
    return path

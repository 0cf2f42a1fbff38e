"""The jars of Spark's connectors and of servers, pinned and fetched from a Maven repository, and their archive."""

from __future__ import annotations

import os
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from hashlib import sha1, sha256
from http.client import HTTPException
from importlib.abc import Traversable
from importlib.metadata import distribution
from importlib.resources import files
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

from hivesink.config.cache import cache_folder, made_once
from hivesink.errors import SourceUnreachable
from hivesink.jvm.java import find_java

MAVEN_CENTRAL = "https://repo1.maven.org/maven2"
_AT_ONCE, _SILENCE = 4, 60.0
"""How many jars are fetched at once, and seconds that the repository may say nothing."""


@dataclass(frozen=True, slots=True)
class JarSet:
    """Jars that are used together, nothing transitive, by Maven's `group:artifact:version[:classifier]`."""

    name: str
    coordinates: tuple[str, ...]

    @classmethod
    def listed(cls, file: Traversable) -> JarSet:
        """The set in a text file: a coordinate on each line, `#` for comments."""
        lines = file.read_text(encoding="utf-8").splitlines()
        return cls(file.name.removesuffix(".txt"), tuple(line for line in lines if line and not line.startswith("#")))


# Spark's client of a metastore of Hive 4.
HIVE_CLIENT = JarSet.listed(files("hivesink.jvm") / "hive-client-4.0.1.txt")
_S3A = JarSet.listed(files("hivesink.jvm") / "s3a-3.5.0.txt")


def s3a() -> JarSet:
    """Hadoop's file system for S3, for Spark and the embedded metastore; empty where PySpark has another Hadoop."""
    fits = jar("hadoop-client-api").stem.endswith(_S3A.name.removeprefix("s3a"))
    return _S3A if fits else JarSet("s3a", ())


def kafka_connector(spark: str) -> JarSet:
    """Return Spark's Kafka connector for this version of PySpark.

    Not every release of the connector is on Maven Central: this picks the last of the same line that is.
    The token provider serves delegation tokens alone, and its 4.0.0 goes with every connector of 4.x.
    """
    major, minor = (int(n) for n in re.findall(r"\d+", spark)[:2])
    scala, version = "2.13", {0: "4.0.1", 1: "4.1.1"}.get(minor, "4.2.0")
    token, clients, pool = "4.0.0", "3.9.1", "2.12.1"
    if major < 4:  # noqa: PLR2004 - Spark 3.5's PySpark is built for Scala 2.12
        scala, version, token, clients, pool = "2.12", "3.5.7", "3.5.7", "3.4.1", "2.11.1"
    return JarSet(
        f"spark-kafka-{version}_{scala}",
        (
            f"org.apache.spark:spark-sql-kafka-0-10_{scala}:{version}",
            f"org.apache.spark:spark-token-provider-kafka-0-10_{scala}:{token}",
            f"org.apache.kafka:kafka-clients:{clients}",
            f"org.apache.commons:commons-pool2:{pool}",
        ),
    )


def spark_home() -> Path:
    """Return the folder of the installed pyspark, which serves as SPARK_HOME."""
    return Path(str(distribution("pyspark").locate_file("pyspark")))


def all_jars() -> str:
    """Return the class path entry for all jars of the installed pyspark."""
    return str(spark_home() / "jars" / "*")


def jar(name: str) -> Path:
    """Return the path of the jar `<name>-<version>.jar` of the installed pyspark."""
    (path,) = (p for p in (spark_home() / "jars").glob(f"{name}-*.jar") if re.search(rf"{name}-\d", p.name))
    return path


def class_archive() -> Path:
    """Where the archive of PySpark's classes is, for a driver that starts faster (JEP 350). Raises JavaFailed.

    A JVM goes on without an archive that isn't there, or is of another build of Java or of other jars.
    """
    key = sha256(f"{find_java().home}\n{spark_home()}".encode()).hexdigest()[:12]
    return cache_folder() / "archives" / f"spark-{key}.jsa"


def archive_options(new: Path | None = None) -> str:
    """The options of a JVM that uses the archive, or at its end writes all that it has loaded to `new`."""
    option = f"ArchiveClassesAtExit={new}" if new else f"SharedArchiveFile={class_archive()}"
    # What it says on standard output about an archive that it can't take helps nobody.
    return f"-XX:{option} -Xlog:cds*=off"


def fetch(jars: JarSet) -> tuple[Path, ...]:
    """Return the paths of these jars, fetched on first use and kept in the user's cache folder.

    `HIVESINK_MAVEN_URL` names a mirror of Maven Central.
    Safe to call from several processes at once: the folder of a set appears whole or not at all.
    Raises SourceUnreachable, NotWritable.
    """
    repository = (os.environ.get("HIVESINK_MAVEN_URL") or MAVEN_CENTRAL).rstrip("/")

    def get(folder: Path, coordinate: str) -> None:
        group, name, version, *classifier = coordinate.split(":")
        path = f"{group.replace('.', '/')}/{name}/{version}/{'-'.join([name, version, *classifier])}.jar"
        try:
            data, sums = _read(f"{repository}/{path}"), _read(f"{repository}/{path}.sha1")
            if sha1(data, usedforsecurity=False).hexdigest() not in sums.decode("ascii", "replace").lower():
                message = "it has another checksum than its .sha1"
                raise ValueError(message)  # noqa: TRY301  as any other trouble with it
        except (OSError, HTTPException, ValueError) as error:
            way = "set HIVESINK_MAVEN_URL to a mirror, or copy the cache from a machine that has a network"
            msg = f"the jars of {jars.name}"
            raise SourceUnreachable(msg, f"{path} can't be fetched from {repository}: {error}; {way}") from error
        (folder / path.rpartition("/")[2]).write_bytes(data)

    def fill(scratch: Path) -> Path:
        folder = scratch / "jars"
        folder.mkdir()
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(partial(get, folder), jars.coordinates))
        return folder

    made_once(_folder(jars), fill)
    return fetched(jars)


def fetched(jars: JarSet) -> tuple[Path, ...]:
    """Return the paths of these jars in the cache; none if they haven't been fetched."""
    return tuple(sorted((cache_folder() / _folder(jars)).glob("*.jar")))


def _folder(jars: JarSet) -> str:
    key = sha256("\n".join(jars.coordinates).encode()).hexdigest()[:12]
    return f"jars/{jars.name}-{key}"


def _read(url: str) -> bytes:
    try:
        with urlopen(url, timeout=_SILENCE) as answer:  # noqa: S310  the user's own repository, by whatever scheme
            return bytes(answer.read())
    except HTTPError as error:
        error.close()  # else its socket stays open until the collector comes, which warns
        raise

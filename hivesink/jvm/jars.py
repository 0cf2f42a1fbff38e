"""The jars of Spark's connectors, pinned. Apache Ivy, which PySpark ships, fetches them and those of servers."""

from __future__ import annotations

import os
import re
import shutil
import ssl
import struct
import subprocess
from dataclasses import dataclass
from hashlib import sha1, sha256
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING
from xml.sax.saxutils import quoteattr

from hivesink.config.cache import cache_folder, made_once
from hivesink.errors import JarsUnavailable
from hivesink.jvm.java import find_java, package_folder

if TYPE_CHECKING:
    from importlib.abc import Traversable

MAVEN_CENTRAL = "https://repo1.maven.org/maven2/"
FETCH_SECONDS = 900
PASSWORD = "changeit"  # noqa: S105 - Java's own default; nothing in the file is secret


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


def kafka_connector(spark: str) -> JarSet:
    """Return Spark's Kafka connector for this version of PySpark.

    Not every release of the connector is on Maven Central: this picks the last one of the same line that is.
    The token provider serves delegation tokens alone, and its 4.0.0 goes with every connector of 4.x.
    """
    major, minor = (int(n) for n in re.findall(r"\d+", spark)[:2])
    if major < 4:  # noqa: PLR2004 - Spark 3.5's PySpark is built for Scala 2.12
        return _connector("2.12", "3.5.7", token="3.5.7", clients="3.4.1", pool="2.11.1")  # noqa: S106
    version = {0: "4.0.1", 1: "4.1.1"}.get(minor, "4.2.0")
    return _connector("2.13", version, token="4.0.0", clients="3.9.1", pool="2.12.1")  # noqa: S106


def _connector(scala: str, version: str, *, token: str, clients: str, pool: str) -> JarSet:
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
    folder = package_folder("pyspark")
    if folder is None:
        message = "pyspark is a dependency of hivesink but is not installed here"
        raise ModuleNotFoundError(message)
    return folder


def all_jars() -> str:
    """Return the class path entry for all jars of the installed pyspark."""
    return str(spark_home() / "jars" / "*")


def jar(name: str) -> Path:
    """Return the path of the jar `<name>-<version>.jar` of the installed pyspark."""
    (path,) = (p for p in (spark_home() / "jars").glob(f"{name}-*.jar") if re.search(rf"{name}-\d", p.name))
    return path


def fetch(jars: JarSet) -> tuple[Path, ...]:
    """Return the paths of these jars, fetched on first use and kept in the user's cache folder.

    A jar in `~/.m2/repository` is copied from there. `HIVESINK_MAVEN_URL` names a mirror of Maven Central.
    Safe to call from several processes at once: the folder of a set appears whole or not at all.
    Raises JarsUnavailable, JavaNotFound, CacheUnwritable.
    """
    made_once(_folder(jars), lambda scratch: _fetch_into(scratch, jars))
    return fetched(jars)


def fetched(jars: JarSet) -> tuple[Path, ...]:
    """Return the paths of these jars in the cache; none if they haven't been fetched."""
    return tuple(sorted((cache_folder() / _folder(jars)).glob("*.jar")))


def _folder(jars: JarSet) -> str:
    key = sha256("\n".join(jars.coordinates).encode()).hexdigest()[:12]
    return f"jars/{jars.name}-{key}"


def _fetch_into(scratch: Path, jars: JarSet) -> Path:
    repository = os.environ.get("HIVESINK_MAVEN_URL") or MAVEN_CENTRAL
    (scratch / "settings.xml").write_text(_settings(repository), encoding="utf-8")
    (scratch / "ivy.xml").write_text(_module(jars), encoding="utf-8")
    java = find_java()
    trust: tuple[str, ...] = ()
    # A packaged Java lacks a site's authorities, so it is given those that this Python trusts.
    if java.packaged and write_trust_store(scratch / "trust.jks"):
        trust = (f"-Djavax.net.ssl.trustStore={scratch / 'trust.jks'}", "-Djavax.net.ssl.trustStoreType=jks")
    command = (
        java.program,
        *trust,
        *("-cp", str(jar("ivy")), "org.apache.ivy.Main"),
        *("-settings", "settings.xml", "-ivy", "ivy.xml", "-cache", str(scratch / "cache")),
        *("-retrieve", str(scratch / "jars" / "[artifact]-[revision](-[classifier]).[ext]")),
    )
    try:
        answer = subprocess.run(
            command, cwd=scratch, capture_output=True, text=True, timeout=FETCH_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as e:
        raise JarsUnavailable(jars.name, repository, f"not done after {FETCH_SECONDS} s") from e
    fetched = sorted((scratch / "jars").glob("*.jar"))
    if answer.returncode or len(fetched) != len(jars.coordinates):
        raise JarsUnavailable(jars.name, repository, _problem(answer.stdout + answer.stderr))
    shutil.rmtree(scratch / "cache")
    return scratch / "jars"


def _settings(repository: str) -> str:
    """Ivy's settings. It resolves jar by jar, without reading any POM: the sets are complete, and pinned."""
    resolvers = [("central", repository if repository.endswith("/") else repository + "/")]
    local = Path.home() / ".m2" / "repository"
    if local.is_dir():
        resolvers.insert(0, ("local", local.as_uri() + "/"))
    entries = "".join(
        f'<ibiblio name="{name}" m2compatible="true" usepoms="false" root={quoteattr(root)}/>'
        for name, root in resolvers
    )
    return (
        '<ivysettings><settings defaultResolver="all"/><resolvers>'
        f'<chain name="all" returnFirst="true">{entries}</chain>'
        "</resolvers></ivysettings>"
    )


def _module(jars: JarSet) -> str:
    modules: dict[tuple[str, str, str], list[str]] = {}
    for coordinate in jars.coordinates:
        group, name, version, *classifier = coordinate.split(":")
        modules.setdefault((group, name, version), []).extend(classifier or [""])
    entries = "".join(
        f'<dependency org="{group}" name="{name}" rev="{version}" transitive="false">'
        + "".join(_artifact(name, classifier) for classifier in classifiers)
        + "</dependency>"
        for (group, name, version), classifiers in modules.items()
    )
    return (
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
        '<info organisation="hivesink" module="jars"/>'
        f"<dependencies>{entries}</dependencies></ivy-module>"
    )


def _artifact(name: str, classifier: str) -> str:
    extra = f' m:classifier="{classifier}"' if classifier else ""
    return f'<artifact name="{name}" type="jar" ext="jar"{extra}/>'


def _problem(output: str) -> str:
    marks = ("Exception", "access error", "not found", "FAILED")
    lines = [line.strip(" \t:") for line in output.splitlines() if any(mark in line for mark in marks)]
    return " | ".join(dict.fromkeys(lines[:4])) or "Ivy gave no reason"


def write_trust_store(path: Path) -> bool:
    """Write the authorities that this Python trusts into a Java key store; return whether there are any."""
    authorities = ssl.create_default_context().get_ca_certs(binary_form=True)
    path.write_bytes(key_store(authorities))
    return bool(authorities)


def key_store(certificates: list[bytes]) -> bytes:
    """Return a JKS that trusts these DER certificates, as `sun.security.provider.JavaKeyStore.engineLoad` reads it."""
    body = struct.pack(">III", 0xFEEDFEED, 2, len(certificates))
    for number, certificate in enumerate(certificates):
        alias = f"ca{number}".encode()
        body += struct.pack(">IH", 2, len(alias)) + alias + struct.pack(">Q", 0)
        body += struct.pack(">H", 5) + b"X.509" + struct.pack(">I", len(certificate)) + certificate
    return body + sha1(PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite" + body, usedforsecurity=False).digest()

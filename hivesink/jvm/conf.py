"""Settings files that Hive, Hadoop and log4j read from the class path."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from hivesink.config.cache import write_atomically

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

LOCAL_FILES: Mapping[str, Mapping[str, str]] = {"core-site": {"fs.defaultFS": "file:///"}}
"""The sites of a server whose default file system is this machine's."""


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
        write_atomically(folder / f"{name}.xml", f"<configuration>\n{entries}</configuration>\n")

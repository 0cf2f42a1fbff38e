"""A site's own configuration: Hadoop's and Hive's XML files, read as Hadoop's `Configuration` reads them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from xml.etree import ElementTree as ET

from hivesink.errors import SiteInvalid

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_INCLUDE = "{http://www.w3.org/2001/XInclude}include"
_FALLBACK = "{http://www.w3.org/2001/XInclude}fallback"
_VARIABLE = re.compile(r"\$\{([^}$ ]+)\}")
_MOST_EXPANSIONS = 20
"""As Hadoop's `Configuration.MAX_SUBST`."""
_DEPRECATED = {"fs.default.name": "fs.defaultFS", "dfs.federation.nameservices": "dfs.nameservices"}
_OF_HADOOP = ("dfs.", "fs.", "hadoop.", "ipc.")
_OF_HIVE = ("hive.", "metastore.")


@dataclass(frozen=True, slots=True)
class Site:
    """Hadoop's and Hive's properties of a site, by name. Picklable (goes to tasks)."""

    hadoop: Mapping[str, str] = field(default_factory=dict)
    hive: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def load(cls, environ: Mapping[str, str]) -> Site:
        """Read the files that the environment names.

        `core-site.xml` and `hdfs-site.xml` are in `HADOOP_CONF_DIR`, or `HADOOP_HOME/etc/hadoop`; `hive-site.xml` is
        in the first of `HIVE_CONF_DIR`, `SPARK_CONF_DIR`, `HADOOP_CONF_DIR`, `HIVE_HOME/conf`, `SPARK_HOME/conf` that
        has one. A missing file is ignored, as by Hadoop's own clients; a folder that `HADOOP_CONF_DIR` or
        `HIVE_CONF_DIR` names must exist. Raises SiteInvalid.
        """
        home, spark, conf = (environ.get(name) for name in ("HADOOP_HOME", "SPARK_CONF_DIR", "HADOOP_CONF_DIR"))
        folder = _conf_dir(environ, "HADOOP_CONF_DIR") or (Path(home, "etc", "hadoop") if home else None)
        files = [folder / name for name in ("core-site.xml", "hdfs-site.xml")] if folder else []
        hadoop = _merged(entry for file in files for entry in _read(file))
        folders = [_conf_dir(environ, "HIVE_CONF_DIR"), spark and Path(spark), conf and Path(conf)]
        folders += [Path(environ[name], "conf") for name in ("HIVE_HOME", "SPARK_HOME") if environ.get(name)]
        files = [file for folder in folders if folder and (file := folder / "hive-site.xml").is_file()]
        hive = _merged(entry for file in files[:1] for entry in _read(file))
        return cls(_expanded(hadoop, hadoop, environ), _expanded(hive, {**hadoop, **hive}, environ))

    def overlaid(self, written: str) -> Site:
        """This site, overridden by a running client's configuration, as its `Configuration.writeXml` wrote it.

        Hadoop's built-in defaults in it, which any file replaces, are left out. Raises SiteInvalid.
        """
        entries = _entries(_parsed(written, "the session's Hadoop configuration"), Path())
        own = _merged(entry for entry in entries if not entry.is_default)
        properties = _expanded(own, own, {})
        return Site(
            {**self.hadoop, **{name: value for name, value in properties.items() if name.startswith(_OF_HADOOP)}},
            {**self.hive, **{name: value for name, value in properties.items() if name.startswith(_OF_HIVE)}},
        )

    @property
    def metastore_uris(self) -> str | None:
        """`thrift://host:port[,thrift://host2:port2]`. Hive 4's name for it wins, as in its `MetastoreConf`."""
        return self.hive.get("metastore.thrift.uris") or self.hive.get("hive.metastore.uris") or None

    @property
    def default_filesystem(self) -> str | None:
        """`fs.defaultFS`, the file system of paths that name none."""
        return self.hadoop.get("fs.defaultFS") or None


NO_SITE = Site()


class _Entry(NamedTuple):
    name: str
    value: str | None
    final: bool
    is_default: bool
    """Whether it is one of Hadoop's built-in defaults."""


def _merged(entries: Iterable[_Entry]) -> dict[str, str]:
    """The last value of each property, unless an earlier one is final."""
    values, final = dict[str, str](), set[str]()
    for entry in entries:
        name = _DEPRECATED.get(entry.name, entry.name)
        if name not in final and entry.value is not None:
            values[name] = entry.value
        if entry.final:
            final.add(name)
    return values


def _expanded(values: Mapping[str, str], known: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """Expand `${name}` and `${env.NAME}` up to one that isn't set; a text that refers to itself stays as it is."""

    def variable(name: str) -> str | None:
        if name.startswith("env."):
            # NAME, NAME-default, or NAME:-default, as in a shell.
            name, mark, default = name.removeprefix("env.").partition("-")
            value = environ.get(name.removesuffix(":") if mark else name)
            return default if mark and (value is None or (name.endswith(":") and not value)) else value
        variable = {"user.name": "USER", "user.home": "HOME"}.get(name, "")
        return environ.get(variable, known.get(name))

    def expand(text: str) -> str:
        left = text
        for _ in range(_MOST_EXPANSIONS):
            match = _VARIABLE.search(left)
            value = variable(match[1]) if match else None
            if match is None or value is None:
                return left
            left = left[: match.start()] + value + left[match.end() :]
        return text

    return {name: expand(value) for name, value in values.items()}


def _read(file: Path) -> Iterator[_Entry]:
    try:
        text = file.read_bytes()
    except FileNotFoundError:
        return
    except OSError as error:
        raise SiteInvalid(str(file), f"it can't be read: {error.strerror}") from error
    yield from _entries(_parsed(text, str(file)), file)


def _entries(elements: Iterable[ET.Element], file: Path) -> Iterator[_Entry]:
    for element in elements:
        if element.tag == "property":
            # Hadoop accepts attributes as well as child elements.
            fields = {child.tag: (child.text or "").strip() for child in element} | dict(element.attrib)
            sources = [child.text or "" for child in element if child.tag == "source"]
            is_default = bool(sources) and all(source.endswith("-default.xml") for source in sources)
            # As in Hadoop, an empty value sets nothing: an earlier file's value stays.
            value = fields.get("value", "").strip() or None
            if name := fields.get("name", "").strip():
                yield _Entry(name, value, fields.get("final", "").strip().lower() == "true", is_default)
        elif element.tag == "configuration":
            yield from _entries(element, file)
        elif element.tag == _INCLUDE:
            yield from _included(element, file)


def _included(element: ET.Element, file: Path) -> Iterator[_Entry]:
    href, fallback = element.get("href", ""), element.find(_FALLBACK)
    target = file.parent / href.removeprefix("file:")
    if "://" in href or target.resolve() == file.resolve():
        raise SiteInvalid(str(file), f"it includes {href}: only other files can be included")
    if not target.exists():
        if fallback is None:
            raise SiteInvalid(str(file), f"it includes {target}, which isn't there")
        yield from _entries(fallback, file)
    yield from _read(target)


def _parsed(text: bytes | str, file: str) -> ET.Element:
    try:
        root = ET.fromstring(text)  # noqa: S314  the site's own files, or the session's own configuration
    except ET.ParseError as error:
        raise SiteInvalid(file, f"it is not well-formed XML: {error}") from error
    if root.tag != "configuration":
        raise SiteInvalid(file, f"its outermost element is <{root.tag}>, where Hadoop has <configuration>")
    return root


def _conf_dir(environ: Mapping[str, str], name: str) -> Path | None:
    if not environ.get(name):
        return None
    folder = Path(environ[name])
    if not folder.is_dir():
        raise SiteInvalid(str(folder), f"{name} names it, but it isn't a folder")
    return folder

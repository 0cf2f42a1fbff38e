"""A site's own configuration: Hadoop's and Hive's XML files, read as Hadoop's `Configuration` reads them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from hivesink.errors import SiteInvalid

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_INCLUDE = "{http://www.w3.org/2001/XInclude}include"
_FALLBACK = "{http://www.w3.org/2001/XInclude}fallback"
_VARIABLE = re.compile(r"\$\{([^}$ ]+)\}")
_ENV = re.compile(r"(?P<name>[^:-]*)(?P<if_empty>:?)-(?P<default>.*)", re.DOTALL)
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
        hadoop = _Properties(environ, _hadoop_files(environ), {})
        return cls(hadoop.expanded(), _Properties(environ, _hive_files(environ), hadoop.raw).expanded())

    def overlaid(self, written: str) -> Site:
        """This site, overridden by a running client's configuration, as its `Configuration.writeXml` wrote it.

        Hadoop's built-in defaults in it, which any file replaces, are left out. Raises SiteInvalid.
        """
        own = _Properties({}, [], {})
        own.take(_parsed(written, "the session's Hadoop configuration"), Path(), but_defaults=True)
        properties = own.expanded()
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


class _Properties:
    """Files read one after the other: the later one wins, unless an earlier one made the property final."""

    def __init__(self, environ: Mapping[str, str], files: Iterable[Path], below: Mapping[str, str]) -> None:
        self._environ = environ
        self._below = below
        self._final: set[str] = set()
        self.raw: dict[str, str] = {}
        for file in files:
            self._read(file)

    def _read(self, file: Path) -> None:
        try:
            text = file.read_bytes()
        except FileNotFoundError:
            return
        except OSError as error:
            raise SiteInvalid(str(file), f"it can't be read: {error.strerror}") from error
        self.take(_parsed(text, str(file)), file)

    def take(self, root: ET.Element, file: Path, *, but_defaults: bool = False) -> None:
        for entry in _entries(root, file):
            if but_defaults and all(source.endswith("-default.xml") for source in entry.sources):
                continue
            name = _DEPRECATED.get(entry.name, entry.name)
            if name not in self._final and entry.value is not None:
                self.raw[name] = entry.value
            if entry.final:
                self._final.add(name)

    def expanded(self) -> dict[str, str]:
        return {name: self._expand(value) for name, value in self.raw.items()}

    def _expand(self, text: str) -> str:
        """Expand `${name}` and `${env.NAME}` up to one that isn't set; a text that refers to itself stays as it is."""
        left = text
        for _ in range(_MOST_EXPANSIONS):
            variable = _VARIABLE.search(left)
            value = self._variable(variable[1]) if variable else None
            if variable is None or value is None:
                return left
            left = left[: variable.start()] + value + left[variable.end() :]
        return text

    def _variable(self, name: str) -> str | None:
        if name.startswith("env."):
            return self._environment(name.removeprefix("env."))
        if name == "user.name" and "USER" in self._environ:
            return self._environ["USER"]
        if name == "user.home" and "HOME" in self._environ:
            return self._environ["HOME"]
        return self.raw.get(name, self._below.get(name))

    def _environment(self, text: str) -> str | None:
        """NAME, NAME-default, or NAME:-default, as in a shell."""
        parts = _ENV.fullmatch(text)
        if parts is None:
            return self._environ.get(text)
        value = self._environ.get(parts["name"])
        return parts["default"] if value is None or (parts["if_empty"] and not value) else value


@dataclass(frozen=True, slots=True)
class _Entry:
    name: str
    value: str | None
    final: bool
    sources: tuple[str, ...]


def _entries(root: ET.Element, file: Path) -> Iterator[_Entry]:
    if root.tag != "configuration":
        raise SiteInvalid(str(file), f"its outermost element is <{root.tag}>, where Hadoop has <configuration>")
    for element in root:
        if element.tag == "property":
            # Hadoop ignores one without a name.
            yield from (entry for entry in [_entry(element)] if entry.name)
        elif element.tag == "configuration":
            yield from _entries(element, file)
        elif element.tag == _INCLUDE:
            yield from _included(element, file)


def _entry(element: ET.Element) -> _Entry:
    # Hadoop accepts attributes as well as child elements.
    fields = {child.tag: child.text or "" for child in element} | dict(element.attrib)
    name = fields.get("name", "").strip()
    # As in Hadoop, an empty value sets nothing: an earlier file's value stays.
    value = fields.get("value", "").strip() or None
    sources = tuple(child.text or "" for child in element if child.tag == "source")
    return _Entry(name, value, fields.get("final", "").strip().lower() == "true", sources or ("",))


def _included(element: ET.Element, file: Path) -> Iterator[_Entry]:
    href = element.get("href", "")
    if "://" in href:
        raise SiteInvalid(str(file), f"it includes {href}: only files can be included")
    target = file.parent / href.removeprefix("file:")
    fallback = element.find(_FALLBACK)
    try:
        text = target.read_bytes()
    except OSError as error:
        if fallback is None:
            raise SiteInvalid(str(file), f"it includes {target}, which can't be read: {error.strerror}") from error
        for inner in fallback:
            wrapped = ET.Element("configuration")
            wrapped.append(inner)
            yield from _entries(wrapped, file)
        return
    if target.resolve() == file.resolve():
        raise SiteInvalid(str(file), "it includes itself")
    yield from _entries(_parsed(text, str(target)), target)


def _parsed(text: bytes | str, file: str) -> ET.Element:
    try:
        return ET.fromstring(text)  # noqa: S314  the site's own files, or the session's own configuration
    except ET.ParseError as error:
        raise SiteInvalid(file, f"it is not well-formed XML: {error}") from error


def _hadoop_files(environ: Mapping[str, str]) -> list[Path]:
    home = environ.get("HADOOP_HOME")
    folder = _conf_dir(environ, "HADOOP_CONF_DIR") or (Path(home, "etc", "hadoop") if home else None)
    return [folder / name for name in ("core-site.xml", "hdfs-site.xml")] if folder else []


def _hive_files(environ: Mapping[str, str]) -> list[Path]:
    own = _conf_dir(environ, "HIVE_CONF_DIR")
    spark, hadoop = environ.get("SPARK_CONF_DIR"), environ.get("HADOOP_CONF_DIR")
    folders = [own, spark and Path(spark), hadoop and Path(hadoop)]
    folders += [Path(environ[name], "conf") for name in ("HIVE_HOME", "SPARK_HOME") if environ.get(name)]
    return [file for folder in folders if folder and (file := folder / "hive-site.xml").is_file()][:1]


def _conf_dir(environ: Mapping[str, str], name: str) -> Path | None:
    if not environ.get(name):
        return None
    folder = Path(environ[name])
    if not folder.is_dir():
        raise SiteInvalid(str(folder), f"{name} names it, but it isn't a folder")
    return folder

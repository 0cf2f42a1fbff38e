"""A site's own configuration: Hadoop's and Hive's XML files, read as Hadoop's `Configuration` reads them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementInclude
from xml.etree import ElementTree as ET

from hivesink.errors import InvalidOption

_VARIABLE = re.compile(r"\$\{([^}$ ]+)\}")
_MOST_EXPANSIONS = 20
"""As Hadoop's `Configuration.MAX_SUBST`."""
_DEPRECATED = {"fs.default.name": "fs.defaultFS", "dfs.federation.nameservices": "dfs.nameservices"}
_OF_HADOOP = ("dfs.", "fs.", "hadoop.", "ipc.")
_OF_HIVE = ("hive.", "metastore.")
_FOLDERS = ("HIVE_CONF_DIR", "SPARK_CONF_DIR", "HADOOP_CONF_DIR")


@dataclass(frozen=True, slots=True)
class Site:
    """Hadoop's and Hive's properties of a site, by name. Picklable (goes to tasks)."""

    hadoop: Mapping[str, str] = field(default_factory=dict)
    hive: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def load(cls, environ: Mapping[str, str]) -> Site:
        """Read the files that the environment names.

        `core-site.xml` and `hdfs-site.xml` are in `HADOOP_CONF_DIR`; `hive-site.xml` is in the first of
        `HIVE_CONF_DIR`, `SPARK_CONF_DIR` and `HADOOP_CONF_DIR` that has one. A missing file is ignored, as by Hadoop's
        own clients; a folder that `HADOOP_CONF_DIR` or `HIVE_CONF_DIR` names must exist. Raises InvalidOption.
        """
        of_hadoop, of_hive = site_files(environ)
        hadoop = _values(of_hadoop)
        # Hive's clients read Hadoop's files, too.
        return cls(_expanded(hadoop, environ), _expanded(hadoop | _values(of_hive), environ))

    def overlaid(self, written: str) -> Site:
        """This site, overridden by a running client's configuration, as its `Configuration.writeXml` wrote it.

        Hadoop's built-in defaults in it, which any file replaces, are left out. Raises InvalidOption.
        """
        properties = _expanded(_values([written]), {})
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

    @property
    def has_kerberos(self) -> bool:
        """Whether clients log in by it: Hadoop's own property, without which Hive's clients don't, either."""
        return self.hadoop.get("hadoop.security.authentication", "").strip().lower() == "kerberos"

    @property
    def s3a(self) -> Mapping[str, str]:
        """The properties of Hadoop's file system for S3; a site without any has no `s3a://` locations."""
        return {name: value for name, value in self.hadoop.items() if name.startswith("fs.s3a.")}


NO_SITE = Site()


def site_files(environ: Mapping[str, str]) -> tuple[list[Path], list[Path]]:
    """Hadoop's and Hive's files that the environment names, as far as they are there. Raises InvalidOption."""
    named = {name: Path(environ[name]) for name in _FOLDERS if environ.get(name)}
    for name, folder in named.items():
        if name != "SPARK_CONF_DIR" and not folder.is_dir():
            raise _unusable(str(folder), f"{name} names it, but it isn't a folder")
    conf = named.get("HADOOP_CONF_DIR")
    hadoop = [conf / name for name in ("core-site.xml", "hdfs-site.xml")] if conf else []
    hive = [folder / "hive-site.xml" for folder in named.values()]
    return [file for file in hadoop if file.exists()], [file for file in hive if file.is_file()][:1]


def _values(files: Iterable[Path | str]) -> dict[str, str]:
    """Each property's last value, unless an earlier one is final, of files, or of what a client has written.

    As in Hadoop, an empty value sets nothing: an earlier file's value stays.
    """
    values, final = dict[str, str](), set[str]()
    for element in (element for file in files for element in _root(file).iter("property")):
        # Hadoop accepts attributes as well as child elements.
        fields = {child.tag: (child.text or "").strip() for child in element} | dict(element.attrib)
        name, value = fields.get("name", "").strip(), fields.get("value", "").strip()
        name = _DEPRECATED.get(name, name)
        sources = [child.text or "" for child in element if child.tag == "source"]
        if not name or (sources and all(source.endswith("-default.xml") for source in sources)):
            continue
        if name not in final and value:
            values[name] = value
        if fields.get("final", "").strip().lower() == "true":
            final.add(name)
    return values


def _expanded(values: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """Expand `${name}` and `${env.NAME}` up to one that isn't set; a text that refers to itself stays as it is."""

    def variable(name: str) -> str | None:
        if name.startswith("env."):
            # NAME, NAME-default, or NAME:-default, as in a shell.
            name, mark, default = name.removeprefix("env.").partition("-")
            value = environ.get(name.removesuffix(":") if mark else name)
            return default if mark and (value is None or (name.endswith(":") and not value)) else value
        variable = {"user.name": "USER", "user.home": "HOME"}.get(name, "")
        return environ.get(variable, values.get(name))

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


def _root(file: Path | str) -> ET.Element:
    """The configuration in a file, or in a text, with what it includes, which is a configuration, too."""
    name, text = ("the session's Hadoop configuration", file) if isinstance(file, str) else (str(file), None)
    try:
        root = ET.fromstring(text or Path(file).read_bytes())  # noqa: S314  the site's own, or the session's
        ElementInclude.include(root, base_url=name)
    except (SyntaxError, OSError) as error:
        problem = f"it is not well-formed XML, or can't be read, or what it includes: {error}"
        raise _unusable(name, problem) from error
    if root.tag != "configuration":
        raise _unusable(name, f"its outermost element is <{root.tag}>, where Hadoop has <configuration>")
    return root


def _unusable(file: str, problem: str) -> InvalidOption:
    way = "fix it, or set HADOOP_CONF_DIR and HIVE_CONF_DIR to other folders"
    return InvalidOption((f"the site configuration {file}: {problem}; {way}",))

"""Which NameNodes a location leads to, by Hadoop's own rules and property names.

`hdfs://nameservice/a`, `hdfs://host:port/a`, `hdfs://host/a` (port 8020), `hdfs:/a` and `hdfs:///a` (the default file
system, `fs.defaultFS`). Nothing is percent-decoded, since Hive's own escapes are part of a folder's name.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass

from hivesink.errors import Unsupported, unknown_file_system

DEFAULT_PORT = 8020
_ACTIVE_ONLY = "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider"
_LOCATION = re.compile(r"hdfs:(?://(?P<authority>[^/]*))?(?P<path>/.*)?", re.DOTALL)
_HOST = re.compile(r"(?P<host>[^:@]+)(?::(?P<port>\d+))?", re.ASCII)
_OCTAL = re.compile(r"[0-7]{1,4}", re.ASCII)
_SYMBOLIC = re.compile(r"(?P<who>[ugoa]+)=(?P<may>[rwx-]*)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Address:
    """A file system: `authority` as in canonical locations, `namenodes` as host:port, in the order to ask them."""

    authority: str
    namenodes: tuple[str, ...]

    def __str__(self) -> str:
        if self.namenodes == (self.authority,):
            return f"the NameNode {self.authority}"
        return f"the NameNodes of {self.authority} ({', '.join(self.namenodes)})"


def resolve(location: str, properties: Mapping[str, str]) -> tuple[Address, str]:
    """The file system of `location`, and the path in it. Raises Unsupported."""
    parts = _LOCATION.fullmatch(location)
    if parts is None:
        what = f"the location {location!r}"
        raise Unsupported(what, "it is not on HDFS", "write it as hdfs://nameservice/path")
    authority = parts["authority"]
    if not authority:
        default = properties.get("fs.defaultFS", "")
        default_parts = _LOCATION.fullmatch(default)
        authority = default_parts and default_parts["authority"]
        if not authority:
            what = f"fs.defaultFS is {default!r}" if default else "fs.defaultFS is not set"
            raise unknown_file_system(location, f"it names no nameservice, and {what}")
    path = re.sub("/+", "/", parts["path"] or "/").rstrip("/") or "/"
    addresses = _addresses(authority, properties)
    if namenodes := tuple(filter(None, addresses.values())):
        return Address(authority, namenodes), path
    if f"dfs.ha.namenodes.{authority}" in properties:
        raise unknown_file_system(location, f"{', '.join(addresses)} are not set")
    place = _server(authority)
    if place is None:
        raise unknown_file_system(location, f"{authority!r} is neither a nameservice nor host:port")
    # Partitions older than the nameservice are registered at a NameNode of it, the same file system.
    for name in nameservices(properties):
        namenodes = tuple(filter(None, _addresses(name, properties).values()))
        if place in map(_server, namenodes):
            return Address(name, namenodes), path
    return Address(place, (place,)), path


def _addresses(nameservice: str, properties: Mapping[str, str]) -> dict[str, str]:
    """The properties with the addresses of a nameservice's NameNodes; empty where not set."""
    name = f"dfs.namenode.rpc-address.{nameservice}"
    namenodes = _split(properties.get(f"dfs.ha.namenodes.{nameservice}", ""))
    names = [f"{name}.{namenode}" for namenode in namenodes] or [name]
    return {name: properties.get(name, "").strip() for name in names}


def _server(text: str) -> str | None:
    """host:port, always spelled alike; None for anything else."""
    parts = _HOST.fullmatch(text)
    return None if parts is None else f"{parts['host'].lower()}:{parts['port'] or DEFAULT_PORT}"


def nameservices(properties: Mapping[str, str]) -> tuple[str, ...]:
    """The nameservices that the site knows."""
    return _split(properties.get("dfs.nameservices", ""))


def _split(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def client_properties(properties: Mapping[str, str], address: Address, rounds: int) -> dict[str, str]:
    """The site's properties with `address` alone, asked again `rounds` times; its active NameNode answers."""
    ns = address.authority
    servers = {f"nn{number}": at for number, at in enumerate(address.namenodes, 1)}
    return {
        **properties,
        **{f"dfs.namenode.rpc-address.{ns}.{name}": at for name, at in servers.items()},
        f"dfs.ha.namenodes.{ns}": ",".join(servers),
        f"dfs.client.failover.resolve-needed.{ns}": "false",
        # An Observer may lag behind what other processes have renamed, and hdfs-native doesn't wait for it to catch up.
        f"dfs.client.failover.proxy.provider.{ns}": _ACTIVE_ONLY,
        "dfs.client.failover.max.attempts": str(len(servers) * (rounds + 1) - 1),
    }


def accepts(namenode: str) -> bool:
    """Whether something listens at host:port, and accepts a connection within two seconds."""
    host, _, port = namenode.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=2.0).close()
    except OSError:
        return False
    return True


def umask(properties: Mapping[str, str]) -> int:
    """`fs.permissions.umask-mode` (Hadoop's default: 022), octal or symbolic. Raises Unsupported."""
    text = properties.get("fs.permissions.umask-mode", "022").strip()
    if _OCTAL.fullmatch(text):
        return int(text, 8)
    mask = 0o777
    for clause in text.split(","):
        parts = _SYMBOLIC.fullmatch(clause.strip())
        if parts is None:
            what = f"fs.permissions.umask-mode = {text!r}"
            raise Unsupported(what, "it is neither octal nor like u=rwx,g=rx,o=", "write 022")
        granted = sum({"r": 4, "w": 2, "x": 1}.get(letter, 0) for letter in set(parts["may"]))
        for who in parts["who"]:
            mask &= ~(granted * {"u": 0o100, "g": 0o010, "o": 0o001, "a": 0o111}[who])
    return mask


def quantity(text: str) -> int:
    """A number as Hadoop writes it: `134217728`, `128m`. Raises Unsupported."""
    parts = re.fullmatch(r"(\d+)([kmgt]?)", text.strip().lower(), re.ASCII)
    if parts is None or not int(parts[1]):
        raise Unsupported(what=f"the site's {text!r}", why="it is not a number above 0", instead="write 128m, or 2")
    return int(parts[1]) << {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}[parts[2]]

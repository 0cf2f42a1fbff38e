"""What must stay secret, looked for in all that a run leaves behind, and that `ps` shows of it."""

from __future__ import annotations

import base64
import struct
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

import psutil

from jobs.cluster import Cluster
from tests.cluster.gates import GONE
from tests.secure.site import kdc_of


def events_in(folder: Path) -> dict[str, str]:
    """Spark's settings for an event log in a new folder."""
    folder.mkdir()
    log = {"enabled": "true", "compress": "false", "dir": folder.as_uri()}
    return {f"spark.eventLog.{name}": value for name, value in log.items()}


def require_secret(cluster: Cluster, places: Iterable[Path], seen: str, more: Iterable[bytes] = ()) -> None:
    """Keys, HDFS's tokens, Kafka's passwords and `more` are neither in `seen` nor in files below `places`."""
    texts = {"ps": seen.encode()}
    texts |= {str(path): path.read_bytes() for place in places for path in place.rglob("*") if path.is_file()}
    assert any(b"SparkListenerEnvironmentUpdate" in text for text in texts.values())
    logins = cluster.servers.broker.logins
    assert logins
    # So a file of delegation tokens begins, and so each of them ends; logs may name the kind.
    wanted = [b"\x15HDFS_DELEGATION_TOKEN", logins.secret.encode(), *keys_of(kdc_of(cluster).keytab), *more]
    shapes = [shape for secret in wanted for shape in (secret, secret.hex().encode(), *encoded(secret))]
    shapes += [b"HDTS\0", b"HDTS\1"]
    assert {name for name, text in texts.items() for shape in shapes if shape in text} == set()


def keys_of(keytab: Path) -> list[bytes]:
    """The keys in MIT's file: entries with their length, of which a name, a time, a number and the key's own length."""
    content, place, keys = keytab.read_bytes(), 2, []
    while place < len(content):
        (length,) = struct.unpack_from(">i", content, place)
        entry, place = content[place + 4 : place + 4 + length], place + 4 + length
        (parts,), at = struct.unpack_from(">h", entry), 2
        for _ in range(parts + 1):
            at += 2 + struct.unpack_from(">h", entry, at)[0]
        # The name's type, the time, the key's number and its type.
        at += 4 + 4 + 1 + 2
        keys.append(entry[at + 2 : at + 2 + struct.unpack_from(">h", entry, at)[0]])
    assert all(len(key) >= 8 for key in keys)
    return keys


def encoded(secret: bytes) -> Iterator[bytes]:
    """In base 64, wherever it begins, without the letters that depend on what is before and behind."""
    for before in range(3):
        whole = base64.b64encode(bytes(before) + secret)
        yield whole[4 * bool(before) : (before + len(secret)) // 3 * 4]


def processes(job: subprocess.Popen[bytes]) -> str:
    """What `ps` shows of the job's, and of executors, with their environments."""
    found = []
    for process in (*psutil.Process(job.pid).children(recursive=True), *psutil.process_iter()):
        with GONE:
            lines = process.cmdline()
            if process.ppid() == job.pid or any("executor" in line for line in lines):
                found += [*lines, *map("=".join, process.environ().items())]
    return "\n".join(found)

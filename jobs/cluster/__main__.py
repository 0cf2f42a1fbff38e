"""The cluster for people: `python -m jobs.cluster up|status|env|down|topic`; it outlives the command."""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Collection
from dataclasses import fields
from pathlib import Path

from hivesink.cli.codes import BY_SIGNAL, code_of
from hivesink.cli.output import silence
from hivesink.embedded.server import locked
from hivesink.errors import HiveSinkError, SourceUnreachable
from jobs.cluster.cluster import PARTS, Cluster
from jobs.cluster.kafka import create_topic
from jobs.cluster.server import EmbeddedServer


def default_folder() -> Path:
    """Return `$HIVESINK_CLUSTER`, by default `.hivesink-cluster` in the current folder."""
    return Path(os.environ.get("HIVESINK_CLUSTER") or ".hivesink-cluster").absolute()


def start(
    folder: Path,
    only: Collection[str] | None,
    started: Callable[[str, EmbeddedServer], None],
    *,
    secure: bool = False,
) -> Cluster:
    """Start what doesn't run; `started` as in `Cluster.start`."""
    # Two that start at once would find the same ports free, each in its own folder.
    with locked(folder), locked(Path(tempfile.gettempdir()) / f"hivesink-cluster-{os.getuid()}"):
        # Not before: another `up` may have started some meanwhile.
        cluster = Cluster.detached(folder, only=only, secure=secure)
        cluster.start(started)
    return cluster


def up(folder: Path, only: Collection[str] | None, *, secure: bool = False) -> int:
    """Start what doesn't run; print each server that gets ready, then every address."""
    began = time.monotonic()

    def report(name: str, server: EmbeddedServer) -> None:
        try:
            print(f"{_line(name, server)}  after {time.monotonic() - began:.0f} s", flush=True)
        except BrokenPipeError:
            # The other servers start all the same.
            silence(sys.stdout)

    start(folder, only, report, secure=secure)
    addresses = Cluster.running(folder)
    if addresses is not None:
        print()
        for field in fields(addresses):
            print(f"{field.name:14} {getattr(addresses, field.name) or '-'}")
    print()
    return env(folder)


def variables_of(cluster: Cluster) -> dict[str, str]:
    """The environment's, by which jobs and `hivesink` find the servers that run; `alice` is logged in where one is."""
    servers, variables = cluster.servers, dict[str, str]()
    if servers.broker.alive:
        variables["KAFKA_SERVERS"] = cluster.kafka
        if servers.kdc:
            variables["HIVESINK_KAFKA_CONFIG"] = str(servers.broker.client_properties)
    if servers.namenode.alive:
        variables["HADOOP_CONF_DIR"] = str(cluster.conf)
    if servers.kdc is not None and servers.kdc.alive:
        with servers.kdc.logged_in("alice"):
            variables |= servers.kdc.environment("alice")
        variables["JDK_JAVA_OPTIONS"] = " ".join(servers.kdc.java)
        variables["KRB5_CLIENT_KTNAME"] = str(servers.kdc.keytab)
    if servers.metastore.alive:
        variables["HIVE_CONF_DIR"] = str(cluster.conf)
    if servers.master.alive:
        variables["HIVESINK_MASTER"] = cluster.spark_master
    return variables


def env(folder: Path) -> int:
    """Print those variables as a shell takes them; 1 if there are none."""
    variables = variables_of(Cluster.detached(folder))
    for name, value in variables.items():
        print(f"export {name}={shlex.quote(value)}")
    if not variables:
        sys.stderr.write(f"no server runs in {folder}; start some: python -m jobs.cluster up\n")
    return 0 if variables else 1


def status(folder: Path) -> int:
    """Print a line for each server; return 0 if all run, 1 if not."""
    servers = Cluster.detached(folder).servers.by_name()
    for name, server in servers.items():
        print(_line(name, server))
    return 0 if all(server.alive for server in servers.values()) else 1


def down(folder: Path) -> int:
    """Stop every server that runs, then print a line for each."""
    if folder.exists():
        with locked(folder):
            Cluster.detached(folder).stop()
    status(folder)
    return 0


def topic(folder: Path, name: str, partitions: int, *, keyed: bool) -> int:
    """Create a topic of the cluster's broker unless it exists; then write what is piped in, a record each line.

    `keyed`: a line is a key, a tab and a value; without the tab the record has no value.
    """
    from confluent_kafka import Producer

    broker = Cluster.detached(folder).servers.broker
    if not broker.alive:
        sys.stderr.write(f"no broker runs in {folder}; start one: python -m jobs.cluster up --only kafka\n")
        return 1
    created = create_topic(broker.address, name, partitions, login=broker.login)
    print(f"topic {name} of {broker.address}: {'created' if created else 'is there'}", flush=True)
    if sys.stdin.isatty():
        return 0
    sys.stderr.write("reading standard input to its end, a record each line\n")
    failed: list[str] = []
    producer, count = Producer({"bootstrap.servers": broker.address, "log_level": 0, **broker.login}), 0
    for line in sys.stdin.buffer:
        key, tab, value = line.rstrip(b"\r\n").partition(b"\t") if keyed else (None, b"\t", line.rstrip(b"\r\n"))
        told = lambda error, _: failed.append(str(error)) if error else None  # noqa: E731
        producer.produce(name, value if tab else None, key, on_delivery=told)
        # Its queue is bounded: it is emptied as it fills.
        if (count := count + 1) % 10_000 == 0:
            producer.flush()
    producer.flush()
    if failed:
        where, what = f"topic {name} of Kafka at {broker.address}", f"{len(failed)} records failed: {failed[0]}"
        raise SourceUnreachable(where, what)
    print(f"{count} records written")
    return 0


def _line(name: str, server: EmbeddedServer) -> str:
    address = server.address if server.port is not None else "-"
    return f"{name:15} {address:21} {server.pid or '-':>8}  {'up' if server.alive else 'down'}"


def main() -> int:
    """Do what the command line says; a failure is one line, and an exit code as that of `hivesink`."""
    parser = argparse.ArgumentParser(prog="python -m jobs.cluster", description=__doc__)
    parser.add_argument("command", choices=["up", "status", "env", "down", "topic"])
    parser.add_argument("name", nargs="?", help="the topic of `topic`, which writes the lines of standard input to it")
    parser.add_argument("--partitions", type=int, default=2, help="of a new topic")
    parser.add_argument("--keyed", action="store_true", help="lines are KEY<tab>VALUE; without a tab, no value")
    parser.add_argument("--folder", type=Path, default=default_folder(), help="data, settings and logs")
    parser.add_argument("--only", nargs="+", choices=list(PARTS), help="what `up` starts")
    parser.add_argument("--s3", action="store_true", help="`up` starts an S3 server too, which Hive's servers know")
    parser.add_argument("--secure", action="store_true", help="servers of a new folder ask for logins")
    arguments = parser.parse_args()
    if arguments.command == "topic" and arguments.name is None:
        parser.error("topic: name it")
    try:
        code = _run(arguments)
        sys.stdout.flush()
    except HiveSinkError as e:
        sys.stderr.write(f"{e}\n")
        return code_of(e)
    except BrokenPipeError:
        # The reader closed its end (`| head`): as if the signal had ended the command.
        silence(sys.stdout, sys.stderr)
        return BY_SIGNAL + signal.SIGPIPE
    return code


def _run(arguments: argparse.Namespace) -> int:
    folder = arguments.folder.absolute()
    match arguments.command:
        case "up":
            return up(folder, arguments.only or (list(PARTS) if arguments.s3 else None), secure=arguments.secure)
        case "status":
            return status(folder)
        case "env":
            return env(folder)
        case "topic":
            return topic(folder, arguments.name, arguments.partitions, keyed=arguments.keyed)
        case _:
            return down(folder)


if __name__ == "__main__":
    sys.exit(main())

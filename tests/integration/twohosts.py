"""A Spark standalone cluster of two workers that count as two hosts: speculation never tries a task twice on one."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from hivesink.embedded.process import Launch, free_port, start
from hivesink.jvm.jars import all_jars, spark_home
from hivesink.jvm.java import OPENS, find_java

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOSTS = ("127.0.0.1", "127.0.0.2")
"""All of 127.0.0.0/8 is the loopback on Linux."""


@contextmanager
def two_hosts(folder: Path) -> Iterator[str]:
    """The master's URL, with one core on each host."""
    port = free_port()
    url = f"spark://{HOSTS[0]}:{port}"
    with ExitStack() as servers:
        master = ("org.apache.spark.deploy.master.Master",)
        ready = "I have been elected leader"
        servers.callback(start(_launch(folder / "master.log", HOSTS[0], port, master, ready)).stop)
        for host in HOSTS:
            place = str(folder / f"work-{host}")
            worker = (
                "org.apache.spark.deploy.worker.Worker",
                "--cores",
                "1",
                "--memory",
                "1g",
                "--work-dir",
                place,
                url,
            )
            ready = "Successfully registered with master"
            launch = _launch(folder / f"worker-{host}.log", host, free_port(), worker, ready)
            servers.callback(start(launch).stop)
        yield url


def _launch(log: Path, host: str, port: int, program: tuple[str, ...], ready: str) -> Launch:
    java = find_java()
    name, *arguments = program
    own = ("--host", host, "--port", str(port), "--webui-port", str(free_port()))
    return Launch(
        name=name,
        command=(java.program, *OPENS, "-XX:+UseSerialGC", "-Xmx256m", "-cp", all_jars(), name, *own, *arguments),
        log=log,
        ready=ready,
        env={
            "JAVA_HOME": str(java.home),
            "SPARK_HOME": str(spark_home()),
            "SPARK_LOCAL_IP": host,
            # Spark's scripts set it; any text will do where there is a folder of jars.
            "SPARK_SCALA_VERSION": "2.13",
        },
    )

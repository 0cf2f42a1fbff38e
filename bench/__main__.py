"""`make bench`: hivesink beside its peers, in interleaved rounds; `--help` lists the settings.

A start with the same arguments goes on where the last one was stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path

from bench import cases, decode, flink
from bench.cases import Case
from bench.contenders import BEFORE, HDFS, PLAIN, PRIVACY
from bench.ground import Ground
from bench.race import Place, race
from bench.report import Run, Series, fingerprint, markdown, ratios
from bench.workloads import S3
from hivesink.jvm import jars
from jobs.cluster import Cluster
from jobs.cluster.__main__ import variables_of
from jobs.cluster.hdfs import make_folders
from jobs.cluster.kafka import EmbeddedKafka
from jobs.cluster.kdc import SERVICES
from jobs.cluster.server import OwnMetastore

DATA = Path(os.environ.get("BENCH_DATA") or "build/bench").absolute()
HERE = Path.cwd()
NEEDED = {"hdfs", "metastore", "kafka", "spark"}


def main() -> None:
    told = arguments()
    chosen = told.cases
    if not chosen:
        decode.main(told.rows or decode.ROWS, told.rounds)
        return
    print(", ".join(f"{case.name}: {case.rows:,} records" for case in chosen), file=sys.stderr)
    contenders = {name for case in chosen for name in case.contenders}
    for program in sorted({flink.PROGRAMS[name] for name in contenders if name in flink.PROGRAMS}):
        flink.build(program, DATA / program)
    if not jars.class_archive().is_file():
        # As on a machine where `hivesink prepare` was run. All contenders in Spark have it.
        subprocess.run([sys.executable, "-m", "hivesink.cli", "prepare"], check=True, stdout=sys.stderr)
    told_to = {"cases": [asdict(case) for case in chosen], "rounds": told.rounds, "cluster": told.cluster}
    folders = [HERE / "hivesink", HERE / "bench"]
    if told.against:
        folders.append(told.against / "hivesink")
    # What is compared is read back as JSON.
    series = Series(DATA / "unfinished.jsonl", json.loads(json.dumps({**told_to, "code": fingerprint(folders)})))
    with ExitStack() as stack:
        if told.own_servers:
            place = on_s3(stack) if told.own_servers == {S3} else with_kerberos(stack)
        else:
            place = on_a_cluster(stack, told.at) if told.cluster else on_this_machine(stack)
        place.prepare()
        if told.against:
            place = replace(place, before=beside(DATA / BEFORE, told.against.absolute()))
        runs = race(chosen, place, series, told.rounds)
    report(chosen, runs, told_to)
    series.end()


def arguments() -> argparse.Namespace:
    """The settings; `make bench WORKLOADS=… ROWS=…` sets them by the environment."""
    parser = argparse.ArgumentParser("bench", description="hivesink beside its peers")
    of = os.environ.get
    parser.add_argument("--quick", action="store_true", default=bool(of("QUICK")), help="under ten minutes; needs mvn")
    parser.add_argument(
        "--workloads", default=of("WORKLOADS"), help=f"{decode.NAME}, or with a comma, of {', '.join(cases.CASES)}"
    )
    parser.add_argument("--peers", default=of("PEERS"), help="beside hivesink, with a comma; default: all")
    parser.add_argument("--rows", type=int, default=int(of("ROWS") or 0), help="of each drain; default: the workload's")
    parser.add_argument("--rounds", type=int, default=int(of("ROUNDS") or 3))
    parser.add_argument(
        "--epochs", type=int, default=int(of("EPOCHS") or 0), help=f"of {cases.EPOCH_ROWS} rows, each round"
    )
    parser.add_argument("--cluster", action="store_true", default=bool(of("CLUSTER")), help="on a cluster of its own")
    parser.add_argument("--at", type=Path, help="on the detached cluster of this folder, which runs")
    parser.add_argument("--against", type=Path, help=f"a checkout of another commit: its hivesink races as `{BEFORE}`")
    told = parser.parse_args()
    told.cluster = told.cluster or told.at is not None
    if told.against and told.cluster:
        parser.error("--against needs a process for each contender: leave out --cluster and --at")
    told.cases = [] if told.workloads == decode.NAME else selected(told)
    names = {case.name for case in told.cases}
    told.own_servers = names & {S3, *cases.WITH_KERBEROS}
    if told.own_servers and (told.cluster or told.against or not (names == {S3} or names <= cases.WITH_KERBEROS)):
        own = " and ".join(sorted(told.own_servers))
        parser.error(f"{own} bring their own servers: leave out --cluster, --at, --against and other workloads")
    return told


def selected(told: argparse.Namespace) -> list[Case]:
    names: Sequence[str] = cases.DEFAULT
    peers: Sequence[str] | None = None
    rows = epochs = None
    if told.quick:
        names, peers, rows = cases.QUICK, cases.QUICK_PEERS, cases.QUICK_ROWS
    if told.cluster:
        names, rows, epochs = cases.ON_CLUSTER, cases.CLUSTER_ROWS, cases.CLUSTER_EPOCHS
        peers = cases.ON_A_CLUSTER
    names = told.workloads.split(",") if told.workloads else names
    peers = told.peers.split(",") if told.peers else peers
    chosen = cases.chosen(names, rows=told.rows or rows, epochs=told.epochs or epochs, peers=peers)
    return [replace(case, contenders=(*case.contenders, BEFORE)) for case in chosen] if told.against else chosen


def on_this_machine(stack: ExitStack) -> Place:
    """A process for each contender, so that its CPU and its memory are its own."""
    server = stack.enter_context(OwnMetastore(DATA / "metastore", DATA / "warehouse"))
    servers = stack.enter_context(EmbeddedKafka(DATA / "broker")).bootstrap
    ground = Ground(server.uri, server.warehouse.as_uri(), (DATA / "checkpoints").as_uri())
    return Place(ground, servers, DATA)


def on_a_cluster(stack: ExitStack, at: Path | None) -> Place:
    """One process for all contenders, which share its session's executors."""
    where = Cluster.running(at) if at else stack.enter_context(Cluster(DATA / "cluster", only=NEEDED))
    if where is None:
        sys.exit(f"no cluster runs in {at}")
    os.environ.update({"HADOOP_CONF_DIR": str(where.conf), "HIVE_CONF_DIR": str(where.conf)})
    place = f"{where.filesystem}/bench"
    ground = Ground(where.metastore_uri, f"{place}/tables", f"{place}/checkpoints", where.spark_master)
    # The topics are those of the cluster's own broker.
    return Place(ground, where.kafka, DATA / "on-cluster")


def on_s3(stack: ExitStack) -> Place:
    """An S3 server beside HDFS, and a process for each contender, as on this machine alone."""
    where = stack.enter_context(Cluster(DATA / "cluster", only={"s3", "kafka"}))
    os.environ.update({"HADOOP_CONF_DIR": str(where.conf), "HIVE_CONF_DIR": str(where.conf)})
    s3, namenode = where.servers.s3, where.servers.namenode
    ground, hdfs = (
        Ground(where.metastore_uri, f"{place}/tables", f"{place}/checkpoints", counter=counter)
        for place, counter in (
            (s3.make_bucket("bench"), s3.counter),
            (f"{where.filesystem}/bench", namenode.counter),
        )
    )
    place = Place(ground, where.kafka, DATA / "on-cluster")
    return replace(place, other={HDFS: replace(place, ground=hdfs)})


def with_kerberos(stack: ExitStack) -> Place:
    """Servers that ask for Kerberos, others that ask for nothing, and some that encrypt all that is sent, at once.

    The first two have one topic, of a broker that asks for nothing.
    """
    plain = stack.enter_context(Cluster(DATA / "cluster", only={"metastore", "kafka"}))
    asking = secured(stack, "authentication", {"metastore"})
    private = secured(stack, PRIVACY, {"metastore", "kafka"})

    def place(cluster: Cluster, broker: EmbeddedKafka, name: str) -> Place:
        root, environment = f"{cluster.filesystem}/bench", variables_of(cluster)
        ground = Ground(cluster.metastore_uri, f"{root}/tables", f"{root}/checkpoints")
        return Place(ground, broker.address, DATA / name, environment=environment, login=broker.login)

    broker, where = plain.servers.broker, "on-cluster"
    other = {PLAIN: place(plain, broker, where), PRIVACY: place(private, private.servers.broker, PRIVACY)}
    return replace(place(asking, broker, where), other=other)


def secured(stack: ExitStack, protection: str, parts: set[str]) -> Cluster:
    """With the folder `/bench` for everybody."""
    cluster = Cluster(DATA / f"cluster-{protection}", secure=True, only=parts)
    kdc = cluster.servers.kdc
    if kdc is None:
        raise AssertionError
    kdc.protection = protection
    stack.enter_context(cluster)
    with kdc.logged_in(SERVICES[0]):
        make_folders(cluster.filesystem, {"/bench": 0o1777}, kdc)
    return cluster


def beside(folder: Path, checkout: Path) -> Path:
    """A folder of code with the other checkout's hivesink, and this one's benchmark."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, source in {"hivesink": checkout, "jobs": HERE, "bench": HERE}.items():
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(source / name)
    return folder


def report(chosen: Sequence[Case], runs: Mapping[str, Sequence[Run]], told: Mapping[str, object]) -> None:
    """The tables and, as the last lines, the ratios; and in files."""
    found = [ratio for case in chosen for ratio in ratios(case, runs[case.name])]
    text = "\n\n".join(markdown(case, runs[case.name]) for case in chosen)
    all_runs = [asdict(run) for case in chosen for run in runs[case.name]]
    whole = {"told": told, "ratios": [asdict(ratio) for ratio in found], "runs": all_runs}
    (DATA / "results.md").write_text(text + "\n", encoding="utf-8")
    (DATA / "results.json").write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
    print(text)
    print(f"\nalso in {DATA}: results.md, results.json")
    print(*found, sep="\n")


if __name__ == "__main__":
    main()

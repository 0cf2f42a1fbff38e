"""Jobs that outlive their tickets and tokens, on the real secured cluster, with every row counted."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from hivesink.spark.settings import KEYTAB, PRINCIPAL
from jobs.cluster import Cluster
from jobs.cluster.kdc import Kdc
from tests.cluster.gates import LONGEST, Stage, local, on_cluster
from tests.cluster.target import Feed, Target, open_database, own
from tests.secure.secrecy import events_in, keys_of, processes, require_secret
from tests.secure.site import kdc_of, login_of

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(1800)]
SECONDS = 60
"""The life of a ticket; that of a delegation token is three times as long (`kdc.hdfs_site`)."""


@dataclass
class ShortTickets(Stage):
    """A job whose tickets live `SECONDS`, with a cache and a keytab of its own."""

    environ: Mapping[str, str] = field(default_factory=dict)

    def environment(self) -> dict[str, str]:
        return {**super().environment(), **self.environ}


def conf_of(kdc: Kdc, folder: Path, seconds: int) -> str:
    """A krb5.conf of those whose tickets live for `seconds`."""
    conf, lifetime = folder / f"krb5-{seconds}.conf", f"[libdefaults]\n    ticket_lifetime = {seconds}s"
    conf.write_text((kdc.folder / "krb5.conf").read_text().replace("[libdefaults]", lifetime))
    return str(conf)


@pytest.fixture
def short(alice: Cluster, tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of a process whose tickets live for `SECONDS`, and has none."""
    kdc = kdc_of(alice)
    conf = conf_of(kdc, tmp_path, SECONDS)
    java = os.environ["JDK_JAVA_OPTIONS"].replace(str(kdc.folder / "krb5.conf"), conf)
    yield {"KRB5_CONFIG": conf, "KRB5CCNAME": f"FILE:{tmp_path}/tickets", "JDK_JAVA_OPTIONS": java}
    # Its keys are new ones.
    login_of(alice, "alice")


def stage_of(alice: Cluster, folder: Path, short: Mapping[str, str], spark: Mapping[str, str]) -> ShortTickets:
    alice.servers.broker.start()
    open_database(alice)
    name = own("lasting")
    feed, target = Feed(alice.kafka, name, login=alice.servers.broker.login), Target.create(alice, name)
    every = {"processingTime": "3 seconds"}
    return ShortTickets(folder, alice, target, feed, spark, 400, every, environ=short)


def kinit(alice: Cluster, folder: Path, short: Mapping[str, str]) -> None:
    """What `kinit -l` does: a ticket for twice the usual time."""
    kdc = kdc_of(alice)
    with pytest.MonkeyPatch.context() as there:
        there.setenv("KRB5_CONFIG", conf_of(kdc, folder, 2 * SECONDS))
        kdc.take_ticket("alice", short["KRB5CCNAME"])


def feed_for(stage: Stage, process: subprocess.Popen[bytes], seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert process.poll() is None, stage.output[-4000:]
        stage.source.put(40)
        time.sleep(1)


def test_tickets_by_a_keytab(alice: Cluster, tmp_path: Path, short: dict[str, str]) -> None:
    """Executors have none at all; the key server is away for a minute, then has new keys, and so has the keytab."""
    for server in (alice.servers.master, *alice.servers.workers):
        server.start()
    kdc, keytab = kdc_of(alice), tmp_path / "alice.keytab"
    shutil.copy(kdc.keytab, keytab)
    spark = {
        **on_cluster(alice),
        PRINCIPAL: "alice@EXAMPLE.COM",
        KEYTAB: str(keytab),
        **events_in(tmp_path / "events"),
    }
    stage = stage_of(alice, tmp_path / "job", short, spark)
    stage.source.put(400)
    with stage.running() as process:
        stage.wait(process, lambda: stage.epochs() > 0, "no epoch was committed")
        feed_for(stage, process, SECONDS)
        assert kdc.pid
        os.kill(kdc.pid, signal.SIGSTOP)
        try:
            feed_for(stage, process, SECONDS)
        finally:
            os.kill(kdc.pid, signal.SIGCONT)
        feed_for(stage, process, SECONDS / 2)
        secrets = keys_of(keytab)
        kdc.stop()
        kdc.start()
        shutil.copy(kdc.keytab, keytab)
        # A quarter of an hour in all.
        feed_for(stage, process, 12 * SECONDS)
        seen = processes(process)
        login_of(alice, "alice")
        stage.wait(process, lambda: stage.target.count() == stage.source.sent, "rows are missing")
        assert stage.end(process) == 0, stage.output[-4000:]
    # For `hivesink verify`.
    kinit(alice, tmp_path, short)
    stage.check(stage.source.sent)
    secrets += keys_of(keytab)
    places = (tmp_path, *(worker.folder for worker in alice.servers.workers))
    keytab.unlink()
    require_secret(alice, places, seen, secrets)


def test_a_ticket_that_nobody_renews(alice: Cluster, tmp_path: Path, short: dict[str, str]) -> None:
    """The job stops with one line, and goes on after `kinit`."""
    kinit(alice, tmp_path, short)
    stage = stage_of(alice, tmp_path / "job", short, local())
    stage.source.put(400)
    with stage.running() as process:
        stage.wait(process, lambda: stage.epochs() > 0, "no epoch was committed")
        deadline = time.monotonic() + LONGEST
        while process.poll() is None and time.monotonic() < deadline:
            stage.source.put(40)
            time.sleep(1)
        assert process.poll() == 75, stage.output[-4000:]
    assert len(stage.told) == 1, stage.told
    assert "HS070" in stage.told[0]
    assert "alice@EXAMPLE.COM" in stage.told[0]
    assert "run kinit again" in stage.told[0]
    kinit(alice, tmp_path, short)
    stage.trigger = {"availableNow": True}
    assert stage.drain() == 0, stage.output[-4000:]
    stage.check(stage.source.sent)

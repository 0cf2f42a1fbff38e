"""Jobs under SIGKILL whose servers ask for Kerberos; `tests/cluster/test_kills.py` has the protocol's other steps."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from hivesink.core.table import TableName
from hivesink.embedded.server import wait_until
from hivesink.hive import Hive
from hivesink.logs import table_root
from hivesink.metastore import connect as registrar
from hivesink.ports import CommitLog
from hivesink.spark.settings import KEYTAB, PRINCIPAL
from jobs.cluster import Cluster
from jobs.cluster.kafka import write_properties
from jobs.demo.flights import Flights, KafkaTopic
from tests.cli.site import REPOSITORY
from tests.cluster.gates import LONGEST, Kills, Stage, kill_all, local
from tests.cluster.target import Feed, Target, open_database, own
from tests.secure.secrecy import events_in, processes, require_secret
from tests.secure.site import environment_of, kdc_of, site_of

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(2400)]
BATCH = 400
MONTHS = (1, 2, 3, 4, 5)
STEPS = ("while-publishing", "in-task", "after-manifest", "before-register", "random")


class WithoutTicket(Stage):
    def environment(self) -> dict[str, str]:
        logins, config = self.cluster.servers.broker.logins, self.folder / "client.properties"
        assert logins
        write_properties(config, logins.client(mechanism="GSSAPI"))
        own = {"HIVESINK_KAFKA_CONFIG": str(config), "KRB5CCNAME": f"FILE:{self.folder}/none"}
        return {**super().environment(), **own}


def keys_of(cluster: Cluster) -> dict[str, str]:
    return {PRINCIPAL: "alice@EXAMPLE.COM", KEYTAB: str(kdc_of(cluster).keytab)}


@pytest.mark.parametrize("login", ["ticket", "keytab"])
def test_kills_of_a_job(alice: Cluster, tmp_path: Path, login: str) -> None:
    """Kafka's login is by SCRAM, or by the keytab too."""
    alice.servers.broker.start()
    keys = kdc_of(alice)
    open_database(alice)
    name = own("secured")
    feed, target = Feed(alice.kafka, name, pad=400, login=alice.servers.broker.login), Target.create(alice, name)
    feed.put((len(STEPS) + 3) * BATCH)
    # Several batches of rows in a task, so that it can stand still between two.
    spark = {**local(), "spark.sql.execution.arrow.maxRecordsPerBatch": "15"}
    stage = Stage(tmp_path / "job", alice, target, feed, spark, BATCH, slow=True)
    if login == "keytab":
        stage = WithoutTicket(tmp_path / "job", alice, target, feed, spark | keys_of(alice), BATCH, slow=True)
    found = Kills(stage)
    for step in STEPS:
        found.kill_at(step)
    assert stage.drain() == 0, stage.output[-4000:]
    # For `hivesink verify`.
    keys.take_ticket("alice", f"FILE:{stage.folder}/none")
    stage.check(feed.sent)
    assert found.between >= 2


def test_flights(alice: Cluster, tmp_path: Path) -> None:
    """As a user runs them: by the site's files, a keytab in spark-defaults.conf; alice's folder has the checkpoint."""
    broker = alice.servers.broker
    broker.start()
    alice.servers.hiveserver2.start()
    site, flights = site_of(alice), Flights.load()
    defaults = keys_of(alice) | events_in(tmp_path / "events")
    (tmp_path / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in defaults.items()))
    topic = KafkaTopic(None, broker.address, broker.login)
    environment = {
        **os.environ,
        **environment_of(alice),
        "KAFKA_SERVERS": broker.address,
        "PYTHONPATH": str(REPOSITORY),
        "SPARK_CONF_DIR": str(tmp_path),
    }

    def command(*arguments: str, **more: str) -> subprocess.Popen[bytes]:
        output = (tmp_path / "output").open("ab")
        with output:
            return subprocess.Popen(
                [sys.executable, "-m", "hivesink.cli", *arguments],
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=tmp_path,
                env=environment | more,
            )

    def said() -> str:
        return (tmp_path / "output").read_text(errors="replace")[-4000:]

    def log() -> CommitLog:
        live = registrar("thrift", alice.metastore_uri, site).table(TableName("demo", "flights"))
        return table_root(live, None, site).log("flights")

    def head() -> int:
        return log().view().head

    run = ("run", str(REPOSITORY / "jobs" / "flights.py"))
    no_ticket = {"KRB5CCNAME": f"FILE:{tmp_path}/none"}
    assert command("ddl", "apply", str(REPOSITORY / "ddl" / "flights.sql")).wait(LONGEST) == 0, said()
    for month in MONTHS:
        topic.send(flights, MONTHS[:month])
        before = head()
        job = command(*run, **no_ticket)
        try:
            assert wait_until(lambda: head() > before or job.poll() is not None, LONGEST), said()  # noqa: B023
            assert job.poll() is None, said()
            time.sleep(secrets.randbelow(1000) / 1000)
            seen = processes(job)
        finally:
            kill_all(job)
    assert command(*run, TRIGGER="availableNow", **no_ticket).wait(LONGEST) == 0, said()
    assert command("verify", "demo.flights").wait(LONGEST) == 0, said()
    with Hive(alice.hiveserver2, site.hive) as hive:
        # Without a reduce, which Hadoop refuses to run in a secured process that lacks its native library.
        rows = Counter(map(tuple, hive.query("SELECT month, flight FROM demo.flights").rows))
    manifests = map(str, map(log().manifest, log().view().manifests))
    require_secret(alice, (tmp_path,), "\n".join([seen, *manifests]))
    wanted = flights.table[flights.table["month"].isin(MONTHS)]
    assert rows == Counter(zip(wanted["month"], wanted["flight"], strict=True))

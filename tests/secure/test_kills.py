"""Jobs whose servers ask for Kerberos, also under SIGKILL; `test_dying_servers.py` has the other steps."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from hivesink.core.table import TableName
from hivesink.hive import Hive
from hivesink.logs import table_root
from hivesink.metastore import connect
from hivesink.spark.settings import KEYTAB, PRINCIPAL
from jobs.cluster.kafka import write_properties
from jobs.demo.flights import Flights, KafkaTopic
from tests.cli.site import REPOSITORY, command
from tests.cluster.gates import Kills, Stage, local
from tests.cluster.target import Feed, Target, open_database, own
from tests.secure.secrecy import events_in, require_secret
from tests.secure.site import environment_of, kdc_of, site_of

if TYPE_CHECKING:
    from pathlib import Path

    from jobs.cluster import Cluster

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(2400)]
BATCH = 400
MONTHS = (1, 2)
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
    site, flights, said = site_of(alice), Flights.load(), ""
    defaults = keys_of(alice) | events_in(tmp_path / "events")
    (tmp_path / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in defaults.items()))
    KafkaTopic(None, broker.address, broker.login).send(flights, MONTHS)
    usual = {
        **environment_of(alice),
        "KAFKA_SERVERS": broker.address,
        "SPARK_CONF_DIR": str(tmp_path),
        "TRIGGER": "availableNow",
    }
    for arguments, own_login in (
        (("ddl", "apply", REPOSITORY / "ddl" / "flights.sql"), {}),
        (("run", REPOSITORY / "jobs" / "flights.py"), {"KRB5CCNAME": f"FILE:{tmp_path}/none"}),
        (("verify", "demo.flights"), {}),
    ):
        done = command(*arguments, more=usual | own_login, cwd=tmp_path)
        said += done.stdout + done.stderr
        assert done.returncode == 0, said
    with Hive(alice.hiveserver2, site.hive) as hive:
        # Without a reduce, which Hadoop refuses to run in a secured process that lacks its native library.
        rows = Counter(map(tuple, hive.query("SELECT month, flight FROM demo.flights").rows))
    live = connect("thrift", alice.metastore_uri, site).table(TableName("demo", "flights"))
    log = table_root(live, None, site).log("flights")
    require_secret(alice, (tmp_path,), "\n".join([said, *map(str, map(log.manifest, log.view().manifests))]))
    wanted = flights.table[flights.table["month"].isin(MONTHS)]
    assert rows == Counter(zip(wanted["month"], wanted["flight"], strict=True))

"""Jobs on a secured YARN of two nodes: from outside with a ticket, inside it with a keytab; executors have neither."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from hivesink.config.cache import cache_folder
from hivesink.jvm.jars import spark_home
from hivesink.jvm.java import find_java
from jobs.cluster import Cluster
from tests.cluster.gates import LONGEST
from tests.cluster.target import DATABASE, Target, open_database, own, record
from tests.cluster.yarn import on_yarn
from tests.docs.pages import ROOT, blocks_run_by
from tests.secure.site import kdc_of

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(1800)]
ROWS = 300
JOB = """
import os
from hivesink import HiveSink, session, sources
spark = session("events")
sink = HiveSink.for_table(spark, os.environ["TABLE"], writer="events")
events = sources.lines(spark, "{folder}/events")
query = sink.start(events, checkpoint="{folder}/checkpoint", trigger={{"availableNow": True}})
query.awaitTermination()
held = spark.sparkContext.parallelize([0], 1).mapPartitions(lambda _: os.listdir()).collect()
assert "env" in held and not any("keytab" in name for name in held), held
"""


@dataclass
class User:
    """Who submits jobs from `folder`, with the settings `spark` in spark-defaults.conf."""

    folder: Path
    cluster: Cluster
    spark: Mapping[str, str]

    def run(self, line: str, table: str, **more: str) -> tuple[int, str]:
        """Exit code and output of a shell's line; the job is for `table`."""
        in_both = {"PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1", "TABLE": table}
        # Containers have no home of their own.
        in_master = {**in_both, "XDG_CACHE_HOME": str(cache_folder().parent)}
        settings = {
            **self.spark,
            "spark.archives": f"{self.folder}/dist/hivesink-env-0.1.0.tar.gz#env",
            "spark.yarn.maxAppAttempts": "1",
            **{f"spark.yarn.appMasterEnv.{name}": value for name, value in in_master.items()},
        }
        text = "".join(f"{name} {value}\n" for name, value in settings.items())
        (self.folder / "conf" / "spark-defaults.conf").write_text(text)
        environment = {
            **os.environ,
            **in_both,
            "HADOOP_CONF_DIR": str(self.cluster.conf),
            "HIVE_CONF_DIR": str(self.cluster.conf),
            "JAVA_HOME": str(find_java().home),
            "PATH": f"{spark_home()}/bin:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "PYSPARK_PYTHON": "./env/bin/python",
            "SPARK_CONF_DIR": str(self.folder / "conf"),
            **more,
        }
        done = subprocess.run(
            ["bash", "-c", line.replace("/opt/hivesink", sys.prefix)],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=3 * LONGEST,
        )
        return done.returncode, done.stdout + done.stderr

    def of_containers(self) -> str:
        """The ends of what they said."""
        logs = (log for name in ("stdout", "stderr") for log in self.folder.rglob(f"container_*/{name}"))
        return "\n".join(log.read_text(errors="replace")[-3000:] for log in logs)


def test_jobs(alice: Cluster, tmp_path: Path) -> None:
    subprocess.run([ROOT / ".ci" / "dist", sys.executable], check=True, stdout=subprocess.DEVNULL)
    kdc, no_ticket = kdc_of(alice), {"KRB5CCNAME": f"FILE:{tmp_path}/none"}
    open_database(alice)
    target = Target.create(alice, own("yarn"))
    folder = f"{target.folder}-job"
    target.client.mkdirs(f"{folder}/events", 0o755, True)
    for name in ("jobs", "conf"):
        (tmp_path / name).mkdir()
    (tmp_path / "jobs" / "events.py").write_text(JOB.format(folder=f"{alice.filesystem}{folder}"))
    (tmp_path / "dist").symlink_to(ROOT / "dist")
    (tmp_path / "alice.keytab").symlink_to(kdc.keytab)
    (inside,) = blocks_run_by(__file__, "docs/sites.md")
    with on_yarn(alice, tmp_path / "yarn", nodes=2) as spark:
        user = User(tmp_path, alice, spark)
        outside = "HIVESINK_MASTER=yarn hivesink run jobs/events.py"
        for number, (line, login) in enumerate(((inside.text, no_ticket), (outside, {}))):
            rows = range(number * ROWS, (number + 1) * ROWS)
            with target.client.create(f"{folder}/events/{number}.json") as file:
                file.write("\n".join(json.dumps(record(row)) for row in rows).encode())
            code, said = user.run(line, target.name, **login)
            assert code == 0, said[-3000:] + user.of_containers()
            target.check_once(rows.stop)
        own_code = f"--files jobs/events.py {ROOT}/hivesink/cli/__main__.py run events.py"
        line = inside.text.replace("jobs/events.py", own_code)
        code, said = user.run(line, f"{DATABASE}.none", **no_ticket)
        assert (code, "User application exited with status 65" in said) == (1, True), said[-3000:]

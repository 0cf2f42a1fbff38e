"""The DAG of docs/recipes.md in a real Airflow, 2 and 3: what each exit code of `hivesink run` makes of its task."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from hivesink.embedded.metastore import EmbeddedMetastore
from tests.airflow.conftest import Airflow
from tests.docs.pages import ROOT, block, blocks_run_by, commands
from tests.docs.test_recipes import Shell, day

pytestmark = [pytest.mark.long, pytest.mark.spark, pytest.mark.timeout(1800)]

DAG, RECOMPUTE = blocks_run_by(__file__, "docs/recipes.md")
(COMMAND,) = (one for one in commands(ROOT / "docs" / "recipes.md") if one.startswith("hivesink wait demo.events"))
WAIT = f"""
    load >> BashOperator(
        task_id="complete",
        bash_command="/opt/hivesink/.venv/bin/{COMMAND}",
        cwd="/srv/events",
        append_env=True,
        retries=6,
    )
"""
RUN = """
if __name__ == "__main__":
    import json, sys

    run = dag.test(DATE=datetime.fromisoformat(sys.argv[1]))
    print(json.dumps({one.task_id: str(one.state) for one in run.get_task_instances()}))
"""


def test_a_dag_of_bash_operators(airflow: Airflow, metastore: EmbeddedMetastore, tmp_path: Path) -> None:
    two = airflow.version.startswith("2.")
    sh = Shell(tmp_path, metastore, f"recipes_airflow{airflow.version[0]}")
    text = DAG.text
    if two:
        text = text.replace("airflow.providers.standard.operators.bash", "airflow.operators.bash")
        text = text.replace("from airflow.sdk import DAG", "from airflow import DAG")
    text += WAIT + RECOMPUTE.text
    (tmp_path / "recompute.sh").write_text(
        block("docs/recipes.md", "# recompute.sh").text.replace("demo.", f"{sh.database}.")
    )
    (tmp_path / "compute.py").write_text("")
    text = text.replace("/opt/hivesink/.venv/bin", str(Path(sys.executable).parent))
    text = text.replace("/srv/events", str(tmp_path)).replace("demo.", f"{sh.database}.")
    text += RUN.replace("DATE", "execution_date" if two else "logical_date")
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "events.py").write_text(text)

    def states_after(date: str) -> dict[str, str]:
        own = {"AIRFLOW__CORE__DAGS_FOLDER": str(tmp_path / "dags"), "HIVESINK_METASTORE": metastore.uri}
        said = airflow.run(tmp_path / "dags" / "events.py", f"{date}T00:00:00+00:00", **own)
        found: dict[str, str] = json.loads(next(line for line in said.splitlines() if line.startswith('{"')))
        return found

    assert states_after("2024-01-03") == {"load": "success", "complete": "success", "recompute": "success"}
    assert sh.rows() == day(1, 2)
    # A second run of one day is deleted first, for which Airflow 2 lacks a table here.
    for date, code, state in (("2024-01-04", 75, "skipped"), ("2024-01-05", 65, "failed")):
        (tmp_path / "jobs" / "events.py").write_text(f"raise SystemExit({code})")
        after = "skipped" if state == "skipped" else "upstream_failed"
        assert states_after(date) == {"load": state, "complete": after, "recompute": after}

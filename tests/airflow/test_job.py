"""The DAG of docs/airflow.md, word for word but for folders, runs a job of `hivesink init` in a real Airflow."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.docs.folder import Folder
from tests.docs.pages import block

if TYPE_CHECKING:
    from hivesink.embedded.metastore import EmbeddedMetastore
    from tests.airflow.site import Airflow

pytestmark = [pytest.mark.long, pytest.mark.spark, pytest.mark.timeout(1800)]

TEST = """
if __name__ == "__main__":
    import json
    print(json.dumps([[str(one.state), one.try_number] for one in dag.test().get_task_instances()]))
"""


def test_a_job_as_a_task(airflow: Airflow, metastore: EmbeddedMetastore, tmp_path: Path) -> None:
    folder = Folder(tmp_path / "srv", metastore, f"airflow{airflow.version[0]}")
    folder.path.mkdir()
    folder.put("events", 1, 2)
    folder.init()
    dag = block("docs/airflow.md", "# dags/events.py").text
    if airflow.version.startswith("2."):
        dag = dag.replace("airflow.providers.standard.operators.bash", "airflow.operators.bash")
    folders = {"/srv/events": folder.path, "/opt/hivesink/.venv/bin": Path(sys.executable).parent}
    for shown, own in folders.items():
        dag = dag.replace(shown, str(own))
    file = tmp_path / "dags" / "events.py"
    file.parent.mkdir()
    file.write_text(dag + TEST)
    settings = {"AIRFLOW__CORE__DAGS_FOLDER": str(file.parent), "HIVESINK_METASTORE": metastore.uri}

    def states() -> object:
        return json.loads(airflow.run(file, **settings).splitlines()[-1])

    assert states() == [["success", 1]]
    assert folder.rows() == [[1, "2024-01-03"], [2, "2024-01-03"]]
    (folder.path / "events" / "b.json").write_text("no JSON\n")
    assert states() == [["failed", 1]]

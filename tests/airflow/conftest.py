from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.airflow.site import VERSIONS, Airflow, python_of

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(params=VERSIONS)
def airflow(request: pytest.FixtureRequest, tmp_path: Path) -> Airflow:
    """With an empty database."""
    home = tmp_path / "airflow"
    home.mkdir()
    made = Airflow(request.param, python_of(request.param), home)
    made.run("-m", "airflow", "db", "migrate")
    return made

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

import pytest


@pytest.mark.skipif(find_spec("airflow") is not None, reason="Airflow is installed here")
def test_without_airflow_the_import_says_what_to_install() -> None:
    told = r"^hivesink\.airflow needs Apache Airflow 2\.10 or later: pip install '\.\[airflow\]' in a clone"
    with pytest.raises(ModuleNotFoundError, match=told):
        import_module("hivesink.airflow")

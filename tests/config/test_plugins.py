"""The modules that tasks get for the user's own classes."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING

import pytest

from hivesink.config.options import SinkConfig
from hivesink.config.plugins import modules_for_tasks

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SOURCES = {"etl/mine.py": "import helper, shared.text", "helper.py": "", "shared/__init__.py": "", "shared/text.py": ""}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """`etl.mine`, imported from a folder on the path; `etl` has no __init__.py, and `unused` was not imported."""
    for name, text in {**SOURCES, "unused.py": ""}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("etl.mine")
    yield
    for name in ("etl.mine", "etl", "helper", "shared.text", "shared"):
        del sys.modules[name]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("option", ["sink.bucket.assigner", "partition.time-extractor.class"])
def test_they_are_those_imported_from_the_folder_of_the_class(option: str) -> None:
    entries = modules_for_tasks(SinkConfig.parse({option: "etl.mine:Any"}))
    assert {name: text.decode() for name, text in entries.items()} == {**SOURCES, "etl/": "", "shared/": ""}


@pytest.mark.usefixtures("folder")
def test_installed_classes_the_sinks_own_and_those_of_the_driver_need_no_sending() -> None:
    for value in ("partition-columns", "json:JSONDecoder", "pyarrow.compute:Any", "hivesink.core.log:A"):
        assert modules_for_tasks(SinkConfig.parse({"sink.bucket.assigner": value})) == {}
    assert modules_for_tasks(SinkConfig.parse({"sink.rolling-policy.class": "etl.mine:Any"})) == {}

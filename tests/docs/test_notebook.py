"""docs/notebook.ipynb: its cells still do what its kept outputs show, and those tell nothing of the machine."""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.docs.notebook import code_cells
from tests.docs.pages import ROOT, shell

if TYPE_CHECKING:
    from pathlib import Path

NOTEBOOK = ROOT / "docs" / "notebook.ipynb"
CELLS = code_cells(NOTEBOOK)


def text(output: Any) -> str:
    """A kept output as text, without colours."""
    kept = output.get("text") or output["data"]["text/plain"]
    return re.sub(r"\x1b\[[\d;]*m", "", "".join(kept))


def essentials(shown: str) -> str:
    """Without the one figure that differs from run to run."""
    return re.sub(r"(?<= rows \()[\d,]+(?=/s\))", "…", shown)


@pytest.mark.spark
@pytest.mark.long
def test_the_cells_print_what_the_notebook_shows(tmp_path: Path) -> None:
    runner = f"{sys.executable} {ROOT / 'tests' / 'docs' / 'notebook.py'} {NOTEBOOK}"
    script = f"trap 'hivesink metastore stop >/dev/null || true' EXIT; PATH={sys.exec_prefix}/bin:$PATH; {runner}"
    printed = json.loads(shell(tmp_path, script, {"PYTHONPATH": str(ROOT)}).stdout)
    kept = ["".join(text(output) for output in cell["outputs"]) for cell in CELLS]
    # If they differ on purpose: run the notebook anew in Jupyter, in an empty folder, and keep it.
    assert list(map(essentials, printed)) == list(map(essentials, kept))


def test_its_outputs_tell_nothing_of_the_machine() -> None:
    kept = "\n".join(json.dumps(output, ensure_ascii=False) for cell in CELLS for output in cell["outputs"])
    assert "2024-01-04" in kept
    # A path of two folders, a time of day other than the bad record's, an address.
    of_a_machine = r"(?<!<)/\w[\w.-]*/\w+|(?<!2024-01-03T)\d\d:\d\d:\d\d|\b\d+\.\d+\.\d+\.\d+\b|localhost"
    assert re.findall(of_a_machine, kept) == []

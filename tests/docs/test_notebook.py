"""docs/notebook.ipynb: its cells still do what its kept outputs show, and those tell nothing of the machine.

As a program it runs a notebook's cells without Jupyter, and prints a JSON list of what they print. Of Jupyter it knows
`%%writefile`, `%%sh`, and that a cell shows its last expression.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import ROOT, shell

NOTEBOOK = ROOT / "docs" / "notebook.ipynb"


def code_cells(notebook: Path) -> list[Any]:
    """The code cells, as nbformat 4 has them but for `source`, which is one text."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return [{**one, "source": "".join(one["source"])} for one in cells if one["cell_type"] == "code"]


def run(source: str, names: dict[str, Any]) -> str:
    """What the cell prints and shows; it sees and leaves `names`. Whatever it raises gets out."""
    magic, _, rest = source.partition("\n")
    if magic.startswith("%%writefile "):
        Path(magic.split()[1]).write_text(rest + "\n", encoding="utf-8")
        return f"Writing {magic.split()[1]}\n"
    if magic == "%%sh":
        return subprocess.run(["sh", "-c", rest], check=True, stdout=subprocess.PIPE, text=True).stdout
    tree = ast.parse(source)
    last = tree.body[-1]
    shown = None
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        if isinstance(last, ast.Expr) and not source.endswith(";"):
            tree.body.pop()
            exec(compile(tree, "cell", "exec"), names)  # noqa: S102  the notebook is our own
            shown = eval(compile(ast.Expression(last.value), "cell", "eval"), names)  # noqa: S307  as above
        else:
            exec(compile(tree, "cell", "exec"), names)  # noqa: S102  as above
    return printed.getvalue() + ("" if shown is None else repr(shown))


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
    runner = f"{sys.executable} {__file__} {NOTEBOOK}"
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


if __name__ == "__main__":
    shared: dict[str, Any] = {"__name__": "__main__"}
    print(json.dumps([run(one["source"], shared) for one in code_cells(Path(sys.argv[1]))]))

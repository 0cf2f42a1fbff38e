"""Runs a notebook's cells without Jupyter: `python notebook.py FILE.ipynb` prints a JSON list of what they print.

Of Jupyter it knows `%%writefile`, `%%sh`, and that a cell shows its last expression.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any


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


if __name__ == "__main__":
    shared: dict[str, Any] = {"__name__": "__main__"}
    print(json.dumps([run(one["source"], shared) for one in code_cells(Path(sys.argv[1]))]))

"""A user's folder, with a table and a job of `hivesink init`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.docs.pages import ROOT

if TYPE_CHECKING:
    from hivesink.embedded.metastore import EmbeddedMetastore


class Folder:
    """Its commands run as cron's do: with no profile, and /bin/sh. `database` is put in place of the docs' demo."""

    def __init__(self, folder: Path, metastore: EmbeddedMetastore, database: str) -> None:
        self.path, self.database = folder, database
        self.environment = {
            "HOME": os.environ["HOME"],
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "HIVESINK_METASTORE": metastore.uri,
        }

    def __call__(self, script: str, code: int = 0) -> str:
        """Run a script, which has to end with `code`; return what it printed, and nothing that it says of errors."""
        done = subprocess.run(
            ["sh", "-euc", script.replace("demo.", f"{self.database}.")],
            cwd=self.path,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, f"{script}\n{done.stdout}{done.stderr}"
        return done.stdout

    def put(self, folder: str, *ids: int) -> None:
        (self.path / folder).mkdir(exist_ok=True)
        lines = (f'{{"id": {one}, "at": "2024-01-03T0{hour}:00:00Z"}}\n' for hour, one in enumerate(ids))
        (self.path / folder / f"{ids[0]}.json").write_text("".join(lines))

    def init(self) -> None:
        self("hivesink init --from events --table demo.events --yes && hivesink ddl apply ddl/events.sql")

    def rows(self) -> list[list[object]]:
        asked = self("hivesink query 'SELECT id, dt FROM demo.events ORDER BY id' --json")
        found: list[list[object]] = json.loads(asked)["rows"]
        return found

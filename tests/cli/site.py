"""The command line in this process, and a real table on the real metastore, written without Spark."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hivesink.cli import main
from hivesink.core.table import TableName
from hivesink.metastore import connect
from hivesink.metastore.thrift_connection import Connection
from hivesink.sink.commit.committed import Committed, Deadline
from hivesink.sink.task.messages import InputShape
from tests import ingest

DDL = """CREATE TABLE {name} (id BIGINT, note STRING)
PARTITIONED BY (dt STRING)
STORED AS PARQUET
LOCATION '{location}'
TBLPROPERTIES ('sink.on-bad-record'='drop')
"""


Capsys = pytest.CaptureFixture[str]
REPOSITORY = Path(__file__).parents[2]


@dataclass(frozen=True)
class Said:
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> str:
        """The one line that it complained with, without the error's code."""
        (line,) = self.err.splitlines()
        return re.sub(r" \[HS\d{3}\]$", "", line)


def hivesink(capsys: Capsys, *arguments: str | Path) -> Said:
    """Run the command line as the console script does."""
    capsys.readouterr()
    with pytest.MonkeyPatch.context() as patched:
        # `--debug` sets it for good.
        patched.setenv("HIVESINK_DEBUG", "")
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
    printed = capsys.readouterr()
    code = ended.value.code
    assert isinstance(code, int)
    return Said(code, printed.out, printed.err)


def command(
    *arguments: str | Path, more: Mapping[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run it in a process of its own, with `more` in its environment than this one's."""
    return subprocess.run(
        [sys.executable, "-m", "hivesink.cli", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), **(more or {})},
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )


class Ingest(ingest.Ingest):
    """A writer whose batches are four good rows and a bad one."""

    def commit(self, rows: int = 4) -> Committed:
        """Commit one batch of `rows` good rows and a bad one."""
        lines = [{"id": number, "note": f"n{number}", "dt": f"2026-01-0{1 + number % 2}"} for number in range(rows)]
        records = [json.dumps(line).encode() for line in lines] + [b'{"id": "seven"}']
        batch = pa.RecordBatch.from_pydict({"value": pa.array(records, pa.binary())})
        return self.put(batch, InputShape(value="value", topic_name="t"))

    def lose_metastore(self) -> None:
        """From now on the metastore is as good as down for this writer, which waits for it."""
        self.committer._live.deadline = Deadline(timedelta(hours=1), "epochs wait")
        down = connect("thrift", "thrift://127.0.0.1:1")
        self.committer.context = replace(self.committer.context, registrar=down)
        self.committer._writer.context = self.committer._live.context = self.committer.context
        if self.committer._live.runner is not None:
            self.committer._live.runner.context = self.committer.context

    @property
    def log(self) -> Path:
        return Path(self.setup.context.log.location)

    @property
    def location(self) -> Path:
        return Path(self.setup.spec.target.location.removeprefix("file://").removeprefix("file:"))


def committed(table: str, uri: str, *batches: int, writer: str = "ingest", **settings: Any) -> Ingest:
    """A run of a writer that has committed batches of so many good rows each, and ended."""
    with closing(Ingest(table, uri, writer, **settings)) as run:
        for rows in batches:
            run.commit(rows)
        run.committer.finish()
    return run


def changed(metastore: str, name: TableName, change: Callable[[Any], object]) -> Any:
    """As ALTER TABLE: the metastore's table after `change`."""
    with closing(Connection(metastore)) as connection:
        found = connection.read(lambda client: client.get_table(name.database, name.table))
        change(found)
        connection.read(lambda client: client.alter_table(name.database, name.table, found))
    return found


def rename(ingest: Ingest, name: str) -> str:
    """As ALTER TABLE … RENAME: an external table's files stay where they are, and so do those with a LOCATION."""
    old = TableName.parse(ingest.table)
    changed(ingest.metastore, old, lambda found: setattr(found, "tableName", name))
    return f"{old.database}.{name}"


def alter(ingest: Ingest, properties: Mapping[str, str]) -> None:
    """As ALTER TABLE … SET TBLPROPERTIES."""
    changed(ingest.metastore, TableName.parse(ingest.table), lambda found: found.parameters.update(properties))

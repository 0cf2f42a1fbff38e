"""A fresh table for each test, on the real metastore, and a writer that has committed three epochs into it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from hivesink.embedded.metastore import EmbeddedMetastore
from tests.cli.site import DDL, Capsys, Ingest, hivesink

_numbers = count(1)


@pytest.fixture
def uri(metastore: EmbeddedMetastore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """The metastore's address, also in the environment; the embedded one of this folder is none."""
    monkeypatch.setenv("HIVESINK_METASTORE", metastore.uri)
    monkeypatch.setenv("HIVESINK_HOME", str(tmp_path / "home"))
    return metastore.uri


@pytest.fixture
def ddl(tmp_path: Path) -> Path:
    """The DDL file of a table that isn't there yet."""
    path = tmp_path / "events.sql"
    name = f"cli{next(_numbers)}.events"
    path.write_text(DDL.format(name=name, location=(tmp_path / "data" / "events").as_uri()))
    return path


@pytest.fixture
def table(uri: str, ddl: Path, capsys: Capsys) -> str:
    """The name of a table that was just created."""
    assert uri
    applied = hivesink(capsys, "ddl", "apply", ddl, "--json")
    assert applied.code == 0, applied.err
    return str(applied.data["tables"][0]["table"])


@pytest.fixture
def ingest(uri: str, table: str) -> Iterator[Ingest]:
    """Three epochs of four rows each, and a bad one dropped from each."""
    writer = Ingest(table, uri)
    for _ in range(3):
        writer.commit()
    writer.committer.finish()
    yield writer
    writer.close()

"""Lineage events, as a real HTTP server gets them from OpenLineage's own client; the queries are without Spark."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from hivesink.embedded.metastore import EmbeddedMetastore
from hivesink.spark import listeners
from hivesink.spark.listeners import LineageRun
from tests.cli.site import DDL, Ingest
from tests.tables import daily

FACETS = {"facets", "inputFacets", "outputFacets"}
SPEC = re.compile(r"https://openlineage\.io/spec/.+#/\$defs/.+")
KAFKA = [{"kafka.bootstrap.servers": "a:9092,b:9092", "subscribe": "t"}]


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without OpenLineage, whose client also writes into the environment."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith("OPENLINEAGE")}
    monkeypatch.setattr(os, "environ", {**kept, "HOME": str(tmp_path)})
    monkeypatch.chdir(tmp_path)


@contextmanager
def receiver(hangs: threading.Event | None = None) -> Iterator[list[Any]]:
    """What a server gets that OpenLineage's environment names; it answers once `hangs` is set."""
    events: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if hangs is not None:
                hangs.wait(60)
            events.append(json.loads(body))
            self.send_response(201)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        os.environ |= {"OPENLINEAGE_URL": f"http://127.0.0.1:{server.server_port}", "OPENLINEAGE_NAMESPACE": "here"}
        try:
            yield events
        finally:
            if hangs is not None:
                hangs.set()
            server.shutdown()


@pytest.fixture
def writer(metastore: EmbeddedMetastore, tmp_path: Path) -> Iterator[Ingest]:
    with closing(Ingest(daily.create(metastore.uri, tmp_path, DDL), metastore.uri)) as opened:
        yield opened


def facets_of(told: Any) -> Iterator[dict[str, Any]]:
    """All facets of events."""
    for name, value in told.items() if isinstance(told, dict) else enumerate(told if isinstance(told, list) else ()):
        yield from value.values() if name in FACETS else facets_of(value)


def test_a_run_is_told_from_its_start_to_its_end(writer: Ingest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listeners, "_PERIOD", 0.05)
    writer.commit(1)
    with receiver() as events:
        run = LineageRun(writer.setup, KAFKA)
        run.start()
        # The start's event has what has settled by then.
        while not events:
            run.join(0.05)
        for _ in range(2):
            writer.commit(4)
        while len(events) < 2:
            run.join(0.05)
        run.__exit__(KeyError, KeyError("broken"), None)
    kinds = [event["eventType"] for event in events]
    assert (kinds[0], kinds[-1], {*kinds[1:-1]}) == ("START", "FAIL", {"RUNNING"})
    # The rest of an event is of OpenLineage's own classes.
    facets = [*facets_of(events)]
    assert len(facets) > len(events)
    for facet in facets:
        assert facet["_producer"].startswith("https://")
        assert SPEC.fullmatch(facet["_schemaURL"])
    assert len({event["run"]["runId"] for event in events}) == 1
    last = events[-1]
    assert last["job"]["namespace"] == "here"
    assert last["job"]["name"] == f"{writer.table}.ingest"
    assert last["run"]["facets"]["errorMessage"]["message"] == "'broken'"
    [topic], [table] = last["inputs"], last["outputs"]
    assert (topic["namespace"], topic["name"]) == ("kafka://a:9092", "t")
    # Epoch 1 is another run's.
    assert topic["inputFacets"]["hivesink_offsets"]["offsets"] == [{"topic": "t", "partition": 0, "from": 10, "to": 30}]
    assert (table["namespace"], table["name"]) == (f"hive://{writer.metastore.rpartition('/')[2]}", writer.table)
    assert [field["name"] for field in table["facets"]["schema"]["fields"]] == ["id", "note", "dt"]
    [link] = table["facets"]["symlinks"]["identifiers"]
    assert (link["namespace"], link["name"], link["type"]) == ("file", str(writer.location), "LOCATION")
    counts = table["outputFacets"]["outputStatistics"]
    files = [*writer.location.rglob("*-2-*.parquet"), *writer.location.rglob("*-3-*.parquet")]
    assert (counts["rowCount"], counts["fileCount"]) == (8, 4)
    assert counts["size"] == sum(file.stat().st_size for file in files)


def test_a_server_that_hangs_costs_nothing_but_a_moment_at_the_end(
    writer: Ingest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listeners, "_PATIENCE", 0.1)
    hangs = threading.Event()
    with receiver(hangs) as events:
        run = LineageRun(writer.setup, KAFKA)
        run.start()
        with run:
            writer.commit(4)
            writer.committer.finish()
        # The thread still waits for an answer to its first event.
        assert (run.is_alive(), events) == (True, [])
    assert sum(1 for _ in writer.location.rglob("part-*")) == 2


@pytest.mark.parametrize(
    ("location", "place"),
    [
        ("file:/w/t", ("file", "/w/t")),
        ("/w/t", ("file", "/w/t")),
        ("hdfs://nn:9000/w/t", ("hdfs://nn:9000", "/w/t")),
        ("s3a://bucket/w/t", ("s3://bucket", "w/t")),
    ],
)
def test_places_are_named_as_openlineage_does(location: str, place: tuple[str, str]) -> None:
    assert listeners._place(location) == place


def test_nothing_is_told_unless_openlineage_is_configured(writer: Ingest) -> None:
    with listeners.lineage(writer.setup, None) as told:
        assert told is None

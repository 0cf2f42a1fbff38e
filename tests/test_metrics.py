"""The file of metrics: whose it is, and that its thread goes on; what a day of scrapes costs."""

from __future__ import annotations

import atexit
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timezone
from http.client import HTTPConnection
from pathlib import Path

import psutil
import pytest

from hivesink import metrics
from hivesink.core.metrics import Sample
from hivesink.embedded.metastore import EmbeddedMetastore
from hivesink.sink.inspect.facts import read_log
from hivesink.sink.inspect.verify import figures
from tests.cli.site import DDL, Ingest
from tests.tables import daily


def test_a_file_is_its_writers_and_comes_again_after_any_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    written = threading.Event()

    def samples() -> Iterator[float | Exception]:
        yield 1
        yield LookupError("a surprise")
        yield LookupError("a surprise")
        yield 2
        written.set()
        threading.Event().wait()

    coming = samples()

    def ask() -> dict[tuple[str, str], list[Sample]]:
        value = next(coming)
        if isinstance(value, Exception):
            raise value
        return {("demo.t", "w"): [Sample("up", value)]}

    monkeypatch.setattr(metrics, "_EVERY", 0)
    monkeypatch.setattr(atexit, "register", lambda _: None)
    monkeypatch.setenv("HIVESINK_WRITER", "clicks")
    metrics.write_always(metrics.Families(ask), str(tmp_path))
    assert written.wait(10)
    [file] = tmp_path.glob("*.prom")
    assert (file.name, file.read_text().splitlines()[-1]) == (
        "hivesink-clicks.prom",
        'hivesink_up{table="demo.t",writer="w"} 2.0',
    )
    assert caplog.text.count("a surprise") == 1


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_memory_does_not_grow_by_a_days_scrapes(metastore: EmbeddedMetastore, tmp_path: Path) -> None:
    """86,400 scrapes over HTTP, of a job that commits an epoch at each 100th, whose log is trimmed meanwhile."""
    process, used = psutil.Process(), list[float]()
    with closing(Ingest(daily.create(metastore.uri, tmp_path, DDL), metastore.uri)) as writer:
        log, rule, told = writer.setup.context.log, writer.setup.spec.commit_rule, writer.committer.figures
        told.count(lambda: figures(read_log(log), rule))
        families = metrics.Families(lambda: {(writer.table, "w"): told.samples(datetime.now(timezone.utc))})
        with closing(socket.socket()) as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        metrics.serve(families, "127.0.0.1", port)
        for second in range(86_400):
            if second % 100 == 0:
                writer.commit()
            with closing(HTTPConnection("127.0.0.1", port)) as connection:
                connection.request("GET", "/metrics")
                text = connection.getresponse().read()
            if second % 8_640 == 8_639:
                used.append(process.memory_info().rss / 1e6)
                print(f"after {second + 1:,} scrapes: {used[-1]:.1f} MB", flush=True)
    assert b'hivesink_epochs_total{kind="batch",table="%s",writer="w"} 864.0' % writer.table.encode() in text
    # By the third look all is loaded, and the log has come to its length.
    assert used[-1] - used[2] < 3, used

"""The file of metrics: whose it is, and that its thread goes on."""

from __future__ import annotations

import atexit
import threading
from typing import TYPE_CHECKING, Any

from hivesink import metrics

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pytest


def test_a_file_is_its_writers_and_comes_again_after_any_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    written = threading.Event()

    def texts() -> Iterator[str | Exception]:
        yield "first"
        yield LookupError("a surprise")
        yield LookupError("a surprise")
        yield "last"
        written.set()

    class Families:
        coming = texts()

        def text(self) -> str:
            text = next(self.coming, None)
            if isinstance(text, Exception):
                raise text
            return text or str(threading.Event().wait())

    monkeypatch.setattr(metrics, "_EVERY", 0)
    monkeypatch.setattr(atexit, "register", lambda _: None)
    monkeypatch.setenv("HIVESINK_WRITER", "clicks")
    families: Any = Families()
    metrics.write_always(families, str(tmp_path))
    assert written.wait(10)
    assert {file.name: file.read_text() for file in tmp_path.glob("*.prom")} == {"hivesink-clicks.prom": "last"}
    assert caplog.text.count("a surprise") == 1

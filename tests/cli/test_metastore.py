from __future__ import annotations

from typing import TYPE_CHECKING

from hivesink.embedded import metastore
from tests.cli.site import hivesink

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_start_status_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("HIVESINK_HOME", str(tmp_path))
    monkeypatch.delenv("HIVESINK_METASTORE", raising=False)
    assert "does not run" in hivesink(capsys, "metastore", "status").out
    try:
        started = hivesink(capsys, "metastore", "start", "--json")
        assert started.code == 0, started.err
        assert started.data["running"] is True
        assert f"runs at {started.data['uri']}" in hivesink(capsys, "metastore", "start").out
        # Commands find it by themselves.
        assert f"is not in the metastore at {started.data['uri']}" in hivesink(capsys, "status", "a.b").error
    finally:
        metastore.stop(tmp_path)
    assert hivesink(capsys, "metastore", "status", "--json").data["running"] is False
    assert "does not run" in hivesink(capsys, "metastore", "stop").out

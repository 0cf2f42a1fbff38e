from __future__ import annotations

from typing import TYPE_CHECKING

from hivesink.config.cache import state_folder

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_the_state_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HIVESINK_HOME", raising=False)
    assert state_folder() == tmp_path / ".hivesink-local"
    monkeypatch.setenv("HIVESINK_HOME", str(tmp_path / "elsewhere"))
    assert state_folder() == tmp_path / "elsewhere"

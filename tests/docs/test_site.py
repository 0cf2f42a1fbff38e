"""The docs as a site: it builds without a warning, its search knows the words, and it needs no other host."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import hivesink
from tests.docs.pages import ROOT
from tests.docs.test_links import anchors

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = pytest.mark.skipif(sys.version_info < (3, 11), reason="the generator has no release for 3.10")


def build(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def build_in(folder: Path) -> Path:
    """Copy what the site is made of into `folder`, with the site in `site`."""
    shutil.copy(ROOT / "zensical.toml", folder)
    shutil.copytree(ROOT / "docs", folder / "docs")
    (folder / "hivesink").symlink_to(ROOT / "hivesink")
    built = build(folder)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_in(tmp_path_factory.mktemp("project"))


def test_every_page_is_in_the_navigation() -> None:
    listed = re.findall(r'"(\w+\.md)"', (ROOT / "zensical.toml").read_text(encoding="utf-8"))
    assert sorted(listed) == sorted(page.name for page in (ROOT / "docs").glob("*.md"))


@pytest.mark.parametrize(("word", "page"), [("HIVE_CONF_DIR", "sites.html"), ("OutcomeUnknown", "reference.html")])
def test_the_search_finds_pages_and_docstrings(project: Path, word: str, page: str) -> None:
    items = json.loads((project / "site" / "search.json").read_text(encoding="utf-8"))["items"]
    found = {one["location"].partition("#")[0] for one in items if word in one["title"] + one["text"]}
    assert page in found


def test_the_reference_has_every_public_name(project: Path) -> None:
    page = (project / "site" / "reference.html").read_text(encoding="utf-8")
    ids = set(re.findall(r'id="hivesink\.[\w.]*?(\w+)"', page))
    assert set(hivesink.__all__) - {"sources"} | {"kafka", "lines"} <= ids


def test_anchors_are_those_of_github(project: Path) -> None:
    for page in sorted((ROOT / "docs").glob("*.md")):
        html = (project / "site" / page.name).with_suffix(".html").read_text(encoding="utf-8")
        assert anchors(page) <= set(re.findall(r'id="([^"]+)"', html)), page.name


def test_nothing_is_loaded_from_another_host(project: Path) -> None:
    for file in (project / "site").rglob("*.html"):
        text = file.read_text(encoding="utf-8")
        assert not re.findall(r'<(?:script|img|iframe)\b[^>]*\bsrc="?(?:https?:)?//[^>]*', text)
        assert not re.findall(r'<link\b[^>]*href="?https?://[^>]*', text)


def test_a_dead_link_stops_the_build(project: Path, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    shutil.copytree(project, folder, symlinks=True, ignore=shutil.ignore_patterns("site", ".cache"))
    with (folder / "docs" / "hdfs.md").open("a", encoding="utf-8") as page:
        page.write("\n[Nowhere](options.md#nowhere)\n")
    built = build(folder)
    assert built.returncode != 0
    assert "anchor does not exist" in built.stdout + built.stderr

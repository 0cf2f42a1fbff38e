"""Links between README, docs and the source lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, prose


def anchors(page: Path) -> set[str]:
    """As GitHub makes them of headings: letters, digits, `_` and `-`, with a number for those that come again."""
    found: dict[str, int] = {}
    names = set()
    for heading in re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", plain.strip().lower()).replace(" ", "-")
        found[name] = found.get(name, -1) + 1
        names.add(name if not found[name] else f"{name}-{found[name]}")
    return names


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=lambda page: page.name)
def test_links(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if re.match(r"https?://\S+$", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), target
        if anchor:
            assert anchor in anchors(file), target


def test_a_link_that_leads_nowhere_is_found() -> None:
    assert "your-own-data-in-five-minutes" in anchors(ROOT / "README.md")
    assert "the-life-of-a-dog" not in anchors(ROOT / "README.md")


def test_every_page_is_in_the_sites_navigation() -> None:
    listed = re.findall(r'"(\w+\.md)"', (ROOT / "zensical.toml").read_text(encoding="utf-8"))
    assert sorted(listed) == sorted(page.name for page in (ROOT / "docs").glob("*.md"))

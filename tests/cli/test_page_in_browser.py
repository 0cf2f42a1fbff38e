"""The page of `hivesink show` in a real browser: it is laid out, coloured in light and dark, and has no errors.

It needs Chromium, which no package index ships for every machine: `apt-get install chromium`.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
import zlib
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from tests.cli.site import Ingest, hivesink
from tests.cli.test_show import AT_ONCE, HOSTILE
from tests.tables import daily
from tests.tables.daily import Daily

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), "")
DARK = "--blink-settings=preferredColorScheme=0"
Colours = frozenset[tuple[int, int, int]]

pytestmark = [
    pytest.mark.skipif(not BROWSER, reason="no Chromium on this machine: apt-get install chromium"),
]


@pytest.fixture
def page(uri: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A page of a table with small files, dead letters and a name that is hostile."""
    table, file = daily.create(uri, tmp_path, AT_ONCE), tmp_path / "page.html"
    with closing(Daily(table, uri)) as writer:
        writer.read(HOSTILE, 1, 3, 3, mark=2)
        writer.read(3, mark=2)
        writer.read(3, mark=2)
        writer.committer.finish()
    with closing(Ingest(table, uri, "other")) as writer:
        writer.commit()
        writer.committer.finish()
    assert hivesink(capsys, "show", table, "--html", file).code == 0
    return file


def browse(page: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [
        BROWSER,
        "--headless",
        # Root needs that, and nothing but our own page is loaded.
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--enable-logging=stderr",
        "--window-size=700,4000",
        f"--user-data-dir={page.parent / 'profile'}",
        *arguments,
        page.as_uri(),
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)


def colours(png: bytes) -> Colours:
    """Those of all pixels of an 8-bit RGB or RGBA picture (PNG specification, 9.2: the filters)."""
    width, height, _, kind = struct.unpack(">IIBB", png[16:26])
    step = {2: 3, 6: 4}[kind]
    data = zlib.decompress(b"".join(_chunks(png)))
    before, found = bytearray(width * step), set()
    for row in range(height):
        at = row * (width * step + 1)
        before = _unfiltered(data[at], bytearray(data[at + 1 : at + 1 + width * step]), before, step)
        found |= set(zip(before[0::step], before[1::step], before[2::step], strict=True))
    return frozenset(found)


def _chunks(png: bytes) -> Iterator[bytes]:
    at = 8
    while at < len(png):
        length, kind = struct.unpack(">I4s", png[at : at + 8])
        if kind == b"IDAT":
            yield png[at + 8 : at + 8 + length]
        at += length + 12


def _unfiltered(kind: int, line: bytearray, above: bytearray, step: int) -> bytearray:
    for at in range(len(line)):
        left, corner = (line[at - step], above[at - step]) if at >= step else (0, 0)
        line[at] = (line[at] + _predicted(kind, left, above[at], corner)) & 0xFF
    return line


def _predicted(kind: int, left: int, above: int, corner: int) -> int:
    if kind < 4:
        return (0, left, above, (left + above) // 2)[kind]
    guess = left + above - corner
    return min((left, above, corner), key=lambda one: abs(guess - one))


def seen(page: Path, *arguments: str) -> Colours:
    picture = page.with_suffix(".png")
    browse(page, f"--screenshot={picture}", *arguments)
    return colours(picture.read_bytes())


def hexes(*texts: str) -> Colours:
    return frozenset((int(one[:2], 16), int(one[2:4], 16), int(one[4:], 16)) for one in texts)


def test_text_and_bars_are_there_and_the_console_has_no_errors(page: Path) -> None:
    done = browse(page, "--dump-dom")
    assert "CONSOLE" not in done.stderr
    assert "dt=&lt;script&gt;alert(1)&lt;%2Fscript&gt;" in done.stdout
    # The browser has read the SVG as such, and closed what it opened itself.
    assert done.stdout.count("<figure") == done.stdout.count("</figure>") == 1
    assert done.stdout.count("<rect") == done.stdout.count("</rect>") == 5
    assert done.stdout.count("<table") == 2


def test_bars_and_text_are_painted_in_light_and_dark(page: Path) -> None:
    light = hexes("ffffff", "1c2430", "2f6fb5", "c97a00", "c0392b")
    dark = hexes("14181e", "e4e8ee", "5a9de0", "e8a33a", "e8695c")
    in_light, in_dark = seen(page), seen(page, DARK)
    assert light <= in_light
    assert dark <= in_dark
    assert not dark & in_light

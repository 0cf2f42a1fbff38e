"""The docs' site in a real browser: the search leads to a page, and every page is laid out without an error.

It needs Chromium, which no package index ships for every machine: `apt-get install chromium`.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tests.docs.pages import ROOT
from tests.docs.test_site import build_in

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), "")
pytestmark = [
    pytest.mark.skipif(not BROWSER, reason="no Chromium on this machine: apt-get install chromium"),
    pytest.mark.skipif(sys.version_info < (3, 11), reason="the generator has no release for 3.10"),
]

LAID_OUT = """({
  wide: document.documentElement.scrollWidth > innerWidth,
  broken: [...document.images].filter(image => !image.naturalWidth).map(image => image.src),
  raw: [...document.querySelectorAll("article p, article li, article td")].map(one => one.innerText)
    .filter(text => /\\]\\(|```|<!--|^\\s*\\|/.test(text)),
})"""


class Browser:
    """A headless Chromium, by its debugging protocol over two pipes: messages of JSON that end with a zero byte."""

    def __init__(self, profile: Path) -> None:
        ours, theirs = os.pipe(), os.pipe()
        arguments = "--headless --no-sandbox --disable-gpu --remote-debugging-pipe --window-size=1300,1000"
        # The browser reads descriptor 3, and writes 4.
        joined = f'exec "$0" "$@" 3<&{ours[0]} 4>&{theirs[1]}'
        command = ["bash", "-c", joined, BROWSER, *arguments.split(), f"--user-data-dir={profile}", "about:blank"]
        self.process = subprocess.Popen(command, pass_fds=(ours[0], theirs[1]), stderr=subprocess.DEVNULL)
        os.close(ours[0])
        os.close(theirs[1])
        self._to, self._from = os.fdopen(ours[1], "wb", 0), os.fdopen(theirs[0], "rb", 0)
        self._read, self._count, self._session = b"", 0, {}
        self.events: list[dict[str, Any]] = []
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(one["targetId"] for one in targets if one["type"] == "page")
        self._session = {"sessionId": self.call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]}
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> Any:
        self._count += 1
        message = {"id": self._count, "method": method, "params": parameters, **self._session}
        self._to.write(json.dumps(message).encode() + b"\0")
        while (found := self._next()).get("id") != self._count:
            self.events.append(found)
        assert "error" not in found, found
        return found["result"]

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._read:
            more = self._from.read(1 << 16)
            assert more, "the browser has ended"
            self._read += more
        text, _, self._read = self._read.partition(b"\0")
        found: dict[str, Any] = json.loads(text)
        return found

    def value(self, script: str) -> Any:
        return self.call("Runtime.evaluate", expression=script, returnByValue=True)["result"].get("value")

    def wait_for(self, script: str) -> None:
        while not self.value(script):
            time.sleep(0.1)

    def open(self, address: str) -> None:
        self.call("Page.navigate", url=address)
        self.wait_for(f"location.href == {address!r} && document.readyState == 'complete'")

    def complaints(self) -> list[dict[str, Any]]:
        """What has gone wrong since, in the page or in what it loads."""
        self.value("1")
        failed = [event for event in self.events if event["method"] == "Runtime.exceptionThrown"]
        logged = [event for event in self.events if event["method"] == "Log.entryAdded"]
        return [*failed, *(event for event in logged if event["params"]["entry"]["level"] == "error")]

    def close(self) -> None:
        self.call("Browser.close")
        self.process.wait()
        self._to.close()
        self._from.close()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the site, built and served as the docs say."""
    with served(build_in(tmp_path_factory.mktemp("project")) / "site") as address:
        yield address


@contextmanager
def served(folder: Path) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1", "-d", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            while socket.socket().connect_ex(("127.0.0.1", port)):
                time.sleep(0.1)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    found = Browser(tmp_path / "profile")
    yield found
    found.close()


def test_the_search_leads_to_what_was_typed(site: str, browser: Browser) -> None:
    browser.open(f"{site}/index.html")
    browser.value("document.querySelector('.md-search__button').click()")
    browser.wait_for("document.activeElement.shadowRoot != null || document.activeElement.tagName == 'INPUT'")
    for letter in "OutcomeUnknown":
        browser.call("Input.dispatchKeyEvent", type="char", text=letter)
    key = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13}
    # The index is read in the background: until it is there, nothing is found.
    for _ in range(600):
        browser.call("Input.dispatchKeyEvent", type="keyDown", text="\r", **key)
        if browser.value("location.pathname") == "/reference.html":
            break
        time.sleep(0.1)
    assert browser.value("location.hash").endswith(".OutcomeUnknown")
    assert browser.complaints() == []


def test_pages_are_laid_out(site: str, browser: Browser) -> None:
    for page in sorted((ROOT / "docs").glob("*.md")):
        browser.open(f"{site}/{page.stem}.html")
        assert browser.value(LAID_OUT) == {"wide": False, "broken": [], "raw": []}, page.name
    assert browser.complaints() == []

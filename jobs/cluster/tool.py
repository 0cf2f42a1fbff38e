"""Commands that prepare a server before its first start."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from hivesink.embedded.server import tail
from hivesink.errors import ServerFailed


def run_once(name: str, command: Sequence[str], log: Path) -> None:
    """Run a command that prepares a server, with its output in `log`. Raises ServerFailed."""
    with log.open("wb") as output:
        code = subprocess.run(command, stdout=output, stderr=output, check=False).returncode
    if code:
        raise ServerFailed(name, f"ended with {code}", str(log), tail(log))

"""The command line. `app` puts the commands together, `docs/cli.md` describes them."""

from __future__ import annotations

import sys
from typing import NoReturn


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run a command line, that of this process by default, and exit with its code."""
    # The child of `hivesink run` imports this package too, and needs none of the commands.
    from hivesink.cli.app import call
    from hivesink.cli.leaving import leave

    if arguments is not None:
        sys.exit(call(arguments))
    leave(call(sys.argv[1:]))

"""The command line. `app` puts the commands together, `docs/cli.md` describes them."""

from __future__ import annotations

import sys
from typing import NoReturn


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line of this process and exit with its code."""
    # The child of `hivesink run` imports this package too, and needs none of the commands.
    from hivesink.cli.app import call

    sys.exit(call(sys.argv[1:] if arguments is None else arguments))

"""The command line: `hivesink --help`. `app` puts the commands together; `docs/cli.md` describes them all."""

from __future__ import annotations

import sys
from typing import NoReturn


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line of this process and exit with its code."""
    # Not above: the child of `hivesink run` imports this package, and needs none of the commands.
    from hivesink.cli.app import call

    sys.exit(call(sys.argv[1:] if arguments is None else arguments))

"""The command line. `app` puts the commands together, `docs/cli.md` describes them."""

from __future__ import annotations

import signal
import sys
from typing import NoReturn


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run a command line, that of this process by default, and exit with its code."""
    # Ctrl-C ends it as the system does, without a trace of Python's: nothing that a command does needs tidying up.
    if arguments is None and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from hivesink.cli.leaving import Leaving

    leaving = Leaving()
    if arguments is None:
        leaving.register()
    # The child of `hivesink run` imports this package too, and needs none of the commands.
    from hivesink.cli.app import call

    try:
        leaving.code = call(sys.argv[1:] if arguments is None else arguments)
    except SystemExit as left:
        # Rich ends the process so where nobody reads its output.
        leaving.code = left.code if isinstance(left.code, int) else 1
    sys.exit(leaving.code)

"""The process of a job, as `hivesink run` starts it: `python -m hivesink.cli.child [--json] [--debug] JOB.py …`."""

from __future__ import annotations

import sys

from hivesink.cli.leaving import Leaving

if __name__ == "__main__":
    leaving = Leaving()
    leaving.register(ends_group=True)
    from hivesink.cli.job import main

    main(sys.argv[1:], leaving)

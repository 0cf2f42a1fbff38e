"""`python -m hivesink.cli`, where the console script isn't on the path."""

from hivesink.cli import main

main()

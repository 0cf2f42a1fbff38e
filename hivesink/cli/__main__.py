"""`python -m hivesink.cli`, for when the console script is not on the path."""

from hivesink.cli import main

main()

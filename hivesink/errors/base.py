"""What all errors are, and what is refused before anything is done."""

from __future__ import annotations


class HiveSinkError(Exception):
    """The root of all errors that hivesink raises on purpose."""

    retryable = False


class InvalidOption(HiveSinkError):
    """One or more settings are wrong; all of them are listed."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        self.problems = problems
        super().__init__("; ".join(problems))


class Unsupported(HiveSinkError):
    """Something that hivesink doesn't work with."""

    def __init__(self, what: str, why: str, instead: str) -> None:
        self.what = what
        super().__init__(f"{what} is not supported: {why}; {instead}")

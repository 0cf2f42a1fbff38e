"""Python workers under Spark's daemon."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

from hivesink.spark.daemon import ending_with_spark

if TYPE_CHECKING:
    import pytest


def test_a_worker_whose_socket_spark_has_closed_ends_in_silence(
    capfd: pytest.CaptureFixture[str],
) -> None:
    def serve(sock: socket.socket, authenticated: bool) -> int:
        assert authenticated
        with os.fdopen(os.dup(sock.fileno()), "wb") as spark:
            spark.write(b"the end of a task")
        return 0

    for gone in (False, True):
        own, sparks = socket.socketpair()
        with own, sparks:
            if gone:
                sparks.close()
            assert ending_with_spark(serve)(own, True) == int(gone)
    assert capfd.readouterr() == ("", "")

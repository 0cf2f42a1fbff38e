"""A stretch of network before a server: it can be cut, and it counts what passes."""

from __future__ import annotations

import contextlib
import socket
import threading
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Traffic:
    """`questions` are runs of bytes from the client, with the server's answer between one and the next."""

    questions: int = 0
    sent: int = 0
    received: int = 0

    def since(self, before: Traffic) -> Traffic:
        return Traffic(self.questions - before.questions, self.sent - before.sent, self.received - before.received)


class Wire:
    """Passes on to the server at `thrift://host:port` what comes to `uri`, while it isn't cut."""

    def __init__(self, server: str) -> None:
        host, _, port = server.removeprefix("thrift://").rpartition(":")
        self._server = (host, int(port))
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._traffic = Traffic()
        self._asking = False
        self._cut = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, name="wire", daemon=True).start()

    def close(self) -> None:
        self._listener.close()
        self.cut()

    @property
    def uri(self) -> str:
        return f"thrift://127.0.0.1:{self._listener.getsockname()[1]}"

    @property
    def traffic(self) -> Traffic:
        with self._lock:
            return self._traffic

    def cut(self) -> None:
        """Break every connection, and let none come about until `mend`."""
        with self._lock:
            self._cut = True
            found, self._open = self._open, set()
        for end in found:
            _hang_up(end)

    def mend(self) -> None:
        with self._lock:
            self._cut = False

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._join(client)

    def _join(self, client: socket.socket) -> None:
        with self._lock:
            if self._cut:
                _hang_up(client)
                return
            server = socket.create_connection(self._server)
            self._open |= {client, server}
        for source, target, asks in ((client, server, True), (server, client, False)):
            source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._pass_on, args=(source, target, asks), daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket, asks: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                self._count(len(data), asks=asks)
                target.sendall(data)
        _hang_up(target)
        _hang_up(source)

    def _count(self, size: int, *, asks: bool) -> None:
        with self._lock:
            before = self._traffic
            if asks:
                self._traffic = Traffic(before.questions + (not self._asking), before.sent + size, before.received)
            else:
                self._traffic = Traffic(before.questions, before.sent, before.received + size)
            self._asking = asks


def _hang_up(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()

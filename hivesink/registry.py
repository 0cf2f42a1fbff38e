"""Schemas of records, from a file or from a registry of Confluent's API, and kept beside the table's logs for good."""

from __future__ import annotations

import base64
import http.client
import json
import os
import socket
import ssl
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from hivesink.errors import HiveSinkError, InvalidOption, LogDamaged, LoginFailed, SourceUnreachable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hivesink.config.options import SinkConfig
    from hivesink.ports import SchemaStore

FILE = "sink.value.avro.schema-file"
_REGISTRY = "sink.value.avro-confluent"
_NO_SUCH_ID = 40403
_MOST_BYTES = 16 << 20
_SEEN: dict[tuple[str, int], tuple[str, ...]] = {}
"""What this process has read, by folder and number: a task lives for a batch, its process for many."""


class Registry:
    """Reads schemas from a registry. Nothing that it raises or shows holds a secret."""

    def __init__(self, config: SinkConfig) -> None:
        """Raises InvalidOption without an address."""
        self._config = config
        url = self._setting("url")
        if url is None:
            raise InvalidOption((f"{_REGISTRY}.url is missing: write where the registry is, such as http://host:8081",))
        self._url = urlsplit(url)
        self.name = f"the schema registry {url}"

    def _setting(self, name: str) -> Any:
        return self._config[f"{_REGISTRY}.{name}"]

    def schema(self, number: int) -> tuple[str, ...] | None:
        """The schema of that number, those that it refers to before it; None where the registry has none.

        Raises SourceUnreachable, LoginFailed, InvalidOption.
        """
        answer = self._get(f"/schemas/ids/{number}")
        texts: dict[str, None] = {}
        if answer is not None:
            self._collect(answer, texts)
        return tuple(texts) or None

    def _collect(self, answer: Any, texts: dict[str, None]) -> None:
        """Add the schema in `answer` to `texts`, after those that it refers to."""
        try:
            text = str(answer["schema"])
            for other in answer.get("references") or ():
                path = f"/subjects/{quote(other['subject'], safe='')}/versions/{other['version']}"
                self._collect(self._get(path), texts)
        except (KeyError, TypeError, AttributeError, RecursionError) as error:
            raise SourceUnreachable(self.name, f"an answer without a schema ({type(error).__name__})") from error
        with suppress(ValueError):
            # As registries and their versions differ in white space and in the order of attributes.
            text = json.dumps(json.loads(text), sort_keys=True)
        texts.setdefault(text)

    def _get(self, path: str) -> Any:
        """The answer as JSON; None where there is no such schema."""
        timeout = self._setting("timeout").total_seconds()
        headers = {
            "Accept": "application/vnd.schemaregistry.v1+json, application/json",
            **self._authorization(),
        }
        connection = self._connection(timeout)

        timer: Timer | None = None
        try:
            connection.connect()
            # A socket's own time-out begins again with each byte.
            timer = Timer(timeout, _cut, [connection.sock])
            timer.start()
            path = f"{self._url.path.rstrip('/')}{path}"
            connection.request("GET", path, headers=headers)
            response = connection.getresponse()
            status, body = response.status, response.read(_MOST_BYTES)
        except (OSError, http.client.HTTPException) as error:
            raise SourceUnreachable(self.name, str(error) or type(error).__name__) from error
        finally:
            if timer is not None:
                timer.cancel()
            connection.close()
        return self._answer(status, body)

    def _answer(self, status: int, body: bytes) -> Any:
        if status in {401, 403}:
            basic, bearer = f"{_REGISTRY}.basic-auth.user-info", f"{_REGISTRY}.bearer-auth.token"
            who = self._config.text(basic) or self._config.text(bearer) or "nobody"
            raise LoginFailed(self.name, who, f"HTTP {status}", f"correct what {basic} or {bearer} names")
        answer = None
        with suppress(ValueError):
            answer = json.loads(body)
        if isinstance(answer, dict):
            if status == http.client.OK:
                return answer
            if status == http.client.NOT_FOUND and answer.get("error_code") == _NO_SUCH_ID:
                return None
        raise SourceUnreachable(self.name, f"HTTP {status}, which is no answer of a registry: is the address right?")

    def _connection(self, timeout: float) -> http.client.HTTPConnection:
        host, port = self._url.hostname or "", self._url.port
        if self._url.scheme == "http":
            return http.client.HTTPConnection(host, port, timeout=timeout)
        trusted, own = (
            self._setting("ssl.truststore.location"),
            self._setting("ssl.keystore.location"),
        )
        try:
            context = ssl.create_default_context(cafile=trusted)
            if own is not None:
                context.load_cert_chain(own)
        except OSError as error:
            files = " or ".join(filter(None, (trusted, own)))
            problem = f"{_REGISTRY}.ssl.*: {files} can't be read as PEM ({error.strerror or error})"
            raise InvalidOption((problem,)) from error
        return http.client.HTTPSConnection(host, port, timeout=timeout, context=context)

    def _authorization(self) -> dict[str, str]:
        user, token = (self._secret(name) for name in ("basic-auth.user-info", "bearer-auth.token"))
        if user is not None:
            return {"Authorization": f"Basic {base64.b64encode(user.encode()).decode()}"}
        return {} if token is None else {"Authorization": f"Bearer {token}"}

    def _secret(self, name: str) -> str | None:
        """What the setting leads to, read each time: a token may be renewed."""
        place = self._setting(name)
        if place is None:
            return None
        try:
            text = os.environ[place[4:]] if place.startswith("env:") else Path(place).read_text(encoding="utf-8")
        except (OSError, KeyError, UnicodeDecodeError) as error:
            problem = f"{_REGISTRY}.{name} = {place!r} can't be read ({type(error).__name__}) where a task runs"
            raise InvalidOption((problem,)) from error
        return text.strip()


def _cut(sock: socket.socket) -> None:
    with suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)


@dataclass(frozen=True, slots=True)
class Passing:
    """A `SchemaStore` for a look at a sample: nothing is kept."""

    location: str = ""

    def get(self, name: str) -> bytes | None:  # noqa: ARG002
        return None

    def put(self, name: str, data: bytes) -> bytes:  # noqa: ARG002
        return data


@dataclass(frozen=True, slots=True)
class KeptSchemas:
    """Implements `ports.rows.Schemas`: `kept` is asked first, and has each schema before rows are made by it.

    `read` reads a file. `compares`: whether a schema that is kept must still be the registry's, where that answers.
    """

    config: SinkConfig
    kept: SchemaStore
    read: Callable[[str], bytes | None]
    compares: bool = True
    now: Callable[[], datetime] = field(default=lambda: datetime.now(timezone.utc))

    def file(self) -> Sequence[str]:
        path = self.config[FILE]
        if path is None:
            raise InvalidOption((f"{FILE} is missing: write the path of the records' schema",))
        content = self.read(path)
        if content is None:
            raise InvalidOption((f"{FILE} = {path!r}: there is no such file",))
        return (content.decode("utf-8", "replace"),)

    def registered(self, numbers: Sequence[int]) -> Mapping[int, Sequence[str]]:
        registry = Registry(self.config)
        known, unknown = dict[int, tuple[str, ...]](), dict[int, datetime]()
        for number in numbers:
            place = self.kept.location, number
            texts = _SEEN.get(place)
            if texts is None:
                texts = self._kept(registry, number)
            if texts is not None:
                known[number] = _SEEN[place] = texts
            else:
                # The time counts from the first try of any task.
                first = self.kept.put(f"{number}.unknown", self.now().isoformat().encode())
                unknown[number] = datetime.fromisoformat(first.decode())
        patience = self.config[f"{_REGISTRY}.unknown-id-timeout"]
        for number, since in unknown.items():
            if self.now() - since < patience:
                reason = f"it hasn't known schema {number} since {since:%F %T} UTC"
                raise SourceUnreachable(registry.name, reason)
        return known

    def _kept(self, registry: Registry, number: int) -> tuple[str, ...] | None:
        """As the log has it, else as the registry has it, which is kept from now on."""
        name, answer = f"{number}.json", None
        path = f"{self.kept.location}/{name}"
        stored = self.kept.get(name)
        if stored is None:
            answer = registry.schema(number)
            if answer is None:
                return None
            stored = self.kept.put(name, json.dumps(answer, indent=1).encode())
        elif self.compares:
            # What is kept must do where the registry is away.
            with suppress(HiveSinkError):
                answer = registry.schema(number)
        try:
            texts = tuple(map(str, json.loads(stored)))
        except (ValueError, TypeError) as error:
            raise LogDamaged(path, str(error)) from error
        if answer is not None and answer != texts:
            problem = f"{registry.name} has another schema {number} now than {path} has"
            way = "give it its old numbers back or, if all older records are read, move that file away"
            raise InvalidOption((f"{problem}: {way}",))
        return texts

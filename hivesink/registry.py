"""Schemas of records: from a file, or from a registry of Confluent's API and then kept for good."""

from __future__ import annotations

import base64
import http.client
import json
import os
import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from hashlib import sha256
from pathlib import Path
from threading import Timer
from typing import Any
from urllib.parse import quote, urlsplit

from hivesink.config.options import SinkConfig
from hivesink.errors import HiveSinkError, InvalidOption, LogDamaged, LoginFailed, SourceUnreachable
from hivesink.ports.rows import SchemaStore

_USER, _TOKEN = "basic-auth.user-info", "bearer-auth.token"
_NO_SUCH_ID = 40403
_MOST_BYTES = 16 << 20
_SEEN: dict[tuple[str, str, int, bool], tuple[tuple[str, ...], datetime]] = {}
"""By folder, registry, number and whether it `compares`, until when: a process lives for many tasks. Unknown: ()."""
_AGAIN = timedelta(seconds=10)
"""How long a schema isn't compared again, or ten times as long as that took."""
_MOST_UNKNOWN = 100


class Registry:
    """Reads schemas from a registry. Nothing that it raises or shows holds a secret."""

    def __init__(self, config: SinkConfig) -> None:
        """Raises InvalidOption without an address."""
        self._config = config
        self.options = f"sink.value.{config['sink.value.format']}"
        """How the names of its options begin."""
        url = self._setting("url")
        if url is None:
            problem = f"{self.options}.url is missing: write where the registry is"
            raise InvalidOption((f"{problem}, such as http://host:8081",))
        self._url = urlsplit(url)
        self.name = f"the schema registry {url}"
        self.is_away = False
        self.misses = 0
        """Numbers that are unknown and not kept."""

    def _setting(self, name: str) -> Any:
        return self._config[f"{self.options}.{name}"]

    def schema(self, number: int) -> tuple[str, ...] | None:
        """The schema of that number, after those that it refers to; None where there is none.

        Raises SourceUnreachable, LoginFailed, InvalidOption.
        """
        texts: dict[str, None] = {}
        answer = self._get(f"/schemas/ids/{number}")
        if answer is not None:
            self._collect(answer, texts, set())
        return tuple(texts) or None

    def _collect(self, answer: Any, texts: dict[str, None], asked: set[str], name: str = "") -> None:
        """Add the schema in `answer` to `texts`, after those that it refers to by a name, each `asked` for once."""
        try:
            # Raises TypeError for what is no text.
            text = str.strip(answer["schema"])
            for other in answer.get("references") or ():
                path = f"/subjects/{quote(other['subject'], safe='')}/versions/{other['version']}"
                if path not in asked:
                    asked.add(path)
                    self._collect(self._get(path), texts, asked, other["name"])
        except (KeyError, TypeError, AttributeError, RecursionError) as error:
            reason = f"an answer without a schema ({type(error).__name__})"
            raise SourceUnreachable(self.name, reason) from error
        try:
            # Registries and their versions differ in white space and in the order of attributes.
            text = json.dumps(json.loads(text), sort_keys=True)
        except (ValueError, RecursionError):
            # A file of Protobuf's, which others import by that name.
            text = f"// {name}\n{text}" if name else text
        texts.setdefault(text)

    def _get(self, path: str) -> Any:
        """The answer as JSON; None where there is no such schema."""
        timeout, timer = self._setting("timeout").total_seconds(), None
        headers = {"Accept": "application/vnd.schemaregistry.v1+json", **self._authorization()}
        connection = self._connection(timeout)
        try:
            connection.connect()
            # A socket's own time-out begins again with each byte.
            timer = Timer(timeout, _cut, [connection.sock])
            timer.start()
            connection.request("GET", self._url.path.rstrip("/") + path, headers=headers)
            response = connection.getresponse()
            status, body = response.status, response.read(_MOST_BYTES)
        except (OSError, http.client.HTTPException, UnicodeError) as error:
            self.is_away = True
            reason = f"{str(error) or type(error).__name__}; start it, or correct {self.options}.url"
            raise SourceUnreachable(self.name, reason) from error
        finally:
            if timer is not None:
                timer.cancel()
            connection.close()
        answer = None
        with suppress(ValueError, RecursionError):
            answer = json.loads(body)
        if isinstance(answer, dict) and status == http.client.OK:
            return answer
        if isinstance(answer, dict) and (status, answer.get("error_code")) == (404, _NO_SUCH_ID):
            return None
        if status in {401, 403}:
            user, token = f"{self.options}.{_USER}", f"{self.options}.{_TOKEN}"
            who = self._config.text(user) or self._config.text(token) or "nobody"
            advice = f"correct what {user} or {token} names"
            raise LoginFailed(self.name, who, f"HTTP {status}", advice)
        reason = f"HTTP {status}, which is no answer of a registry: is the address right?"
        raise SourceUnreachable(self.name, reason)

    def _connection(self, timeout: float) -> http.client.HTTPConnection:
        host, port = self._url.hostname or "", self._url.port
        if self._url.scheme == "http":
            return http.client.HTTPConnection(host, port, timeout=timeout)
        trusted = self._setting("ssl.truststore.location")
        own = self._setting("ssl.keystore.location")
        try:
            context = ssl.create_default_context(cafile=trusted)
            if own is not None:
                context.load_cert_chain(own)
        except OSError as error:
            files, why = " or ".join(filter(None, (trusted, own))), error.strerror or error
            problem = f"{self.options}.ssl.*: {files} can't be read as PEM ({why})"
            raise InvalidOption((problem,)) from error
        return http.client.HTTPSConnection(host, port, timeout=timeout, context=context)

    def _authorization(self) -> dict[str, str]:
        user, token = self._secret(_USER), self._secret(_TOKEN)
        if user is not None:
            return {"Authorization": f"Basic {base64.b64encode(user.encode()).decode()}"}
        return {} if token is None else {"Authorization": f"Bearer {token}"}

    def _secret(self, name: str) -> str | None:
        """What the setting leads to, read each time: a token may be renewed."""
        place = self._setting(name)
        if place is None:
            return None
        try:
            is_file = not place.startswith("env:")
            text = Path(place).read_text("utf-8") if is_file else os.environ[place[4:]]
        except (OSError, KeyError, UnicodeDecodeError) as error:
            why = f"can't be read ({type(error).__name__}) where a task runs"
            raise InvalidOption((f"{self.options}.{name} = {place!r} {why}",)) from error
        text = text.strip()
        if not text.isprintable() or (name == _TOKEN and not text.isascii()):
            why = "has more than one line, or what no header can have"
            raise InvalidOption((f"{self.options}.{name} = {place!r} {why}",))
        return text


def _cut(sock: socket.socket) -> None:
    with suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)


def _texts(stored: bytes, path: str) -> tuple[str, ...]:
    """A schema as it is kept at `path`."""
    try:
        return tuple(map(str, json.loads(stored)))
    except (ValueError, TypeError) as error:
        raise LogDamaged(path, str(error)) from error


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
    """Implements `ports.rows.Schemas`: a schema is in `kept` before any row is made by it.

    `read` reads a file. `parse` raises ValueError for what is no schema: that isn't kept. `compares`: whether what is
    kept must still be the registry's, and what isn't known be waited for. `schema` is that of older records.
    """

    config: SinkConfig
    kept: SchemaStore
    read: Callable[[str], bytes | None]
    parse: Callable[[Sequence[str]], object]
    compares: bool = True
    schema: str | None = None
    now: Callable[[], datetime] = field(default=lambda: datetime.now(timezone.utc))

    def file(self) -> tuple[str, Sequence[str]]:
        if self.schema is not None:
            name = f"{self.schema}.json"
            path = f"{self.kept.location}/{name}"
            return self.schema, _texts(self.kept.get(name) or b"", path)
        option = f"sink.value.{self.config['sink.value.format']}.schema-file"
        path = self.config[option]
        if path is None:
            raise InvalidOption((f"{option} is missing: write the path of the records' schema",))
        content = self.read(path)
        if content is None:
            raise InvalidOption((f"{option} = {path!r}: there is no such file",))
        texts = (content.decode("utf-8", "surrogateescape"),)
        stored = json.dumps(texts, indent=1).encode()
        name = sha256(stored).hexdigest()
        # What is no schema is refused by who asks.
        with suppress(ValueError):
            self.parse(texts)
            if self.compares and self.kept.get(f"{name}.json") is None:
                self.kept.put(f"{name}.json", stored)
        return name, texts

    def registered(self, numbers: Sequence[int]) -> Mapping[int, Sequence[str]]:
        registry, begin = Registry(self.config), self.now()
        schemas, looked = dict[int, tuple[str, ...]](), dict[tuple[str, str, int, bool], tuple[str, ...]]()
        waited = dict[int, datetime]()
        for number in numbers:
            place = self.kept.location, registry.name, number, self.compares
            is_asked = registry.misses < _MOST_UNKNOWN
            texts, until = _SEEN.get(place, ((), begin))
            if until <= begin:
                texts = self._kept(registry, number)
                if texts or is_asked:
                    looked[place] = texts
            if self.compares and not texts and place in looked:
                # The time counts from the first try of any task.
                first = self.kept.put(f"{number}.unknown", begin.isoformat().encode())
                waited[number] = datetime.fromisoformat(first.decode())
            schemas[number] = texts
        timeout = self.config[f"{registry.options}.unknown-id-timeout"]
        waited = {number: since for number, since in waited.items() if begin - since < timeout}
        end = self.now()
        until = end + max(_AGAIN, 10 * (end - begin))
        _SEEN.update((place, (texts, until)) for place, texts in looked.items() if place[2] not in waited)
        for number, since in waited.items():
            then = f"start again: {registry.options}.unknown-id-timeout after that, its records are bad"
            raise SourceUnreachable(registry.name, f"it hasn't known schema {number} since {since:%F %T} UTC; {then}")
        return {number: texts for number, texts in schemas.items() if texts}

    def _kept(self, registry: Registry, number: int) -> tuple[str, ...]:
        """As the log has it, else as the registry has it, which is kept from now on."""
        name, answer = f"{number}.json", None
        path = f"{self.kept.location}/{name}"
        stored = self.kept.get(name)
        if stored is None:
            try:
                answer = registry.schema(number) if registry.misses < _MOST_UNKNOWN else None
            except SourceUnreachable:
                # What can't be replayed stays a dead letter.
                if self.compares:
                    raise
            registry.misses += answer is None
            if answer is None:
                return ()
            try:
                self.parse(answer)
            except ValueError:
                # No row is made by it.
                return answer
            stored = self.kept.put(name, json.dumps(answer, indent=1).encode())
        elif self.compares and not registry.is_away:
            # What is kept must do where the registry can't answer.
            with suppress(HiveSinkError):
                answer = registry.schema(number)
        texts = _texts(stored, path)
        if answer is not None and answer != texts:
            problem = f"{registry.name} has another schema {number} now than {path} has"
            way = "give it its old numbers back or, if all older records are read, move the file away"
            raise InvalidOption((f"{problem}: {way}",))
        return texts

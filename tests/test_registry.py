"""Schemas from a registry that is slow, away, wrong, or answers differently than before; and what is kept of them."""

from __future__ import annotations

import base64
import http.server
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pytest

from hivesink import registry
from hivesink.config.options import SinkConfig
from hivesink.core.manifest import PartEntry
from hivesink.core.table import Column, Primitive
from hivesink.decode.avro.schema import parse
from hivesink.errors import HiveSinkError, InvalidOption, LogDamaged, LoginFailed, SourceUnreachable
from hivesink.logs import log_root
from hivesink.registry import KeptSchemas
from hivesink.sink.task.attempt import Letters, ReplayRouter
from hivesink.sink.task.route import TableRouter
from hivesink.storage.local import LocalFileSystem
from hivesink.storage.rename_store import RenameFileStore
from hivesink.wiring import ToolsSpec, row_reader, schemas
from tests.sink.task.taskrun import Run

Opening: TypeAlias = "Callable[..., KeptSchemas]"
OF_AVRO = {"sink.value.format": "avro-confluent"}
FROM_FILE, FILE = {"sink.value.format": "avro"}, "sink.value.avro.schema-file"
URL = "sink.value.avro-confluent.url"
USER = "sink.value.avro-confluent.basic-auth.user-info"
TOKEN = "sink.value.avro-confluent.bearer-auth.token"  # noqa: S105 -- an option's name
NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)
UNKNOWN = 404, b'{"error_code": 40403, "message": "Schema not found"}'


class Server(http.server.ThreadingHTTPServer):
    """Gives the `answers` by path; other paths are unknown schemas. `asked` has every path, and its credentials."""

    def __init__(self) -> None:
        self.answers: dict[str, tuple[int, bytes]] = {}
        self.asked: list[tuple[str, str | None]] = []
        self.drips = False
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.asked.append((self.path, self.headers["Authorization"]))
                status, body = server.answers.get(self.path, UNKNOWN)
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                for octet in body if server.drips else ():
                    self.wfile.write(bytes([octet]))
                    time.sleep(0.2)
                self.wfile.write(b"" if server.drips else body)

            def log_message(self, *_: object) -> None: ...

        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/apis/ccompat/v7"

    def has(self, number: int, schema: Any, **more: Any) -> None:
        body = json.dumps({"schema": json.dumps(schema), **more}).encode()
        self.answers[f"/apis/ccompat/v7/schemas/ids/{number}"] = 200, body


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def opened(server: Server, tmp_path: Path) -> Opening:
    """The schemas of a table as a new process has them."""

    def opened(now: datetime = NOW, *, compares: bool = True, **options: str) -> KeptSchemas:
        registry._SEEN.clear()
        config = SinkConfig.parse({**OF_AVRO, URL: server.url, **options})
        root = log_root(str(tmp_path / "log"))
        return KeptSchemas(config, root.schemas, lambda _: None, parse, compares=compares, now=lambda: now)

    return opened


def test_a_schema_is_asked_for_once_and_kept_for_good(server: Server, opened: Opening) -> None:
    server.has(7, {"type": "long"})
    asking = opened()
    for _ in range(2):
        assert asking.registered([7]) == {7: ('{"type": "long"}',)}
    assert [path for path, _ in server.asked] == ["/apis/ccompat/v7/schemas/ids/7"]
    server.shutdown()
    server.server_close()
    assert opened().registered([7]) == {7: ('{"type": "long"}',)}
    with pytest.raises(SourceUnreachable, match=r"the schema registry http://127\.0\.0\.1:"):
        opened().registered([7, 8])


def test_what_it_refers_to_comes_first_and_once(server: Server, opened: Opening) -> None:
    refers = [{"name": "a.B", "subject": "b/value", "version": 3}] * 2
    server.has(
        7,
        {"type": "record", "name": "A", "fields": [{"name": "b", "type": "a.B"}]},
        references=refers,
    )
    inner = json.dumps({"schema": '"int"', "references": [{"name": "c", "subject": "c", "version": 1}]}).encode()
    server.answers["/apis/ccompat/v7/subjects/b%2Fvalue/versions/3"] = 200, inner
    server.answers["/apis/ccompat/v7/subjects/c/versions/1"] = 200, b'{"schema": "\\"string\\""}'
    texts = opened().registered([7])[7]
    assert [*texts[:2], texts[2][:12]] == ['"string"', '"int"', '{"fields": [']
    assert len(server.asked) == 3
    server.has(8, "int", references=[{"name": "c", "subject": "c", "version": 1}])
    itself = {"schema": '"string"', "references": [{"name": "c", "subject": "c", "version": 1}]}
    server.answers["/apis/ccompat/v7/subjects/c/versions/1"] = 200, json.dumps(itself).encode()
    assert opened().registered([8]) == {8: ('"string"', '"int"')}
    # Files of Protobuf's import each other by their names.
    server.answers["/apis/ccompat/v7/subjects/c/versions/1"] = 200, b'{"schema": "message C {}"}'
    server.has(9, "int", references=[{"name": "c/d.proto", "subject": "c", "version": 1}])
    assert opened().registered([9]) == {9: ("// c/d.proto\nmessage C {}", '"int"')}


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (200, b"<html>", "HTTP 200"),
        (200, b"[]", "HTTP 200"),
        (200, b"{}", "an answer without a schema"),
        (200, b'{"schema": null}', "an answer without a schema"),
        (200, b'{"schema": {"type": "int"}}', "an answer without a schema"),
        (200, b'{"schema": ' + b"[" * 5000 + b"]" * 5000 + b"}", "HTTP 200"),
        (302, b"", "HTTP 302"),
        (404, b"<html>not here", "HTTP 404"),
        (404, b'{"error_code": 404}', "HTTP 404"),
        (404, b'{"error_code": 40401}', "HTTP 404"),
        (429, b'{"error_code": 429}', "HTTP 429"),
        (500, b'{"error_code": 50001}', "HTTP 500"),
        (
            200,
            b'{"schema": "\\"int\\"", "references": [{"subject": "gone", "version": 1}]}',
            "an answer without",
        ),
    ],
)
def test_what_is_no_answer_is_tried_again(
    server: Server, opened: Opening, status: int, body: bytes, error: str
) -> None:
    server.answers["/apis/ccompat/v7/schemas/ids/7"] = status, body
    with pytest.raises(SourceUnreachable, match=error) as raised:
        opened().registered([7])
    assert raised.value.retryable
    server.has(7, "int")
    assert opened().registered([7]) == {7: ('"int"',)}


@pytest.mark.parametrize("text", ["syntax = proto3;", "[" * 5000 + "]" * 5000, '{"type": "fixed"}', "\ud800"])
def test_what_is_no_schema_is_not_kept(server: Server, opened: Opening, text: str) -> None:
    server.answers["/apis/ccompat/v7/schemas/ids/7"] = 200, json.dumps({"schema": text}).encode()
    assert opened().registered([7]) == {7: (text,)}
    server.has(7, "int")
    assert opened().registered([7]) == {7: ('"int"',)}


def test_a_registry_that_drips_or_is_silent_is_away(server: Server, opened: Opening) -> None:
    server.has(7, {"type": "record", "name": "long" * 20, "fields": []})
    server.drips = True
    with pytest.raises(SourceUnreachable):
        opened(**{"sink.value.avro-confluent.timeout": "500ms"}).registered([7])


def test_an_unknown_number_is_waited_for_from_the_first_time_on(server: Server, opened: Opening) -> None:
    """All unknown ones of a batch have the same time; every task and every start counts from then."""
    server.has(7, "int")
    with pytest.raises(SourceUnreachable, match="it hasn't known schema 8 since 2026-01-01 00:00:00 UTC"):
        opened().registered([7, 8, 9])
    for number, after in ((9, timedelta(minutes=4, seconds=59)), (8, timedelta(minutes=1))):
        with pytest.raises(SourceUnreachable):
            opened(NOW + after).registered([number])
    assert opened(NOW + timedelta(minutes=5)).registered([7, 8, 9]) == {7: ('"int"',)}
    server.has(8, "long")
    assert opened(NOW + timedelta(hours=1)).registered([8, 9]) == {8: ('"long"',)}


def test_of_many_unknown_numbers_some_are_asked_for(server: Server, opened: Opening) -> None:
    """What the registry has, and what is kept, is found beside them."""
    server.has(7, "int")
    server.has(5000, "int")
    opened().registered([5000])
    numbers = [7, *range(1000, 1200), 5000]
    with pytest.raises(SourceUnreachable):
        opened().registered(numbers)
    later = opened(NOW + timedelta(hours=1))
    server.asked.clear()
    assert later.registered(numbers).keys() == {7, 5000}
    assert len(server.asked) == 102
    assert later.registered([*range(1000, 1100), 5000]).keys() == {5000}
    assert len(server.asked) == 102


def test_a_registry_is_asked_again_while_a_process_lives(server: Server, opened: Opening) -> None:
    server.has(7, "int")
    first = opened()
    away = opened(**{URL: "http://127.0.0.1:9"})
    for asking in (first, away):
        assert asking.registered([7]) == {7: ('"int"',)}
    server.has(7, "long")
    soon, later = (replace(first, now=partial(NOW.__add__, timedelta(seconds=seconds))) for seconds in (9, 10))
    assert first.registered([7]) == soon.registered([7]) == {7: ('"int"',)}
    for _ in range(2):
        with pytest.raises(InvalidOption, match="has another schema 7 now"):
            later.registered([7])
    other = replace(first, kept=registry.Passing())
    away = replace(away, kept=registry.Passing())
    assert other.registered([7]) == {7: ('"long"',)}
    with pytest.raises(SourceUnreachable):
        away.registered([7])


def test_another_answer_than_before_stops_a_job_but_no_replay(server: Server, opened: Opening, tmp_path: Path) -> None:
    server.has(7, {"type": "record", "name": "R", "fields": []})
    opened().registered([7])
    server.has(7, {"fields": [], "name": "R", "type": "record"})
    assert opened().registered([7])
    server.has(7, "long")
    with pytest.raises(InvalidOption, match=r"has another schema 7 now than .*/7\.json has"):
        opened().registered([7])
    assert opened(compares=False).registered([7]) == {7: ('{"fields": [], "name": "R", "type": "record"}',)}
    # Letters of a schema that nobody knows stay.
    assert opened(compares=False).registered([8]) == {}
    folder = tmp_path / "log" / ".schemas"
    assert [kept.name for kept in folder.iterdir()] == ["7.json"]
    server.answers["/apis/ccompat/v7/schemas/ids/8"] = 500, b""
    assert opened(compares=False).registered([8, 7]).keys() == {7}
    file = folder / "7.json"
    file.write_bytes(b"torn")
    with pytest.raises(LogDamaged, match=r"7\.json"):
        opened().registered([7])
    file.unlink()
    assert opened().registered([7]) == {7: ('"long"',)}


def test_who_asks_is_told_by_a_file_or_the_environment_and_nowhere_else(
    server: Server,
    opened: Opening,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server.has(7, "int")
    place = tmp_path / "user"
    place.write_text("me:s3cret\n")
    by_user = opened(**{USER: str(place)})
    by_user.registered([7])
    assert server.asked[-1][1] == f"Basic {base64.b64encode(b'me:s3cret').decode()}"
    monkeypatch.setenv("REGISTRY_TOKEN", "s3cret")
    by_token = opened(**{TOKEN: "env:REGISTRY_TOKEN"})
    by_token.registered([7])
    assert server.asked[-1][1] == "Bearer s3cret"
    server.answers["/apis/ccompat/v7/schemas/ids/8"] = 401, b"s3cret"
    with pytest.raises(LoginFailed, match="as env:REGISTRY_TOKEN: HTTP 401") as refused:
        by_token.registered([8])
    monkeypatch.delenv("REGISTRY_TOKEN")
    with pytest.raises(InvalidOption, match="env:REGISTRY_TOKEN' can't be read") as missing:
        by_token.registered([8])
    shown = [
        repr(by_user),
        repr(by_token),
        str(refused.value),
        str(missing.value),
        *by_user.config.changed.values(),
    ]
    kept = [file.read_text() for file in (tmp_path / "log" / ".schemas").iterdir()]
    assert not any("s3cret" in text for text in [*shown, *kept])


@pytest.mark.parametrize("text", ["s3cret\n# of the registry", "s3cret\0", "s3cr\N{EURO SIGN}t"])
def test_a_token_that_no_header_can_have_is_not_shown(opened: Opening, tmp_path: Path, text: str) -> None:
    (tmp_path / "token").write_text(text)
    with pytest.raises(InvalidOption, match=r"bearer-auth.token = '/.*/token' has more than one line") as raised:
        opened(**{TOKEN: str(tmp_path / "token")}).registered([7])
    assert "s3c" not in str(raised.value)


@pytest.mark.parametrize("url", ["http://host:99999", "http://[::1", "http://host:x"])
def test_an_address_that_cant_be_is_refused(url: str) -> None:
    with pytest.raises(InvalidOption, match=URL):
        SinkConfig.parse({URL: url})


@pytest.mark.parametrize(("option", "text"), [(URL, "http://me:s3cret@host"), (USER, "me:s3cret"), (TOKEN, "s3cret")])
def test_a_secret_among_the_settings_is_refused_without_being_shown(option: str, text: str) -> None:
    with pytest.raises(InvalidOption, match=option) as raised:
        SinkConfig.parse({option: text})
    assert "s3cret" not in str(raised.value)


def test_certificates_that_cant_be_read_are_named(opened: Opening, tmp_path: Path) -> None:
    options = {
        URL: "https://127.0.0.1:1",
        "sink.value.avro-confluent.ssl.truststore.location": str(tmp_path / "none"),
    }
    with pytest.raises(InvalidOption, match="none can't be read as PEM"):
        opened(**options).registered([7])


C = (Column("c", Primitive.STRING),)


def run(folder: Path, options: dict[str, str], columns: tuple[Column, ...] = C) -> Run:
    return Run(RenameFileStore(LocalFileSystem()), f"file:{folder}/t", columns, options=options)


def test_a_schema_in_a_file_is_on_the_tables_file_system(tmp_path: Path) -> None:
    (tmp_path / "a b.avsc").write_text('"int"')
    for scheme in ("", "file:", "file://"):
        plan = run(tmp_path, {**FROM_FILE, FILE: f"{scheme}{tmp_path}/a b.avsc"}).plan
        assert schemas(plan, None)(plan.config, parse).file()[1] == ('"int"',)


def test_a_task_keeps_the_schema_beside_all_logs_of_its_table(server: Server, tmp_path: Path) -> None:
    server.has(7, {"type": "record", "name": "R", "fields": [{"name": "c", "type": "int"}]})
    plan = run(tmp_path, {**OF_AVRO, URL: server.url}, (Column("c", Primitive.INT),)).plan
    tools = ToolsSpec(str(tmp_path / "log" / "writer" / "1")).open(plan)
    rows = tools.reader.read(pa.RecordBatch.from_pydict({"value": [b"\0\0\0\0\7\4"]}))
    assert rows.table.to_pylist() == [{"c": 2}]
    assert [file.name for file in (tmp_path / "log" / ".schemas").iterdir()] == ["7.json"]


def test_letters_are_read_by_the_file_of_then(tmp_path: Path) -> None:
    def declare(kind: str) -> None:
        schema = {"type": "record", "name": "R", "fields": [{"name": "c", "type": kind}]}
        (tmp_path / "s.avsc").write_text(json.dumps(schema))

    options = {**FROM_FILE, FILE: str(tmp_path / "s.avsc"), "sink.on-bad-record": "dead-letter"}
    plan = run(tmp_path, options).plan
    declare("string")
    tools = ToolsSpec(str(tmp_path / "log" / "writer" / "1")).open(plan)
    given = pa.RecordBatch.from_pydict({"value": pa.array([b"\x04ab", b"torn"], pa.binary())})
    rows, letters = sorted(TableRouter(plan, tools).route(given), key=lambda routed: routed.table)
    assert rows.rows.to_pylist() == [{"c": "ab"}]
    (letter,) = letters.rows.to_batches()
    assert [file.stem for file in (tmp_path / "log" / ".schemas").iterdir()] == letter["schema_id"].to_pylist()

    declare("bytes")
    root = log_root(str(tmp_path / "log"))
    part = PartEntry(letters.table, letters.partition, "p", "p", 1, 0)
    mended = {letter["id"][0].as_py(): b"\x04cd"}
    router = ReplayRouter(plan, lambda then: row_reader(then, root, compares=False), mended)
    (again,) = router.route(Letters(part, letter, np.arange(1)))
    assert again.rows.to_pylist() == [{"c": "cd"}]
    assert row_reader(plan).read(given).bad[0].reason == "wrong type: bytes into string"


def test_missing_settings_are_named(opened: Opening) -> None:
    with pytest.raises(InvalidOption, match=r"sink.value.avro.schema-file is missing"):
        opened(**FROM_FILE).file()
    with pytest.raises(InvalidOption, match=r"schema-file = '/x': there is no such file"):
        opened(**FROM_FILE, **{FILE: "/x"}).file()
    config = SinkConfig.parse(OF_AVRO)
    with pytest.raises(HiveSinkError, match=r"sink.value.avro-confluent.url is missing"):
        KeptSchemas(config, registry.Passing(), lambda _: None, parse).registered([])

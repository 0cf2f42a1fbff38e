"""S3 beyond the contract suites: on a real server, and against one in memory that misbehaves."""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import shutil
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError, IncompleteReadError, ReadTimeoutError

from hivesink.config.site import Site
from hivesink.core.partfile import Finished, InProgress, PartName, Pending
from hivesink.core.table import TableName, TableSpec
from hivesink.errors import (
    InvalidOption,
    NotWritable,
    OutcomeUnknown,
    PartLost,
    StoreUnavailable,
    TargetTaken,
    Unsupported,
)
from hivesink.logs import file_store, root_folder, storage_of
from hivesink.ports import LiveTable
from hivesink.storage import s3_checks, s3_client, s3_objects
from hivesink.storage.part_store import run_parallel
from hivesink.storage.s3 import S3Files, S3FileStore
from hivesink.storage.s3_client import Settings
from jobs.cluster.s3 import S3Server
from tests.crash.faults import FaultyS3, Kill, Mode, Plan
from tests.inmemory.s3 import ANSWERED, MemoryS3, objects_of, refused
from tests.storage.reals3 import VersityGw, s3_folder

TABLE = "s3a://bucket/t"
NAME = PartName("0a1b2c3d", 1, "aaaabbbb", 0, 0, 0)


class Broken(MemoryS3):
    """Answers `errors`, by the method's name, one after the other, before it does anything; `done`: after it."""

    def __init__(self, *errors: Exception, on: str, done: bool = False) -> None:
        super().__init__()
        self.asked, self._errors, self._on, self._done = 0, [*errors], on, done

    def __getattribute__(self, name: str) -> Any:
        method = super().__getattribute__(name)
        if name.startswith("_") or name != self._on:
            return method

        def answer(**given: Any) -> Any:
            self.asked += 1
            error = self._errors.pop(0) if self._errors else None
            if error and self._done:
                with contextlib.suppress(Exception):
                    method(**given)
            if error:
                raise error
            return method(**given)

        return answer


class Titled(MemoryS3):
    """It spells the names of metadata as MinIO does."""

    def head_object(self, **given: Any) -> Any:
        answer = super().head_object(**given)
        return {**answer, "Metadata": {name.title(): text for name, text in answer["Metadata"].items()}}


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_client, "_LONGEST_PAUSE", 0.0)


def staged(store: S3FileStore, folder: str = TABLE, data: bytes = b"rows", name: PartName = NAME) -> Pending:
    file = store.create(InProgress(folder, name))
    file.stream.write(data)
    return file.close_for_commit()


SLOW, INTERNAL = refused(503, "SlowDown"), refused(500, "InternalError")
TIMEOUT = ReadTimeoutError(endpoint_url="http://x")
AWAY = EndpointConnectionError(endpoint_url="http://x", error="refused")
BUSY = refused(409, "ConditionalRequestConflict")


@pytest.mark.parametrize("answers", [[SLOW] * 5, [INTERNAL, SLOW], [TIMEOUT], [AWAY], [BUSY, BUSY]])
@pytest.mark.parametrize("done", [False, True])
def test_a_create_is_tried_again_and_judged_by_what_is_there(answers: list[Exception], done: bool) -> None:
    s3 = Broken(*answers, on="put_object", done=done)
    S3Files(objects_of(s3, s3_client.TRIES)).create(f"{TABLE}/m", b"mine")
    assert s3.objects["t/m"].data == b"mine"


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (SLOW, OutcomeUnknown),
        (AWAY, OutcomeUnknown),
        (refused(403, "ExpiredToken"), StoreUnavailable),
        (refused(403, "AccessDenied"), NotWritable),
        (refused(404, "NoSuchBucket"), NotWritable),
        (TIMEOUT, OutcomeUnknown),
        (INTERNAL, OutcomeUnknown),
        (BUSY, OutcomeUnknown),
    ],
)
def test_what_a_create_ends_as_that_never_succeeds(answer: Exception, error: type[Exception]) -> None:
    s3 = Broken(*[answer] * 50, on="put_object")
    with pytest.raises(error):
        S3Files(objects_of(s3, s3_client.TRIES)).create(f"{TABLE}/m", b"mine")
    assert s3.asked <= s3_client.TRIES


@pytest.mark.parametrize("status", [400, 403])
@pytest.mark.parametrize(
    ("said", "error"),
    [
        (refused(400, "ExpiredToken"), StoreUnavailable),
        (refused(403, "RequestTimeTooSkewed"), StoreUnavailable),
        (refused(403, "AccessDenied"), NotWritable),
        (RuntimeError("the refreshed credentials are still expired."), StoreUnavailable),
        (None, None),
    ],
)
def test_why_a_look_is_refused_is_asked_where_the_answer_has_a_body(
    monkeypatch: pytest.MonkeyPatch, status: int, said: Exception | None, error: type[Exception] | None
) -> None:
    s3 = Broken(*[said] * 50 if said else [], on="get_object")
    s3.put_object(Key="t/m", Body=b"mine", Metadata={"a": "b"})
    monkeypatch.setattr(s3, "head_object", Broken(*[refused(status, str(status))] * 50, on="head_object").head_object)
    place = objects_of(s3, s3_client.TRIES).at(f"{TABLE}/m")
    if error is None:
        assert place.head() == (4, {"a": "b"})
    else:
        with pytest.raises(error):
            place.head()
    assert s3.asked == 1


METHODS: list[tuple[str, Callable[[s3_objects.Objects], Any]]] = [
    ("head_object", lambda objects: objects.at(TABLE).head()),
    ("get_object", lambda objects: objects.at(TABLE).get()),
    ("put_object", lambda objects: objects.at(TABLE).put(b"")),
    ("create_multipart_upload", lambda objects: objects.at(TABLE).begin({})),
    ("upload_part", lambda objects: s3_objects.Upload(objects.at(TABLE), "u").send(1, b"")),
    ("complete_multipart_upload", lambda objects: s3_objects.Upload(objects.at(TABLE), "u").complete([])),
    ("list_parts", lambda objects: s3_objects.Upload(objects.at(TABLE), "u").parts()),
    ("upload_part_copy", lambda objects: objects.at(TABLE).copy_to(objects.at(f"{TABLE}2"), 1, {})),
    ("list_objects_v2", lambda objects: [*objects.listed(TABLE)]),
    ("list_multipart_uploads", lambda objects: [*objects.uploads(TABLE)]),
]
SHORT = IncompleteReadError(actual_bytes=1, expected_bytes=2)


@pytest.mark.parametrize(("method", "call"), METHODS, ids=[method for method, _ in METHODS])
@pytest.mark.parametrize(
    "said",
    [
        {"ResponseMetadata": {}},
        SHORT,
        ConnectionResetError(),
        refused(404, "404"),
        refused(404, ""),
        refused(403, "403"),
    ],
    ids=repr,
)
def test_what_s3_hasnt_said_itself_is_no_answer(
    method: str, call: Callable[[s3_objects.Objects], Any], said: Exception | dict[str, Any]
) -> None:
    asked: list[Any] = []

    def answer(**given: Any) -> Any:
        asked.append(given)
        if isinstance(said, Exception):
            raise said
        return dict(said)

    others = {
        "create_multipart_upload": lambda **_: {"UploadId": "u", **ANSWERED},
        "abort_multipart_upload": lambda **_: ANSWERED,
    }
    client = SimpleNamespace(**{**others, method: answer, "get_object": answer})
    with pytest.raises((StoreUnavailable, OutcomeUnknown)):
        call(objects_of(client, 3))
    assert len(asked) == 3


@pytest.mark.parametrize("answers", [[TIMEOUT], [SHORT, SLOW]])
def test_a_part_is_sent_and_read_whole_again(answers: list[Exception]) -> None:
    s3 = Broken(*answers, on="upload_part", done=True)
    store = S3FileStore(objects_of(s3, 3))
    done = store.publish(staged(store))
    reading = Broken(*answers, on="get_object", done=True)
    reading.objects = s3.objects
    assert S3Files(objects_of(reading, 3)).read(done.path) == b"rows"


def test_a_404_of_s3_says_that_nothing_is_there() -> None:
    missing = refused(404, "404")
    missing.response["ResponseMetadata"]["RequestId"] = "1"
    assert objects_of(Broken(missing, on="head_object")).at(TABLE).head() is None
    assert objects_of(MemoryS3()).at(TABLE).get() is None


def test_a_create_never_takes_anothers_object_for_its_own() -> None:
    s3 = MemoryS3()
    s3.put_object(Key="t/m", Body=b"other")
    for answers in ([], [TIMEOUT], [BUSY]):
        broken = Broken(*answers, on="put_object")
        broken.objects = s3.objects
        with pytest.raises(FileExistsError):
            S3Files(objects_of(broken, 2)).create(f"{TABLE}/m", b"mine")
    assert s3.objects["t/m"].data == b"other"


@pytest.mark.parametrize(
    "answer", [SLOW, INTERNAL, TIMEOUT, BUSY, refused(404, "NoSuchUpload"), refused(412, "PreconditionFailed")]
)
@pytest.mark.parametrize("done", [False, True])
def test_a_publish_is_judged_by_the_object_whatever_the_answer(answer: Exception, done: bool) -> None:
    s3 = Broken(answer, on="complete_multipart_upload", done=done)
    store = S3FileStore(objects_of(s3, 1))
    part = staged(store)
    assert store.publish(part) == Finished(part.target, 4)
    assert store.publish(part) == Finished(part.target, 4)
    assert s3.objects["t/" + str(NAME)].data == b"rows"
    assert not s3.uploads


def test_an_upload_that_others_abort_is_lost_and_one_in_progress_says_so() -> None:
    s3 = MemoryS3()
    store = S3FileStore(objects_of(s3, 1))
    part, file = staged(store), store.create(InProgress(TABLE, replace(NAME, n=1)))
    s3.uploads.clear()
    assert store.find(part.staged) is None
    with pytest.raises(PartLost, match="both missing"):
        store.publish(part)
    file.stream.write(b"rows")
    with pytest.raises(StoreUnavailable, match="something has aborted its upload"):
        file.close_for_commit()


def test_a_file_that_a_user_deletes_before_it_is_read_may_come_back() -> None:
    s3 = MemoryS3()
    store, files = S3FileStore(objects_of(s3)), S3Files(objects_of(s3))
    done = store.publish(staged(store))
    with store.open(done.path) as known, files.open(done.path) as looked_for:
        s3.objects.clear()
        with pytest.raises(StoreUnavailable, match="it is not there"):
            known.read(1)
        with pytest.raises(FileNotFoundError):
            looked_for.read(1)


class Proxied(MemoryS3):
    """A proxy before it answers what deletes by a page of its own."""

    def delete_object(self, **_: Any) -> Any:
        return {"ResponseMetadata": {"HTTPStatusCode": 200}}

    abort_multipart_upload = delete_object


def test_what_was_deleted_by_another_answer_than_s3s_is_still_there() -> None:
    place = objects_of(Proxied()).at(f"{TABLE}/m")
    for delete in (place.delete, place.begin({}).abort):
        with pytest.raises(StoreUnavailable, match="an answer that is not S3's, 200"):
            delete()


def moved(store: S3FileStore) -> Pending:
    part = staged(store, f"{TABLE}/dt=1")
    return Pending(part.staged, f"s3a://bucket/elsewhere/x/{NAME}", part.length)


@pytest.mark.parametrize("server", [MemoryS3, Titled])
def test_a_publish_elsewhere_goes_on_after_a_kill_at_each_request(server: type[MemoryS3]) -> None:
    step, dead = 1, True
    while dead:
        s3 = server()
        part = moved(S3FileStore(objects_of(s3, 1)))
        faulty = FaultyS3(s3, Plan(step, Mode.AFTER))
        with contextlib.suppress(Kill):
            S3FileStore(objects_of(faulty, 1)).publish(part)
        assert S3FileStore(objects_of(s3, 1)).publish(part) == part.finish()
        assert [*s3.objects] == [f"elsewhere/x/{NAME}"]
        step, dead = step + 1, faulty.dead
    assert step > 6


def test_a_large_part_that_moves_is_copied_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_objects, "COPIED", 3)
    s3 = MemoryS3()
    store = S3FileStore(objects_of(s3, 1))
    part = moved(store)
    store.publish(part)
    assert {key: stored.data for key, stored in s3.objects.items()} == {f"elsewhere/x/{NAME}": b"rows"}


def test_a_users_copy_keeps_its_source() -> None:
    s3 = MemoryS3()
    store = S3FileStore(objects_of(s3, 1))
    done = store.publish(staged(store, f"{TABLE}/dt=1"))
    s3.objects[f"e/{NAME}"] = s3.objects[f"t/dt=1/{NAME}"]
    with pytest.raises(TargetTaken):
        store.publish(Pending(done.path, f"s3a://bucket/e/{NAME}", done.length))
    assert len(s3.objects) == 2


class Careless(MemoryS3):
    """It doesn't know If-None-Match."""

    meta = type("Meta", (), {"endpoint_url": "http://careless:9000"})

    def _require_free(self, key: str, given: dict[str, Any]) -> None:
        """Everybody may."""


def test_a_store_that_lets_two_writers_create_an_object_is_refused_by_name() -> None:
    s3 = Careless()
    with pytest.raises(Unsupported, match=r"http://careless:9000 \(bucket bucket\) .* writers created the same object"):
        s3_checks.check(objects_of(s3, 1), "s3a://bucket/r", TABLE)
    assert s3.objects == {}


@pytest.mark.parametrize("method", ["complete_multipart_upload", "upload_part_copy"])
@pytest.mark.parametrize(
    ("answer", "error", "match"),
    [
        (refused(501, "NotImplemented"), Unsupported, r"http://careless:9000 \(bucket bucket\) .*NotImplemented"),
        (refused(400, "InvalidArgument"), Unsupported, r"http://careless:9000 \(bucket bucket\) .*InvalidArgument"),
        (refused(403, "AccessDenied"), NotWritable, "give this user access"),
    ],
)
def test_a_store_that_refuses_the_condition_of_a_publish_is_refused_at_the_start(
    method: str, answer: Exception, error: type[Exception], match: str
) -> None:
    s3: Any = Broken(answer, on=method)
    s3.meta = Careless.meta
    with pytest.raises(error, match=match):
        s3_checks.check(objects_of(s3, 1), "s3a://bucket/r", TABLE)
    assert (s3.objects, s3.uploads) == ({}, {})


@pytest.mark.parametrize(
    ("days", "prefix", "warns"), [(1, "", True), (1, "t/", True), (1, "other/", False), (7, "", False)]
)
def test_a_start_warns_of_a_rule_that_aborts_uploads_early(
    caplog: pytest.LogCaptureFixture, days: int, prefix: str, warns: bool
) -> None:
    rule = {"Status": "Enabled", "Filter": {"Prefix": prefix}}
    s3: Any = MemoryS3()
    s3.get_bucket_lifecycle_configuration = lambda **_: {
        "Rules": [{**rule, "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": days}}],
        **ANSWERED,
    }
    with caplog.at_level(logging.WARNING, "hivesink"):
        s3_checks.check(objects_of(s3, 1), "s3a://bucket/r", TABLE)
    assert ("aborts uploads after 1 days" in caplog.text) is warns
    assert (s3.objects, s3.uploads) == ({}, {})


def test_on_s3_one_of_twenty_writers_wins(request: pytest.FixtureRequest) -> None:
    folder = s3_folder(request)
    storage_of(folder, Site()).check(folder, folder)
    assert not storage_of(folder, Site()).logs().list(folder)


def test_on_s3_a_bucket_with_versions_works_by_a_site_alone(s3: S3Server) -> None:
    root = s3.make_bucket("versions", versioned=True)
    site = pickle.loads(pickle.dumps(Site(dict(s3.properties))))  # noqa: S301  as tasks get it
    files, store = storage_of(root, site).logs(), file_store(root, site)
    for data in (b"one", b"two"):
        files.create(f"{root}/l/m", data)
        with pytest.raises(FileExistsError):
            files.create(f"{root}/l/m", b"other")
        files.delete(f"{root}/l/m")
        assert files.read(f"{root}/l/m") is None
    done = store.publish(staged(store, f"{root}/t"))  # type: ignore[arg-type]
    store.remove([done])
    assert list(store.visible(f"{root}/t")) == []


def test_on_s3_a_large_file_goes_in_parts_and_is_read_by_ranges(s3: S3Server) -> None:
    properties = {**s3.properties, "fs.s3a.bucket.large.multipart.size": "5M"}
    root, site = s3.make_bucket("large"), Site(properties)
    store, files = file_store(root, site), storage_of(root, site).logs()
    data = bytes(range(256)) * (50 << 10)
    done = store.publish(staged(store, f"{root}/t", data))  # type: ignore[arg-type]
    with store.open(done.path) as stream:
        stream.seek(-1000, 2)
        assert stream.read() == data[-1000:]
        stream.seek(5 << 20)
        assert stream.read(6 << 20) == data[5 << 20 : 11 << 20]
    stream = files.open_new(f"{root}/segment")
    stream.write(data)
    files.sync_close(stream, f"{root}/segment")
    assert files.length(f"{root}/segment") == len(data)


def test_on_s3_a_server_that_dies_fails_as_what_may_pass_and_is_used_again(s3: S3Server) -> None:
    root, site = s3.make_bucket("dies"), Site(dict(s3.properties))
    store, files = file_store(root, site), storage_of(root, site).logs()
    part = staged(store, f"{root}/t")  # type: ignore[arg-type]
    files.create(f"{root}/m", b"one")
    s3.kill()
    try:
        for call in (lambda: store.publish(part), lambda: files.create(f"{root}/n", b""), lambda: files.list(root)):
            with pytest.raises((StoreUnavailable, OutcomeUnknown)) as error:
                call()
            assert error.value.retryable
    finally:
        s3.start()
    assert files.read(f"{root}/m") == b"one"
    assert store.publish(part) == part.finish()


def test_on_s3_wrong_keys_are_refused_without_being_shown(s3: S3Server) -> None:
    s3.make_bucket("keys")
    site = Site({**s3.properties, "fs.s3a.bucket.keys.secret.key": "very-secret", "fs.s3a.secret.key": "unused"})
    with pytest.raises(NotWritable) as error:
        storage_of("s3a://keys/x", site).logs().create("s3a://keys/x", b"")
    assert "secret" not in str(error.value)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.skipif(shutil.which("go") is None, reason="there is no Go")
def test_the_protocol_holds_on_versitygw(tmp_path: Path) -> None:
    with VersityGw(tmp_path) as server:
        server.client().create_bucket(Bucket="bucket")
        site = Site(dict(server.properties))
        for _ in range(10):
            storage_of(TABLE, site).check("s3a://bucket/log", TABLE)
        store = file_store(TABLE, site)
        part = staged(store)  # type: ignore[arg-type]
        upload = store._objects.upload(part.staged)  # type: ignore[attr-defined]
        results = run_parallel([partial(store.publish, part) for _ in range(20)], 20)
        assert results == [part.finish()] * 20
        assert upload.parts() is None
        other = staged(store, name=replace(NAME, n=1))  # type: ignore[arg-type]
        store.mark(other.target)
        with pytest.raises(TargetTaken):
            store.publish(other)
        assert store.find(other.target) == Finished(other.target, 0)
        assert store.staged(TABLE) == [other.staged]


KEYS = {"access.key": "a", "secret.key": "s"}
SETTINGS: list[tuple[dict[str, str], str, Any]] = [
    ({}, "meta.config.s3", {"addressing_style": "auto"}),
    ({"path.style.access": "true"}, "meta.config.s3", {"addressing_style": "path"}),
    ({"endpoint": "host:9000", "connection.ssl.enabled": "false"}, "meta.endpoint_url", "http://host:9000"),
    ({"endpoint": "host:9000"}, "meta.endpoint_url", "https://host:9000"),
    ({"endpoint": "s3.eu-west-1.amazonaws.com"}, "meta.region_name", "eu-west-1"),
    ({"endpoint": "s3.amazonaws.com", "endpoint.region": "eu-west-3"}, "meta.region_name", "eu-west-3"),
    ({**KEYS, "session.token": "t"}, "_request_signer._credentials.token", "t"),
    ({**KEYS, "assumed.role.arn": "arn:r"}, "_request_signer._credentials.method", "assume-role"),
]


@pytest.mark.parametrize(("given", "asked", "expected"), SETTINGS, ids=range(len(SETTINGS)))
@pytest.mark.parametrize("prefix", ["fs.s3a.", "fs.s3a.bucket.b."])
def test_a_client_is_made_from_the_sites_properties(
    given: dict[str, str], asked: str, expected: Any, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of the environment")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
    own = {f"fs.s3a.{name}": "https://wrong" for name in given if "bucket" in prefix and name == "endpoint"}
    settings = Settings("b", {**own, **{f"{prefix}{name}": value for name, value in given.items()}})
    assert attrgetter(asked)(s3_client.client(settings)) == expected


def test_a_client_without_keys_needs_a_person(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for properties in ({}, {"fs.s3a.access.key": "a"}, {"fs.s3a.assumed.role.arn": "arn:aws:iam::123456789012:role/r"}):
        bucket = s3_client.Bucket("b", properties, s3_client.client(Settings("b", properties)))
        with pytest.raises(NotWritable, match="Unable to locate credentials"):
            s3_objects.Objects({"bucket": bucket}.__getitem__).at(f"{TABLE}/m").head()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {}),
        ({"encryption.algorithm": "AES256"}, {"ServerSideEncryption": "AES256"}),
        (
            {"encryption.algorithm": "SSE-KMS", "encryption.key": "k"},
            {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": "k"},
        ),
        ({"server-side-encryption-algorithm": "SSE-KMS"}, {"ServerSideEncryption": "aws:kms"}),
    ],
)
def test_encryption_is_as_the_site_says(given: dict[str, str], expected: dict[str, str]) -> None:
    assert Settings("b", {f"fs.s3a.{name}": value for name, value in given.items()}).encryption == expected


def test_an_encryption_that_boto3_has_no_argument_for_is_refused() -> None:
    with pytest.raises(InvalidOption, match=r"fs.s3a.encryption.algorithm = 'CSE-KMS': hivesink knows AES256, SSE-KMS"):
        _ = Settings("b", {"fs.s3a.encryption.algorithm": "CSE-KMS"}).encryption


@pytest.mark.parametrize("location", ["s3://b/t", "s3a:///t", "s3a://key:secret@b/t", "/t"])
def test_other_locations_are_refused(location: str) -> None:
    with pytest.raises(Unsupported, match="write it as s3a://bucket/folder") as error:
        objects_of(MemoryS3()).at(location)
    assert "secret" not in str(error.value)


@pytest.mark.parametrize("elsewhere", ["hdfs://nn/t/dt=1", "/t/dt=1", "s3://b/t"])
def test_a_partition_in_another_store_is_told_before_anything_goes_there(elsewhere: str) -> None:
    store = S3FileStore(objects_of(MemoryS3()))
    with pytest.raises(Unsupported, match=elsewhere):
        store.staged(elsewhere)
    part = staged(store)
    with pytest.raises(Unsupported):
        store.publish(Pending(part.staged, f"{elsewhere}/{NAME}", part.length))
    assert store.find(part.staged) is not None


def test_a_log_in_another_store_than_its_table_is_refused_at_the_start() -> None:
    def live(location: str) -> LiveTable:
        return LiveTable(TableSpec(TableName("d", "t"), (), (), location=location), location)

    logs = {"s3a://b/t": ("hdfs://nn/logs", "file:/logs", "s3://b/logs"), "file:/t": ("hdfs://nn/logs",)}
    logs["hdfs://nn/t"] = ("file:/logs",)
    for table, others in logs.items():
        for log in others:
            told = f"sink.log-location = '{log}': the log .* and the table at {table} are on different file systems"
            with pytest.raises(InvalidOption, match=told):
                root_folder(live(table), log)
    assert root_folder(live("s3a://b/t"), "s3a://other/logs") == "s3a://other/logs"
    assert root_folder(live("s3a://b/t"), "/logs") == "s3a://b/logs"


def test_what_stands_for_folders_is_no_file() -> None:
    s3 = MemoryS3()
    for key in ("t/", "t/dt=1/", "t/dt=1_$folder$", "t/dt=1/part", "t/dt=1/_SUCCESS"):
        s3.put_object(Key=key, Body=b"")
    store = S3FileStore(objects_of(s3))
    assert [file.path for folder in (TABLE, f"{TABLE}/dt=1") for file in store.visible(folder)] == [
        f"{TABLE}/dt=1/part"
    ]
    assert list(store.walk(TABLE)) == [TABLE, f"{TABLE}/dt=1"]


def test_without_boto3_a_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(Unsupported, match=r"boto3 is not installed; run: pip install 'hivesink\[s3\]'"):
        file_store("s3a://nobody/t").visible("s3a://nobody/t")


def test_threads_share_a_client(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Settings] = []
    monkeypatch.setattr(s3_client, "client", made.append)
    logs = storage_of("s3a://b/m", Site({"fs.s3a.x": "1", "dfs.y": "2"})).logs
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: logs().open("s3a://b/m"), range(8)))
    assert [settings.properties for settings in made] == [{"fs.s3a.x": "1"}]
    s3_client._buckets.clear()

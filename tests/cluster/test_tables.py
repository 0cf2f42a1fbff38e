"""Kinds of tables on Hive 4, on HDFS and S3, and what people do to one there while a job writes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from hivesink.config.site import Site
from hivesink.core.manifest import Manifest
from jobs.cluster import Cluster
from jobs.cluster.s3 import S3Server
from tests.cluster.conftest import Place
from tests.cluster.ingest import Addresses, Hive
from tests.hive3.servers import Hive3Metastore, Hive3Server
from tests.ingest import Ingest
from tests.integration.stage import once, once_after

DAYS = ("2024-01-01", "2024-01-02", "2024-01-03")
FIRST = f"dt = '{DAYS[0]}'"


def rows(first: int, count: int = 9, days: tuple[str, ...] = DAYS) -> pa.RecordBatch:
    numbers = range(first, first + count)
    return pa.RecordBatch.from_pydict(
        {"id": pa.array(numbers, pa.int64()), "dt": pa.array([days[number % len(days)] for number in numbers])}
    )


def ids(hive: Hive, place: Place, where: str = "true") -> list[int]:
    """By a fetch of the files: one that is there twice shows twice."""
    return sorted(number for (number,) in hive.ask(f"SELECT id FROM {place.table} WHERE {where}"))


def sound(ingest: Ingest) -> None:
    """Nothing is left over, and the log tells of no error."""
    assert ingest.staged() == []
    assert [finding for finding in ingest.verify().findings if finding.level == "error"] == []


KINDS = {
    # What is asked for, how the metastore keeps it, what makes it managed again.
    "external": ("EXTERNAL TABLE", "EXTERNAL_TABLE", ""),
    "translated": ("TABLE", "EXTERNAL_TABLE", ""),
    "managed": ("TABLE", "MANAGED_TABLE", "SET TBLPROPERTIES ('EXTERNAL'='FALSE')"),
}


@pytest.mark.parametrize(
    ("kind", "partitioned"),
    [("external", "dt STRING"), ("translated", "dt STRING"), ("translated", ""), ("managed", "")],
)
def test_every_kind_of_table(addresses: Addresses, place: Place, hive: Hive, kind: str, partitioned: str) -> None:
    """In the folder that the metastore chooses: the external warehouse for what it has translated."""
    asked, kept, altered = KINDS[kind]
    by = f"PARTITIONED BY ({partitioned})" if partitioned else ""
    hive.ask(f"CREATE {asked} {place.table} (id BIGINT) {by} STORED AS PARQUET")
    if altered:
        hive.ask(f"ALTER TABLE {place.table} {altered}")
    described = {row[0].strip(" :"): (row[1] or "").strip() for row in hive.ask(f"DESCRIBE FORMATTED {place.table}")}
    assert described["Table Type"] == kept
    ingest = addresses.ingest(place.table)
    ingest.put(rows(0))
    ingest.put(rows(9))
    ingest.finish()
    assert ids(hive, place) == list(range(18))
    sound(ingest)


@pytest.fixture
def job(addresses: Addresses, place: Place, hive: Hive) -> Ingest:
    """A job on a managed table, whose files go with a DROP or a TRUNCATE, that has written nine rows."""
    hive.ask(place.ddl("id BIGINT", "dt STRING", kind="TABLE"))
    hive.ask(f"ALTER TABLE {place.table} SET TBLPROPERTIES ('EXTERNAL'='FALSE')")
    ingest = addresses.ingest(place.table)
    ingest.put(rows(0))
    return ingest


DELETIONS: dict[str, Callable[[Place], str]] = {
    "TRUNCATE": lambda place: f"TRUNCATE TABLE {place.table} PARTITION ({FIRST})",
    "DROP": lambda place: f"ALTER TABLE {place.table} DROP PARTITION ({FIRST})",
    "OVERWRITE": lambda place: f"INSERT OVERWRITE TABLE {place.table} PARTITION ({FIRST}) VALUES (1000)",
}
"""Each takes what is in the first day's folder; TRUNCATE and DROP the sink's hidden files, too."""
OFTEN = pytest.mark.parametrize(
    "deletion", [pytest.param(one, marks=() if one == "DROP" else pytest.mark.long) for one in DELETIONS]
)


@OFTEN
def test_rows_that_people_delete_during_a_job(place: Place, hive: Hive, job: Ingest, deletion: str) -> None:
    """Between two commits, and within one: only what was readable goes, and the job goes on."""
    own = [1000] if deletion == "OVERWRITE" else []
    sql = DELETIONS[deletion](place)

    def delete() -> None:
        hive.ask(sql)

    delete()
    assert ids(hive, place, FIRST) == own
    job.put(rows(9))
    assert ids(hive, place, FIRST) == [9, 12, 15, *own]
    # The tasks have written, nothing is decided: what is gone of theirs is written again.
    job.wrap("registrar", lookup=once_after(delete))
    job.put(rows(18))
    assert ids(hive, place, FIRST) == [18, 21, 24, *own]
    # Decided, but hidden still.
    if deletion == "OVERWRITE":
        job.wrap("log", create=once_after(delete))
        job.put(rows(45))
        assert ids(hive, place, FIRST) == [45, 48, 51, *own]
    # All is published: it goes as it would a moment later.
    job.wrap("log", mark=once(delete))
    job.put(rows(27))
    assert ids(hive, place, FIRST) == own
    job.put(rows(36))
    assert ids(hive, place, FIRST) == [36, 39, 42, *own]
    last = 54 if own else 45
    assert ids(hive, place, f"NOT {FIRST}") == [number for number in range(last) if number % 3]
    job.finish()
    sound(job)


@OFTEN
def test_rolled_rows_that_people_delete_before_they_are_published(
    place: Place, hive: Hive, job: Ingest, deletion: str
) -> None:
    """They are in segments still: the job encodes them again, and nobody is asked anything."""
    job.finish()
    job = job.again(options={"sink.rolling-policy.on-epoch": "false", "sink.rolling-policy.file-size": "1"})
    kinds: list[str] = []

    def create(real: Callable[[Manifest], None], manifest: Manifest) -> None:
        real(manifest)
        kinds.append(manifest.kind)
        if kinds == ["batch", "roll"]:
            hive.ask(DELETIONS[deletion](place))

    job.wrap("log", create=create)
    job.put(rows(9))
    job.finish()
    # Hive's INSERT OVERWRITE leaves hidden files alone.
    own, again = ([1000], []) if deletion == "OVERWRITE" else ([], ["requeue", "roll"])
    assert kinds == ["batch", "roll", *again]
    assert ids(hive, place, FIRST) == [9, 12, 15, *own]
    assert ids(hive, place, f"NOT {FIRST}") == [number for number in range(18) if number % 3]
    sound(job)


@pytest.fixture
def on_s3(cluster: Cluster, place: Place) -> Place:
    bucket = cluster.servers.s3.make_bucket("proofs")
    return replace(place, location=f"{bucket}/{place.table}")


@pytest.fixture
def hive3_on_s3(s3: S3Server, tmp_path: Path) -> Iterator[tuple[Addresses, Hive, Place]]:
    """A metastore and a HiveServer2 of Hive 3.1.3 that know S3, and a place there."""
    metastore = Hive3Metastore(tmp_path / "metastore")
    server = Hive3Server(tmp_path / "hiveserver2", metastore)
    metastore.s3 = server.s3 = s3
    bucket = s3.make_bucket("hive3")
    with metastore, server, closing(Hive(server.address)) as hive:
        yield (
            Addresses(metastore.uri, server.address, bucket, Site(dict(s3.properties))),
            hive,
            Place("default.on_s3", f"{bucket}/{tmp_path.name}/t"),
        )


PARTITIONED = pytest.mark.parametrize(
    "partitioned", [pytest.param("dt STRING", id="partitioned"), pytest.param("", id="whole", marks=pytest.mark.long)]
)


@PARTITIONED
def test_hive_and_the_sink_in_one_table(addresses: Addresses, on_s3: Place, hive: Hive, partitioned: str) -> None:
    hive_and_the_sink(addresses, on_s3, hive, partitioned)


@pytest.mark.long
@PARTITIONED
def test_hive_3_and_the_sink_in_one_table(hive3_on_s3: tuple[Addresses, Hive, Place], partitioned: str) -> None:
    addresses, hive, place = hive3_on_s3
    hive_and_the_sink(addresses, place, hive, partitioned)


def hive_and_the_sink(addresses: Addresses, place: Place, hive: Hive, partitioned: str) -> None:
    hive.ask(place.ddl("id BIGINT", partitioned))
    ingest = addresses.ingest(place.table)
    ingest.put(rows(0))
    assert ids(hive, place) == list(range(9))
    # Its engine writes to S3, too, in HiveServer2's own process.
    into = f"PARTITION ({FIRST})" if partitioned else ""
    hive.ask(f"INSERT INTO {place.table} {into} VALUES (100)")
    ingest.put(rows(9))
    assert ids(hive, place) == [*range(18), 100]
    assert hive.one(f"SELECT count(*) FROM {place.table}") == 19
    if partitioned:
        hive.ask(f"INSERT OVERWRITE TABLE {place.table} {into} VALUES (200)")
        ingest.put(rows(18))
        assert ids(hive, place, FIRST) == [18, 21, 24, 200]
        hive.ask(f"ALTER TABLE {place.table} DROP PARTITION (dt = '{DAYS[1]}')")
        ingest.put(rows(27))
        assert hive.one(f"SELECT count(DISTINCT dt) FROM {place.table}") == len(DAYS)
    ingest.finish()
    sound(ingest)

"""Tables on S3 by Hive 4: its metastore makes their folders, HiveServer2 reads and writes beside the sink."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.cluster.test_tables import DAYS, FIRST, ids, rows, sound

if TYPE_CHECKING:
    from jobs.cluster import Cluster
    from tests.cluster.conftest import Place
    from tests.cluster.ingest import Addresses, Hive


@pytest.fixture
def on_s3(cluster: Cluster, place: Place) -> Place:
    bucket = cluster.servers.s3.make_bucket("proofs")
    return replace(place, location=f"{bucket}/{place.table}")


@pytest.mark.parametrize("partitioned", ["dt STRING", ""], ids=["partitioned", "whole"])
def test_hive_and_the_sink_in_one_table(addresses: Addresses, on_s3: Place, hive: Hive, partitioned: str) -> None:
    hive.ask(on_s3.ddl("id BIGINT", partitioned))
    ingest = addresses.ingest(on_s3.table)
    ingest.put(rows(0))
    assert ids(hive, on_s3) == list(range(9))
    # Its engine writes to S3, too, in HiveServer2's own process.
    into = f"PARTITION ({FIRST})" if partitioned else ""
    hive.ask(f"INSERT INTO {on_s3.table} {into} VALUES (100)")
    ingest.put(rows(9))
    assert ids(hive, on_s3) == [*range(18), 100]
    assert hive.one(f"SELECT count(*) FROM {on_s3.table}") == 19
    if partitioned:
        hive.ask(f"INSERT OVERWRITE TABLE {on_s3.table} {into} VALUES (200)")
        ingest.put(rows(18))
        assert ids(hive, on_s3, FIRST) == [18, 21, 24, 200]
        hive.ask(f"ALTER TABLE {on_s3.table} DROP PARTITION (dt = '{DAYS[1]}')")
        ingest.put(rows(27))
        assert hive.one(f"SELECT count(DISTINCT dt) FROM {on_s3.table}") == len(DAYS)
    ingest.finish()
    sound(ingest)

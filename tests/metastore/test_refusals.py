from __future__ import annotations

from dataclasses import replace

import pytest

from hivesink.core.table import TableName
from hivesink.errors import Unsupported
from hivesink.metastore.refusals import PARQUET_INPUT, PARQUET_SERDE, Facts, column

GOOD = Facts(
    name=TableName("d", "t"),
    kind="EXTERNAL_TABLE",
    input_format=PARQUET_INPUT,
    serde=PARQUET_SERDE,
    bucketed=False,
    skewed=False,
    properties={"discover.partitions": "false", "transactional": "false"},
)


def test_a_parquet_table_is_taken() -> None:
    GOOD.refuse()
    # The metastore discovers partitions of external tables only.
    replace(GOOD, kind="MANAGED_TABLE", properties={"discover.partitions": "true"}).refuse()


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        (replace(GOOD, kind="VIRTUAL_VIEW"), "a view"),
        (replace(GOOD, kind="MATERIALIZED_VIEW"), "a view"),
        (replace(GOOD, properties={"transactional": "TRUE"}), "transactional"),
        (replace(GOOD, input_format="org.apache.hadoop.mapred.TextInputFormat"), "TextInputFormat.*STORED AS PARQUET"),
        (replace(GOOD, serde="org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"), "STORED AS PARQUET"),
        (replace(GOOD, bucketed=True), "CLUSTERED"),
        (replace(GOOD, skewed=True), "SKEWED"),
        (replace(GOOD, properties={"spark.sql.sources.schema.numBuckets": "4"}), "CLUSTERED"),
        (
            replace(GOOD, properties={"discover.partitions": "true"}),
            r"ALTER TABLE d\.t SET TBLPROPERTIES \('discover\.partitions'='false'\)",
        ),
        (
            replace(GOOD, kind="MANAGED_TABLE", properties={"EXTERNAL": "TRUE", "discover.partitions": "TRUE"}),
            "ALTER TABLE",
        ),
    ],
)
def test_what_rows_would_be_lost_in_is_refused(facts: Facts, says: str) -> None:
    with pytest.raises(Unsupported, match=says) as caught:
        facts.refuse()
    assert "\n" not in str(caught.value)


def test_an_unknown_type_names_its_column() -> None:
    with pytest.raises(Unsupported, match=r"column u of d\.t \(uniontype<int>\)"):
        column(TableName("d", "t"), "u", "uniontype<int>", None)

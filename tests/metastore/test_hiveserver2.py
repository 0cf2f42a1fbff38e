"""HiveServer2's protocol where it fails."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hivesink import hive
from hivesink.config.site import Site
from hivesink.core.table import Column, Primitive, TableName, TableSpec, quoted
from hivesink.embedded.server import free_port
from hivesink.errors import InvalidOption, MetastoreUnreachable, PartitionInvalid, Unsupported
from hivesink.metastore import connect
from hivesink.metastore.hiveserver2 import HiveServer2Metastore, description, literal, partition_clause


@pytest.mark.parametrize("auth", ["NOSASL", "NONE", "LDAP"])
def test_nobody_there_is_one_line_without_secrets(auth: str, monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    monkeypatch.setenv("HIVESINK_HIVESERVER2_PASSWORD", "hush-hush")
    registrar = connect("hiveserver2", f"127.0.0.1:{port}", Site(hive={"hive.server2.authentication": auth}))
    with pytest.raises(MetastoreUnreachable, match=r"hiveserver2://127\.0\.0\.1") as caught:
        registrar.table(TableName("d", "t"))
    assert "\n" not in str(caught.value)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("address", ["", "me:hush@:1", "127.0.0.1:x"])
def test_a_wrong_address_or_login_is_refused_without_its_text(address: str) -> None:
    for called, auth in ((address, "NONE"), ("127.0.0.1:1", "LDAP"), ("127.0.0.1:1", "PAM")):
        told = r"set \$HIVESINK_HIVESERVER2_PASSWORD" if auth == "LDAP" else r"hive.?server2"
        with pytest.raises(InvalidOption, match=told) as caught:
            hive.Hive(called, {"hive.server2.authentication": auth})
        assert "hush" not in str(caught.value)


SPEC = TableSpec(
    TableName("d", "t"),
    (Column("id", Primitive.BIGINT),),
    (Column("dt", Primitive.STRING), Column("n", Primitive.INT)),
)

# The layout of Hive's MetaDataFormatUtils: padded cells, a row for each parameter, quotes escaped by Java's rules.
HIVE = [
    ("# col_name            ", "data_type           ", "comment             "),
    ("", None, None),
    ("id", "bigint", "the key"),
    ("v", "struct<a:int,b:string>", ""),
    ("# Partition Information", None, None),
    ("# col_name            ", "data_type           ", "comment             "),
    ("dt", "string", ""),
    ("", None, None),
    ("# Detailed Partition Information", None, None),
    ("Location:           ", "hdfs://nn:8020/w/t/dt=2024-01-02", None),
    ("Partition Parameters:", None, None),
    ("", "COLUMN_STATS_ACCURATE", '{\\"BASIC_STATS\\":\\"true\\"}'),
    ("", "numFiles            ", "1                   "),
    ("", None, None),
    ("# Storage Information", None, None),
    ("Bucket Columns:     ", "[]                  ", None),
]


def test_hives_own_layout() -> None:
    found = description(HIVE)
    assert found.columns == [("id", "bigint", "the key"), ("v", "struct<a:int,b:string>", None)]
    assert found.partition_columns == [("dt", "string", None)]
    assert found.fields["location"] == "hdfs://nn:8020/w/t/dt=2024-01-02"
    assert found.fields["bucket columns"] == "[]"
    assert found.parameters == {"COLUMN_STATS_ACCURATE": '{\\"BASIC_STATS\\":\\"true\\"}', "numFiles": "1"}


class OfSpark:
    """Answers as Spark's Thrift Server does, whose layout of a table lacks Hive's `Table Type`."""

    address = "hiveserver2://h:1"

    def run(self, statement: str) -> hive.Answer:
        table = [
            ("id", "bigint", None),
            ("", "", ""),
            ("# Detailed Table Information", "", ""),
            ("Type", "EXTERNAL", ""),
        ]
        return hive.Answer(rows=table if statement.startswith("DESCRIBE") else [("d", "t", False)])

    def close(self) -> None: ...


def test_sparks_thrift_server_is_refused() -> None:
    registrar = HiveServer2Metastore(OfSpark())  # type: ignore[arg-type]  # stands for a session
    with pytest.raises(Unsupported, match="a server other than Hive's own"):
        registrar.table(SPEC.name)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_literal_reads_back_and_never_ends_early(text: str) -> None:
    written = literal(text)
    inside = written[1:-1]
    assert written[0] == written[-1] == "'"
    assert not set(inside) & set("'$;\n")
    assert re.sub(r"\\u([0-9a-f]{4})", lambda found: chr(int(found[1], 16)), inside) == text
    assert quoted("a`b") == "`a``b`"


def test_null_is_written_as_its_folder() -> None:
    clause = partition_clause(SPEC, "dt=it%27s/n=__HIVE_DEFAULT_PARTITION__")
    assert clause == "PARTITION (`dt`='it\\u0027s', `n`='__HIVE_DEFAULT_PARTITION__')"


@pytest.mark.parametrize("path", ["dt=1", "n=1/dt=2", "dt=1/n=2/x=3", "plain", ""])
def test_another_tables_partition_is_refused(path: str) -> None:
    with pytest.raises(PartitionInvalid):
        partition_clause(SPEC, path)

"""The Thrift registrar and catalog on a real metastore: how few calls it makes, and what it refuses and keeps."""

from __future__ import annotations

import secrets
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hive_metastore import ttypes

from hivesink.core.partition import Estimate, NewPartition
from hivesink.core.table import Column, Decimal, Map, Primitive, Struct, TableName
from hivesink.embedded.metastore import EmbeddedMetastore
from hivesink.errors import NotWritable, RegistrationFailed, TableReplaced, UnknownTable, Unsupported
from hivesink.metastore import catalog, thrift, thrift_calls
from hivesink.metastore.thrift import ThriftMetastore
from hivesink.metastore.thrift_connection import Connection
from hivesink.ports import LiveTable
from tests.metastore.live import DT, OverThrift, counted, declared, dt, made, metastore_of, new


@pytest.fixture(params=["2.3", "4.0.1"])
def over(request: pytest.FixtureRequest) -> Iterator[OverThrift]:
    server = OverThrift(metastore_of(request.param, request), kind=request.param)
    yield server
    server.close()


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    return counted(monkeypatch, threading.get_ident())


def test_many_partitions_are_a_few_calls(
    over: OverThrift, live: LiveTable, calls: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thrift, "PARTITIONS_A_CALL", 20)
    registrar = ThriftMetastore(Connection(over.uri))
    whole, alter = "get_partitions_by_names", "alter_partitions_with_environment_context"
    look = "get_partitions_with_specs" if over.kind == "4.0.1" else whole
    eight, many = [f"dt=few{n}" for n in range(8)], [f"dt=many{n:02d}" for n in range(21)]
    estimates = [Estimate(partition, 1, 10, 1, 0) for partition in eight]
    registrar.lookup(live, eight)

    def asked(act: Callable[[], object]) -> Counter[str]:
        calls.clear()
        act()
        del calls["get_table_req"]
        return calls

    added = [new(live, partition) for partition in (*eight, *many)]
    assert asked(lambda: registrar.add(live, added[:8])) == {"add_partitions_req": 1, look: 1}
    assert asked(lambda: registrar.lookup(live, eight)) == {look: 1}
    for partition in eight:
        over.analyze(live, partition)
    assert asked(lambda: registrar.clear_accurate(live, eight)) == {whole: 1, alter: 1}
    assert asked(lambda: registrar.clear_accurate(live, eight)) == {whole: 1}
    assert asked(lambda: registrar.estimate(live, estimates)) == {whole: 1, alter: 1}
    assert asked(lambda: registrar.add(live, added[8:])) == {"add_partitions_req": 2, look: 1}
    registrar.close()


def test_a_new_partition_is_the_tables_image(over: OverThrift, live: LiveTable) -> None:
    table = over.table(live)
    table.sd.serdeInfo.parameters = {"parquet.column.index.access": "false", "serialization.format": "1"}
    over._alter_table(live, table)
    over.connect().add(live, [new(live, dt(1))])
    found = over.owner(live, dt(1))
    assert found.sd.serdeInfo == over.table(live).sd.serdeInfo
    assert found.sd.cols == table.sd.cols
    assert (found.sd.inputFormat, found.sd.outputFormat) == (table.sd.inputFormat, table.sd.outputFormat)


def test_a_partition_brought_up_keeps_its_own(over: OverThrift, live: LiveTable) -> None:
    registrar = over.connect()
    elsewhere = f"{live.location}-moved"
    registrar.add(live, [NewPartition(dt(1), elsewhere, 1, 10)])
    over.analyze(live, dt(1))
    before = over.parameters(live, dt(1))
    over.add_column(live, Column("late", Primitive.DATE))
    registrar.add(live, [new(live, dt(1))])
    found = over.owner(live, dt(1))
    assert [field.name for field in found.sd.cols] == ["id", "v", "late"]
    assert found.sd.location == elsewhere
    assert found.parameters == {key: before[key] for key in before if key != "COLUMN_STATS_ACCURATE"}


def test_a_partition_that_is_dropped_while_it_is_read_is_not_there(
    over: OverThrift, live: LiveTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hive 4 answers the rest of it, as seen beside MSCK REPAIR TABLE … DROP PARTITIONS."""
    registrar = ThriftMetastore(Connection(over.uri))
    registrar.add(live, [new(live, dt(1)), new(live, dt(2))])
    whole = thrift_calls.states

    def torn(*asked: Any) -> list[Any]:
        found: list[Any] = whole(*asked)
        next(one for one in found if one.values == ["2024-01-01"]).values = None
        return found

    monkeypatch.setattr(thrift_calls, "states", torn)
    assert set(registrar.lookup(live, [dt(1), dt(2)])) == {dt(2)}
    registrar.close()


def test_a_location_that_cannot_be_is_refused_in_one_line(over: OverThrift, live: LiveTable) -> None:
    with pytest.raises(RegistrationFailed, match="register partition 'dt=2024-01-01' of") as caught:
        over.connect().add(live, [NewPartition(dt(1), "nosuchscheme://x/y", 0, 0)])
    assert "\n" not in str(caught.value)
    assert over.connect().lookup(live, [dt(1)]) == {}


def test_a_partition_that_can_not_be_altered_stops_no_other(metastore: EmbeddedMetastore, tmp_path: Path) -> None:
    over = OverThrift(metastore.uri)
    registrar, live = over.connect(), made(over, tmp_path, DT)
    days = [dt(day) for day in (1, 2, 3)]
    registrar.add(live, [new(live, day) for day in days])
    # Hive 2.3 has room for 4000 characters of a parameter.
    rows = [7, 10**4100, 9]
    with pytest.raises(RegistrationFailed, match="write estimates of partition 'dt=2024-01-02' of") as caught:
        registrar.estimate(live, [Estimate(day, 1, 10, number, 0) for day, number in zip(days, rows, strict=True)])
    assert caught.value.partitions == (dt(2),)
    assert "\n" not in str(caught.value)
    assert [over.parameters(live, day).get("numRows") for day in (days[0], days[2])] == ["7", "9"]
    over.close()


@pytest.mark.parametrize("over", ["3.1.3"], indirect=True)
def test_users_without_a_right(over: OverThrift, live: LiveTable, monkeypatch: pytest.MonkeyPatch) -> None:
    over.connect().add(live, [new(live, dt(1))])
    monkeypatch.setenv("HADOOP_USER_NAME", "bob")
    bob, folder = over.connect(), Path(live.location.removeprefix("file:"))
    assert set(bob.lookup(live, [dt(1)])) == {dt(1)}
    with pytest.raises(RegistrationFailed, match=r"register .*Permission denied: user=bob,") as told:
        bob.add(live, [new(live, dt(2))])
    assert not told.value.retryable
    assert "\n" not in str(told.value)
    folder.chmod(0o700)
    with pytest.raises(NotWritable, match=r"metastore at .*Permission denied: user=bob,"):
        bob.table(live.spec.name)


def test_a_location_on_a_file_system_that_nobody_knows(over: OverThrift, tmp_path: Path) -> None:
    spec = replace(declared(tmp_path, DT), location="hdfs://nosuchservice/t")
    with pytest.raises(Unsupported, match=r"hdfs://nosuchservice/t is not supported: .*correct the location") as told:
        over.create(spec)
    assert "\n" not in str(told.value)
    assert not told.value.retryable


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda table: table.parameters.update({"discover.partitions": "true"}), "ALTER TABLE contracts"),
        (lambda table: setattr(table.sd, "inputFormat", "org.apache.hadoop.mapred.TextInputFormat"), "PARQUET"),
        (lambda table: table.sd.bucketCols.append("id"), "CLUSTERED"),
        (lambda table: table.sd.cols.append(ttypes.FieldSchema("u", "uniontype<int>")), "column u"),
    ],
)
def test_what_cannot_be_written_is_refused(over: OverThrift, live: LiveTable, change: Any, says: str) -> None:
    table = over.table(live)
    change(table)
    over._alter_table(live, table)
    with pytest.raises(Unsupported, match=says):
        over.connect().table(live.spec.name)


def test_the_catalog_gives_back_what_it_took(over: OverThrift, tmp_path: Path) -> None:
    tables = catalog(over.uri)
    name = TableName(f"contracts_{secrets.token_hex(3)}", "t")
    spec = replace(
        declared(tmp_path, DT, Column("n", Primitive.INT, "a number")),
        name=name,
        columns=(
            Column("id", Primitive.BIGINT, "it's"),
            Column("m", Map(Primitive.STRING, Struct((("a", Decimal(10, 2)),)))),
        ),
        comment='a "table"; ünïcode',
        properties=(("discover.partitions", "false"), ("sink.x", "y z")),
    )
    assert tables.find(name) is None
    tables.create_database_if_absent(name.database)
    tables.create_database_if_absent(name.database)
    tables.create(spec)
    with pytest.raises(TableReplaced):
        tables.create(spec)
    found = tables.find(name)
    assert found is not None
    own = {key: value for key, value in found.properties if key != "transient_lastDdlTime"}
    assert replace(found, properties=tuple(own.items())) == spec

    tables.set_properties(name, {"sink.x": "z", "comment": "new"}, ["discover.partitions", "never.was"])
    changed = tables.find(name)
    assert changed is not None
    assert changed.comment == "new"
    assert changed.options["sink.x"] == "z"
    assert "discover.partitions" not in changed.options
    tables.close()


def test_a_table_that_goes_and_comes_back(over: OverThrift, live: LiveTable) -> None:
    registrar, spec = over.connect(), live.spec
    registrar.add(live, [new(live, dt(1))])
    over.drop_table(live)
    for call in (
        lambda: registrar.lookup(live, [dt(1)]),
        lambda: registrar.add(live, [new(live, dt(1))]),
        lambda: registrar.clear_accurate(live, [dt(1)]),
    ):
        with pytest.raises(UnknownTable, match=rf"{spec.name} is not in the metastore at {over.uri}; .*ddl apply"):
            call()
    over.create(spec)
    live = registrar.table(spec.name)
    assert registrar.lookup(live, [dt(1)]) == {}
    registrar.add(live, [new(live, dt(1))])
    assert list(registrar.lookup(live, [dt(1)])) == [dt(1)]

"""What every registrar promises: in memory, on Hive Metastore 2.3, 3.1.3 and 4.0.1, by HiveServer2."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from hivesink.core.log import PROPERTY, LogAddress
from hivesink.core.partition import NewPartition, partition_path
from hivesink.core.table import Column, Primitive, TableName
from hivesink.errors import (
    RegistrationFailed,
    TableReplaced,
    UnknownTable,
    Unsupported,
)
from hivesink.ports import LiveTable
from tests.metastore.live import DT, KINDS, LiveMetastore, declared, dt, made, new, world_of

ODD = [
    "it's",
    'a "quoted" one',
    "50% off",
    "a/b:c=d",
    "a b",
    " lead",
    "zürich→é😀",
    "back\\slash",
    "\\u0041\\'",
    "${env:HOME}",
    "new\nline\ttab\x01",
    "x') LOCATION '/tmp/evil' --",
    "`tick`; DROP TABLE t",
    "a{b}[c]^?*#",
    "a<b>|&",
]


LONGER = [pytest.param(f"hiveserver2-{version}", marks=pytest.mark.long) for version in ("3.1.3", "secured")]


@pytest.fixture(params=[*KINDS, *LONGER])
def server(request: pytest.FixtureRequest) -> Iterator[LiveMetastore]:
    with world_of(request.param, request) as found:
        yield found


@pytest.fixture
def live(server: LiveMetastore, tmp_path: Path) -> LiveTable:
    return made(server, tmp_path, DT)


def test_an_insert_is_announced(server: LiveMetastore, live: LiveTable, tmp_path: Path) -> None:
    registrar = server.connect()
    registrar.add(live, [new(live, dt(1))])
    if server.kind.startswith("hiveserver2") or server.kind == "thrift-2.3":
        with pytest.raises(Unsupported, match="insert-event"):
            registrar.announce(live, {})
        return
    registrar.announce(live, {})
    registrar.announce(live, {dt(1): [f"{live.location}/{dt(1)}/part-1", f"{live.location}/{dt(1)}/part-2"]})
    plain = made(server, tmp_path / "plain")
    registrar.announce(plain, {"": [f"{plain.location}/part-1"]})


def test_a_table_reads_back(server: LiveMetastore, tmp_path: Path) -> None:
    spec = declared(tmp_path, DT, Column("hour", Primitive.INT, "of day"))
    server.create(spec)
    live = server.connect().table(spec.name)
    assert live.spec.columns == spec.columns
    assert live.spec.partition_columns == spec.partition_columns
    assert live.spec.external
    assert live.location.rstrip("/").endswith(f"/{spec.name.table}")


@pytest.mark.parametrize("name", ["contracts.nobody", "no_such_database.nobody"])
def test_an_unknown_table_is_named(server: LiveMetastore, live: LiveTable, name: str) -> None:
    assert live.spec.name.database == "contracts"
    with pytest.raises(UnknownTable, match=re.escape(name)) as caught:
        server.connect().table(TableName.parse(name))
    assert "\n" not in str(caught.value)


def test_many_at_once_and_again(server: LiveMetastore, live: LiveTable) -> None:
    registrar = server.connect()
    wanted = [new(live, dt(day)) for day in range(1, 13)]
    registrar.add(live, wanted)
    registrar.close()  # The next call opens it again.
    registrar.add(live, wanted[:5])
    found = registrar.lookup(live, [*(want.partition for want in wanted), "dt=never"])
    assert sorted(found) == sorted(want.partition for want in wanted)
    assert {place.location for place in found.values()} == {want.location for want in wanted}
    assert not any(place.accurate or place.columns_behind for place in found.values())


def test_all_of_them(server: LiveMetastore, live: LiveTable) -> None:
    registrar = server.connect()
    registrar.add(live, [])
    registrar.clear_accurate(live, [])
    assert registrar.lookup(live, []) == registrar.lookup(live, None) == {}
    wanted = {partition_path(["dt"], [value]): f"{live.location}/odd-{n}" for n, value in enumerate([None, *ODD[:7]])}
    registrar.add(live, [NewPartition(name, location, 1, 10) for name, location in wanted.items()])
    # One that lives elsewhere stays there.
    elsewhere = f"{live.location}-elsewhere/x"
    server.register(live, dt(1), elsewhere)
    registrar.add(live, [new(live, dt(1)), new(live, dt(2))])
    wanted |= {dt(1): elsewhere, dt(2): f"{live.location}/{dt(2)}"}
    assert sorted(registrar.names(live)) == sorted(wanted)
    assert {name: place.location for name, place in registrar.lookup(live, None).items()} == wanted
    # One that is dropped is gone, and comes back.
    server.drop(live, dt(2))
    assert registrar.lookup(live, [dt(2)]) == {}
    registrar.add(live, [new(live, dt(2))])
    assert list(registrar.lookup(live, [dt(2)])) == [dt(2)]


def test_odd_values_are_registered_under_their_own_name(server: LiveMetastore, live: LiveTable) -> None:
    registrar = server.connect()
    wanted = [new(live, partition_path(["dt"], [value]), folder=f"odd{n}") for n, value in enumerate(ODD)]
    wanted.append(new(live, "dt=plain", folder="dt=it's 50%25 of ünïcode ${x}"))
    names = [one.partition for one in wanted]
    for one in wanted[:2]:
        registrar.add(live, [one])
    registrar.add(live, wanted)
    found = registrar.lookup(live, [*names, dt(1)])
    assert {name: place.location for name, place in found.items()} == {one.partition: one.location for one in wanted}
    for name in names[::3]:
        server.drop(live, name)  # by its unescaped value, past the registrar: it was the right partition
    assert set(registrar.lookup(live, names)) == set(names) - set(names[::3])


def test_partitions_that_can_not_be_registered_are_named_and_stop_no_other(
    server: LiveMetastore, tmp_path: Path
) -> None:
    columns = [f"c{place}" for place in range(5)]
    live = made(server, tmp_path, *(Column(name, Primitive.STRING) for name in columns))
    registrar = server.connect()

    def partition(value: str) -> str:
        return partition_path(columns, [value] * 5)

    good, longest = [partition(f"v{n}") for n in range(3)], partition("x" * 149) + "xxx"
    bad = [partition("y" * 150), partition("z" * 150)]
    assert [len(name) for name in (longest, *bad)] == [767, 769, 769]
    with pytest.raises(RegistrationFailed) as told:
        registrar.add(
            live, [new(live, name, folder=name[:6]) for name in (good[0], bad[0], *good[1:], bad[1], longest)]
        )
    assert told.value.partitions == tuple(bad)
    assert str(live.spec.name) in str(told.value)
    assert all(name[:60] in str(told.value) for name in bad)
    assert "\n" not in str(told.value)
    assert sorted(registrar.lookup(live, [*good, *bad, longest])) == sorted([*good, longest])


@pytest.mark.parametrize(("there", "wanted"), [("a", "a "), ("a ", "a")])
def test_of_two_names_that_differ_in_a_blank_at_their_end_one_can_be(
    server: LiveMetastore, live: LiveTable, there: str, wanted: str
) -> None:
    registrar = server.connect()
    registrar.add(live, [new(live, f"dt={there}", folder="first")])
    assert registrar.lookup(live, [f"dt={wanted}"]) == {}
    with pytest.raises(RegistrationFailed) as told:
        registrar.add(live, [new(live, f"dt={wanted}", folder="second"), new(live, dt(1))])
    assert told.value.partitions == (f"dt={wanted}",)
    assert f"'dt={wanted}'" in str(told.value)
    found = registrar.lookup(live, [f"dt={there}", f"dt={wanted}", dt(1)])
    assert {name: place.location for name, place in found.items()} == {
        f"dt={there}": f"{live.location}/first",
        dt(1): f"{live.location}/{dt(1)}",
    }


def test_names_that_look_alike_are_several(server: LiveMetastore, live: LiveTable) -> None:
    registrar = server.connect()
    values = ("A", "a", "é", "e\u0301", "e", "a\t", "a\0", "a\u00a0")
    wanted = {partition_path(["dt"], [value]): f"{live.location}/{n}" for n, value in enumerate(values)}
    registrar.add(live, [new(live, name, folder=str(n)) for n, name in enumerate(wanted)])
    found = {name: place.location for name, place in registrar.lookup(live, list(wanted)).items()}
    assert found == wanted


def test_a_table_is_known_by_the_log_that_it_names(server: LiveMetastore, live: LiveTable) -> None:
    """The text of a property comes back as it was set, and a look with another one is refused."""
    registrar, name, text = server.connect(), live.spec.name, str(LogAddress("hdfs://nn:1/a b/é'$;,=/x", "00ff"))
    registrar.add(live, [new(live, dt(1))])
    registrar.set_property(name, PROPERTY, text)
    assert LogAddress.parse(text) == LogAddress("hdfs://nn:1/a b/é'$;,=/x", "00ff")
    with pytest.raises(TableReplaced, match=re.escape(str(name))):
        registrar.lookup(live, [dt(1)])
    stating = registrar.table(name)
    assert stating.log == text
    server.add_column(live, Column("late", Primitive.STRING))
    assert set(registrar.lookup(stating, [dt(1)])) == {dt(1)}
    registrar.set_property(name, PROPERTY, text)
    assert registrar.table(name).log == text
    server.drop_table(live)
    with pytest.raises(UnknownTable):
        registrar.lookup(stating, [dt(1)])
    with pytest.raises(UnknownTable):
        registrar.set_property(name, PROPERTY, text)
    server.create(live.spec)
    for partition in (dt(1), dt(2)):
        with pytest.raises(TableReplaced, match=re.escape(str(name))):
            registrar.lookup(stating, [partition])


def test_the_tables_of_every_database_that_have_a_property(
    server: LiveMetastore, live: LiveTable, tmp_path: Path
) -> None:
    registrar = server.connect()
    if server.kind.startswith("hiveserver2"):
        with pytest.raises(Unsupported, match="thrift://"):
            registrar.tables_with(PROPERTY)
        return
    elsewhere = replace(declared(tmp_path, DT), name=TableName(f"{live.spec.name.database}_too", live.spec.name.table))
    server.create(elsewhere)
    other = registrar.table(elsewhere.name)
    assert not {live.spec.name, other.spec.name} & registrar.tables_with(PROPERTY).keys()
    registrar.set_property(live.spec.name, PROPERTY, "file:/a%27b#1")
    registrar.set_property(other.spec.name, PROPERTY, "file:/x#2")
    found = registrar.tables_with(PROPERTY)
    assert (found[live.spec.name], found[other.spec.name]) == ("file:/a%27b#1", "file:/x#2")
    server.drop_table(other)
    assert other.spec.name not in registrar.tables_with(PROPERTY)


def test_a_partition_column_of_another_type_is_told(server: LiveMetastore, live: LiveTable) -> None:
    registrar = server.connect()
    registrar.add(live, [new(live, dt(1))])
    server.change_partition_column(live, Column("dt", Primitive.DATE))
    with pytest.raises(TableReplaced, match=r"is partitioned by \(dt date\), and was by \(dt string\)"):
        registrar.lookup(live, [dt(1)])
    assert set(registrar.lookup(registrar.table(live.spec.name), [dt(1)])) == {dt(1)}


def test_the_partition_of_null_by_any_type(server: LiveMetastore, tmp_path: Path) -> None:
    live = made(server, tmp_path, DT, Column("n", Primitive.INT), Column("day", Primitive.DATE))
    registrar = server.connect()
    names = ["dt", "n", "day"]
    wanted = [
        partition_path(names, values)
        for values in ([None, None, None], ["a", None, "2024-01-02"], [None, "7", None], ["a", "7", "2024-01-02"])
    ]
    registrar.add(live, [new(live, partition) for partition in wanted])
    assert sorted(registrar.lookup(live, wanted)) == sorted(wanted)


@pytest.mark.parametrize("shared", [False, True], ids=["each its own", "one for all"])
def test_many_that_add_at_once(server: LiveMetastore, live: LiveTable, *, shared: bool) -> None:
    """The same partitions by a registrar each; each its own by one registrar."""
    wanted = [new(live, dt(day)) for day in range(1, 7)]
    start, single = threading.Barrier(3), server.connect()

    def run(number: int) -> None:
        registrar = single if shared else server.connect()
        start.wait()
        own = wanted[number::3] if shared else wanted
        registrar.add(live, own)
        assert set(registrar.lookup(live, [each.partition for each in own])) == {each.partition for each in own}

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(run, range(3)))
    assert len(server.connect().lookup(live, [want.partition for want in wanted])) == len(wanted)


def test_columns_that_came_meanwhile(server: LiveMetastore, live: LiveTable) -> None:
    registrar = server.connect()
    registrar.add(live, [new(live, dt(1))])
    server.add_column(live, Column("late", Primitive.STRING))
    found = registrar.lookup(live, [dt(1)])
    assert found[dt(1)].columns_behind
    registrar.add(live, [new(live, dt(1)), new(live, dt(2))])  # `live` still has the old columns
    found = registrar.lookup(live, [dt(1), dt(2)])
    assert [found[dt(day)].columns_behind for day in (1, 2)] == [False, False]


def test_another_format_is_told_by_partition_and_refused_for_the_table(server: LiveMetastore, live: LiveTable) -> None:
    orc, avro = (
        f"org.apache.hadoop.hive.ql.io.{name}" for name in ("orc.OrcInputFormat", "avro.AvroContainerInputFormat")
    )
    registrar = server.connect()
    registrar.add(live, [new(live, dt(1)), new(live, dt(2))])
    server.set_format(live, dt(1), orc)
    found = registrar.lookup(live, [dt(1), dt(2)])
    assert [found[dt(day)].format for day in (1, 2)] == ["ORC", None]
    server.set_format(live, "", avro)
    with pytest.raises(Unsupported, match="the sink can't write it"):
        registrar.lookup(live, [dt(2)])
    server.set_format(live, "", orc)
    with pytest.raises(TableReplaced, match="STORED AS ORC, and was STORED AS PARQUET"):
        registrar.lookup(live, [dt(2)])


def test_a_table_without_partitions(server: LiveMetastore, tmp_path: Path) -> None:
    live = made(server, tmp_path)
    registrar = server.connect()
    registrar.add(live, [])
    assert list(registrar.names(live)) == [""]
    assert registrar.lookup(live, [""])[""].location == live.location
    assert registrar.lookup(live, None) == registrar.lookup(live, [""])
    assert not registrar.lookup(live, [""])[""].accurate

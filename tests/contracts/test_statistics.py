"""Hive never answers a wrong count: what every registrar does with the flag by which Hive trusts statistics."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from hivesink.core.partition import Estimate
from hivesink.core.table import Column, Primitive
from hivesink.errors import RegistrationFailed
from hivesink.ports import LiveTable
from tests.metastore.live import DT, KINDS, LiveMetastore, dt, made, new, world_of

FLAG = "COLUMN_STATS_ACCURATE"


@pytest.fixture(params=[kind for kind in KINDS if not kind.startswith("hiveserver2")])
def server(request: pytest.FixtureRequest) -> Iterator[LiveMetastore]:
    with world_of(request.param, request) as found:
        yield found


@pytest.fixture
def live(server: LiveMetastore, tmp_path: Path) -> LiveTable:
    return made(server, tmp_path, DT)


@pytest.fixture(params=[dt(1), ""], ids=["partition", "table"])
def place(request: pytest.FixtureRequest, server: LiveMetastore, tmp_path: Path) -> tuple[LiveTable, str]:
    """A partition with one file, or a table without partitions."""
    partition: str = request.param
    live = made(server, tmp_path, *([DT] if partition else []))
    folder = Path(urlsplit(live.location).path) / partition
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "part-1.parquet").write_bytes(b"ten bytes.")
    if partition:
        server.connect().add(live, [new(live, partition)])
    return live, partition


def test_what_is_new_claims_nothing(server: LiveMetastore, place: tuple[LiveTable, str]) -> None:
    live, partition = place
    assert FLAG not in server.parameters(live, partition)
    assert not server.connect().lookup(live, [partition])[partition].accurate
    if partition:
        figures = server.parameters(live, partition)
        assert (figures["numFiles"], figures["totalSize"]) == ("1", "10")


def test_the_flag_goes_and_nothing_else(server: LiveMetastore, place: tuple[LiveTable, str]) -> None:
    live, partition = place
    registrar = server.connect()
    server.analyze(live, partition)
    before = server.parameters(live, partition)
    assert registrar.lookup(live, [partition])[partition].accurate
    registrar.clear_accurate(live, [partition])
    assert server.parameters(live, partition) == {key: before[key] for key in before if key != FLAG}
    registrar.clear_accurate(live, [partition])
    assert not server.connect().lookup(live, [partition])[partition].accurate


def test_others_and_the_missing_are_left_alone(server: LiveMetastore, live: LiveTable) -> None:
    registrar = server.connect()
    registrar.add(live, [new(live, dt(1)), new(live, dt(2)), new(live, "dt=a")])
    for partition in (dt(1), dt(2), "dt=a"):
        server.analyze(live, partition)
    registrar.clear_accurate(live, [dt(1), dt(9), "dt=a "])
    registrar.estimate(live, [Estimate(dt(9), 3, 300, 42, 0), Estimate("dt=a ", 3, 300, 42, 0)])
    found = registrar.lookup(live, [dt(1), dt(2), dt(9), "dt=a"])
    assert {name: place.accurate for name, place in found.items()} == {dt(1): False, dt(2): True, "dt=a": True}


def test_a_tables_own_flag_makes_its_partitions_trusted_and_goes_with_theirs(
    server: LiveMetastore, live: LiveTable
) -> None:
    registrar = server.connect()
    registrar.add(live, [new(live, dt(1))])
    server.analyze(live, "")
    assert registrar.lookup(live, [dt(1)])[dt(1)].accurate
    registrar.clear_accurate(live, [])
    assert FLAG in server.parameters(live, "")
    registrar.clear_accurate(live, [dt(1)])
    assert FLAG not in server.parameters(live, "")
    assert not registrar.lookup(live, [dt(1)])[dt(1)].accurate
    server.analyze(live, "")
    # Nobody can look up a new partition before it is registered.
    registrar.add(live, [new(live, dt(2))])
    assert FLAG not in server.parameters(live, "")


def test_estimates_read_back_and_nobody_trusts_them(server: LiveMetastore, place: tuple[LiveTable, str]) -> None:
    live, partition = place
    registrar = server.connect()
    server.analyze(live, partition)
    before = server.parameters(live, partition)
    figures = {"numFiles": "3", "totalSize": "300", "numRows": "42", "rawDataSize": "500"}
    for _ in range(2):
        registrar.estimate(live, [Estimate(partition, 3, 300, 42, 500)])
        found = server.parameters(live, partition)
        assert found == {key: before[key] for key in before if key != FLAG} | figures
        assert not registrar.lookup(live, [partition])[partition].accurate


def test_columns_that_are_updated_bring_no_flag_back(server: LiveMetastore, live: LiveTable) -> None:
    registrar = server.connect()
    registrar.add(live, [new(live, dt(1))])
    server.add_column(live, Column("late", Primitive.STRING))
    server.analyze(live, dt(1))
    registrar.add(live, [new(live, dt(1))])
    if server.kind != "memory":
        assert FLAG not in server.parameters(live, dt(1))


@pytest.mark.parametrize("server", ["hiveserver2-4.0.1"])
def test_hiveserver2_refuses_where_hive_trusts(server: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    with world_of(server, request) as over:
        registrar, live = over.connect(), made(over, tmp_path, DT)
        registrar.add(live, [new(live, dt(1)), new(live, dt(2))])
        before = over.parameters(live, dt(1))
        registrar.estimate(live, [Estimate(dt(1), 1, 10, 1, 0)])
        assert over.parameters(live, dt(1)) == before
        registrar.clear_accurate(live, [dt(1)])
        over.analyze(live, dt(1))
        assert registrar.lookup(live, [dt(1), dt(2)])[dt(1)].accurate
        with pytest.raises(RegistrationFailed, match=r"dt=2024-01-01.*thrift://"):
            registrar.clear_accurate(live, [dt(1), dt(2)])
        registrar.clear_accurate(live, [dt(2)])
        over.analyze(live, "")
        with pytest.raises(RegistrationFailed, match=r"dt=2024-01-02.*thrift://"):
            registrar.clear_accurate(live, [dt(2)])
        with pytest.raises(RegistrationFailed, match=r"dt=2024-01-03.*thrift://"):
            registrar.add(live, [new(live, dt(3))])

"""Locations, nameservices and masks as Hadoop's own clients understand them."""

from __future__ import annotations

import pytest

from hivesink.embedded.server import free_port
from hivesink.errors import StoreUnavailable, Unsupported
from hivesink.storage.hdfs import HdfsFileSystem
from hivesink.storage.hdfs_address import Address, client_properties, quantity, resolve, umask
from hivesink.storage.hdfs_answers import Failed, Kind
from hivesink.storage.hdfs_calls import HdfsCalls
from hivesink.storage.hdfs_files import servers

HA = {
    "fs.defaultFS": "hdfs://ns",
    "dfs.nameservices": "ns, other, lame",
    "dfs.ha.namenodes.ns": "nn1, nn2",
    "dfs.namenode.rpc-address.ns.nn1": "One:8020",
    "dfs.namenode.rpc-address.ns.nn2": "two:8021",
    "dfs.ha.namenodes.lame": "nn1",
    "dfs.namenode.rpc-address.other": "third:9000",
}


@pytest.mark.parametrize(
    ("location", "canonical"),
    [
        ("hdfs://ns/w/t", "hdfs://ns/w/t"),
        ("hdfs:///w/t/", "hdfs://ns/w/t"),
        ("hdfs:/w//t", "hdfs://ns/w/t"),
        ("hdfs://Node/w", "hdfs://node:8020/w"),
        ("hdfs://node:8020/w", "hdfs://node:8020/w"),
        ("hdfs://127.0.0.1:9000", "hdfs://127.0.0.1:9000/"),
        ("hdfs://other/w", "hdfs://other/w"),
        # A NameNode is its nameservice.
        ("hdfs://one/w", "hdfs://ns/w"),
        ("hdfs://one:8020/w", "hdfs://ns/w"),
        ("hdfs://two:8021/w", "hdfs://ns/w"),
        ("hdfs://two/w", "hdfs://two:8020/w"),
        ("hdfs://third:9000/w", "hdfs://other/w"),
        ("hdfs://ns/w/x=a%3Ab/ü b", "hdfs://ns/w/x=a%3Ab/ü b"),
    ],
)
def test_two_spellings_of_a_place_compare(location: str, canonical: str) -> None:
    fs = HdfsFileSystem(HA)
    assert fs.canonical(location) == canonical
    assert fs.canonical(canonical) == canonical


@pytest.mark.parametrize(
    ("location", "properties", "words"),
    [
        ("hdfs:///w", {}, "fs.defaultFS is not set"),
        ("hdfs:///w", {"fs.defaultFS": "file:///"}, "fs.defaultFS is 'file:///'"),
        ("hdfs://lame/w", HA, "dfs.namenode.rpc-address.lame.nn1 are not set"),
        ("hdfs://a:b:c/w", HA, "neither a nameservice nor host:port"),
    ],
)
def test_what_leads_nowhere_is_said_with_the_property_to_set(
    location: str, properties: dict[str, str], words: str
) -> None:
    with pytest.raises(Unsupported, match="HADOOP_CONF_DIR") as told:
        HdfsFileSystem(properties).canonical(location)
    assert words in str(told.value)
    assert not told.value.retryable


def test_other_schemes_are_refused() -> None:
    with pytest.raises(Unsupported, match="s3a://b/t"):
        HdfsFileSystem(HA).canonical("s3a://b/t")


def test_a_nameservice_is_asked_in_the_order_of_those_that_answer() -> None:
    address = resolve("hdfs://ns/w", HA)[0]
    assert address.namenodes == ("One:8020", "two:8021")
    provider, ha = "dfs.client.failover.proxy.provider.ns", "org.apache.hadoop.hdfs.server.namenode.ha"
    site = {**HA, provider: f"{ha}.ObserverReadProxyProvider"}
    told = client_properties(site, Address("ns", ("two:8021", "one:8020")), rounds=2)
    names = told["dfs.ha.namenodes.ns"].split(",")
    assert [told[f"dfs.namenode.rpc-address.ns.{name}"] for name in names] == ["two:8021", "one:8020"]
    assert told["dfs.client.failover.max.attempts"] == "5"
    # An Observer may not know yet what another process has renamed.
    assert told[provider] == f"{ha}.ConfiguredFailoverProxyProvider"


@pytest.mark.parametrize(
    ("text", "mask"),
    [("022", 0o022), ("0027", 0o027), ("u=rwx,g=rx,o=", 0o027), ("a=rwx", 0), ("ug=rwx,o=r", 0o003), ("77", 0o077)],
)
def test_umasks(text: str, mask: int) -> None:
    assert umask({"fs.permissions.umask-mode": text}) == mask


def test_values_that_cannot_be_read_are_refused() -> None:
    assert umask({}) == 0o022
    assert (quantity("128m"), quantity("512"), quantity("1G")) == (1 << 27, 512, 1 << 30)
    for wrong in ({"fs.permissions.umask-mode": "rwx"}, {"dfs.blocksize": "many"}, {"dfs.replication": "0"}):
        with pytest.raises(Unsupported):
            HdfsFileSystem(wrong)


def test_both_names_of_a_file_system_lead_to_the_same_client() -> None:
    fs = HdfsFileSystem(HA)
    assert fs._at("hdfs://ns/w/.p").calls is fs._at("hdfs://one:8020/w/p").calls


def test_a_nameservice_without_an_active_namenode(monkeypatch: pytest.MonkeyPatch) -> None:
    """One standby is well, all of them take no call."""
    failed = Failed(Kind.NOT_TAKEN, "Operation category READ is not supported in state standby")

    def ask(*_: object, **__: object) -> None:
        raise failed

    monkeypatch.setattr(HdfsCalls, "ask", ask)
    (_, first), (_, second), (what, whole) = servers(HA, "hdfs://ns/w")
    assert (first(), second(), what) == ("standby", "standby", "NameNodes of ns (One:8020, two:8021)")
    with pytest.raises(StoreUnavailable, match="in state standby"):
        whole()


def test_the_servers_of_a_location_are_looked_at_one_by_one() -> None:
    port = free_port()
    site = {
        "dfs.ha.namenodes.ns": "a,b",
        "dfs.namenode.rpc-address.ns.a": f"127.0.0.1:{port}",
        "dfs.namenode.rpc-address.ns.b": f"localhost:{port}",
        "hadoop.security.key.provider.path": f"kms://https@127.0.0.1;localhost:{port}/kms",
    }
    checks = [*servers(site, "hdfs://ns/warehouse")]
    hosts = [f"127.0.0.1:{port}", f"localhost:{port}"]
    whole = f"NameNodes of ns ({', '.join(hosts)})"
    asked = {**{f"NameNode {host}": host for host in hosts}, whole: "ns", **{f"KMS {host}": host for host in hosts}}
    assert [what for what, _ in checks] == [*asked]
    for what, look in checks:
        with pytest.raises(StoreUnavailable, match=asked[what]):
            look()

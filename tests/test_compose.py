"""docker-compose.yml against the Compose Specification, and against the one source of configuration, both ways.

No container engine takes part: what only one can show is listed in docs/cluster.md.
"""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections import Counter
from dataclasses import fields
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from jsonschema import Draft202012Validator

from jobs.cluster import settings
from jobs.cluster.cluster import Cluster
from jobs.demo import containers

ROOT = Path(__file__).parents[1]
# What ends by itself, and what is started by hand: neither has a health.
ONE_SHOT, CLIENT = "folders", "client"
BUILT = {"spark-worker-1": "worker", "spark-worker-2": "worker", CLIENT: "client"}
SITES = {
    "namenode": {"core-site": "core-site", "hdfs-site": "hdfs-site"},
    "metastore": {"core-site": "core-site", "hdfs-site": "hdfs-site", "hive-site": "metastore-site"},
    "hiveserver2": {
        "core-site": "core-site",
        "hdfs-site": "hdfs-site",
        "hive-site": "hiveserver2-site",
        "mapred-site": "mapred-site",
    },
    CLIENT: {"core-site": "core-site", "hdfs-site": "hdfs-site", "hive-site": "hive-site"},
}
HADOOP = ("namenode", "datanode-1", "datanode-2", ONE_SHOT)


class Unrepeated(yaml.SafeLoader):
    """Refuses a key that is given twice, of which YAML's parser would keep the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        twice = [
            key for key, n in Counter(key.value for key, _ in node.value if key.tag[-5:] != "merge").items() if n > 1
        ]
        assert not twice, f"given twice: {twice}, {node.start_mark}"
        return super().construct_mapping(node, deep)


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    document: dict[str, Any] = yaml.load((ROOT / "docker-compose.yml").read_text(), Unrepeated)  # noqa: S506  a SafeLoader
    return document


@pytest.fixture(scope="module")
def services(compose: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = compose["services"]
    return found


@pytest.fixture(scope="module")
def dockerfile() -> str:
    return (ROOT / "Dockerfile").read_text()


def test_it_is_what_the_specification_allows(compose: dict[str, Any]) -> None:
    schema = json.loads((Path(__file__).parent / "fixtures" / "compose-spec.json").read_text())
    assert [f"{e.json_path}: {e.message}" for e in Draft202012Validator(schema).iter_errors(compose)] == []


def test_it_has_the_servers_of_the_cluster(services: dict[str, Any], tmp_path: Path) -> None:
    assert set(services) == {*Cluster(tmp_path).servers.by_name(), ONE_SHOT, CLIENT}


def test_every_image_is_the_pinned_one(services: dict[str, Any], dockerfile: str) -> None:
    version = containers.SPARK_VERSION
    expected = {
        **dict.fromkeys(HADOOP, containers.IMAGES["hadoop"]),
        **dict.fromkeys(("metastore", "hiveserver2"), containers.IMAGES["hive"]),
        "kafka": containers.IMAGES["kafka"],
        "spark-master": containers.IMAGES["spark"],
        **{name: f"hivesink-spark-{target}:{version}" for name, target in BUILT.items() if name != CLIENT},
        CLIENT: f"hivesink-client:{version}",
    }
    assert {name: service["image"] for name, service in services.items()} == expected
    assert {name: s["build"] for name, s in services.items() if "build" in s} == {
        name: {"context": ".", "target": target} for name, target in BUILT.items()
    }
    stages = re.findall(r"^FROM (\S+) AS (\S+)$", dockerfile, re.MULTILINE)
    assert stages == [(containers.IMAGES["spark"], "worker"), ("worker", "client")]


def test_the_client_is_of_the_version_of_the_spark_cluster(dockerfile: str) -> None:
    assert re.findall(r"pyspark==([\d.]+)", dockerfile) == [containers.SPARK_VERSION]
    locked = (ROOT / "requirements.lock").read_text()
    line = re.findall(r"^pyspark==(\d+\.\d+)", locked, re.MULTILINE)
    assert line == [".".join(containers.SPARK_VERSION.split(".")[:2])]


def test_the_python_is_the_one_that_the_lock_is_for(dockerfile: str) -> None:
    locked = re.findall(r"^# Exact versions of everything for Python (\S+)", (ROOT / "requirements.lock").read_text())
    assert [version.rpartition(".")[0] for version in re.findall(r"--python (\d\S+)", dockerfile)] == locked


def test_what_is_copied_into_images_is_there_and_not_ignored(dockerfile: str) -> None:
    copied = {line.split()[1] for line in dockerfile.splitlines() if line.startswith("COPY ")}
    ignore = (ROOT / ".dockerignore").read_text().split()
    assert ignore[0] == "*"
    assert {name.removeprefix("!") for name in ignore if name.startswith("!")} == copied
    assert [name for name in copied if not (ROOT / name).exists()] == []


def test_ports_are_the_settings_and_published_on_the_loopback_alone(services: dict[str, Any]) -> None:
    assert {name: tuple(s["ports"]) for name, s in services.items() if "ports" in s} == containers.published()
    assert all(port.startswith("127.0.0.1:") for ports in containers.published().values() for port in ports)
    assert [name for name, s in services.items() if s.keys() & {"network_mode", "networks", "privileged"}] == []


def test_configs_are_the_settings(compose: dict[str, Any]) -> None:
    expected = containers.sites()
    assert {name: _properties(config["content"]) for name, config in compose["configs"].items()} == expected
    assert {name for name, config in compose["configs"].items() if "$" in config["content"]} == set()


def _properties(site: str) -> dict[str, str]:
    names = [(entry.findtext("name") or "", entry.findtext("value") or "") for entry in ET.fromstring(site)]  # noqa: S314
    assert len(dict(names)) == len(names), f"a property is given twice in {site}"
    return dict(names)


def test_each_server_is_given_its_configs(compose: dict[str, Any], services: dict[str, Any]) -> None:
    expected = {**SITES, **dict.fromkeys(HADOOP, SITES["namenode"])}
    found: dict[str, dict[str, str]] = {}
    for name, service in services.items():
        folder = Path("/opt/hadoop/etc/hadoop") if name in HADOOP else containers.CONF
        for config in service.get("configs", ()):
            target = Path(config["target"])
            assert (target.parent, target.suffix) == (folder, ".xml")
            found.setdefault(name, {})[target.stem] = config["source"]
    assert found == expected
    assert {source for sources in found.values() for source in sources.values()} == set(compose["configs"])


def test_the_environment_is_the_settings(services: dict[str, Any]) -> None:
    user = {"HADOOP_USER_NAME": containers.SUPERUSER}
    hive = {**user, "HIVE_CUSTOM_CONF_DIR": str(containers.CONF), "IS_RESUME": "true"}
    expected = {
        "namenode": {"ENSURE_NAMENODE_DIR": f"{containers.HADOOP_DATA}/names/current"},
        "metastore": {**hive, "SERVICE_NAME": "metastore", "SERVICE_OPTS": "-Xss16m"},
        "hiveserver2": {**hive, "SERVICE_NAME": "hiveserver2"},
        "kafka": containers.kafka_environment(),
        "spark-master": {"SPARK_MASTER_OPTS": containers.spark_master_options()},
        "spark-worker-1": user,
        "spark-worker-2": user,
        CLIENT: {
            **user,
            "CLUSTER": "compose",
            "HADOOP_CONF_DIR": str(containers.CONF),
            "HIVE_CONF_DIR": str(containers.CONF),
            "HIVESINK_MASTER": containers.addresses().spark_master,
        },
    }
    assert {name: s["environment"] for name, s in services.items() if "environment" in s} == expected


def test_commands_are_the_settings(services: dict[str, Any]) -> None:
    spark = "/opt/spark/bin/spark-class", "org.apache.spark.deploy"
    master = [spark[0], f"{spark[1]}.master.Master", "--host", "spark-master"]
    expected = {
        "namenode": ["hdfs", "namenode"],
        ONE_SHOT: [containers.make_folders()],
        "spark-master": [*master, "--port", str(settings.PORTS["spark-master"])],
    }
    for number, port in enumerate(containers.DATA_PORTS, 1):
        host = f"datanode-{number}"
        own = [f"-Ddfs.datanode.hostname={host}", f"-Ddfs.datanode.address=0.0.0.0:{port}"]
        expected[host] = ["hdfs", "datanode", *own]
    for number in range(1, settings.WORKERS + 1):
        host = f"spark-worker-{number}"
        offer = ["--cores", str(settings.WORKER_CORES), "--memory", settings.WORKER_MEMORY]
        place = ["--work-dir", containers.SPARK_DATA, containers.addresses().spark_master]
        expected[host] = [spark[0], f"{spark[1]}.worker.Worker", "--host", host, *offer, *place]
    assert {name: s["command"] for name, s in services.items() if "command" in s and name != CLIENT} == expected


def test_every_server_has_a_name_and_a_health_that_looks_at_its_own_port(services: dict[str, Any]) -> None:
    servers = services.keys() - {ONE_SHOT, CLIENT}
    assert {name for name, service in services.items() if "healthcheck" in service} == servers
    for name in servers:
        service = services[name]
        assert service["hostname"] == name
        assert service["healthcheck"].keys() == {"test", "interval", "timeout", "retries"}
        test = " ".join(service["healthcheck"]["test"])
        # dash, which is `sh` in most of these images, has no /dev/tcp.
        assert "/dev/tcp" not in test or test.startswith("CMD bash -c ")
        inside = re.findall(r"/dev/tcp/[^/]+/(\d+)", test)
        assert inside in ([], [port.rpartition(":")[2] for port in service.get("ports", ())])


def test_every_server_waits_for_those_it_leans_on(services: dict[str, Any]) -> None:
    awaited = {name: s.get("depends_on", {}) for name, s in services.items()}
    nodes = {f"datanode-{number}" for number in range(1, settings.DATANODES + 1)}
    workers = {f"spark-worker-{number}" for number in range(1, settings.WORKERS + 1)}
    assert {name: set(others) for name, others in awaited.items() if others} == {
        ONE_SHOT: {"namenode"},
        **{name: {"namenode"} for name in nodes},
        "metastore": {ONE_SHOT, *nodes},
        "hiveserver2": {"metastore"},
        **{name: {"spark-master"} for name in workers},
        CLIENT: {"hiveserver2", "kafka", *workers},
    }
    # `up --wait` takes the end of a container for a failure unless somebody waits for just that.
    conditions = {(other, condition["condition"]) for others in awaited.values() for other, condition in others.items()}
    assert all((condition == "service_healthy") == (other != ONE_SHOT) for other, condition in conditions)
    assert (ONE_SHOT, "service_completed_successfully") in conditions
    assert services[CLIENT]["profiles"] == [CLIENT]


def test_what_servers_hold_is_in_volumes(compose: dict[str, Any], services: dict[str, Any]) -> None:
    nodes = [f"datanode-{number}" for number in range(1, settings.DATANODES + 1)]
    expected = {
        **{name: f"{name}:{containers.HADOOP_DATA}" for name in ("namenode", *nodes)},
        "metastore": f"metastore:{containers.HIVE_DATA}",
        "kafka": f"kafka:{containers.KAFKA_DATA}",
        "spark-master": f"spark-master:{containers.SPARK_DATA}",
        CLIENT: f"{CLIENT}:{containers.SPARK_DATA}",
    }
    assert {name: s["volumes"] for name, s in services.items() if "volumes" in s} == {
        name: [volume] for name, volume in expected.items()
    }
    assert set(compose["volumes"]) == set(expected)


def test_a_client_in_the_network_finds_every_server(services: dict[str, Any]) -> None:
    addresses = containers.addresses()
    assert Path(services[CLIENT]["configs"][0]["target"]).parent == addresses.conf
    for field in fields(addresses):
        address = getattr(addresses, field.name)
        if field.name == "conf":
            continue
        place = urlsplit(address if "://" in address else f"//{address}")
        assert place.hostname in services
        assert place.port == settings.PORTS[place.hostname]


def test_data_ports_are_no_other_port_of_a_datanode() -> None:
    """9864 and 9867 are the defaults of its HTTP and its RPC: hdfs-default.xml."""
    assert len(set(containers.DATA_PORTS)) == settings.DATANODES
    assert not {9864, 9867} & set(containers.DATA_PORTS)


def test_the_broker_hands_each_listener_an_address_that_its_clients_can_use(services: dict[str, Any]) -> None:
    environment = services["kafka"]["environment"]
    listeners = dict(entry.split("://") for entry in environment["KAFKA_LISTENERS"].split(","))
    advertised = dict(entry.split("://") for entry in environment["KAFKA_ADVERTISED_LISTENERS"].split(","))
    (published,) = services["kafka"]["ports"]
    host, inside = published.rsplit(":", 1)
    assert advertised == {"PLAINTEXT": containers.addresses().kafka, "HOST": host}
    assert listeners["HOST"] == f":{inside}"
    assert listeners["PLAINTEXT"] == f":{settings.PORTS['kafka']}"

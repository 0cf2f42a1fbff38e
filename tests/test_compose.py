"""docker-compose.yml against the Compose Specification, and against the one source of configuration, both ways.

No container engine takes part: what only one can show is listed in docs/cluster.md.
"""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections import Counter
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from jsonschema import Draft202012Validator
from packaging.specifiers import SpecifierSet

from jobs.cluster import settings
from jobs.cluster.cluster import Cluster
from jobs.cluster.s3 import IDENTITIES
from jobs.demo import containers

ROOT = Path(__file__).parents[1]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
# What ends by itself, and what is started by hand: neither has a health.
ONE_SHOT, CLIENT = "folders", "client"
NODES = {f"datanode-{number}": port for number, port in enumerate(containers.DATA_PORTS, 1)}
WORKERS = [f"spark-worker-{number}" for number in range(1, settings.WORKERS + 1)]


class Unrepeated(yaml.SafeLoader):
    """Refuses a key that is given twice, of which YAML's parser would keep the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = Counter(key.value for key, _ in node.value if key.tag[-5:] != "merge")
        twice = [key for key, n in keys.items() if n > 1]
        assert not twice, f"given twice: {twice}, {node.start_mark}"
        return super().construct_mapping(node, deep)


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    document: dict[str, Any] = yaml.load((ROOT / "docker-compose.yml").read_text(), Unrepeated)  # noqa: S506  a SafeLoader
    return document


def test_it_is_what_the_specification_allows(compose: dict[str, Any]) -> None:
    schema = json.loads((Path(__file__).parent / "fixtures" / "compose-spec.json").read_text())
    assert [f"{e.json_path}: {e.message}" for e in Draft202012Validator(schema).iter_errors(compose)] == []


def test_services_are_what_the_settings_say(compose: dict[str, Any], tmp_path: Path) -> None:
    services, master = compose["services"], containers.addresses().spark_master
    assert set(services) == {*Cluster(tmp_path).servers.by_name(), "s3", ONE_SHOT, CLIENT}
    kinds = {**dict.fromkeys(("namenode", ONE_SHOT, *NODES), "hadoop"), "metastore": "hive", "hiveserver2": "hive"}
    kinds |= {"kafka": "kafka", "s3": "s3", "spark-master": "spark"}
    assert {name: services[name]["image"] for name in kinds} == {name: containers.IMAGES[kinds[name]] for name in kinds}
    built = {**dict.fromkeys(WORKERS, "worker"), CLIENT: CLIENT}
    for name, target in built.items():
        assert services[name]["build"] == {"context": ".", "target": target}
        assert services[name]["image"].endswith(f":{containers.SPARK_VERSION}")
    for name, service in services.items():
        assert service.get("hostname", name) == name
        # All act in HDFS as one user.
        assert service.get("environment", {}).get("HADOOP_USER_NAME", containers.SUPERUSER) == containers.SUPERUSER
    for name, port in NODES.items():
        assert {f"-Ddfs.datanode.hostname={name}", f"-Ddfs.datanode.address=0.0.0.0:{port}"} < {
            *services[name]["command"]
        }
    for name in WORKERS:
        offer = ["--cores", str(settings.WORKER_CORES), "--memory", settings.WORKER_MEMORY]
        assert " ".join(offer) in " ".join(services[name]["command"])
        assert services[name]["command"][-1] == services[CLIENT]["environment"]["HIVESINK_MASTER"] == master
    assert services[ONE_SHOT]["command"] == [containers.make_folders()]
    assert services["s3"]["command"][2:] == [f"-s3.port={settings.PORTS['s3']}", f"-s3.config={containers.S3_KEYS}"]
    for name in ("metastore", "hiveserver2"):
        assert containers.hive_environment().items() <= services[name]["environment"].items()
    assert services["kafka"]["environment"] == containers.kafka_environment()
    assert services["spark-master"]["environment"] == {"SPARK_MASTER_OPTS": containers.spark_master_options()}
    published = {name: (*service["ports"],) for name, service in services.items() if "ports" in service}
    assert published == containers.published()
    assert all(port.startswith("127.0.0.1:") for ports in published.values() for port in ports)
    volumes = {volume.partition(":")[0] for service in services.values() for volume in service.get("volumes", ())}
    assert set(compose["volumes"]) == volumes
    # `up --wait` takes the end of a container for a failure unless somebody waits for just that.
    conditions = [on for one in services.values() for on in one.get("depends_on", {}).items()]
    ended = {ONE_SHOT: "service_completed_successfully"}
    assert all(on["condition"] == ended.get(other, "service_healthy") for other, on in conditions)


def test_every_server_has_a_health_that_looks_at_its_own_port(compose: dict[str, Any]) -> None:
    services = compose["services"]
    assert {name for name, service in services.items() if "healthcheck" in service} == {*services} - {ONE_SHOT, CLIENT}
    for service in services.values():
        health = service.get("healthcheck", {"test": [], "interval": 0, "timeout": 0, "retries": 0})
        assert health.keys() == {"test", "interval", "timeout", "retries"}
        test = " ".join(health["test"])
        # dash, which is `sh` in most of these images, has no /dev/tcp.
        assert "/dev/tcp" not in test or test.startswith("CMD bash -c ")
        inside = re.findall(r"/dev/tcp/[^/]+/(\d+)", test)
        assert inside in ([], [port.rpartition(":")[2] for port in service.get("ports", ())])


def test_configs_are_the_settings(compose: dict[str, Any]) -> None:
    contents = {name: config["content"] for name, config in compose["configs"].items()}
    assert json.loads(contents["s3-identities"]) == IDENTITIES
    sites = {name: _properties(content) for name, content in contents.items() if name != "s3-identities"}
    assert sites == containers.sites()
    assert [name for name, content in contents.items() if "$" in content] == []
    used = {config["source"] for service in compose["services"].values() for config in service.get("configs", ())}
    assert used == set(contents)


def _properties(site: str) -> dict[str, str]:
    names = [(entry.findtext("name") or "", entry.findtext("value") or "") for entry in ET.fromstring(site)]  # noqa: S314
    assert len(dict(names)) == len(names), f"a property is given twice in {site}"
    return dict(names)


def test_versions_are_those_of_the_lock() -> None:
    locked = (ROOT / "requirements.lock").read_text()
    stages = re.findall(r"^FROM (\S+) AS (\S+)$", DOCKERFILE, re.MULTILINE)
    assert stages == [(containers.IMAGES["spark"], "worker"), ("worker", "client")]
    assert re.findall(r"pyspark==([\d.]+)", DOCKERFILE) == [containers.SPARK_VERSION]
    line = re.findall(r"^pyspark==(\d+\.\d+)", locked, re.MULTILINE)
    assert line == [".".join(containers.SPARK_VERSION.split(".")[:2])]
    python = re.findall(r"^# Exact versions of everything for Python (\S+)", locked)
    assert [version.rpartition(".")[0] for version in re.findall(r"--python (\d\S+)", DOCKERFILE)] == python


def test_what_is_copied_into_images_is_there_and_not_ignored() -> None:
    copied = {line.split()[1] for line in DOCKERFILE.splitlines() if line.startswith("COPY ")}
    ignore = (ROOT / ".dockerignore").read_text().split()
    assert ignore[0] == "*"
    assert {name.removeprefix("!") for name in ignore if name.startswith("!")} == copied
    assert [name for name in copied if not (ROOT / name).exists()] == []


def test_clients_find_every_server_and_the_broker(compose: dict[str, Any]) -> None:
    addresses, services = containers.addresses(), compose["services"]
    for name, address in asdict(addresses).items():
        place = urlsplit(address if "://" in str(address) else f"//{address}")
        assert name == "conf" or (place.hostname in services and place.port == settings.PORTS[str(place.hostname)])
    # 9864 and 9867 are the defaults of a datanode's HTTP and its RPC: hdfs-default.xml.
    assert not {9864, 9867} & {*containers.DATA_PORTS}
    assert len(set(containers.DATA_PORTS)) == settings.DATANODES
    environment = services["kafka"]["environment"]
    listeners, advertised = (
        dict(entry.split("://") for entry in environment[f"KAFKA_{kind}LISTENERS"].split(","))
        for kind in ("", "ADVERTISED_")
    )
    (published,) = services["kafka"]["ports"]
    host, inside = published.rsplit(":", 1)
    assert advertised == {"PLAINTEXT": addresses.kafka, "HOST": host}
    assert (listeners["HOST"], listeners["PLAINTEXT"]) == (f":{inside}", f":{settings.PORTS['kafka']}")


LOCK = Path(__file__).parents[1] / "requirements.lock"
OLDEST = "3.11.2"
"""Debian 12's."""


def test_all_that_is_locked_installs_on_debians_python() -> None:
    pinned = re.findall(r"^([\w.-]+)==(\S+)", LOCK.read_text(), re.MULTILINE)
    too_new = {}
    for name, version in pinned:
        try:
            found = metadata(name)
        except PackageNotFoundError:
            # Of another platform or Python than this one.
            continue
        if found["Version"] == version and not SpecifierSet(found["Requires-Python"] or "").contains(OLDEST):
            too_new[name] = found["Requires-Python"]
    assert len(pinned) > 50
    assert too_new == {}

"""The same cluster in containers: the content of `docker-compose.yml`, and the servers' addresses in its network.

The file is written by hand, for people, and `tests/test_compose.py` holds it to this module. It adds to `settings.py`
only what depends on containers: host names, folders in images, and the images themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from hivesink.embedded.metastore import derby_site
from jobs.cluster import settings
from jobs.cluster.cluster import Addresses
from jobs.cluster.kafka import BROKER, CLUSTER_ID
from jobs.cluster.s3 import KEYS
from jobs.cluster.s3 import site as s3_site

# The nearest image to the PySpark in requirements.lock, which has none; the Python beside it is the same version.
SPARK_VERSION = "4.2.0"

# By digest where several public projects pin the same one, else by full version.
IMAGES: Mapping[str, str] = MappingProxyType(
    {
        "hadoop": f"apache/hadoop:{settings.HADOOP_VERSION}",
        "hive": f"apache/hive:{settings.HIVE_VERSION}"
        "@sha256:5194161ef50b80875f937dff04936df047cbe894e9727ab8f0606349345b1bd3",
        "kafka": f"apache/kafka:{settings.KAFKA_VERSION}"
        "@sha256:77e3df9054047a88b520d0cc46e16696d3b22022e1d580aeccd2632df6532837",
        "s3": "chrislusf/seaweedfs:4.48",
        "spark": f"apache/spark:{SPARK_VERSION}-scala2.13-java17-python3-ubuntu",
    }
)

# The user of Hadoop's image, and so the superuser of HDFS. All other servers act as this user too, as they do when
# all are processes of one person.
SUPERUSER = "hadoop"

FILESYSTEM = f"hdfs://namenode:{settings.PORTS['namenode']}"
S3 = f"http://s3:{settings.PORTS['s3']}"
METASTORE = f"thrift://metastore:{settings.PORTS['metastore']}"

# One for each DataNode, the same inside and outside, since all clients are given the same name and port.
# The first is the usual one; the number after it is a DataNode's own RPC port.
DATA_PORTS = tuple(9866 + 10 * number for number in range(settings.DATANODES))
# Kafka's answer depends on the port that a client uses: clients on the host need a port of their own.
KAFKA_HOST_PORT = 29092
CONTROLLER_PORT = 9093

CONF = Path("/etc/hivesink")
# Folders that belong to the image's user, as then a new volume there does.
HADOOP_DATA = "/data"
HIVE_DATA = "/opt/hive/data/warehouse"
S3_KEYS = "/etc/seaweedfs/identities.json"
KAFKA_DATA = "/var/lib/kafka/data"
SPARK_DATA = "/opt/spark/work-dir"


def addresses() -> Addresses:
    """Return the servers' addresses for a container of the same network."""
    return Addresses(
        filesystem=FILESYSTEM,
        warehouse=FILESYSTEM + settings.WAREHOUSE,
        metastore_uri=METASTORE,
        hiveserver2=f"hiveserver2:{settings.PORTS['hiveserver2']}",
        kafka=f"kafka:{settings.PORTS['kafka']}",
        spark_master=f"spark://spark-master:{settings.PORTS['spark-master']}",
        conf=CONF,
        s3=S3,
    )


def sites() -> dict[str, dict[str, str]]:
    """Return the properties of each config of the compose file, by its name."""
    return {
        "core-site": {**settings.core_site(FILESYSTEM, SUPERUSER), **s3_site(S3)},
        "hdfs-site": {
            **settings.hdfs_site(),
            # Names reach a DataNode from the host too, and after a restart with another address.
            "dfs.client.use.datanode.hostname": "true",
            "dfs.datanode.data.dir": f"file://{HADOOP_DATA}/blocks",
            "dfs.namenode.name.dir": f"file://{HADOOP_DATA}/names",
            "dfs.namenode.rpc-bind-host": "0.0.0.0",  # noqa: S104 - of the container; published on the loopback
        },
        "hive-site": settings.hive_site(METASTORE, FILESYSTEM),
        "metastore-site": {
            **settings.metastore_site(FILESYSTEM),
            **derby_site(Path(HIVE_DATA)),
            "metastore.thrift.port": str(settings.PORTS["metastore"]),
            "metastore.thrift.uris": METASTORE,
        },
        "hiveserver2-site": {
            **settings.hiveserver2_site(METASTORE, FILESYSTEM),
            "hive.server2.thrift.port": str(settings.PORTS["hiveserver2"]),
        },
        "mapred-site": settings.mapred_site(),
    }


def kafka_environment() -> dict[str, str]:
    """Return the broker's properties as the image takes them: `log.dirs` is KAFKA_LOG_DIRS."""
    inside, outside = settings.PORTS["kafka"], KAFKA_HOST_PORT
    protocols = BROKER["listener.security.protocol.map"]
    properties = {
        **BROKER,
        "listeners": f"PLAINTEXT://:{inside},HOST://:{outside},CONTROLLER://localhost:{CONTROLLER_PORT}",
        "advertised.listeners": f"PLAINTEXT://kafka:{inside},HOST://127.0.0.1:{inside}",
        "listener.security.protocol.map": f"{protocols},HOST:PLAINTEXT",
        "controller.quorum.voters": f"{BROKER['node.id']}@localhost:{CONTROLLER_PORT}",
        "log.dirs": KAFKA_DATA,
    }
    variables = {f"KAFKA_{name.upper().replace('.', '_')}": value for name, value in properties.items()}
    return {"CLUSTER_ID": CLUSTER_ID, **variables}


def hive_environment() -> dict[str, str]:
    """Return what Hive's servers need for S3, as the image takes it: Hadoop's own jars for it, and the keys.

    HiveServer2 hides the keys of core-site.xml from its own queries.
    """
    keys = {"AWS_ACCESS_KEY_ID": KEYS["key"], "AWS_SECRET_ACCESS_KEY": KEYS["secret"]}
    return {"HADOOP_OPTIONAL_TOOLS": "hadoop-aws", **keys}


def make_folders() -> str:
    """Return the command that makes the folders of HDFS, with their permissions."""
    by_permission: dict[int, list[str]] = {}
    for folder, permission in settings.FOLDERS.items():
        by_permission.setdefault(permission, []).append(folder)
    changes = (f"hdfs dfs -chmod {mode:o} {' '.join(folders)}" for mode, folders in by_permission.items())
    return " && ".join([f"hdfs dfs -mkdir -p {' '.join(settings.FOLDERS)}", *changes])


def spark_master_options() -> str:
    """Return SPARK_MASTER_OPTS: the master's properties as Java options."""
    properties = {**settings.spark_master(), "spark.deploy.recoveryDirectory": f"{SPARK_DATA}/recovery"}
    return " ".join(f"-D{name}={value}" for name, value in properties.items())


def published() -> dict[str, tuple[str, ...]]:
    """Return what each service publishes, as `address:port of the host:port of the container`; all on the loopback."""
    pairs = {name: (port, port) for name, port in settings.PORTS.items()}
    pairs["kafka"] = (settings.PORTS["kafka"], KAFKA_HOST_PORT)
    pairs |= {f"datanode-{number}": (port, port) for number, port in enumerate(DATA_PORTS, 1)}
    return {name: (f"127.0.0.1:{host}:{container}",) for name, (host, container) in pairs.items()}

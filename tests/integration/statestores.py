"""Spark's state stores, and the forms in which they keep a checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_PACKAGE = "org.apache.spark.sql.execution.streaming.state"
_CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
_ROCKSDB = {_PROVIDER: f"{_PACKAGE}.RocksDBStateStoreProvider", _CHANGELOG: "false"}
_FORMAT_2 = {"spark.sql.streaming.stateStore.checkpointFormatVersion": "2"}

STORES: Mapping[str, Mapping[str, str]] = {
    "files": {_PROVIDER: f"{_PACKAGE}.HDFSBackedStateStoreProvider"},
    "rocksdb": _ROCKSDB,
    "rocksdb-changelog": {**_ROCKSDB, _CHANGELOG: "true"},
    "rocksdb-format-2": {**_ROCKSDB, **_FORMAT_2},
    "rocksdb-changelog-format-2": {**_ROCKSDB, _CHANGELOG: "true", **_FORMAT_2},
}
"""Spark 4 has format 2, for RocksDB only; Spark 3.5 passes over the setting."""

"""A stage for each test, on the servers that all share."""

from __future__ import annotations

import re
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hivesink.embedded.metastore import EmbeddedMetastore
from tests.integration.stage import Stage, Topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LONGEST = 90


def own_name(request: pytest.FixtureRequest) -> str:
    name = re.sub(r"\W+", "_", request.node.name).strip("_").lower()
    # Hive's limit is 128, and `__rejected` comes on top.
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 9]}_{zlib.crc32(name.encode()):08x}"


@pytest.fixture
def stage(request: pytest.FixtureRequest, tmp_path: Path, metastore: EmbeddedMetastore, spark: SparkSession) -> Stage:
    """A table's name of the test's own, and its folder; `create` makes the table. A module may have `OPTIONS`."""
    options = getattr(request.module, "OPTIONS", {})
    return Stage(spark, metastore.uri, tmp_path, f"stage.{own_name(request)}", options)


@pytest.fixture
def topic(request: pytest.FixtureRequest, kafka: str) -> Topic:
    """A topic of two partitions."""
    return Topic.create(kafka, own_name(request))

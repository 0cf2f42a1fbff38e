from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hivesink.embedded.process import port_is_free
from tests.embedded.thriftserver import EmbeddedThriftServer

if TYPE_CHECKING:
    from pathlib import Path

    from hivesink.embedded.metastore import EmbeddedMetastore

pytestmark = pytest.mark.spark


def test_it_is_gone_after_its_block(metastore: EmbeddedMetastore, tmp_path: Path) -> None:
    with EmbeddedThriftServer(tmp_path, metastore.uri, metastore.warehouse) as server:
        port = server.port
        assert port is not None
        assert not port_is_free(port)
    assert port_is_free(port)

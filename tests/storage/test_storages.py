"""Locations by their text, and storages that no adapter knows."""

from __future__ import annotations

import pytest

from hivesink.config.site import NO_SITE
from hivesink.core.partition import file_system_of, scheme, with_scheme
from hivesink.errors import InvalidOption
from hivesink.logs import storage_of


@pytest.mark.parametrize(
    ("location", "before", "kind"),
    [
        ("/w/t", "", "file"),
        ("file:/w/t", "file:", "file"),
        ("file:///w/t", "file://", "file"),
        ("hdfs:/w/t", "hdfs:", "hdfs"),
        ("hdfs:///w/t", "hdfs://", "hdfs"),
        ("hdfs://ns:8020/w/t", "hdfs://ns:8020", "hdfs"),
        ("s3a://bucket/t", "s3a://bucket", "s3a"),
        ("w/t", "", ""),
        ("file:w/t", "file:", ""),
        ("hdfs:w/t", "hdfs:", ""),
    ],
)
def test_the_parts_of_a_location(location: str, before: str, kind: str) -> None:
    assert (file_system_of(location), scheme(location)) == (before, kind)
    assert with_scheme(location) == ("file:/w/t" if location == "/w/t" else location)


def test_a_storage_without_an_adapter_is_refused() -> None:
    with pytest.raises(InvalidOption, match=r"s3a://b/t: hivesink supports only HDFS .* and local file systems"):
        storage_of("s3a://b/t", NO_SITE)

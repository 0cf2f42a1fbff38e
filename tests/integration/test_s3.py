"""The docs' commands for S3 on a real server: table, log and checkpoint are on `s3a://`.

tests/crash/test_every_step_on_servers.py has deaths at each step on S3, tests/jobs/test_demo.py a job that is killed.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hivesink.embedded.metastore import stop
from tests.docs.pages import ROOT, block, shell

if TYPE_CHECKING:
    from jobs.cluster.s3 import S3Server


@pytest.mark.spark
def test_the_docs_from_an_empty_bucket_to_an_answer(s3: S3Server, tmp_path: Path) -> None:
    text = block("docs/sites.md", "fs.s3a.endpoint").text
    assert "http://127.0.0.1:8333" in text
    s3.make_bucket("demo")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {"HIVESINK_HOME": str(tmp_path / "home"), "PATH": path, "PYTHONPATH": str(ROOT)}
    script = f"{text.replace('http://127.0.0.1:8333', s3.endpoint)}\nhivesink verify demo.events\n"
    try:
        said = shell(tmp_path, script, environment).stdout
    finally:
        stop(tmp_path / "home")
    assert re.search(r"\b1\b.*2024-01-03", said), said
    assert "demo.events: no errors" in said
    keys = [found["Key"] for found in s3.client().list_objects_v2(Bucket="demo")["Contents"]]
    assert {key.partition("/")[0] for key in keys} >= {"events", "checkpoints"}

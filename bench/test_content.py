from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyarrow import parquet

from bench.content import differences, land
from bench.ground import DATABASE, Ground
from bench.records import all_due, chunks
from bench.workloads import WORKLOADS

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 2_000


@pytest.mark.parametrize("name", ["narrow", "wide", "flights", "many-partitions", "dirty"])
def test_rows_written_from_memory_pass_the_check_and_missing_ones_do_not(tmp_path: Path, name: str) -> None:
    workload = WORKLOADS[name]
    # No contender that registers: nobody calls this metastore.
    ground = Ground("thrift://127.0.0.1:1", tmp_path.as_uri(), (tmp_path / "checkpoints").as_uri())
    folder = tmp_path / f"{DATABASE}.db" / "t"
    for chunk in chunks(workload, ROWS):
        parquet.write_to_dataset(chunk.rows, folder, partition_cols=[workload.partition.column])
    due = all_due(workload, ROWS)
    landed = land(ground, "t", workload, registered=False)
    files = sorted(folder.rglob("*.parquet"))
    assert differences(landed.figures, due) == []
    assert (landed.files, landed.bytes) == (len(files), sum(file.stat().st_size for file in files))
    # A hidden file is none of readers' business; one that is gone is missed.
    files[0].rename(files[0].with_name(".hidden"))
    fewer = differences(land(ground, "t", workload, registered=False).figures, due)
    assert any(found.startswith("rows is ") for found in fewer)
    assert len(fewer) > len(workload.columns)

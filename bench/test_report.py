from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from bench.cases import CASES, chosen
from bench.ground import Ground
from bench.report import Run, Series, fingerprint, markdown, ratios

OWN = Run("narrow", 0, "hivesink", 1_000, 10.0, [700, 800], {"write": 900}, 5.0, 9.0, 400, 200, 8, 900)
PEER = replace(OWN, contender="spark-sink", seconds=20.0, cpu=10.0, task_peak=800, bytes=1_000)
FLOOR = replace(OWN, contender="noop", seconds=5.0, cpu=2.5, files=0, bytes=0)
NARROW, EPOCHS = CASES["narrow"], CASES["small-epochs"]


def test_a_ratio_is_hivesinks_figure_divided_by_the_peers() -> None:
    assert [str(one) for one in ratios(NARROW, [OWN, PEER, FLOOR])] == [
        "ratio narrow rows_per_s spark-sink 2.000",
        "ratio narrow rows_per_s noop 0.500",
        "ratio narrow cpu_s_per_mrow spark-sink 0.500",
        "ratio narrow cpu_s_per_mrow noop 2.000",
        # A floor writes no files.
        "ratio narrow bytes spark-sink 0.900",
        "ratio narrow task_rss_mb spark-sink 0.250",
        "ratio narrow task_rss_mb noop 1.000",
    ]


def test_ratios_are_of_runs_beside_each_other() -> None:
    # The second round was slow for both, the third for one; medians of each alone would say 2.
    own = [replace(OWN, round=n, seconds=seconds) for n, seconds in enumerate((10.0, 40.0, 10.0))]
    peer = [replace(PEER, round=n, seconds=seconds) for n, seconds in enumerate((15.0, 60.0, 20.0))]
    found = ratios(NARROW, [*own, *peer])[0]
    assert (found.value, found.rounds) == (1.5, [1.5, 1.5, 2.0])
    # A round in which only one of them has run says nothing.
    assert ratios(NARROW, [*own, *peer[:1]])[0].rounds == [1.5]


def test_epochs_count_once_the_query_has_settled() -> None:
    own = replace(OWN, case="small-epochs", batch_ms=[9_000] * 5 + [100, 200, 300])
    peer = replace(own, contender="spark-sink", batch_ms=[9_000] * 5 + [400, 400, 1_000])
    assert [str(one) for one in ratios(EPOCHS, [own, peer])] == [
        "ratio small-epochs epoch_ms spark-sink 0.500",
        "ratio small-epochs cpu_s_per_mrow spark-sink 1.000",
    ]
    assert "| hivesink | 200 | 200 | 300 |" in markdown(EPOCHS, [own, peer])


def test_the_table_has_the_ratio_first_and_every_contender() -> None:
    text = markdown(NARROW, [OWN, PEER, FLOOR])
    assert text.index("| spark-sink | **2.00** | **0.50** | **0.90** | **0.25** |") < text.index("| hivesink | 100 |")
    assert "| noop | 200 | 0k | 2500.00 | 9000.00 | 0 | 0 |  |  |" in text


def test_workloads_sizes_and_peers_can_be_chosen() -> None:
    narrow, epochs = chosen(["narrow", "small-epochs"], rows=5_000, epochs=7, peers=["flink-hive"])
    assert (narrow.rows, narrow.contenders) == (5_000, ("hivesink", "flink-hive"))
    assert (epochs.rows, epochs.batches, epochs.contenders) == (7_000, 7, ("hivesink",))
    with pytest.raises(SystemExit, match=r"no such workload: narow; there are narrow, wide, "):
        chosen(["narow"])
    with pytest.raises(SystemExit, match=re.escape("no such peer: flink; there are arrow, ")):
        chosen(["narrow"], peers=["flink"])


TOLD = {"rounds": 2, "code": "a"}
CASE = replace(CASES["narrow"], contenders=("hivesink", "spark-sink"))
RUN = Run("narrow", 0, "hivesink", 10, 1.5, [700, 800], {"write": 900}, 2.0, 3.0, 100, 50, 8, 1_000)


def test_a_start_with_the_same_arguments_and_code_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "data" / "runs"
    first = Series(path, TOLD)
    assert first.missing(CASE, 2) == [(0, "hivesink"), (0, "spark-sink"), (1, "spark-sink"), (1, "hivesink")]
    first.add(RUN)
    with path.open("a") as file:
        file.write('{"case": "narrow", "rou')
    again = Series(path, TOLD)
    assert again.runs == [RUN]
    assert again.missing(CASE, 2) == [(0, "spark-sink"), (1, "spark-sink"), (1, "hivesink")]
    # The earlier runs are gone for good, not mixed in again.
    assert Series(path, {**TOLD, "code": "b"}).runs == []
    assert Series(path, TOLD).runs == []


def test_any_change_of_code_is_another_fingerprint(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    before = fingerprint([tmp_path])
    (tmp_path / "notes.txt").write_text("no code\n")
    assert fingerprint([tmp_path]) == before
    (tmp_path / "a.py").write_text("x = 2\n")
    assert fingerprint([tmp_path]) != before


def test_requests_are_what_either_store_has_counted(tmp_path: Path) -> None:
    page = tmp_path / "page"
    ground = Ground("thrift://x:1", "s3a://bench", "s3a://bench/c", counter=page.as_uri())
    counts = (
        "# TYPE SeaweedFS_s3_request_total counter",
        *(f'SeaweedFS_s3_request_total{{type="{n}"}} {n}' for n in (7, 1e6)),
    )
    for text, asked in (
        ("\n".join(counts), 1_000_007),
        ('{"RpcProcessingTimeNumOps" : 12,\n"RpcQueueTimeNumOps" : 3}', 12),
    ):
        page.write_text(text)
        assert ground.requests() == asked
    assert replace(ground, counter=None).requests() == 0

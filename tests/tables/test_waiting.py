"""Looks at a partition, on the real metastore and a real log."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from hivesink.embedded.metastore import EmbeddedMetastore
from hivesink.errors import InvalidOption, MetastoreUnreachable, PartitionInvalid
from hivesink.tables.waiting import Look, PartitionWait
from tests.cli.site import alter, hivesink
from tests.tables import daily
from tests.tables.daily import Daily

DAY = "dt=2024-01-02"
DOWN = "thrift://127.0.0.1:1"


@pytest.fixture
def uri(metastore: EmbeddedMetastore) -> str:
    return metastore.uri


@pytest.fixture
def table(uri: str, tmp_path: Path) -> str:
    return daily.create(uri, tmp_path)


@pytest.fixture
def writer(table: str, uri: str) -> Iterator[Daily]:
    with closing(Daily(table, uri)) as opened:
        yield opened


def look(table: str, uri: str, partition: str = DAY, writer: str | None = None) -> Look:
    return PartitionWait(table, partition, writer, uri).look()


def refused(table: str, uri: str, partition: str, told: str) -> None:
    """The wait ends at once, though it would wait for a metastore."""
    with pytest.raises((InvalidOption, PartitionInvalid), match=told):
        PartitionWait(table, partition, metastore=uri, tolerant=True).look()


def test_each_reason_is_news_once(table: str, uri: str) -> None:
    wait = PartitionWait(table, DAY, metastore=uri)
    assert wait.look() == Look(DAY, (), f"no writer has written to {table} yet", is_news=True)
    assert not wait.look().is_news
    # A start that was refused leaves a log without epochs: a writer counts from its first epoch on.
    with closing(Daily(table, uri)) as writer, closing(Daily(table, uri, "refused")):
        writer.read(1, 2, mark=2)
        seen = wait.look()
        assert seen.is_news
        assert str(seen).startswith(
            f"{DAY}: writer ingest: it is over at 2024-01-03 00:00:00 UTC, the watermark is 2024-01-02 00:00:00 UTC"
        )
        writer.read(2, 2, mark=2)
        assert not wait.look().is_news
        writer.read(3, mark=3)
        seen = wait.look()
        assert (seen.waits_for, seen.is_news) == (None, True)
        assert str(seen) == f"{DAY}: committed: revision 1 of writer ingest (3 rows)"


def test_every_writer_counts_unless_one_is_named(table: str, uri: str, writer: Daily) -> None:
    with closing(Daily(table, uri, "other")) as other:
        writer.read(2, mark=3)
        other.read(2, mark=2)
        assert look(table, uri, writer="ingest").waits_for is None
        waits_for = look(table, uri).waits_for or ""
        told = look(table, uri).commits
        assert json.loads(json.dumps(told)) == told, "values that JSON has"
        assert waits_for.startswith("writer other: it is over at ")
        assert waits_for.endswith("; other writers have committed it: name one to wait for it alone")
        other.read(mark=4)
        writer.read(mark=4)
        rows = [(state.writer, state.record and state.record.commit.rows) for state in look(table, uri).states]
        assert rows == [("ingest", 1), ("other", 1)]
        over = look(table, uri, "dt=2024-01-03")
        assert (over.waits_for, str(over)) == (None, "dt=2024-01-03: over: no rows of writer ingest, other")
        assert [one["commit"] for one in over.commits["commits"]] == [None, None]
        assert str(look(table, uri, "dt=2024-01-03", "other")).endswith(": over: no rows of writer other")


def test_a_writer_that_begins_anew_meanwhile_is_waited_for_again(
    table: str, uri: str, writer: Daily, capsys: pytest.CaptureFixture[str]
) -> None:
    writer.read(1, mark=2)
    writer.read(2, mark=2)
    wait = PartitionWait(table, DAY, metastore=uri)
    assert wait.look().waits_for is not None
    writer.read(3, mark=3)
    assert wait.look().waits_for is None
    writer.committer.finish()
    assert hivesink(capsys, "reset", table, "--metastore", uri, "--yes").code == 0
    with closing(Daily(table, uri)) as anew:
        anew.read(1, mark=2)
        assert "the watermark is 2024-01-02 00:00:00 UTC" in (wait.look().waits_for or "")


def test_a_name_that_does_not_fit_or_that_no_time_has_is_refused(uri: str, tmp_path: Path) -> None:
    """Rather than over without rows, also where nobody has written yet."""
    hourly = daily.create(uri, tmp_path, daily.BY_HOUR)
    as_in = f"that {hourly} can have: write it as in day=2024-01-02/hour=3"
    refused(hourly, uri, "day=2024-1-2/hour=3", as_in)
    with closing(Daily(hourly, uri)) as writer:
        writer.read(2, mark=3)
        for partition, told in {
            "day=2024-1-2/hour=3": as_in,
            "day=20240102/hour=3": as_in,
            "day=2024-01-02/hour=24": as_in,
            "day=33-01-02/hour=3": as_in,
            "day=2024-01-02/hour=noon": "expected a whole number",
            "day=2024-01-02": "is no partition of",
            "dt=2024-01-02/hour=3": "is no partition of",
            "2024-01-02": "2024-01-02",
            "day=/hour=3": "day=/hour=3",
        }.items():
            refused(hourly, uri, partition, told)
        # As Hive writes it.
        taken = look(hourly, uri, "DAY=2024-01-02/hour=03")
        assert str(taken) == "day=2024-01-02/hour=3: committed: revision 1 of writer ingest (1 row)"
        assert look(hourly, uri, "day=2024-01-02/hour=4").commits["commits"][0]["commit"] is None


def test_a_name_that_the_pattern_never_makes_is_refused_whatever_commits_the_table(uri: str, tmp_path: Path) -> None:
    by_publish = daily.BY_HOUR.replace("  'sink.partition-commit.trigger'='partition-time',\n", "")
    by_publish = by_publish.replace("(day STRING, hour INT)", "(dt STRING)")
    table = daily.create(uri, tmp_path, by_publish.replace("day=yyyy-MM-dd,hour=HH", "yyyy-MM-dd--HH"))
    with closing(Daily(table, uri)) as writer:
        writer.read(2, mark=3)
        for name in ("dt=2024-01-02", "dt=2024-01-02--24", "dt=foo", "dt=2024-01-02--3"):
            refused(table, uri, name, f"{name}' is no partition that {table} can have: write it as in dt=")
        for awaited in ("dt=2024-01-02--04", "dt=__HIVE_DEFAULT_PARTITION__"):
            assert look(table, uri, awaited).waits_for is not None


def test_columns_beside_the_time_do_not_matter_to_a_partitions_end(
    uri: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = daily.create(uri, tmp_path, daily.BY_BROWSER)
    with closing(Daily(table, uri)) as writer:
        writer.read(2, 3, mark=3)
        writer.read(3, mark=3)
        told = str(look(table, uri, "browser=b0/dt=2024-01-02"))
        assert told == "browser=b0/dt=2024-01-02: committed: revision 1 of writer ingest (1 row)"
        assert "it is over at 2024-01-04 00:00:00 UTC" in str(look(table, uri, "browser=b1/dt=2024-01-03"))
        null = look(table, uri, "browser=__HIVE_DEFAULT_PARTITION__/dt=2024-01-02")
        assert str(null).endswith(": over: no rows of writer ingest")
        for browser in ("b0", "__HIVE_DEFAULT_PARTITION__"):
            told = f"write it as in browser={browser}/dt=2024-01-02"
            refused(table, uri, f"browser={browser}/dt=2024-1-2", told)
    said = hivesink(capsys, "partitions", table, "--json", "--metastore", uri)
    assert (said.code, "browser=b1/dt=2024-01-03" in said.out) == (0, True)


def test_a_metastore_that_is_away_is_waited_for_if_that_is_wanted(table: str, uri: str, writer: Daily) -> None:
    writer.read(2, mark=3)
    with pytest.raises(MetastoreUnreachable):
        look(table, DOWN)
    wait = PartitionWait(table, DAY, metastore=DOWN, tolerant=True)
    seen = wait.look()
    assert (seen.waits_for or "").startswith(f"the metastore at {DOWN} can't answer")
    assert seen.is_news
    wait.metastore = uri
    assert wait.look().waits_for is None


NEVER = "is never committed: no time can be read from its values"


def test_a_partition_that_is_never_committed_is_not_waited_for(table: str, uri: str, tmp_path: Path) -> None:
    refused(table, uri, "dt=oops", f"'dt=oops' {NEVER}")
    by_month = daily.BY_HOUR.replace("(day STRING, hour INT)", "(dt STRING)").replace("day=yyyy-MM-dd,hour=HH", "MM-dd")
    yearless = daily.create(uri, tmp_path / "yearless", by_month)
    refused(yearless, uri, "dt=01-02", r"time-pattern: its values show no year; set .*\.timestamp-pattern")


def test_what_was_committed_stays_so_where_its_time_can_no_longer_be_read(table: str, uri: str) -> None:
    """As after another time pattern: new rows of it are never committed."""
    with closing(Daily(table, uri)) as first:
        first.read(2, 3, mark=3)
        alter(first, {"partition.time-extractor.timestamp-formatter": "yyyyMMdd"})
    with closing(Daily(table, uri)) as job:
        job.read(4, mark=5)
        job.committer.finish()
        assert "committed: revision 1" in str(look(table, uri))
        for other in ("dt=2024-01-03", "dt=2024-01-04"):
            refused(table, uri, other, f"'{other}' {NEVER}")
        job.read(2, mark=6)
        job.committer.finish()
        refused(table, uri, DAY, NEVER)


DELAY = "sink.partition-commit.delay"


def test_a_table_that_is_altered_beside_a_job_is_judged_by_what_the_job_goes_by(table: str, uri: str) -> None:
    """The hour isn't over for the job: rows that come for it now are in time."""
    with closing(Daily(table, uri, options={DELAY: "3d"})) as first:
        alter(first, {DELAY: "3d"})
    with closing(Daily(table, uri)) as job:
        job.read(1, mark=4)
        running = PartitionWait(table, DAY, metastore=uri)
        for _ in range(2):
            for wait in (running, PartitionWait(table, DAY, metastore=uri)):
                assert "it is over at 2024-01-05 00:00:00 UTC" in (wait.look().waits_for or "")
            alter(job, {DELAY: "1d"})
        job.read(2, mark=5)
        assert str(running.look()) == f"{DAY}: committed: revision 1 of writer ingest (1 row)"

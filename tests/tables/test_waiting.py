"""Looks at a partition, on the real metastore and a real log."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from hivesink.errors import InvalidOption, MetastoreUnreachable
from hivesink.tables.waiting import Look, PartitionWait
from tests.cli.site import alter, hivesink
from tests.tables import daily
from tests.tables.daily import Daily

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hivesink.embedded.metastore import EmbeddedMetastore

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


def test_each_reason_is_news_once(table: str, uri: str) -> None:
    wait = PartitionWait(table, DAY, metastore=uri)
    first = wait.look()
    assert first == Look(DAY, (), f"no writer has written to {table} yet", is_news=True)
    assert not wait.look().is_news
    writer = Daily(table, uri)
    writer.read(1, 2, mark=2)
    look = wait.look()
    assert look.is_news
    assert str(look).startswith(
        f"{DAY}: writer ingest: it is over at 2024-01-03 00:00:00 UTC, the watermark is 2024-01-02 00:00:00 UTC"
    )
    assert not wait.look().is_news
    writer.read(3, mark=3)
    look = wait.look()
    assert (look.waits_for, look.is_news) == (None, True)
    assert str(look) == f"{DAY}: committed: revision 1 of writer ingest (1 row)"
    writer.close()


def test_a_commit_is_told_in_values_that_json_has(table: str, uri: str, writer: Daily) -> None:
    writer.read(2, 2, mark=2)
    writer.read(3, mark=3)
    told = PartitionWait(table, DAY, metastore=uri).look().commits
    assert json.loads(json.dumps(told)) == told
    [state] = told["commits"]
    commit = state.pop("commit")
    assert state == {
        "writer": "ingest",
        "table": table,
        "partition": DAY,
        "complete": True,
        "open_rows": 0,
        "decided_rows": 0,
        "published_rows": 0,
        "waits_for": None,
    }
    assert commit.pop("at")
    assert commit.pop("epoch") > 0
    assert commit == {
        "revision": 1,
        "rows": 2,
        "files": 1,
        "watermark": "2024-01-03T00:00:00+00:00",
        "offsets": [{"kafka": {"t": {"0": 20}}}],
    }


def test_every_writer_counts_unless_one_is_named(table: str, uri: str, writer: Daily) -> None:
    other = Daily(table, uri, "other")
    both, one = PartitionWait(table, DAY, metastore=uri), PartitionWait(table, DAY, "ingest", uri)
    writer.read(2, mark=3)
    other.read(2, mark=2)
    assert one.look().waits_for is None
    look = both.look()
    assert look.waits_for is not None
    assert look.waits_for.startswith("writer other: it is over at ")
    assert look.waits_for.endswith("; other writers have committed it: name one to wait for it alone")
    other.read(mark=3)
    assert [(state.writer, state.record and state.record.commit.rows) for state in both.look().states] == [
        ("ingest", 1),
        ("other", 1),
    ]
    other.close()


def test_a_day_that_is_over_has_no_rows_and_is_complete(table: str, uri: str, writer: Daily) -> None:
    writer.read(1, 4, mark=4)
    look = PartitionWait(table, DAY, metastore=uri).look()
    assert (look.waits_for, str(look)) == (None, f"{DAY}: over: no rows of writer ingest")
    assert [one["commit"] for one in look.commits["commits"]] == [None]


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
    anew = Daily(table, uri)
    anew.read(1, mark=2)
    look = wait.look()
    assert look.waits_for is not None
    assert "the watermark is 2024-01-02 00:00:00 UTC" in look.waits_for
    anew.close()


@pytest.mark.parametrize("partition", ["day=2024-01-02", "dt=2024-01-02/hour=3", "2024-01-02", "dt="])
def test_a_name_that_does_not_fit_is_refused(table: str, uri: str, partition: str) -> None:
    with pytest.raises(InvalidOption):
        PartitionWait(table, partition, metastore=uri, tolerant=True).look()


def test_a_name_is_taken_as_hive_writes_it(uri: str, tmp_path: Path) -> None:
    hourly = daily.create(uri, tmp_path, daily.BY_HOUR)
    writer = Daily(hourly, uri)
    writer.read(2, mark=3)
    look = PartitionWait(hourly, "DAY=2024-01-02/hour=03", metastore=uri).look()
    assert str(look) == "day=2024-01-02/hour=3: committed: revision 1 of writer ingest (1 row)"
    assert PartitionWait(hourly, "day=2024-01-02/hour=4", metastore=uri).look().commits["commits"][0]["commit"] is None
    writer.close()


@pytest.mark.parametrize(
    ("partition", "told"),
    [
        ("day=2024-1-2/hour=3", "that {table} can have: write it as in day=2024-01-02/hour=3"),
        ("day=20240102/hour=3", "that {table} can have: write it as in day=2024-01-02/hour=3"),
        ("day=2024-01-02/hour=24", "that {table} can have: write it as in day=2024-01-02/hour=3"),
        ("day=33-01-02/hour=3", "that {table} can have: write it as in day=2024-01-02/hour=3"),
        ("day=2024-01-02/hour=noon", "expected a whole number"),
    ],
)
def test_a_name_that_no_time_has_is_refused_rather_than_over_without_rows(
    uri: str, tmp_path: Path, partition: str, told: str
) -> None:
    hourly = daily.create(uri, tmp_path, daily.BY_HOUR)
    writer = Daily(hourly, uri)
    writer.read(2, mark=3)
    with pytest.raises(InvalidOption, match=told.format(table=hourly)):
        PartitionWait(hourly, partition, metastore=uri).look()
    writer.close()


@pytest.mark.parametrize("partition", ["dt=2024-01-02", "dt=2024-01-02--24", "dt=foo", "dt=2024-01-02--3"])
def test_a_name_that_the_pattern_never_makes_is_refused_whatever_commits_the_table(
    uri: str, tmp_path: Path, partition: str
) -> None:
    by_publish = daily.BY_HOUR.replace("  'sink.partition-commit.trigger'='partition-time',\n", "")
    by_publish = by_publish.replace("(day STRING, hour INT)", "(dt STRING)")
    table = daily.create(uri, tmp_path, by_publish.replace("day=yyyy-MM-dd,hour=HH", "yyyy-MM-dd--HH"))
    with closing(Daily(table, uri)) as writer:
        writer.read(2, mark=3)
        with pytest.raises(
            InvalidOption, match=f"{partition}' is no partition that {table} can have: write it as in dt="
        ):
            PartitionWait(table, partition, metastore=uri).look()
        for awaited in ("dt=2024-01-02--04", "dt=__HIVE_DEFAULT_PARTITION__"):
            assert PartitionWait(table, awaited, metastore=uri).look().waits_for is not None


def test_columns_beside_the_time_do_not_matter_to_a_partitions_end(
    uri: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = daily.create(uri, tmp_path, daily.BY_BROWSER)
    with closing(Daily(table, uri)) as writer:
        writer.read(2, 3, mark=3)
        writer.read(3, mark=3)
        wait = PartitionWait(table, "browser=b0/dt=2024-01-02", metastore=uri)
        assert str(wait.look()) == "browser=b0/dt=2024-01-02: committed: revision 1 of writer ingest (1 row)"
        told = str(PartitionWait(table, "browser=b1/dt=2024-01-03", metastore=uri).look())
        assert "it is over at 2024-01-04 00:00:00 UTC" in told
        null = PartitionWait(table, "browser=__HIVE_DEFAULT_PARTITION__/dt=2024-01-02", metastore=uri).look()
        assert str(null).endswith(": over: no rows of writer ingest")
        for browser in ("b0", "__HIVE_DEFAULT_PARTITION__"):
            with pytest.raises(InvalidOption, match=f"write it as in browser={browser}/dt=2024-01-02"):
                PartitionWait(table, f"browser={browser}/dt=2024-1-2", metastore=uri).look()
    for command in ("partitions", "status"):
        said = hivesink(capsys, command, table, "--json", "--metastore", uri)
        assert (said.code, "browser=b1/dt=2024-01-03" in said.out) == (0, True)


def test_without_any_writer_a_name_that_can_never_be_committed_is_refused_at_once(
    table: str, uri: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidOption, match="'dt=oops' is never committed: no time can be read from its values"):
        PartitionWait(table, "dt=oops", metastore=uri, tolerant=True).look()
    by_month = daily.BY_HOUR.replace("(day STRING, hour INT)", "(dt STRING)").replace("day=yyyy-MM-dd,hour=HH", "MM-dd")
    yearless = daily.create(uri, tmp_path / "yearless", by_month)
    with pytest.raises(InvalidOption, match=r"time-pattern: its values show no year; set .*\.timestamp-pattern"):
        PartitionWait(yearless, "dt=01-02", metastore=uri, tolerant=True).look()
    hourly = daily.create(uri, tmp_path / "hourly", daily.BY_HOUR)
    with pytest.raises(InvalidOption, match="write it as in day=2024-01-02/hour=3"):
        PartitionWait(hourly, "day=2024-1-2/hour=3", metastore=uri, tolerant=True).look()


def test_a_writer_counts_from_its_first_epoch_on(table: str, uri: str, writer: Daily) -> None:
    """A start that was refused leaves a log without epochs."""
    with closing(Daily(table, uri, "refused")):
        writer.read(2, mark=3)
        assert PartitionWait(table, DAY, metastore=uri).look().waits_for is None


def test_a_metastore_that_is_away_is_waited_for_if_that_is_wanted(table: str, uri: str, writer: Daily) -> None:
    writer.read(2, mark=3)
    with pytest.raises(MetastoreUnreachable):
        PartitionWait(table, DAY, metastore=DOWN).look()
    wait = PartitionWait(table, DAY, metastore=DOWN, tolerant=True)
    look = wait.look()
    assert look.waits_for is not None
    assert look.waits_for.startswith(f"the metastore at {DOWN} can't answer")
    assert look.is_news
    wait.metastore = uri
    assert wait.look().waits_for is None


def test_a_partition_that_is_never_committed_is_not_waited_for(uri: str, tmp_path: Path) -> None:
    ddl = daily.DDL.replace(
        "'sink.partition-commit.delay'='1d'",
        "'sink.partition-commit.delay'='1d',\n  'partition.time-extractor.timestamp-formatter'='yyyyMMdd'",
    )
    table = daily.create(uri, tmp_path, ddl)
    with closing(Daily(table, uri)) as writer:
        writer.read(2, mark=3)
        writer.committer.finish()
        with pytest.raises(InvalidOption, match=f"'{DAY}' is never committed: no time can be read from its values"):
            PartitionWait(table, DAY, metastore=uri).look()


def test_what_was_committed_stays_so_where_its_time_can_no_longer_be_read(table: str, uri: str) -> None:
    """As after another time pattern: new rows of it are never committed."""
    form = {"partition.time-extractor.timestamp-formatter": "yyyyMMdd"}
    with closing(Daily(table, uri)) as first:
        first.read(2, 3, mark=3)
        alter(first, form)
    with closing(Daily(table, uri)) as job:
        job.read(4, mark=5)
        job.committer.finish()
        assert "committed: revision 1" in str(PartitionWait(table, DAY, metastore=uri).look())
        for other in ("dt=2024-01-03", "dt=2024-01-04"):
            with pytest.raises(InvalidOption, match=f"'{other}' is never committed: no time can be read"):
                PartitionWait(table, other, metastore=uri).look()
        job.read(2, mark=6)
        job.committer.finish()
        with pytest.raises(InvalidOption, match="is never committed"):
            PartitionWait(table, DAY, metastore=uri).look()


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
                look = wait.look()
                assert look.waits_for is not None
                assert "it is over at 2024-01-05 00:00:00 UTC" in look.waits_for
            alter(job, {DELAY: "1d"})
        job.read(2, mark=5)
        assert str(running.look()) == f"{DAY}: committed: revision 1 of writer ingest (1 row)"


def test_a_job_that_starts_again_with_other_settings_is_noticed_by_a_wait(table: str, uri: str) -> None:
    wait = PartitionWait(table, DAY, metastore=uri)
    with closing(Daily(table, uri)) as before:
        before.read(1, mark=2)
        assert "it is over at 2024-01-03 00:00:00 UTC" in str(wait.look())
    with closing(Daily(table, uri, batches=1, options={DELAY: "5d"})) as after:
        after.read(1, mark=4)
        assert "it is over at 2024-01-07 00:00:00 UTC" in str(wait.look())
        after.read(2, mark=7)
        assert str(wait.look()) == f"{DAY}: committed: revision 1 of writer ingest (1 row)"


def test_of_several_writers_without_rows_each_is_named(table: str, uri: str, writer: Daily) -> None:
    with closing(Daily(table, uri, "other")) as other:
        writer.read(1, mark=4)
        other.read(1, mark=4)
        assert str(PartitionWait(table, DAY, metastore=uri).look()) == f"{DAY}: over: no rows of writer ingest, other"
        assert str(PartitionWait(table, DAY, "other", uri).look()) == f"{DAY}: over: no rows of writer other"

"""Checkpoints and logs that are lost, old or another's: refused with the ways on, never doubled, never skipped."""

from __future__ import annotations

import json
import re
import shutil
import threading
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException

from hivesink import errors, sources
from hivesink.cli.codes import translate
from tests.cli.site import hivesink
from tests.integration.stage import ON_EPOCH, Stage, Topic, wait_until, wrap

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from hivesink import HiveSink
    from hivesink.core.manifest import Manifest
    from hivesink.sink.commit.committed import Committed

pytestmark = [pytest.mark.spark, pytest.mark.main_path]


@pytest.fixture
def stage(stage: Stage) -> Stage:
    """Where every epoch publishes at once."""
    return replace(stage, options=ON_EPOCH)


def two_epochs(stage: Stage) -> list[int]:
    """Epochs 1 and 2 from two files of ten rows."""
    stage.create()
    for number in range(2):
        stage.put(range(number * 10, number * 10 + 10))
    stage.drain()
    assert stage.ids() == list(range(20))
    return list(range(20))


def one_line(error: BaseException) -> str:
    assert "\n" not in str(error)
    return str(error)


def test_without_its_checkpoint_a_file_source_is_refused_and_its_ways_on_are_named(stage: Stage) -> None:
    rows = two_epochs(stage)
    stage.forget_checkpoint()
    with pytest.raises(errors.ForeignHistory) as refused:
        stage.drain()
    said = one_line(refused.value)
    assert "resume" not in said
    assert "append=2" in said
    assert "move away first, and for good, what was read already" in said
    where = r"checkpoint file:/\S+ \(a relative path is looked for in the folder where the job runs\)"
    assert re.search(
        rf"{where} isn't the one that its newest batch came from; to go on: start the job with that one", said
    )
    assert stage.ids() == rows


def test_a_file_source_refuses_resume_by_name(stage: Stage) -> None:
    rows = two_epochs(stage)
    stage.forget_checkpoint()
    with pytest.raises(errors.ResumeImpossible) as refused:
        stage.drain(stage.sink(resume=True))
    assert "append=2" in one_line(refused.value)
    assert stage.ids() == rows


def test_append_works_once_and_is_refused_when_it_is_left_in_the_job(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    stage = replace(stage, options={})
    rows = two_epochs(stage)
    stage.forget_checkpoint()
    with pytest.raises(errors.ForeignHistory) as refused:
        stage.drain()
    assert "start with HiveSink.for_table(…, append=2) (your decision" in one_line(refused.value)
    (status,) = hivesink(capsys, "status", stage.table, "--metastore", stage.uri, "--json").data["writers"]
    assert (status["epoch"], status["kind"], status["last_batch"]["epoch"]) == (3, "roll", 2)
    for number in range(2):
        (stage.source / f"{number:04d}.json").unlink()
    stage.put(range(20, 30), "new.json")
    stage.drain(stage.sink(append=2))
    # With its new checkpoint the job goes on as it is, `append` and all.
    stage.put(range(30, 35), "newer.json")
    stage.drain(stage.sink(append=2))
    rows = [*rows, *range(20, 35)]
    assert stage.ids() == rows
    stage.forget_checkpoint()
    # Epochs 3 and 5 were rolls, and 4 the first batch that was appended.
    with pytest.raises(errors.ForeignHistory, match="append=6"):
        stage.drain(stage.sink(append=2))
    assert stage.ids() == rows


@pytest.mark.kafka
def test_over_kafka_resume_goes_on_where_the_log_ends_with_a_new_partition_too(stage: Stage, topic: Topic) -> None:
    stage.create()
    topic.put(range(40))
    stage.drain(events=topic.stream(stage.spark, maxOffsetsPerTrigger="15"))
    stage.forget_checkpoint()
    topic.grow(3)
    topic.put(range(40, 70), partitions=3)
    with pytest.raises(errors.ForeignHistory) as refused:
        stage.drain(events=topic.stream(stage.spark))
    assert '"0": 20' in one_line(refused.value)
    assert not stage.checkpoint.exists()
    with pytest.raises(errors.InvalidOption, match=f"resume without {topic.name}, .* append=3 beside resume"):
        Topic.create(topic.servers, f"{topic.name}-other").stream(stage.spark, resume=stage.sink(resume=True))
    # Without the sink's help the query begins at the topic's first record.
    without = stage.sink(resume=True)
    with pytest.raises(errors.OffsetsDontChain, match="new checkpoint"):
        stage.drain(without, topic.stream(stage.spark))
    sink = stage.sink(resume=True)
    with pytest.raises(errors.CheckpointLeftOver):
        stage.drain(sink, topic.stream(stage.spark, resume=sink))
    stage.forget_checkpoint()
    stage.drain(sink, topic.stream(stage.spark, resume=sink))
    assert stage.ids() == list(range(70))
    topic.put(range(70, 75), partitions=3)
    # `resume` left in the job: the new checkpoint decides, and a second loss is just as harmless.
    stage.drain(sink, topic.stream(stage.spark, resume=sink))
    stage.forget_checkpoint()
    topic.put(range(75, 80), partitions=3)
    sink = stage.sink(resume=True)
    stage.drain(sink, topic.stream(stage.spark, resume=sink))
    assert stage.ids() == list(range(80))
    # A topic that is left out is no server that is away.
    other = Topic.create(topic.servers, f"{topic.name}-third")
    with pytest.raises(StreamingQueryException) as left_out:
        stage.drain(sink, other.stream(stage.spark))
    told, code = translate(left_out.value, Path("job.py"))
    assert code == 65
    assert re.search(rf'see "Records that Kafka no longer has" in .*\. Spark says: .*\b{topic.name}-\d', str(told))
    # What a query remembers of its rows is in the checkpoint alone.
    stage.forget_checkpoint()
    topic.put(range(80, 85), partitions=3)
    with pytest.raises(errors.StateLost) as lost:
        stage.drain(sink, topic.stream(stage.spark, resume=sink).dropDuplicates(["value"]))
    (epoch,) = re.findall(r"append=(\d+)", one_line(lost.value))
    allowed = stage.sink(resume=True, append=int(epoch))
    stage.drain(allowed, topic.stream(stage.spark, resume=allowed).dropDuplicates(["value"]))
    assert stage.ids() == list(range(85))


@pytest.mark.kafka
def test_over_kafka_a_topic_that_was_made_again_is_refused_and_read_whole_as_the_error_says(
    stage: Stage, topic: Topic
) -> None:
    stage.create()
    topic.put(range(6))
    stage.drain(events=topic.stream(stage.spark, maxOffsetsPerTrigger="4"))
    topic.put(range(6, 10))
    stage.drain(events=topic.stream(stage.spark))
    topic.remake()
    topic.put(range(100, 110))
    # As many records as were read of the old one: Spark would find nothing new.
    with pytest.raises(errors.TopicRemade) as refused:
        stage.drain(events=topic.stream(stage.spark))
    topic.put(range(110, 120))
    for allowed in ({}, {"append": 3}):
        with pytest.raises(errors.TopicRemade):
            stage.drain(stage.sink(**allowed), topic.stream(stage.spark))
    assert translate(refused.value, Path("job.py"))[1] == 65
    what, way = one_line(refused.value).split(" To go on: ")
    assert re.search(rf'^topic {topic.name} was deleted .* at epoch 3 and ends at .*"0": 5, "1": 5', what)
    assert "once with a new checkpoint and HiveSink.for_table(…, append=3), without `resume`" in way
    old = stage.copy_checkpoint()
    stage.forget_checkpoint()
    with pytest.raises(errors.TopicRemade):
        topic.stream(stage.spark, resume=stage.sink(resume=True))
    # The same place, named by the job itself.
    ends = json.dumps({topic.name: {"0": 5, "1": 5}})
    with pytest.raises(errors.TopicRemade):
        stage.drain(stage.sink(resume=True), topic.stream(stage.spark, startingOffsets=ends))
    assert stage.ids() == list(range(10))
    stage.drain(stage.sink(append=3), topic.stream(stage.spark))
    assert stage.staged() == []
    newest = stage.checkpoint.rename(stage.folder / "newest")
    old.rename(stage.checkpoint)
    for settings in ({}, {"append": 4}, {"resume": True}):
        with pytest.raises(errors.CheckpointOutdated):
            stage.drain(stage.sink(**settings), topic.stream(stage.spark))
    stage.restore_checkpoint(newest)
    topic.remake()
    topic.put(range(200, 240))
    # Another writer's name, or a log that was lost, doesn't change whose offsets the checkpoint has: it says so itself.
    options = {"kafka.bootstrap.servers": topic.servers, "subscribe": topic.name}
    own = stage.spark.readStream.format("kafka").options(**options).load()
    for events in (topic.stream(stage.spark), own):
        with pytest.raises(errors.TopicRemade):
            stage.drain(stage.sink(writer="other", append=0), events)
    assert [path.name for path in (stage.checkpoint / "hivesink").glob("topics.*")] == ["topics.1"]
    # So it is where the log's newest batch is another query's.
    other = Topic.create(topic.servers, f"{topic.name}-too")
    other.put(range(300, 305))
    stage.drain(stage.sink(append=4), other.stream(stage.spark), checkpoint=str(stage.folder / "other"))
    for events in (topic.stream(stage.spark), own):
        with pytest.raises(errors.TopicRemade):
            stage.drain(stage.sink(append=5), events)
    assert stage.ids() == [*range(10), *range(100, 120), *range(300, 305)]
    # To delete what it keeps is a person's word that the offsets fit, as those of a mirror on another cluster do.
    shutil.rmtree(stage.checkpoint / "hivesink")
    stage.drain(stage.sink(append=5), topic.stream(stage.spark))
    assert stage.ids() == [*range(10), *range(100, 120), *range(220, 240), *range(300, 305)]
    assert (stage.checkpoint / "hivesink" / "topics.1").exists()


@pytest.mark.kafka
def test_over_kafka_a_topic_that_is_made_again_under_a_running_query_is_refused_and_its_neighbour_goes_on(
    stage: Stage, topic: Topic
) -> None:
    stage.create()
    other = Topic.create(topic.servers, f"{topic.name}-too")
    both = Topic(topic.servers, f"{topic.name},{other.name}")
    topic.put(range(10))
    other.put(range(10, 20))

    def remake(done: Committed) -> None:
        assert done.epoch == 1
        topic.remake()
        topic.put(range(100, 120))
        other.put(range(20, 30))

    query = stage.begin(stage.sink(on_commit=remake), both.stream(stage.spark), trigger="0 seconds")
    with pytest.raises(errors.TopicRemade) as refused:
        query.processAllAvailable()
    way = f"append=1) and hivesink.sources.kafka(…, resume=sink), which reads {topic.name} from the beginning"
    assert way in one_line(refused.value)
    stage.forget_checkpoint()
    sink = stage.sink(resume=True, append=1)
    stage.drain(sink, both.stream(stage.spark, resume=sink))
    assert stage.ids() == [*range(30), *range(100, 120)]


@pytest.mark.kafka
def test_over_kafka_records_of_aborted_transactions_are_none_and_two_sources_cant_resume(
    stage: Stage, topic: Topic
) -> None:
    stage.create()
    other = Topic.create(topic.servers, f"{topic.name}-too")
    topic.put(range(10))
    topic.abort(range(100, 110))
    other.put(range(10, 20))
    stage.drain(events=topic.stream(stage.spark).union(other.stream(stage.spark)))
    assert stage.ids() == list(range(20))
    with pytest.raises(errors.ResumeImpossible, match=r"give each source such startingOffsets, .* the sink alone\."):
        topic.stream(stage.spark, resume=stage.sink(resume=True))
    stage.forget_checkpoint()
    with pytest.raises(errors.ForeignHistory) as refused:
        stage.drain(events=topic.stream(stage.spark).union(other.stream(stage.spark)))
    told = r"start with resume=True and, for each source, startingOffsets = (\{.+?\}\}), (\{.+?\}\}) \(new partitions"
    first, second = re.findall(told, str(refused.value))[0]
    topic.put(range(20, 25))
    other.put(range(25, 30))
    events = topic.stream(stage.spark, startingOffsets=first).union(other.stream(stage.spark, startingOffsets=second))
    stage.drain(stage.sink(resume=True), events)
    assert stage.ids() == list(range(30))


def plain(stage: Stage, sink: HiveSink, events: DataFrame) -> BaseException | None:
    """Run `foreachBatch(sink)` until nothing is left; the sink's error, if it had one."""
    writer = events.writeStream.foreachBatch(sink).option("checkpointLocation", str(stage.checkpoint))
    try:
        writer.trigger(availableNow=True).start().awaitTermination()
    except StreamingQueryException:
        if sink._run.failure is None:
            raise
        return sink._run.failure
    return None


@pytest.mark.kafka
def test_over_kafka_a_checkpoint_that_a_refused_query_left_is_named_and_then_resume_goes_on(
    stage: Stage, topic: Topic
) -> None:
    stage.create()
    topic.put(range(20))
    assert plain(stage, stage.sink(), topic.stream(stage.spark)) is None
    stage.forget_checkpoint()
    topic.put(range(20, 30))
    # Under plain foreachBatch, as under an older hivesink, Spark has planned batch 0 when the sink is asked.
    refused = plain(stage, stage.sink(), topic.stream(stage.spark))
    assert isinstance(refused, errors.ForeignHistory)
    assert f"first delete the new checkpoint file:{stage.checkpoint}" in one_line(refused)
    assert (stage.checkpoint / "offsets" / "0").exists()
    sink = stage.sink(resume=True)
    with pytest.raises(errors.CheckpointLeftOver) as left:
        stage.drain(sink, topic.stream(stage.spark, resume=sink))
    assert f"delete file:{stage.checkpoint}" in one_line(left.value)
    assert "nothing of this checkpoint is in the table" in str(left.value)
    again = plain(stage, sink, topic.stream(stage.spark, resume=sink))
    assert isinstance(again, errors.CheckpointLeftOver)
    assert stage.ids() == list(range(20))
    stage.forget_checkpoint()
    assert plain(stage, sink, topic.stream(stage.spark, resume=sink)) is None
    topic.put(range(30, 35))
    stage.drain(sink, topic.stream(stage.spark, resume=sink))
    assert stage.ids() == list(range(35))


def test_a_refused_file_query_names_the_checkpoint_that_it_left(stage: Stage) -> None:
    rows = two_epochs(stage)
    stage.forget_checkpoint()
    refused = plain(stage, stage.sink(), stage.lines())
    assert isinstance(refused, errors.ForeignHistory)
    assert f"first delete the new checkpoint file:{stage.checkpoint}" in one_line(refused)
    for path in stage.source.iterdir():
        path.unlink()
    stage.put(range(20, 30), "new.json")
    # What was moved away is planned in there.
    with pytest.raises(errors.SourceFilesMissing):
        stage.drain(stage.sink(append=2))
    stage.forget_checkpoint()
    stage.drain(stage.sink(append=2))
    assert stage.ids() == [*rows, *range(20, 30)]


@pytest.mark.parametrize("older", [False, True], ids=["lost", "a checkpoint of one batch before"])
def test_a_lost_offsets_file_whose_batch_comes_again_with_other_files_is_refused(stage: Stage, *, older: bool) -> None:
    rows = two_epochs(stage)
    for name in ("offsets/1", "commits/1", *["sources/0/1"] * older):
        stage.lose(name)
    stage.put(range(20, 30))

    def events() -> DataFrame:
        return sources.lines(stage.spark, str(stage.source)) if older else stage.lines()

    for _ in range(2):  # Spark plans the batch, then has it planned.
        with pytest.raises(errors.ReplayDiffers) as refused:
            stage.drain(events=events())
        said = one_line(refused.value)
        assert "append=2" in said
        assert "resume" not in said
        read = said.partition("move away first, and for good, the 1 file that epoch 2 has read already: ")[2]
        assert stage.ids() == rows
    # Which of the two it is hangs on times that may be equal.
    (file,) = [path for path in stage.source.glob("000[01].json") if read.startswith(str(path))]
    file.unlink()
    stage.drain(stage.sink(append=2), events())
    assert stage.ids() == list(range(30))


@pytest.mark.parametrize("lost", [("commits/1",), ("offsets/1", "commits/1")], ids=["commits", "offsets"])
def test_a_batch_that_comes_again_with_equal_offsets_is_a_replay(stage: Stage, lost: tuple[str, ...]) -> None:
    rows = two_epochs(stage)
    for name in lost:
        stage.lose(name)
    done: list[Committed] = []
    stage.drain(stage.sink(on_commit=done.append))
    assert [one.replayed for one in done] == [True]
    assert stage.ids() == rows
    stage.put(range(20, 25))
    stage.drain()
    assert stage.ids() == list(range(25))


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _cut(path: Path) -> None:
    """A bad copy, without Hadoop's checksum."""
    path.write_bytes(path.read_bytes()[:-5])
    path.with_name(f".{path.name}.crc").unlink()


def _shorten(path: Path) -> None:
    """A bad copy that ends where a line does: to Spark the files that it lacks would be new ones."""
    path.write_bytes(path.read_bytes().rpartition(b"\n")[0])
    path.with_name(f".{path.name}.crc").unlink()


def _flip(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-5] + b"\xff" + path.read_bytes()[-4:])


DAMAGES: list[tuple[str, Callable[[Path], None]]] = [
    ("metadata", Path.unlink),
    ("metadata", _empty),
    ("offsets/2", Path.unlink),
    ("offsets/2", _empty),
    ("offsets/3", _cut),
    ("offsets/3", _flip),
    ("commits/3", _empty),
    ("commits/3", _cut),
    ("sources/0/3.compact", Path.unlink),
    ("sources/0/3.compact", _empty),
    ("sources/0/3.compact", _cut),
    ("sources/0/3.compact", _shorten),
]


def test_a_damaged_checkpoint_needs_a_person_whoever_notices_it(stage: Stage) -> None:
    stage.create()
    for number in range(4):
        stage.put([number])
    stage.spark.conf.set("spark.sql.streaming.fileSource.log.compactInterval", "2")
    try:
        stage.drain()
    finally:
        stage.spark.conf.unset("spark.sql.streaming.fileSource.log.compactInterval")
    stage.put([4])
    for name, damage in DAMAGES:
        copy, sink = stage.copy_checkpoint(), stage.sink()
        damage(stage.checkpoint / name)
        if damage is Path.unlink:
            (stage.checkpoint / name).with_name(f".{Path(name).name}.crc").unlink()
        # `start` looks before Spark does; under plain foreachBatch Spark fails before the sink is asked. PySpark 3.5
        # doesn't tell where in Spark that was.
        runs: list[partial[Any]] = [partial(stage.drain, sink), partial(plain, stage, sink, stage.lines())]
        for run in runs[:1] if stage.spark.version.startswith("3.") else runs:
            try:
                failure = run()
            except Exception as error:  # noqa: BLE001  one of many
                failure = error
            assert isinstance(failure, Exception), (name, damage)
            told, code = translate(failure, Path("job.py"))
            said = "of the query's checkpoint is missing or damaged"
            if run.func == stage.drain:
                way = "remove it" if name.startswith("commits") else "treat it as a lost checkpoint"
                said = f"file:{stage.checkpoint}/{name.removesuffix('.compact')}\\S* {said} .*{way}"
            assert (code, bool(re.search(said, str(told)))) == (65, True), (name, damage, str(told))
        stage.restore_checkpoint(copy)
    stage.drain(sink)
    assert stage.ids() == list(range(5))


@pytest.mark.kafka
def test_over_kafka_a_lost_offsets_file_is_a_replay_or_refused(stage: Stage, topic: Topic) -> None:
    stage.create()
    topic.put(range(20))
    stage.drain(events=topic.stream(stage.spark))
    topic.put(range(20, 30))
    stage.drain(events=topic.stream(stage.spark))
    stage.lose("offsets/1")
    stage.lose("commits/1")
    done: list[Committed] = []
    stage.drain(stage.sink(on_commit=done.append), topic.stream(stage.spark))
    assert done[0].replayed
    stage.lose("offsets/1")
    stage.lose("commits/1")
    topic.put(range(30, 37))
    with pytest.raises(errors.ReplayDiffers):
        stage.drain(events=topic.stream(stage.spark))
    assert stage.ids() == list(range(30))
    # The way on that the error names loses and doubles nothing.
    stage.forget_checkpoint()
    sink = stage.sink(resume=True)
    stage.drain(sink, topic.stream(stage.spark, resume=sink))
    assert stage.ids() == list(range(37))


def test_a_writer_that_is_renamed_before_spark_commits_its_batch_is_refused(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    stage.create()

    def die(real: Callable[[Manifest], None], manifest: Manifest) -> None:
        real(manifest)
        message = "it dies here"
        raise RuntimeError(message)

    for number in range(2):
        stage.put(range(10 * number, 10 * number + 10))
        dying = stage.sink()
        wrap(dying, "log", create=die)
        with pytest.raises(Exception, match="it dies here"):
            stage.drain(dying)
        renamed = stage.sink(writer="renamed", append=0)
        with pytest.raises(errors.OtherWriter, match=f"writer stage of .* committed it as epoch {number + 1},"):
            stage.drain(renamed)
        stage.drain()
    # And back to the old name, before Spark has committed the new one's first batch.
    stage.put(range(20, 25))
    wrap(renamed, "log", create=die)
    with pytest.raises(Exception, match="it dies here"):
        stage.drain(renamed)
    with pytest.raises(errors.OtherWriter, match=r"writer renamed of .* as epoch 1, and writer stage might"):
        stage.drain()
    stage.drain(stage.sink(writer="renamed"))
    assert stage.ids() == list(range(25))

    # A reset doesn't hide whose the batch is: not from another name, not from a second sink of the query.
    stage.put(range(25, 30))
    wrap(renamed := stage.sink(writer="renamed"), "log", create=die)
    with pytest.raises(Exception, match="it dies here"):
        stage.drain(renamed)
    for command in (["recover"], ["reset", "--yes"]):
        assert hivesink(capsys, *command, stage.table, "--writer", "renamed", "--metastore", stage.uri).code == 0
    with pytest.raises(errors.OtherWriter, match=r"the log \S+/renamed\.reset-\S+ already"):
        stage.drain(stage.sink(writer="third", append=0))
    stage.drain(stage.sink(writer="renamed", append=0))
    assert stage.ids() == list(range(30))


def test_a_checkpoint_older_than_the_log_is_refused(stage: Stage) -> None:
    stage.create()
    stage.put(range(10))
    stage.drain()
    copy = stage.copy_checkpoint()
    for number in (1, 2):
        stage.put(range(number * 10, number * 10 + 10))
    stage.drain()
    newest = stage.folder / "newest"
    stage.checkpoint.rename(newest)
    copy.rename(stage.checkpoint)
    with pytest.raises(errors.BatchBehindLog) as refused:
        stage.drain()
    assert "restore the newest checkpoint" in one_line(refused.value)
    stage.restore_checkpoint(newest)
    stage.put(range(30, 35))
    stage.drain()
    assert stage.ids() == list(range(35))


@pytest.mark.parametrize("options", [{}, ON_EPOCH], ids=["rolled", "on-epoch"])
def test_an_old_log_with_its_old_checkpoint_is_refused_where_newer_rows_are_in_other_partitions(
    stage: Stage, options: dict[str, str]
) -> None:
    stage = replace(stage, options=options).create()
    stage.put([0])
    stage.drain()
    backup, newest = stage.folder / "backup", stage.folder / "newest"
    shutil.copytree(stage.log(), backup)
    checkpoint = stage.copy_checkpoint()
    stage.put([1])
    stage.drain()
    stage.log().rename(newest)
    backup.rename(stage.log())
    newer = stage.folder / "newer"
    stage.checkpoint.rename(newer)
    checkpoint.rename(stage.checkpoint)
    for _ in range(2):
        with pytest.raises(errors.LogOutdated, match=r"dt=2024-01-02/part-.*: the log (is|was) older than"):
            stage.drain()
        assert stage.ids() == [0, 1]
    shutil.rmtree(stage.log())
    newest.rename(stage.log())
    stage.restore_checkpoint(newer)
    stage.put([2])
    stage.drain()
    assert stage.ids() == [0, 1, 2]


def test_a_deleted_log_under_a_checkpoint_that_is_kept_is_refused(stage: Stage) -> None:
    rows = two_epochs(stage)
    kept = stage.folder / "kept"
    stage.log().rename(kept)
    stage.put(range(20, 30))
    with pytest.raises(errors.ForeignParts) as refused:
        stage.drain()
    assert stage.table in one_line(refused.value)
    assert stage.ids() == rows
    assert not stage.log().exists()
    kept.rename(stage.log())
    stage.drain()
    assert stage.ids() == list(range(30))


@pytest.mark.parametrize(
    ("history", "error"), [(False, errors.LogMissing), (True, errors.ForeignHistory)], ids=["empty", "with-history"]
)
def test_a_checkpoint_of_another_table_is_refused(
    stage: Stage, tmp_path: Path, history: bool, error: type[Exception]
) -> None:
    two_epochs(stage)
    other = Stage(stage.spark, stage.uri, tmp_path / "other", f"{stage.table}_other")
    other.folder.mkdir()
    other.create()
    if history:
        other.put(range(100, 110))
        other.drain()
    before = other.ids()
    stage.put(range(20, 30))
    with pytest.raises(error):
        other.drain(events=stage.lines(), checkpoint=str(stage.checkpoint))
    assert other.ids() == before


def test_a_run_beside_another_at_one_checkpoint_stops_and_leaves_what_waits_to_it(stage: Stage) -> None:
    stage = replace(stage, options={}).create()
    stage.put([0])
    query = stage.begin(stage.sink(), trigger={"processingTime": "0 seconds"})
    query.processAllAvailable()
    # The other run has planned the next batch.
    shutil.copy(stage.checkpoint / "offsets" / "0", stage.checkpoint / "offsets" / "1")
    stage.put([1])
    with pytest.raises(errors.CheckpointShared, match=f"checkpoint file:{stage.checkpoint} .* Run this job only once"):
        query.processAllAvailable()
    query.settle()
    assert stage.ids() == []


def _waits_for(gate: Path, reached: Path) -> Callable[[Any], Any]:
    """In the tasks, before the sink: say that the batch runs, and hold it up until `gate` is there."""

    def wait(batches: Any) -> Any:
        import time

        reached.touch()
        while not gate.exists():
            time.sleep(0.02)
        yield from batches

    return wait


def test_a_stop_while_tasks_run_leaves_the_batch_to_the_next_run(stage: Stage) -> None:
    stage.create()
    stage.put(range(10))
    stage.drain()
    stage.put(range(10, 20))
    gate, reached = stage.folder / "gate", stage.folder / "reached"
    events = stage.lines()
    held = events.mapInArrow(_waits_for(gate, reached), events.schema)
    query = stage.begin(stage.sink(), held, trigger={"processingTime": "0 seconds"})
    wait_until(reached.exists)
    query.stop()
    assert not query.isActive
    assert stage.ids() == list(range(10))
    gate.touch()
    stage.drain(events=held)
    stage.drain(events=held)
    assert stage.ids() == list(range(20))
    assert stage.staged() == []


def test_a_stop_after_the_decision_leaves_a_batch_that_spark_runs_again_as_a_replay(stage: Stage) -> None:
    stage.create()
    stage.put(range(10))
    decided, asked = threading.Event(), threading.Event()

    def create(real: Any, manifest: Any) -> None:
        real(manifest)
        decided.set()
        assert asked.wait(60)

    sink = stage.sink()
    wrap(sink, "log", create=create)
    query = stage.begin(sink, trigger={"processingTime": "0 seconds"})
    assert decided.wait(60)
    stopping = threading.Thread(target=query.stop)
    stopping.start()
    # Spark marks the query as ended, then waits for the batch.
    wait_until(lambda: not query.isActive)
    asked.set()
    stopping.join()
    stage.put(range(10, 20))
    done: list[Committed] = []
    stage.drain(stage.sink(on_commit=done.append))
    assert stage.ids() == list(range(20))
    assert stage.staged() == []

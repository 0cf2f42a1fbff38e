"""A part that a roll has decided is gone before anybody can have read it: its rows wait again, and are rolled anew.

What readers may have had is never encoded again: a person says what became of it.
"""

from __future__ import annotations

import contextlib

import pytest

from hivesink.core.lifecycle import History, Identity
from hivesink.core.manifest import REQUEUE, PartEntry
from hivesink.errors import FencedOut, HiveSinkError, PartLost, RowsHeldBack, StoreUnavailable
from hivesink.sink.commit import runner
from hivesink.sink.commit.committer import Committer
from hivesink.sink.commit.context import CommitContext
from hivesink.sink.commit.observe import load
from hivesink.storage.fs import FileSystem
from tests.crash.faults import At, Kill, Mode, faults, sampled
from tests.crash.site import by_hand, forget_rows, on_files
from tests.crash.test_commit_steps import WAYS, Life
from tests.sink.harness import LOCATION, TABLE
from tests.sink.inspect.test_partitions import complete, follower, require_true
from tests.sink.timed import TimedJob, at, place


def rolled(life: Life) -> TimedJob:
    job = life.job()
    job.committer = Committer(job.context, job.committer.spec, job.encode, tasks=2)
    return job


def unpublished(life: Life, first: int = 1) -> list[PartEntry]:
    """Hour 3 is rolled and committed while the metastore is down, and its job dies: returns the parts that wait."""
    job = rolled(life)
    life.feed(job, at(3, 10, first))
    life.feed(job, at(3, 50, first + 1))
    life.metastore.go_down()
    life.feed(job, at(5, 10, first + 2))
    job.committer.keep_up()
    life.metastore.come_up()
    return [*load(life.job().context).waiting]


def without_its_part() -> Life:
    """Hour 3 waits in segments, and in a part that is gone."""
    life = Life(options=WAYS["held"])
    (part,) = unpublished(life)
    life.fs.delete(part.staged)
    return life


def goes_on(life: Life, fs: FileSystem | None = None) -> None:
    job = life.job(fs)
    job.committer.recover()
    job.committer.finish()


@sampled(2)
def test_a_fault_at_any_call_of_the_start_that_requeues(every: int) -> None:
    for life, faulty, _ in faults(without_its_part, on_files, goes_on, every=every):
        goes_on(life)
        faulty.apply_late()
        life.check([1, 2, 3])


def test_recovery_by_hand_requeues_and_its_dry_run_says_so() -> None:
    life = without_its_part()
    context, spec = life.job().context, life.job().committer.spec
    ahead = by_hand(context, spec.policy, spec.identity, dry_run=True)
    done = by_hand(context, spec.policy, spec.identity)
    assert done.lines == ahead.lines
    assert (REQUEUE, "epoch 6") in done.lines
    assert done.runner.history.rows.rows == ahead.runner.history.rows.rows == 3
    assert (life.read(3), life.has_success(3)) == ([], False)
    # A partition whose rows wait again is not complete.
    log = follower(life)
    assert complete(log, 3) == []
    goes_on(life)
    assert complete(log, 3) == [3]
    require_true(life, log, "")
    assert (life.read(3, 5), life.has_success(3)) == ([1, 2, 3], True)


def test_without_one_of_its_segments_it_is_lost() -> None:
    life = without_its_part()
    life.log.segments.drop([min(life.log.segments.lengths())])
    with pytest.raises(PartLost, match="--forget"):
        life.started()
    (loss,) = life.forget()
    assert (loss.key, loss.rows) == ((str(TABLE), place(3)), 2)
    goes_on(life)
    assert life.read(3, 5) == [3]


@pytest.mark.parametrize("is_torn", [False, True])
def test_a_bucket_of_which_a_file_is_lost_is_encoded_again_as_a_whole(is_torn: bool) -> None:
    life = Life(options={**WAYS["held"], "sink.rolling-policy.file-size": "1B"})
    first, second = unpublished(life)
    life.fs.delete(first.staged)
    if is_torn:
        life.fs.write_new(first.staged, b"torn by somebody")
    goes_on(life)
    life.check([1, 2, 3])
    assert [life.fs.length(part.staged) for part in (first, second)] == [None, None]


@pytest.mark.parametrize("torn", [False, True])
def test_what_readers_may_have_had_is_a_question(torn: bool) -> None:
    """The run died at the rename of a part, which was marked before that."""
    life = Life(options=WAYS["held"])
    (part,) = unpublished(life)
    with pytest.raises(Kill):
        life.job(At(life.fs, SHOWS)).committer.recover()
    life.fs.delete(part.staged)
    if torn:
        life.fs.write_new(part.staged, b"torn by somebody")
    with pytest.raises(PartLost, match="--forget"):
        life.started()
    assert [loss.rows for loss in life.forget()] == [2]
    goes_on(life)
    assert life.read(3, 5) == [3]
    assert life.fs.length(part.staged) is None


SHOWS = rf"^rename .* -> .*{place(3)}/part-"
"""What makes a file of hour 3 visible."""


def after_it(life: Life) -> At:
    """It dies once it has made a file of hour 3 visible."""
    return At(life.fs, SHOWS, Mode.AFTER)


def compacted(life: Life) -> None:
    """A user has written the rows of hour 3 into a file of his own: INSERT OVERWRITE of the partition from itself."""
    folder = f"{LOCATION}/{place(3)}"
    (name,) = [entry.name for entry in life.fs.list(folder) if entry.name.startswith("part-")]
    life.fs.rename(f"{folder}/{name}", f"{folder}/{name.replace('part-', 'theirs-')}")


def test_a_compacted_part_is_not_encoded_again() -> None:
    life = Life(options=WAYS["after a delay"])
    job = life.job(after_it(life))
    life.feed(job, at(3, 10, 1), at(3, 50, 2))
    with pytest.raises(Kill):
        job.committer.finish()
    assert life.read(3) == [1, 2]
    compacted(life)
    for _ in range(2):
        with pytest.raises(PartLost, match="--forget"):
            life.started()
    assert life.read(3) == [1, 2]
    life.forget()
    goes_on(life)
    assert life.read(3) == [1, 2]


def test_a_start_shuts_out_the_run_that_has_rolled() -> None:
    """What that run finds lost afterwards, the new one may have made visible."""
    life = Life(options=WAYS["held"])
    job = rolled(life)
    life.feed(job, at(3, 10, 1), at(3, 50, 2))
    life.metastore.go_down()
    life.feed(job, at(5, 10, 3))
    life.metastore.come_up()
    before = life.kinds()
    with pytest.raises(Kill):
        life.job(after_it(life)).committer.recover()
    assert life.kinds() == [*before, "fence"]
    assert life.read(3) == [1, 2]
    compacted(life)
    with pytest.raises(HiveSinkError):
        job.committer.keep_up()
    assert (life.read(3), REQUEUE in life.kinds()) == ([1, 2], False)


@pytest.mark.parametrize("manually", [False, True])
def test_a_start_behind_a_fence_shuts_out_the_run_that_made_it(manually: bool) -> None:
    """Two runs on one fence could both publish: one makes a part visible, the other finds it taken."""
    life = Life(options=WAYS["held"])
    unpublished(life)

    def meanwhile() -> None:
        second = life.job(after_it(life))
        by_itself, policy = second.committer.recover, second.committer.spec.policy
        with pytest.raises(Kill):
            by_hand(second.context, policy) if manually else by_itself()
        assert life.read(3) == [1, 2]
        compacted(life)

    with pytest.raises(FencedOut):
        life.job(At(life.fs, SHOWS, meanwhile=meanwhile)).committer.recover()
    assert (life.read(3), REQUEUE in life.kinds(), life.kinds().count("fence")) == ([1, 2], False, 2)
    with pytest.raises(PartLost, match="--forget"):
        life.started()


def test_a_fence_that_comes_before_the_second_look_shuts_out_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Taken for its own, it would make that run one of two on the same head."""
    life = Life(options=WAYS["held"])
    unpublished(life)

    def load_late(context: CommitContext, identity: Identity | None) -> History:
        monkeypatch.setattr(runner, "load", load)
        with pytest.raises(Kill):
            life.job(after_it(life)).committer.recover()
        compacted(life)
        return load(context, identity)

    def load_first(context: CommitContext, identity: Identity | None) -> History:
        monkeypatch.setattr(runner, "load", load_late)
        return load(context, identity)

    monkeypatch.setattr(runner, "load", load_first)
    with pytest.raises(FencedOut):
        life.job().committer.recover()
    assert (life.read(3), REQUEUE in life.kinds(), life.kinds().count("fence")) == ([1, 2], False, 2)


def test_while_a_policy_of_the_users_own_fails_the_files_are_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise StoreUnavailable(action="announce", path="", reason="503")

    life = Life(options=WAYS["held"])
    job = life.job()
    monkeypatch.setattr(runner, "announce", fail)
    with pytest.raises(StoreUnavailable):
        life.feed(job, at(3, 10, 1), at(3, 50, 2), at(5, 10, 3))
    monkeypatch.undo()
    assert (life.read(3), life.has_success(3)) == ([1, 2], False)
    compacted(life)
    life.started().committer.finish()
    assert (life.read(3), life.has_success(3), REQUEUE in life.kinds()) == ([1, 2], True, False)


@pytest.mark.parametrize("way", ["at once", "held"])
def test_what_is_left_of_a_partition_is_announced(way: str) -> None:
    life = Life(options={**WAYS[way], "sink.rolling-policy.on-epoch": "true"})
    job = life.job()
    life.feed(job, at(3, 10, 1))
    job.committer.finish()
    life.options = dict(WAYS[way])
    job = life.job()
    job.committer.recover()
    life.metastore.go_down()
    life.feed(job, at(3, 20, 2), at(5, 10, 3))
    life.metastore.come_up()
    parts = [part for part in load(life.job().context).waiting if part.partition == place(3)]
    for part in parts:
        life.fs.delete(part.staged)
    for name in life.log.segments.lengths():
        life.log.segments.drop([name])
    if parts:
        assert len(life.forget(place(3))) == len(parts)
    with contextlib.suppress(RowsHeldBack):
        goes_on(life)
    forget_rows(life.job().context)
    goes_on(life)
    assert (life.read(3), life.has_success(3), life.records()[place(3)].commit.rows) == ([1], True, 1)

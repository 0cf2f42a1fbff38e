"""A user's statement takes files that a roll has decided and nobody can read yet: they are encoded again.

Then every call after it fails, in every way. What readers may have had is encoded again only if a person says so.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from hivesink.core.manifest import REOPEN
from hivesink.core.seen import GivenUp
from hivesink.errors import (
    FencedOut,
    HiveSinkError,
    LengthMismatch,
    OutcomeUnknown,
    PartLost,
    RowsHeldBack,
    StoreUnavailable,
)
from hivesink.sink.commit import executor
from hivesink.sink.commit.committer import Committer
from hivesink.sink.commit.observe import load
from hivesink.sink.commit.recovery import find_losses, find_lost_slices, find_maybe_read, preview, recover
from tests.crash.faults import FaultyFileSystem, Kill, Mode, Plan
from tests.crash.site import encode_again, modes
from tests.crash.test_commit_steps import WAYS, Life
from tests.sink.harness import LOCATION, TABLE
from tests.sink.inspect.test_partitions import complete, follower, require_true
from tests.sink.timed import at, place

if TYPE_CHECKING:
    from collections.abc import Callable

    from hivesink.core.lifecycle import History, Identity
    from hivesink.core.manifest import PartEntry
    from hivesink.sink.commit.context import CommitContext
    from hivesink.storage.fs import FileSystem


class Taking(FaultyFileSystem):
    """Just before the `nth` publish the files of its bucket are deleted, all that the roll has made of it."""

    def __init__(self, life: Life, nth: int, plan: Plan | None = None) -> None:
        super().__init__(life.fs, plan)
        self.nth = nth
        self.taken = 0

    def _begin(self, name: str, path: str, *, changes: bool) -> Mode | None:
        source, _, target = path.partition(" -> ")
        if source.endswith(".pending") and target.endswith(".parquet"):
            self.nth -= 1
            if not self.nth:
                self.inner.delete(source)
                self.taken = len(self.calls) + 1
        return super()._begin(name, path, changes=changes)


def kinds(life: Life) -> list[str]:
    return [life.log.manifest(epoch).kind for epoch in life.log.view().manifests]


def calls_after(way: str, nth: int) -> list[int]:
    life = Life(WAYS[way])
    taking = Taking(life, nth)
    life.run(taking)
    assert kinds(life).count(REOPEN) == 1
    life.done()
    return [call.number for call in taking.calls[taking.taken :]][:60]


CASES = [
    pytest.param(way, nth, number, id=f"{way}-{nth}-{number}", marks=pytest.mark.long if number % 7 else ())
    for way, nth in (("held", 1), ("held", 3), ("after a delay", 2))
    for number in calls_after(way, nth)
]


@pytest.mark.parametrize(("way", "nth", "number"), CASES)
def test_a_fault_at_any_call_after_it(way: str, nth: int, number: int) -> None:
    for mode in Mode:
        life = Life(WAYS[way])
        faulty = Taking(life, nth, Plan(number, mode))
        with contextlib.suppress(Kill, HiveSinkError):
            life.run(faulty)
        if mode not in modes(faulty.calls[number - 1]):
            continue
        # Where a run had begun to publish and died, nobody knows how far it came.
        with contextlib.suppress(PartLost):
            life.run()
        if find_maybe_read(life.job().context):
            encode_again(life.job().committer)
        life.run()
        faulty.apply_late()
        life.done((number, mode))


def unpublished(life: Life, first: int = 1) -> list[PartEntry]:
    """Hour 3 is rolled and committed while the metastore is down, and its job dies: returns the parts that wait."""
    job = life.job()
    job.committer = Committer(job.context, job.committer.spec, job.encode, tasks=2)
    life.feed(job, at(3, 10, first))
    life.feed(job, at(3, 50, first + 1))
    life.metastore.go_down()
    life.feed(job, at(5, 10, first + 2))
    job.committer.keep_up()
    life.metastore.come_up()
    return [*load(life.job().context).waiting]


def test_what_waits_for_the_metastore_is_encoded_again() -> None:
    life = Life(WAYS["held"])
    (part,) = unpublished(life)
    life.fs.delete(part.staged)
    job = life.job()
    spec = job.committer.spec
    assert find_losses(job.context) == ()
    told = preview(job.context, spec.policy)
    assert [line for line in told.described() if line[0] in {REOPEN, "roll", "stop at"}] == [
        (REOPEN, "epoch 6"),
        ("roll", f"{TABLE} {place(3)} (2 rows)"),
        ("roll", f"{TABLE} {place(5)} (1 row)"),
    ]
    done = recover(job.context, spec.identity, spec.policy)
    assert (done.lost, done.waiting.rows) == ((), 3)
    assert (life.read(3), life.has_success(3)) == ([], False)
    life.started().committer.finish()
    assert (life.read(3, 5), life.has_success(3)) == ([1, 2, 3], True)
    life.check([1, 2, 3])


def test_a_partition_whose_rows_wait_again_is_not_complete() -> None:
    life = Life(WAYS["held"])
    (part,) = unpublished(life)
    life.fs.delete(part.staged)
    job = life.job()
    recover(job.context, job.committer.spec.identity, job.committer.spec.policy)
    log = follower(life)
    assert complete(log, 3) == []
    life.started().committer.finish()
    assert complete(log, 3) == [3]
    require_true(life, log, "")


def test_without_one_of_its_segments_it_is_lost_until_a_person_wants_the_rest() -> None:
    life = Life(WAYS["held"])
    (part,) = unpublished(life)
    life.fs.delete(part.staged)
    segment = min(life.log.segments.lengths())
    life.log.segments.drop([segment])
    with pytest.raises(PartLost):
        life.started()
    (loss,) = find_losses(life.job().context)
    assert loss.part == part
    encode_again(life.job().committer)
    with pytest.raises(RowsHeldBack, match=segment):
        life.started().committer.finish()
    context = life.job().context
    slices = frozenset(one.opened for one in find_lost_slices(context))
    assert sum(one.slice.rows for one in slices) == 1
    recover(context, None, life.job().committer.spec.policy, given_up=GivenUp(slices=slices))
    life.started().committer.finish()
    life.check([2, 3])


@pytest.mark.parametrize("is_torn", [False, True])
def test_a_bucket_of_which_a_file_is_lost_is_encoded_again_as_a_whole(is_torn: bool) -> None:
    life = Life({**WAYS["held"], "sink.rolling-policy.file-size": "1B"})
    first, second = unpublished(life)
    life.fs.delete(first.staged)
    if is_torn:
        life.fs.write_new(first.staged, b"torn by somebody")
    assert find_losses(life.job().context) == ()
    life.started().committer.finish()
    life.check([1, 2, 3])
    assert [life.fs.length(part.staged) for part in (first, second)] == [None, None]


def test_a_file_that_is_torn_before_its_rename_is_encoded_again() -> None:
    life = Life(WAYS["held"])
    life.run(Tearing(life.fs))
    assert kinds(life).count(REOPEN) == 1
    life.done()


def test_a_torn_file_of_a_run_that_had_begun_to_publish_is_a_question() -> None:
    life = Life(WAYS["held"])
    (part,) = unpublished(life)
    with pytest.raises(Kill):
        life.job(Dying(life.fs, Mode.BEFORE)).committer.recover()
    life.fs.delete(part.staged)
    life.fs.write_new(part.staged, b"torn by somebody")
    with pytest.raises(LengthMismatch, match=r"readers may have had its rows .*--encode-again"):
        life.started()
    encode_again(life.job().committer)
    life.started().committer.finish()
    life.check([1, 2, 3])
    assert life.fs.length(part.staged) is None


def test_a_bucket_of_which_a_file_is_visible_is_not_encoded_again() -> None:
    """Its rows would be doubled."""
    life = Life({**WAYS["held"], "sink.rolling-policy.file-size": "1B"})
    first, second = unpublished(life)
    with pytest.raises(Kill):
        life.job(Dying(life.fs)).committer.recover()
    life.fs.delete(second.staged)
    with pytest.raises(PartLost, match="are gone"):
        life.started()
    assert [loss.part for loss in find_losses(life.job().context)] == [second]
    assert find_maybe_read(life.job().context) == ()
    life.fs.delete(first.target)
    with pytest.raises(PartLost, match="--encode-again"):
        life.started()
    encode_again(life.job().committer)
    life.started().committer.finish()
    life.check([1, 2, 3])


class LostReply(FaultyFileSystem):
    """A file of hour 3 becomes visible, nobody hears of it, and a user compacts it before this run looks again."""

    def __init__(self, life: Life) -> None:
        super().__init__(life.fs)
        self.life = life

    def rename(self, source: str, target: str) -> None:
        super().rename(source, target)
        if target.endswith(".parquet") and place(3) in target:
            compacted(self.life)
            raise OutcomeUnknown(action="rename", path=source, reason="no answer")


def test_a_rename_without_an_answer_may_have_been_seen() -> None:
    life = Life(WAYS["after a delay"])
    job = life.job(LostReply(life))
    life.feed(job, at(3, 10, 1), at(3, 50, 2))
    with pytest.raises(PartLost, match="readers may have had its rows"):
        job.committer.finish()
    assert (life.read(3), REOPEN in kinds(life)) == ([1, 2], False)


def test_a_start_shuts_out_the_run_that_has_rolled() -> None:
    """What that run finds lost afterwards, the new one may have made visible."""
    life = Life(WAYS["held"])
    job = life.job()
    job.committer = Committer(job.context, job.committer.spec, job.encode, tasks=2)
    life.feed(job, at(3, 10, 1), at(3, 50, 2))
    life.metastore.go_down()
    life.feed(job, at(5, 10, 3))
    life.metastore.come_up()
    rolled = kinds(life)
    with pytest.raises(Kill):
        life.job(Dying(life.fs)).committer.recover()
    assert kinds(life) == [*rolled, "fence"]
    assert life.read(3) == [1, 2]
    compacted(life)
    with pytest.raises(HiveSinkError):
        job.committer.keep_up()
    assert (life.read(3), REOPEN in kinds(life)) == ([1, 2], False)


def shows(name: str, path: str) -> bool:
    """Whether that call makes a file of hour 3 visible."""
    return name == "rename" and path.endswith(".parquet") and place(3) in path


class Dying(FaultyFileSystem):
    """Dies at the rename that makes a file of hour 3 visible: after it, unless `mode` says something else."""

    def __init__(self, inner: FileSystem, mode: Mode = Mode.AFTER) -> None:
        super().__init__(inner)
        self.mode = mode

    def _begin(self, name: str, path: str, *, changes: bool) -> Mode | None:
        if shows(name, path):
            self.plan = Plan(len(self.calls) + 1, self.mode)
        return super()._begin(name, path, changes=changes)


class Tearing(FaultyFileSystem):
    """The first file that is looked at once its epoch is marked as one that publishes has just been cut short."""

    is_marked = is_torn = False

    def _begin(self, name: str, path: str, *, changes: bool) -> Mode | None:
        self.is_marked |= ".publishing" in path
        if self.is_marked and not self.is_torn and name == "length" and path.endswith(".pending"):
            self.is_torn = True
            self.inner.delete(path)
            self.inner.write_new(path, b"torn by somebody")
        return super()._begin(name, path, changes=changes)


def compacted(life: Life) -> None:
    """A user has written the rows of hour 3 into a file of his own: INSERT OVERWRITE of the partition from itself."""
    folder = f"{LOCATION}/{place(3)}"
    (name,) = [entry.name for entry in life.fs.list(folder) if entry.name.endswith(".parquet")]
    life.fs.rename(f"{folder}/{name}", f"{folder}/{name.replace('part-', 'theirs-')}")


class Stalling(FaultyFileSystem):
    """Just before the rename that makes a file of hour 3 visible, `meanwhile` happens."""

    def __init__(self, life: Life, meanwhile: Callable[[], None]) -> None:
        super().__init__(life.fs)
        self.meanwhile = meanwhile

    def _begin(self, name: str, path: str, *, changes: bool) -> Mode | None:
        if shows(name, path):
            self.meanwhile()
        return super()._begin(name, path, changes=changes)


@pytest.mark.parametrize("by_hand", [False, True])
def test_a_start_behind_a_fence_shuts_out_the_run_that_made_it(by_hand: bool) -> None:
    """Two runs on one fence could both publish: one makes a part visible, the other finds it taken."""
    life = Life(WAYS["held"])
    unpublished(life)

    def meanwhile() -> None:
        second = life.job(Dying(life.fs))
        by_itself, policy = second.committer.recover, second.committer.spec.policy
        with pytest.raises(Kill):
            recover(second.context, None, policy) if by_hand else by_itself()
        assert life.read(3) == [1, 2]
        compacted(life)

    with pytest.raises(FencedOut):
        life.job(Stalling(life, meanwhile)).committer.recover()
    assert (life.read(3), REOPEN in kinds(life), kinds(life).count("fence")) == ([1, 2], False, 2)
    with pytest.raises(PartLost, match="readers may have had its rows"):
        life.started()


def test_a_fence_that_comes_before_the_second_look_shuts_out_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Taken for its own, it would make that run one of two on the same head."""
    life = Life(WAYS["held"])
    unpublished(life)

    def load_late(context: CommitContext, identity: Identity | None) -> History:
        monkeypatch.setattr(executor, "load", load)
        with pytest.raises(Kill):
            life.job(Dying(life.fs)).committer.recover()
        compacted(life)
        return load(context, identity)

    monkeypatch.setattr(executor, "load", load_late)
    with pytest.raises(FencedOut):
        life.job().committer.recover()
    assert (life.read(3), REOPEN in kinds(life), kinds(life).count("fence")) == ([1, 2], False, 2)


def test_what_readers_may_have_had_is_not_encoded_again_unasked() -> None:
    life = Life(WAYS["after a delay"])
    job = life.job(Dying(life.fs))
    life.feed(job, at(3, 10, 1), at(3, 50, 2))
    with pytest.raises(Kill):
        job.committer.finish()
    assert life.read(3) == [1, 2]
    compacted(life)
    for _ in range(2):
        with pytest.raises(PartLost, match=r"readers may have had its rows .*--accept-lost.*--encode-again PARTITION"):
            life.started()
    assert life.read(3) == [1, 2]
    job = life.job()
    (loss,) = find_losses(job.context)
    recover(job.context, None, job.committer.spec.policy, given_up=GivenUp(frozenset({loss.target})))
    life.started().committer.finish()
    assert life.read(3) == [1, 2]


def test_while_a_policy_of_the_users_own_fails_the_files_are_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise StoreUnavailable(action="announce", path="", reason="503")

    life = Life(WAYS["held"])
    job = life.job()
    monkeypatch.setattr(executor, "announce", fail)
    with pytest.raises(StoreUnavailable):
        life.feed(job, at(3, 10, 1), at(3, 50, 2), at(5, 10, 3))
    monkeypatch.undo()
    assert (life.read(3), life.has_success(3)) == ([1, 2], False)
    compacted(life)
    life.started().committer.finish()
    assert (life.read(3), life.has_success(3), REOPEN in kinds(life)) == ([1, 2], True, False)


def test_a_file_that_was_torn_is_no_lost_one() -> None:
    life = Life(WAYS["held"])
    (part,) = unpublished(life)
    life.fs.delete(part.staged)
    life.fs.write_new(part.target, b"torn by somebody")
    with pytest.raises(LengthMismatch):
        life.started()


class TakingAll(Taking):
    """Every file is deleted just before its publish."""

    def _begin(self, name: str, path: str, *, changes: bool) -> Mode | None:
        self.nth = 1
        return super()._begin(name, path, changes=changes)


def test_the_end_of_a_query_rolls_again_what_a_statement_took() -> None:
    life = Life(WAYS["after a delay"])
    job = life.job(Taking(life, 1))
    life.feed(job, at(3, 10, 1), at(3, 50, 2))
    job.committer.finish()
    assert life.read(3) == [1, 2]
    assert kinds(life) == ["batch", "roll", REOPEN, "roll"]


def test_an_end_that_can_publish_nothing_is_none() -> None:
    life = Life(WAYS["after a delay"])
    job = life.job(TakingAll(life, 1))
    life.feed(job, at(3, 10, 1), at(3, 50, 2))
    with pytest.raises(StoreUnavailable, match="something deletes its files before they can be read: 2 rows wait"):
        job.committer.finish()
    life.started().committer.finish()
    assert life.read(3) == [1, 2]


@pytest.mark.parametrize("way", ["at once", "held"])
def test_what_is_left_after_an_accepted_loss_is_announced(way: str) -> None:
    life = Life({**WAYS[way], "sink.rolling-policy.on-epoch": "true"})
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
    context, targets = life.job().context, frozenset(part.target for part in parts)
    lost = frozenset(one.opened for one in find_lost_slices(context))
    recover(context, None, life.job().committer.spec.policy, given_up=GivenUp(targets, slices=lost))
    life.started().committer.finish()
    assert (life.read(3), life.has_success(3), life.records()[place(3)].commit.rows) == ([1], True, 1)


def test_what_a_person_gives_up_does_not_wait_again() -> None:
    life = Life(WAYS["held"])
    (part,) = unpublished(life)
    life.fs.delete(part.staged)
    context, policy = life.job().context, life.job().committer.spec.policy
    lost = find_losses(context, [part.key], accept=False)
    assert [one.part for one in lost] == [part]
    given_up = GivenUp(waiting=frozenset({part.target}))
    assert preview(context, policy, given_up=given_up).lost == lost
    done = recover(context, None, policy, given_up=given_up)
    assert (done.lost, done.waiting.rows) == (lost, 1)
    assert REOPEN not in kinds(life)


@pytest.mark.parametrize("hours", [(3,), (3, 5)], ids=["others wait", "nothing waits"])
def test_what_is_left_once_rows_that_wait_again_are_given_up_is_announced(hours: tuple[int, ...]) -> None:
    life = Life({**WAYS["held"], "sink.rolling-policy.on-epoch": "true"})
    job = life.job()
    life.feed(job, at(3, 10, 1))
    job.committer.finish()
    life.options = dict(WAYS["held"])
    (part,) = unpublished(life, 2)
    life.fs.delete(part.staged)
    context, policy = life.job().context, life.job().committer.spec.policy
    recover(context, None, policy)
    assert not life.has_success(3)
    given_up = [(str(TABLE), place(hour)) for hour in hours]
    rows = frozenset(one.opened for one in find_lost_slices(context, given_up, accept=False))
    assert recover(context, None, policy, given_up=GivenUp(slices=rows)).given_up
    life.started().committer.finish()
    assert (life.read(3), life.has_success(3)) == ([1], True)
    record = life.records()[place(3)].commit
    assert (record.revision, record.rows, record.files) == (3, 1, 1)

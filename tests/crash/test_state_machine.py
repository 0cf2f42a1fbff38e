"""Random histories of a writer against a plain model: which ids must be readable, and how often.

Writes, deaths and lost replies at any call, late effects, runs beside runs, a metastore that comes and goes, users who
drop, move and analyze partitions, a checkpoint that loses its last files or all of them.
"""

from __future__ import annotations

import copy
import os
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from hivesink.core.epoch import LastBatch
from hivesink.errors import (
    CheckpointDiffers,
    EpochTaken,
    FencedOut,
    ForeignHistory,
    HiveSinkError,
    MetastoreUnreachable,
    RegistrationFailed,
    RegistrationUnknown,
    StoreUnavailable,
)
from hivesink.errors import OutcomeUnknown as Unknown
from hivesink.sink.inspect.verify import find_leftovers
from tests.crash.faults import FaultyFileSystem, Kill, Mode, Plan, Stalling
from tests.crash.site import Site, Watched, by_count
from tests.sink.harness import TABLE, Event, Job, Source, position

DAYS = st.sampled_from("abc")
PLANS = st.builds(Plan, st.integers(1, 160), st.sampled_from(Mode))
METASTORE_PLANS = st.builds(Plan, st.integers(1, 24), st.sampled_from(Mode))
SIZES = st.integers(1, 5)

STOPPED = (EpochTaken, FencedOut, CheckpointDiffers)
FAULTS = (Unknown, StoreUnavailable, MetastoreUnreachable, RegistrationFailed, RegistrationUnknown)


class Histories(RuleBasedStateMachine):
    """`ended` are the events that earlier checkpoints committed; the present one goes on from `start`."""

    @initialize(kept=st.integers(1, 4), success=st.booleans(), records=st.none() | st.integers(1, 4))
    def begin(self, kept: int, success: bool, records: int | None) -> None:
        options = {"sink.log.retained-epochs": str(kept)}
        if records is not None:
            options |= by_count(records)
        if success:
            options["sink.partition-commit.policy.kind"] = "metastore,success-file"
        self.site = Site(Source([]), options=options)
        self.ended: Counter[int] = Counter()
        self.down = False
        self.created_late = False
        self.queries = 1
        self.moved = 0
        self.late: list[FaultyFileSystem | Watched] = []
        self.dropped: dict[str, int] = {}
        """Days that a user dropped, and how many events were known by then: later ones bring the day back."""

    @rule(days=st.lists(DAYS, min_size=1, max_size=8))
    def events_come(self, days: list[str]) -> None:
        first = len(self.site.source.events)
        self.site.source.events += [Event(first + number, day) for number, day in enumerate(days)]

    @rule(size=SIZES)
    def runs(self, size: int) -> None:
        self._run(self.site.job, size)

    @rule(size=SIZES, plan=PLANS)
    def runs_until_the_storage_fails(self, size: int, plan: Plan) -> None:
        faulty = FaultyFileSystem(self.site.fs, plan)
        self._run(lambda: self.site.job(faulty), size)
        faulty.release()
        self.late.append(faulty)

    @rule(size=SIZES, plan=METASTORE_PLANS)
    def runs_until_the_metastore_fails(self, size: int, plan: Plan) -> None:
        faulty = Watched(self.site, plan)
        self._run(lambda: self.site.job(registrar=faulty), size)
        self.late.append(faulty)

    @precondition(lambda self: self.late)
    @rule()
    def late_calls_arrive(self) -> None:
        self._arrives(self.late.pop(0))

    @rule(size=SIZES, at=st.integers(1, 160), plan=st.none() | PLANS)
    def stalls_while_another_run_goes_on(self, size: int, at: int, plan: Plan | None) -> None:
        newest: list[Source] = []

        def meanwhile() -> None:
            newest.append(copy.deepcopy(self.site.source))
            fs = FaultyFileSystem(self.site.fs, plan)
            self._run(lambda: self.site.job(fs, source=newest[0]), size)
            self.late.append(fs)

        stalling = Stalling(self.site.fs, at, meanwhile)
        self._run(lambda: self.site.job(stalling), size)
        if newest and newest[0].committed >= self.site.source.committed:
            self.site.source = newest[0]

    @rule()
    def metastore_goes_down(self) -> None:
        self.site.metastore.go_down()
        self.down = True

    @rule()
    def metastore_comes_up(self) -> None:
        self.site.metastore.come_up()
        self.down = False

    @precondition(lambda self: not self.down)
    @rule()
    def a_user_analyzes(self) -> None:
        self.site.analyze()

    @precondition(lambda self: not self.down)
    @rule(day=DAYS)
    def a_user_drops(self, day: str) -> None:
        self._resolve()
        # One that was moved would begin again at its old place, without its older rows: as the user wanted.
        if "/elsewhere/" not in self.site.places(TABLE).get(f"dt={day}", "/elsewhere/"):
            self.site.metastore.drop_partition(TABLE, f"dt={day}")
            self.dropped[day] = len(self.site.source.events)

    @precondition(lambda self: not self.down)
    @rule(day=DAYS)
    def a_user_moves(self, day: str) -> None:
        if day not in self.dropped:
            self.moved += 1
            self.site.move(f"dt={day}", f"/elsewhere/{self.moved}/{day}")

    @precondition(lambda self: self.site.source.committed)
    @rule()
    def the_last_commits_file_is_lost(self) -> None:
        source = self.site.source
        if source.committed == len(source.planned):
            source.committed -= 1

    @precondition(lambda self: len(self.site.source.planned) > self.site.source.committed)
    @rule()
    def the_last_offsets_file_is_lost(self) -> None:
        self.site.source.planned.pop()

    @rule(append=st.booleans())
    def the_checkpoint_is_lost(self, append: bool) -> None:
        self._new_checkpoint(append=append)

    @invariant()
    def nothing_is_doubled(self) -> None:
        if hasattr(self, "site") and not self.down:
            expected = self._expected()
            assert not Counter(self.site.rows()) - expected

    def teardown(self) -> None:
        if hasattr(self, "site"):
            for late in self.late:
                self._arrives(late)
            self._resolve()

    def _arrives(self, late: FaultyFileSystem | Watched) -> None:
        if not late.apply_late() or late.plan is None:
            return
        call = late.calls[late.plan.step - 1].name
        # A documented window: a staged file that is created when its touched-list has been forgotten; `clean` takes it.
        self.created_late = self.created_late or call == "open_new"

    def _expected(self) -> Counter[int]:
        return self.ended + Counter(range(len(self.site.source.events)))

    def _resolve(self) -> None:
        """Start again, as often as it takes; then compare with the model."""
        self.metastore_comes_up()
        for _ in range(4):
            if self._run(self.site.job, 4):
                break
        self.site.job().run()
        expected = self._expected()
        for day, known in list(self.dropped.items()):
            ids = {event.id for event in self.site.source.events if event.dt == day}
            if f"dt={day}" in self.site.places(TABLE):
                del self.dropped[day]
            else:
                assert all(found < known for found in ids)
                expected = Counter({found: times for found, times in expected.items() if found not in ids})
        if self.created_late:
            context = self.site.job().context
            context.store.discard(find_leftovers(context, str(TABLE)))
        self.site.check(expected.elements())

    def _run(self, job: Callable[[], Job], size: int) -> bool:
        """Whether it ended well. What the checkpoint has lost is replaced as the errors say."""
        try:
            job().run(size)
        except Kill:
            return False
        except (CheckpointDiffers, ForeignHistory):
            self._new_checkpoint(append=False)
            return False
        except (*STOPPED, *FAULTS):
            return False
        return True

    def _new_checkpoint(self, *, append: bool) -> None:
        """The checkpoint is rebuilt from the log, or, with `append`, a new query reads all events once more."""
        last = self._last_batch()
        source = self.site.source
        self.queries += 1
        query = f"query-{self.queries}"
        if last is None:
            self.site.source = source.new_checkpoint(query)
            return
        self._must_be_refused(source.new_checkpoint(query))
        if not append:
            self.site.source = self._rebuilt(last)
            return
        self.ended += Counter(range(position(last.ref.end[0])))
        self.site.source = source.new_checkpoint(query)
        self.site.metastore.come_up()
        if source.events:
            self.site.job(append=last.epoch).run(batches=1)
        else:
            self.site.source = self._rebuilt(last)

    def _rebuilt(self, last: LastBatch) -> Source:
        """The checkpoint as `hivesink recover` makes it: the log's last batch comes again."""
        ref = last.ref
        source = Source(self.site.source.events, ref.query, start=position(ref.start[0]))
        source.planned = [0] * (ref.batch - 1) + [position(ref.start[0])] * (ref.batch > 0) + [position(ref.end[0])]
        source.committed = ref.batch
        return source

    def _must_be_refused(self, source: Source) -> None:
        if source.events:
            with pytest.raises(ForeignHistory):
                self.site.job(source=source).run()

    def _last_batch(self) -> LastBatch | None:
        self.metastore_comes_up()
        job = self.site.job()
        try:
            job.committer.recover()
        except HiveSinkError:
            job = self.site.job()
            job.committer.recover()
        head = self.site.log.view().head
        return self.site.log.manifest(head).last_batch if head else None


LONG = int(os.environ.get("HIVESINK_HISTORIES", "1000"))
"""How many the long run tries."""
LongHistories = type("LongHistories", (Histories,), {})
Histories.TestCase.settings, LongHistories.TestCase.settings = (  # type: ignore[attr-defined]  # Hypothesis makes it
    settings(max_examples=count, stateful_step_count=steps, suppress_health_check=list(HealthCheck))
    for count, steps in ((40, 20), (LONG, 60))
)
TestHistories = Histories.TestCase
TestLongHistories = pytest.mark.long(pytest.mark.timeout(3600)(LongHistories.TestCase))  # type: ignore[attr-defined]

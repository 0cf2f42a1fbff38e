"""What `recover --dry-run` lists is what `recover` does, after a death at any call."""

from __future__ import annotations

import pytest

from tests.crash.faults import FaultyFileSystem, Mode, Plan
from tests.crash.site import Watched, dies
from tests.crash.test_metastore_faults import IDS, SUCCESS, Scenario, make_durable, start
from tests.sink.recoveries import by_hand


@pytest.mark.parametrize("mode", [Mode.BEFORE, Mode.AFTER])
def test_the_list_is_what_is_done(mode: Mode) -> None:
    scenario = Scenario("preview", options=SUCCESS)
    probe = scenario.site()
    counting = FaultyFileSystem(probe.fs)
    start(probe, Watched(probe), counting)().run()
    listed: set[str] = set()
    for call in counting.calls:
        site = scenario.site()
        dies(start(site, Watched(site), FaultyFileSystem(site.fs, Plan(call.number, mode))))
        context, spec = site.job().context, site.job().committer.spec
        before = dict(site.fs._files)
        ahead = by_hand(context, spec.policy, spec.identity, dry_run=True)
        assert site.fs._files == before, "it only looks"
        done = by_hand(context, spec.policy, spec.identity)
        assert done.lines == ahead.lines, call
        listed |= {what for what, _ in done.lines}
        site.job().run()
        make_durable(site, call)
    site.check(IDS)
    expected = {"fence", "register", "publish", "keep", "mark published", "success file", "mark settled", "discard"}
    assert expected <= listed

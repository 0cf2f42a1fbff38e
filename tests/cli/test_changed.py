"""`hivesink changed`, on the real metastore: writers, a reset, trimmed manifests, and consumers."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from hivesink.cli.history import commits_of
from hivesink.core.changes import Upto
from hivesink.core.epoch import Epoch
from hivesink.core.lifecycle import EpochState
from hivesink.core.manifest import Commit, PartEntry
from hivesink.logs import commit_log
from tests.cli.site import Capsys, Ingest, hivesink
from tests.contracts.manifests import AT, small
from tests.tables import daily
from tests.tables.daily import Daily

if TYPE_CHECKING:
    from pathlib import Path


def told(data: Any) -> list[tuple[Any, ...]]:
    keys = ("partition", "revision", "rows_before", "rows", "why")
    return [tuple(each[key] for key in keys) for each in data["partitions"]]


def test_a_consumer_sees_each_change_once_whatever_becomes_of_the_log(ingest: Ingest, uri: str, capsys: Capsys) -> None:
    table = ingest.table

    def look(*options: str) -> Any:
        said = hivesink(capsys, "changed", table, "--consumer", "daily", "--json", *options)
        assert said.code == (0 if said.data["partitions"] else 3), said.err
        return said.data

    first, second = "dt=2026-01-01", "dt=2026-01-02"
    shown = look()
    assert shown["revision"] == "ingest/1:3"
    assert told(shown) == [(first, 3, 0, 6, ["new"]), (second, 3, 0, 6, ["new"])]
    with closing(Ingest(table, uri, "other")) as other:
        other.commit(1)
        other.committer.finish()
    # What came since the look isn't acknowledged with it.
    assert told(look("--until", shown["revision"], "--ack")) == told(shown)
    assert told(look()) == [(first, 4, 6, 7, ["more rows"])]
    with closing(Ingest(table, uri, batches=3, options={"sink.log.retained-epochs": "1"})) as again:
        again.commit(2)
        again.commit(2)
        again.committer.finish()
        assert len([*again.log.glob("manifests/*.json")]) == 1
    assert told(look("--ack")) == [(first, 6, 6, 9, ["more rows"]), (second, 5, 6, 8, ["more rows"])]
    assert look()["revision"] == "ingest/1:5,other/1:1"
    assert hivesink(capsys, "reset", table, "--yes").code == 0
    assert look()["partitions"] == []
    with closing(Ingest(table, uri)) as anew:
        anew.commit(1)
        anew.committer.finish()
    assert told(look("--ack")) == [(first, 7, 9, 10, ["more rows"])]
    assert told(look()) == []
    # An older look takes nothing back, and a log that a reset has put aside may be damaged.
    assert told(look("--until", shown["revision"], "--ack")) == []
    for manifest in ingest.log.glob("manifests/*.json"):
        manifest.unlink()
    assert (told(look()), look()["damaged"]) == ([], ["ingest/1"])
    assert "note: manifests of ingest/1 can't be read" in hivesink(capsys, "changed", table).out
    # Another consumer has its own receipts, and without any everything is new.
    assert [row[0] for row in told(hivesink(capsys, "changed", table, "--json").data)] == [first, second]


def test_late_rows_since_a_revision_or_a_time(uri: str, tmp_path: Path, capsys: Capsys) -> None:
    with closing(Daily(daily.create(uri, tmp_path), uri, options={"sink.late-rows": "append"})) as writer:
        writer.read(1, 2, 4, mark=3)
        said = hivesink(capsys, "changed", writer.table)
        rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in said.out.splitlines() if "dt=" in line]
        assert rows == [["dt=2024-01-01", "1", "0", "1", "new"], ["dt=2024-01-02", "1", "0", "1", "new"]]
        assert said.out.splitlines()[-1] == "2 partitions changed; revision ingest/1:2"
        assert max(map(len, said.out.splitlines())) <= 80
        at = hivesink(capsys, "history", writer.table, "--json").data["epochs"][0]["at"]
        writer.read(1, 4, mark=3)
        writer.committer.finish()
        for since in ("ingest/1:2", "2"):
            data = hivesink(capsys, "changed", writer.table, "--json", "--since", since).data
            assert told(data) == [("dt=2024-01-01", 2, 1, 2, ["late rows"])]
        # Epoch 2 was decided then, and settled a moment later.
        both = told(hivesink(capsys, "changed", writer.table, "--json", "--since", at).data)
        assert both == [("dt=2024-01-01", 2, 0, 2, ["new"]), ("dt=2024-01-02", 1, 0, 1, ["new"])]
        assert hivesink(capsys, "changed", writer.table, "--since", data["revision"]).code == 3


def test_a_log_that_is_over_has_given_up_what_it_has_not_published(tmp_path: Path) -> None:
    """Epoch 1 and the move of `c` were never published, epochs 2 and 3 were."""
    log = commit_log(str(tmp_path))
    log.uid("0a1b2c3d")
    for number, (names, revision) in enumerate((("ab", 1), ("b", 2), ("c", 1), ("c", 1)), start=1):
        parts = tuple(PartEntry("d.t", name, f"/t/.{name}{number}", f"/t/{name}{number}", 1, 5) for name in names)
        commits = tuple(Commit("d.t", name, revision, 5, 1) for name in names)
        log.create(replace(small(number), add=parts, commits=commits, remove=("/t/c3",) if number == 4 else ()))
    for number in (2, 3):
        log.mark(Epoch(number), EpochState.PUBLISHED)
    log.end(AT)
    read, _ = commits_of(log, "d.t")
    upto, seen = read.read()
    assert (upto, [*seen]) == (Upto(Epoch(4)), ["b"])
    # So what a consumer has seen is never listed again.
    assert read.read(upto) == (upto, seen)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--ack",), "--ack needs a --consumer"),
        (("--consumer", "a", "--since", "1"), "--since is for calls without a consumer"),
        (("--consumer", "a/b"), "the consumer's name 'a/b' can't be used"),
        (("--since", "nobody/1:3"), "'nobody/1:3' is no revision of this table"),
        (("--since", "yesterday"), "--since 'yesterday' is no time"),
        (("--consumer", "a", "--until", "x"), "'x' is no revision of this table"),
    ],
)
def test_what_is_refused(options: tuple[str, ...], expected: str, ingest: Ingest, capsys: Capsys) -> None:
    said = hivesink(capsys, "changed", ingest.table, *options)
    assert (said.code, expected in said.error) == (65, True)

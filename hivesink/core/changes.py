"""Which partitions have changed since somebody looked, by the commits in a table's logs.

A partition's revision is the sum of its revisions in all logs of the table: commits outlive manifests, and a log that
was put aside stays. The table's revision is a text that names, of each log, an epoch up to which everything can be
read, but for the partitions after it: `flights/1:1234!dt%3D2024-01-02`. Only such epochs count.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from urllib.parse import quote, unquote

from hivesink.core.epoch import Epoch
from hivesink.core.manifest import REPLAYS, Manifest, Recorded, newest
from hivesink.core.partition import known_as
from hivesink.errors import InvalidOption, LogDamaged


class Seen(NamedTuple):
    """A partition as a log has committed it, up to an epoch: `rows` are all that the log's writer has there."""

    revision: int
    epoch: Epoch
    rows: int


Seens = dict[str, dict[str, Seen]]
"""By log (`flights/1`), then by partition (`dt=2024-01-02`)."""


class Upto(NamedTuple):
    """An epoch of a log up to which everything can be read, but for the partitions `without`."""

    epoch: Epoch
    without: tuple[str, ...] = ()


Revision = dict[str, Upto]
"""By log."""


@dataclass(frozen=True, slots=True)
class LogCommits:
    """What a log has committed of `table`. `records` after the epoch `settled` are open: nobody can read them yet."""

    table: str
    records: tuple[Recorded, ...]
    settled: Epoch

    def read(self, upto: Upto | None = None) -> tuple[Upto, dict[str, Seen]]:
        """Up to where (and `upto`) everything can be read, and each partition as it was committed there.

        An open epoch that repeats a commit moves its files, which nobody can read meanwhile: that partition waits.
        """
        settled = self.settled if upto is None else min(upto.epoch, self.settled)
        without = set(upto.without if upto else ())
        known = newest((record for record in self.records if record.epoch <= settled), self.table)
        for record in self.records:
            table, partition = key = known_as(record.commit.key, self.table)
            before = known.get(key) if record.epoch > self.settled else None
            if before and table == self.table and record.commit.revision <= before.commit.revision:
                without.add(partition)
        seen = {
            key[1]: Seen(record.commit.revision, record.epoch, record.commit.rows)
            for key, record in known.items()
            # All files of some were lost before anybody read them: their rows wait again.
            if key[0] == self.table and record.commit.files and key[1] not in without
        }
        return Upto(settled, tuple(sorted(without))), seen

    def at(self, time: datetime, manifests: Iterable[Manifest]) -> Upto:
        """Up to where everything could be read at `time`, by the log's `manifests`.

        What was settled between the newest manifest of then and `time` is above it. Of trimmed epochs only their times
        are known: each is taken to have been settled at once.
        """
        records = tuple(record for record in self.records if record.at <= time)
        settled = max((record.epoch for record in records), default=Epoch(0))
        for manifest in manifests:
            settled = manifest.settled if manifest.at <= time else settled
        return LogCommits(self.table, records, settled).read()[0]


@dataclass(frozen=True, slots=True)
class Change:
    """A partition whose committed rows have changed; `rows_before` is None where nobody knows it any more."""

    partition: str
    revision: int
    rows_before: int | None
    rows: int
    why: tuple[str, ...]


def changes(before: Seens, now: Seens, *, is_held: Callable[[str], bool], knows_all: bool) -> list[Change]:
    """What differs between two looks, by partition.

    `is_held`: whether a partition is committed at its end, so that rows which come after that are late. `knows_all`:
    what is missing in `before` was never seen; otherwise its earlier commits may be trimmed.
    """
    reasons: dict[str, list[str]] = {}
    unknown = set[str]()
    for log, partitions in now.items():
        for partition, seen in partitions.items():
            was = before.get(log, {}).get(partition)
            if was == seen:
                continue
            if was is None and seen.revision > 1 and not knows_all:
                unknown.add(partition)
            reason = "late rows" if is_held(partition) else "more rows"
            if was and seen.rows <= was.rows:
                # Only a forget takes rows away that could be read.
                reason = "a forgotten loss" if seen.rows < was.rows else "as many rows"
            reasons.setdefault(partition, []).append("replay" if log.startswith(f"{REPLAYS}/") else reason)
    changed = []
    for partition, why in sorted(reasons.items()):
        old, new = ([log[partition] for log in look.values() if partition in log] for look in (before, now))
        rows = None if partition in unknown else sum(seen.rows for seen in old)
        is_new = not old and partition not in unknown
        told = ("new",) if is_new else tuple(dict.fromkeys(why))
        revision, total = sum(seen.revision for seen in new), sum(seen.rows for seen in new)
        changed.append(Change(partition, revision, rows, total, told))
    return changed


def revision_text(revision: Revision) -> str:
    """`backfill/1:7,flights/2:1234`, and after an epoch the partitions that it is without, each after a `!`."""
    texts = {log: [str(epoch), *(quote(name, "") for name in without)] for log, (epoch, without) in revision.items()}
    return ",".join(f"{log}:{'!'.join(upto)}" for log, upto in sorted(texts.items()))


def parse_revision(text: str, logs: Iterable[str]) -> Revision:
    """The inverse of `revision_text`, of all `logs`; a number alone is of the only one. Raises InvalidOption."""
    known = sorted(logs)
    parsed = {log: Upto(Epoch(0)) for log in known}
    for item in text.split(","):
        log, _, upto = item.rpartition(":")
        number, *without = upto.split("!")
        log = log or (known[0] if len(known) == 1 else "")
        if log not in known or not (number.isascii() and number.isdecimal()):
            problem = f"{text!r} is no revision of this table: write it as `hivesink changed` prints it, or a time"
            raise InvalidOption((problem,))
        parsed[log] = Upto(Epoch(int(number)), tuple(map(unquote, without)))
    return parsed


def encode_receipt(seen: Seens) -> bytes:
    """JSON of what a consumer has seen."""
    return (json.dumps({"format": 1, "logs": seen}, sort_keys=True, indent=1) + "\n").encode()


def decode_receipt(data: bytes, file: str) -> Seens:
    """The inverse of `encode_receipt`. Raises LogDamaged, which names `file`."""
    try:
        logs = json.loads(data)["logs"]
        return {log: {name: Seen(*seen) for name, seen in each.items()} for log, each in logs.items()}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        advice = "delete it: the consumer then sees every partition as new"
        raise LogDamaged(file, f"it is no receipt ({error})", advice) from error

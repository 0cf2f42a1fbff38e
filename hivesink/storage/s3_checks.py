"""What a start asks of an S3 store: one of many writers creates an object, a publish has conditions, uploads stay."""

from __future__ import annotations

import logging
import secrets
import threading
from contextlib import suppress
from functools import partial

from hivesink.errors import HiveSinkError, NotWritable, Unsupported
from hivesink.storage.fs import DOUBTS, join
from hivesink.storage.part_store import run_parallel
from hivesink.storage.s3_objects import Objects, Place

logger = logging.getLogger("hivesink")
_WRITERS, _ROUNDS = 20, 3
"""Two writers rarely meet, and the first round opens the connections."""
DAYS = 7
"""How long an upload has to stay: for a metastore that is down over a weekend, say."""


def check(objects: Objects, root: str, table: str) -> None:
    """Prove that the store honours conditional writes below `root`; warn of a rule that aborts uploads of `table`.

    Raises Unsupported, NotWritable, StoreUnavailable.
    """

    def fresh() -> Place:
        return objects.at(join(root, f".hivesink-check-{secrets.token_hex(8)}"))

    # A store that is away says so here; racing writers would all be in doubt.
    _publish(fresh(), fresh())
    for _ in range(_ROUNDS):
        _race(fresh())
    # Not everybody may read the rules.
    with suppress(HiveSinkError, FileNotFoundError):
        place = objects.at(table)
        answer = place.bucket.ask("look at the rules of", table, "get_bucket_lifecycle_configuration")
        for rule in answer.get("Rules", ()):
            days = rule.get("AbortIncompleteMultipartUpload", {}).get("DaysAfterInitiation", DAYS)
            only = rule.get("Filter", {}).get("Prefix", rule.get("Prefix", ""))
            if rule.get("Status") == "Enabled" and days < DAYS and f"{place.key}/".startswith(only):
                text = "a lifecycle rule of bucket %s aborts uploads after %d days: set it to %d or more, or rows that "
                text += "wait for the metastore are encoded again and again"
                logger.warning(text, place.bucket.name, days, DAYS)


def _race(place: Place) -> None:
    """Let many writers create the object at `place` at once; then it is deleted. Raises Unsupported."""
    start, won = threading.Barrier(_WRITERS), list[int]()

    def write(number: int) -> None:
        start.wait()
        # Otherwise another was first, or nobody knows.
        with suppress(*DOUBTS):
            place.put(str(number).encode(), anew=True)
            won.append(number)

    try:
        run_parallel((partial(write, number) for number in range(_WRITERS)), _WRITERS)
    finally:
        with suppress(HiveSinkError):
            place.delete()
    if len(won) > 1:
        why = f"{len(won)} of {_WRITERS} writers created the same object, so two runs could decide the same epoch"
        raise _unfit(place, why)


def _publish(first: Place, second: Place) -> None:
    """Complete an upload and copy its object, both under the condition of a publish; then all is deleted."""
    upload = first.begin({})
    try:
        upload.complete([(1, upload.send(1, b"check"), 5)])
        first.copy_to(second, 5, {})
    except DOUBTS:
        """A publish would look again."""
    except NotWritable as error:
        if "AccessDenied" in str(error):
            raise
        raise _unfit(first, f"it refuses a conditional completion or copy ({error.__cause__})") from error
    finally:
        upload.abort()
        first.delete()
        second.delete()


def _unfit(place: Place, why: str) -> Unsupported:
    what = f"the store {place.bucket.client.meta.endpoint_url} (bucket {place.bucket.name})"
    return Unsupported(what, why, "keep table and log in one that honours If-None-Match")

"""Where tables were when the metastore last said so: for people who look while it is away, never for writing."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from hivesink.config.cache import cache_folder, write_atomically

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class KnownTable:
    """A table's `location` by the metastore at `metastore`, as of `at` (UTC, ISO 8601)."""

    table: str
    metastore: str
    location: str
    at: str


def remember(table: str, metastore: str, location: str, now: datetime) -> None:
    """Keep the location, as of `now` (UTC), in the user's cache folder."""
    at = now.isoformat(timespec="seconds")
    # Without a cache nothing is lost but this help.
    with suppress(OSError):
        write_atomically(_file(table, metastore), json.dumps(asdict(KnownTable(table, metastore, location, at))))


def known(table: str, metastore: str) -> KnownTable | None:
    """What is remembered of the table, if anything."""
    with suppress(OSError, ValueError, TypeError):
        return KnownTable(**json.loads(_file(table, metastore).read_text(encoding="utf-8")))
    return None


def _file(table: str, metastore: str) -> Path:
    key = sha256(f"{metastore} {table}".encode()).hexdigest()[:24]
    return cache_folder() / "tables" / f"{key}.json"

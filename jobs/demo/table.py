"""The table that is streamed into: its declaration, and what the sink's log says of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hivesink.config.options import check
from hivesink.hiveql.apply import apply
from hivesink.hiveql.parse import parse_path

if TYPE_CHECKING:
    from hivesink.hiveql.apply import Catalog
    from hivesink.ports import CommitLog
    from jobs.demo.screen import Screen

DDL = Path(__file__).parents[2] / "ddl"
TABLE = "demo.flights"


def declare_tables(catalog: Catalog, screen: Screen) -> None:
    """Apply ddl/, as `hivesink ddl apply ddl` does."""
    screen.step("Declaring the tables in ddl/")
    for done in apply(parse_path(DDL, check), catalog):
        screen.fact(str(done))


def committed(log: CommitLog) -> tuple[int, int]:
    """Rows and epochs that the sink's log holds from earlier runs."""
    view, floor = log.view(), log.floor()
    rows = sum(log.manifest(epoch).rows.written for epoch in view.manifests)
    return rows + (floor.totals.written if floor else 0), view.head

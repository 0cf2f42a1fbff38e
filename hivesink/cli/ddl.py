"""`hivesink ddl`: tables as their DDL files declare them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hivesink import wiring
from hivesink.cli.opened import metastore_address, site_here
from hivesink.cli.options import Debug, Json, Metastore
from hivesink.cli.output import Line, Report
from hivesink.cli.reporting import reporting
from hivesink.config import options
from hivesink.errors import DdlDiffers
from hivesink.hiveql.apply import apply as apply_all
from hivesink.hiveql.apply import plan_all
from hivesink.hiveql.parse import parse_path
from hivesink.hiveql.plan import Alter, Create, Differs, Nothing, Plan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hivesink.hiveql.apply import Catalog

app = typer.Typer(help="Declare tables: one Hive CREATE TABLE a file.")

DdlPath = Annotated[Path, typer.Argument(help="A .sql file, or a folder of them.", metavar="PATH")]

_WORDS = {Create: "create", Alter: "alter", Nothing: "nothing", Differs: "differs"}


@app.command()
def plan(path: DdlPath, metastore: Metastore = None, json: Json = False, debug: Debug = False) -> None:
    """Say what `ddl apply` would do, and why a difference can't be applied; change nothing.

    Exits with 65 where a live table differs in a way that can't be applied.

    Example: hivesink ddl plan ddl/
    """
    with reporting(as_json=json, debug=debug) as out:
        specs = parse_path(path, options.check)
        plans = plan_all(specs, _catalog(metastore))
        out.show(_report(plans, done=False))
        differences = [line for step in plans if isinstance(step, Differs) for line in str(step).splitlines()]
        if differences:
            raise DdlDiffers(tuple(differences))


@app.command()
def apply(path: DdlPath, metastore: Metastore = None, json: Json = False, debug: Debug = False) -> None:
    """Create missing tables and set changed properties. Doing it again does nothing.

    All files are checked before anything is changed.

    Example: hivesink ddl apply ddl/flights.sql
    """
    with reporting(as_json=json, debug=debug) as out:
        specs = parse_path(path, options.check)
        plans = apply_all(specs, _catalog(metastore))
        out.show(_report(plans, done=True))


def _catalog(metastore: str | None) -> Catalog:
    site = site_here()
    return wiring.catalog(metastore_address(metastore, site), site)


def _report(plans: Sequence[Plan], *, done: bool) -> Report:
    data = {
        "done": done,
        "tables": [
            {"table": _name(step), "action": _WORDS[type(step)], "detail": str(step).splitlines()} for step in plans
        ],
    }
    shown = [step for step in plans if not isinstance(step, Differs)]
    marks = {Create: "green", Alter: "yellow"}
    return Report(data, [Line(_sentence(step, done=done), marks.get(type(step), "")) for step in shown])


def _sentence(step: Plan, *, done: bool) -> str:
    if not done:
        return str(step)
    match step:
        case Create():
            return f"{_name(step)}: created"
        case Alter():
            return f"{step} (done)"
        case _:
            return str(step)


def _name(step: Plan) -> str:
    return str(step.spec.name if isinstance(step, Create) else step.name)

"""`hivesink metastore`: the embedded Hive Metastore of this folder."""

from __future__ import annotations

from dataclasses import asdict

import typer

from hivesink.cli.options import Debug, Json
from hivesink.cli.output import Line, Report
from hivesink.cli.reporting import reporting
from hivesink.embedded import metastore

app = typer.Typer(help="The embedded Hive Metastore, in .hivesink-local or $HIVESINK_HOME.")


@app.command()
def start(json: Json = False, debug: Debug = False) -> None:
    """Start it, to go on when this command ends; where it runs already, leave it so.

    Example: hivesink metastore start
    """
    with reporting(as_json=json, debug=debug) as out:
        out.show(_report(metastore.start()))


@app.command()
def stop(json: Json = False, debug: Debug = False) -> None:
    """Stop it, and return when it is gone. What it holds stays for the next start.

    Example: hivesink metastore stop
    """
    with reporting(as_json=json, debug=debug) as out:
        out.show(_report(metastore.stop()))


@app.command()
def status(json: Json = False, debug: Debug = False) -> None:
    """Say whether it runs, and where.

    Example: hivesink metastore status
    """
    with reporting(as_json=json, debug=debug) as out:
        out.show(_report(metastore.status()))


def _report(found: metastore.MetastoreStatus) -> Report:
    if found.running:
        text = f"runs at {found.uri} (process {found.pid}), warehouse {found.warehouse}"
    else:
        text = "does not run"
    return Report(asdict(found), [Line(f"the metastore of {found.home} {text}")])

"""`hivesink doctor`: a line for each part of a site, good or bad, and nothing left behind."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hivesink.embedded.server import free_port
from hivesink.jvm.java import write_sites
from tests.cli.site import Capsys, Ingest, hivesink


def bad(capsys: Capsys, code: int, *arguments: str) -> dict[str, str]:
    """What the lines say that aren't ok, by what they are about."""
    found = hivesink(capsys, "doctor", *arguments, "--json")
    assert found.code == code, found.out + found.err
    assert found.data["ok"] is (code == 0)
    said = {check["what"]: check["said"] for check in found.data["checks"] if not check["ok"]}
    shown = hivesink(capsys, "doctor", *arguments)
    lines = shown.out.splitlines()
    assert shown.code == code
    assert len([line for line in lines if line.startswith("BAD ")]) == len(said)
    assert all(line.startswith(("BAD ", "ok  ")) for line in lines)
    return said


def test_all_is_well(ingest: Ingest, uri: str, capsys: Capsys) -> None:
    before = sorted(map(str, ingest.location.parent.rglob("*")))
    found = hivesink(capsys, "doctor", ingest.table, "--json")
    assert found.code == 0, found.out
    assert sorted(map(str, ingest.location.parent.rglob("*"))) == before
    said = {check["what"]: check["said"] for check in found.data["checks"]}
    assert re.match(r"Java \d+, Python 3\.\d+\.\d+, pyarrow \d", said["driver"])
    assert " pyhive 0." in said["driver"]
    assert said["site files"].startswith("none")
    assert said[f"metastore {uri}"].startswith("Hive 3.1 or older, as ")
    assert said[f"table {ingest.table}"].endswith("1 writers have a log")
    assert [what for what, text in said.items() if text == "can be written"] == [*said][-2:]


def test_a_table_that_nobody_wrote_gets_no_log(table: str, tmp_path: Path, capsys: Capsys) -> None:
    before = sorted(map(str, tmp_path.rglob("*")))
    found = hivesink(capsys, "doctor", table, "--json")
    assert found.code == 0, found.out
    assert "can be made in " in found.data["checks"][-1]["said"]
    assert sorted(map(str, tmp_path.rglob("*"))) == before


def test_what_is_away(table: str, capsys: Capsys) -> None:
    address = f"127.0.0.1:{free_port()}"
    said = bad(capsys, 75, table, "--metastore", f"thrift://{address}", "--hiveserver2", address)
    assert [*said] == [f"metastore thrift://{address}", f"HiveServer2 {address}", f"table {table}"]
    assert all(address in text for text in said.values())


def test_a_folder_that_can_not_be_written(ingest: Ingest, capsys: Capsys) -> None:
    ingest.location.rename(ingest.location.with_name("elsewhere"))
    ingest.location.write_text("in the way")
    assert [*bad(capsys, 75, ingest.table)] == [f"folder {ingest.setup.spec.target.location}"]


@pytest.mark.parametrize(
    ("name", "value", "what"),
    [
        ("hive.metastore.uris", "localhost:9083", "metastore localhost:9083"),
        ("hive.metastore.client.socket.timeout", "soon", "metastore thrift://127.0.0.1:1"),
    ],
)
def test_wrong_settings(  # noqa: PLR0917
    name: str, value: str, what: str, tmp_path: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HIVESINK_METASTORE", raising=False)
    write_sites(tmp_path, {"hive-site": {name: value}})
    monkeypatch.setenv("HIVE_CONF_DIR", str(tmp_path))
    arguments = ("--metastore", "thrift://127.0.0.1:1") if name != "hive.metastore.uris" else ()
    assert what in bad(capsys, 65, *arguments)


def test_site_files_that_can_not_be_read(tmp_path: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing else can be looked at by them."""
    (tmp_path / "hive-site.xml").write_text("<configuration>")
    monkeypatch.setenv("HIVE_CONF_DIR", str(tmp_path))
    found = hivesink(capsys, "doctor")
    assert (found.code, found.out) == (65, "")
    assert f"the site configuration {tmp_path}/hive-site.xml: it is not well-formed XML" in found.err


def test_an_unknown_table_and_a_wrong_name(uri: str, capsys: Capsys) -> None:
    assert uri
    assert [*bad(capsys, 65, "nobody.knows")] == ["table nobody.knows"]
    assert hivesink(capsys, "doctor", "a.b.c").code == 2

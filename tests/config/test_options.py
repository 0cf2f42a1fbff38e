"""Settings: what is taken, what is refused and why, and which columns they may name."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from hivesink.config.options import SinkConfig, as_texts
from hivesink.config.plugins import modules_for_tasks
from hivesink.core.table import Array, Column, Primitive, SortKey, TableName, TableSpec
from hivesink.errors import InvalidOption
from hivesink.sink.commit.writer import require_columns

INTERVAL, DELAY = "sink.rolling-policy.check-interval", "sink.registration.max-delay"
SUCCESS_FILE, POLICIES = "sink.partition-commit.success-file.name", "sink.partition-commit.policy.kind"
SPEC = TableSpec(
    TableName("db", "t"),
    (Column("id", Primitive.INT), Column("flag", Primitive.BOOLEAN), Column("tags", Array(Primitive.STRING))),
    (Column("dt", Primitive.STRING),),
)


@pytest.mark.parametrize(
    ("name", "texts", "told"),
    [
        (INTERVAL, ["0s", "0ms"], "a duration above 0"),
        (DELAY, ["36501d", f"{10**20}ms"], "a shorter duration"),
        (SUCCESS_FILE, [".", "..", "x"], "a file name"),
        ("sink.log-location", ["logs/events", "file:logs"], "a path"),
        ("sink.sort-by", ["", "a,", "a,a desc", "desc desc,desc"], "columns, separated by commas, each once"),
        ("orc.row.index.stride", ["1000000000", f"{2**32}", "0", "-1", "many"], "a whole number"),
        ("orc.stripe.size", ["0", "1", "999999", "999KB", "0MB", "00GB", "1TB"], "a size of at least 1MB"),
        ("sink.json.null-text", ["", "zero", "a=", "empty,,"], "none, empty, zero-date, or column=empty"),
        ("sink.value.csv.field-delimiter", ["", "ab", "a", "5", "none", "ä"], "a single ASCII"),
        (POLICIES, ["success-file", "metastore,custom", "metastore,own:A,own:B"], "metastore, and what else of"),
    ],
)
def test_values_that_can_not_work_are_refused(name: str, texts: list[str], told: str) -> None:
    for text in texts:
        with pytest.raises(InvalidOption, match=rf"^{name} = '{text}': write {told}"):
            SinkConfig.parse({name: text})


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        # A job may refuse to wait, or wait for a century.
        (DELAY, "0s", timedelta(0)),
        (DELAY, "36500d", timedelta(days=36_500)),
        *(
            ("sink.value.csv.field-delimiter", text, sign)
            for text, sign in (("|", "|"), (r"\t", "\t"), (r"\u0001", "\1"))
        ),
        ("orc.row.index.stride", " 999999999", 999_999_999),
        *(("orc.stripe.size", text, 2**20) for text in ("1MB", "1 m", "1024kb", "1048576", "1048576b")),
        *((SUCCESS_FILE, name, name) for name in ("_SUCCESS", ".done", "..done", "_")),
        (
            "sink.sort-by",
            "A, b c DESC ,desc,d asc",
            (SortKey("a"), SortKey("b c", descending=True), SortKey("desc"), SortKey("d")),
        ),
    ],
)
def test_values_at_their_limits(name: str, text: str, value: object) -> None:
    assert SinkConfig.parse({name: text})[name] == value


def test_a_jobs_own_options_must_all_be_settings_and_may_be_numbers() -> None:
    properties = {"sink.task-memory": "64MB", "comment": "of another tool"}
    config = SinkConfig.parse(properties, as_texts({"sink.log.retained-epochs": 10}))
    assert (config["sink.log.retained-epochs"], config["sink.task-memory"]) == (10, 64 * 1024 * 1024)
    with pytest.raises(InvalidOption, match="on-bad-record is not a setting") as told:
        SinkConfig.parse(properties, as_texts({"on-bad-record": "drop", "sink.task-memory": -5}))
    assert "sink.task-memory = '-5'" in str(told.value)


def test_only_what_is_not_at_its_default_is_changed() -> None:
    given = {
        "sink.rolling-policy.rollover-interval": "300s",
        "sink.partition-commit.delay": "1h",
        "sink.partition-commit.idle-timeout": "1min",
        "password": "of another tool",
    }
    config = SinkConfig.parse(given, {"sink.partition-commit.idle-timeout": "2min"})
    assert config.changed == {"sink.partition-commit.delay": "1h", "sink.partition-commit.idle-timeout": "2min"}
    texts = [config.text(name) for name in (*given, "sink.late-rows", "sink.sort-by")]
    assert texts == ["5min", "1h", "2min", None, "append", None]
    assert SinkConfig.parse({}, config.changed) == config


@pytest.mark.parametrize("name", ["a.b.c", "", None])
def test_what_is_no_name_of_a_table(name: Any) -> None:
    with pytest.raises(InvalidOption, match=r"database\.table"):
        TableName.parse(name)


def test_columns_of_all_settings_are_checked_at_once() -> None:
    config = SinkConfig.parse(
        {
            "sink.sort-by": "flag, nope, tags desc, dt",
            "sink.timestamp-format": "gone=epoch-millis,dt=text",
            "sink.json.null-text": "empty, FLAG=zero-date, nil=empty",
        }
    )
    with pytest.raises(InvalidOption) as refused:
        require_columns(SPEC, config)
    problems = (
        "sink.sort-by names 'nope', which is no column of db.t",
        "sink.sort-by names 'tags', which is array<string>: write columns that are not nested",
        "sink.sort-by names 'dt', a partition column: it has the same value for all rows of a file",
        "sink.timestamp-format names 'gone', which is no column of db.t",
        "sink.json.null-text names 'nil', which is no column of db.t",
    )
    assert str(refused.value) == str(InvalidOption(problems))
    bloom = SinkConfig.parse({"orc.bloom.filter.columns": "ID,tags,no,tiny"})
    require_columns(SPEC, bloom)
    tiny = Column("tiny", Primitive.TINYINT)
    with pytest.raises(InvalidOption) as refused:
        require_columns(replace(SPEC, columns=(*SPEC.columns, tiny), format="ORC"), bloom)
    assert [problem.split("names ")[1][:8] for problem in refused.value.problems] == [
        "'tags', ",
        "'no', wh",
        "'tiny', ",
    ]


SOURCES = {"etl/mine.py": "import helper, shared.text", "helper.py": "", "shared/__init__.py": "", "shared/text.py": ""}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """`etl.mine`, imported from a folder on the path; `etl` has no __init__.py, and `unused` was not imported."""
    for name, text in {**SOURCES, "unused.py": ""}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("etl.mine")
    yield
    for name in ("etl.mine", "etl", "helper", "shared.text", "shared"):
        del sys.modules[name]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("option", ["sink.bucket.assigner", "partition.time-extractor.class"])
def test_they_are_those_imported_from_the_folder_of_the_class(option: str) -> None:
    entries = modules_for_tasks(SinkConfig.parse({option: "etl.mine:Any"}))
    assert {name: text.decode() for name, text in entries.items()} == {**SOURCES, "etl/": "", "shared/": ""}


@pytest.mark.usefixtures("folder")
def test_installed_classes_the_sinks_own_and_those_of_the_driver_need_no_sending() -> None:
    for value in ("partition-columns", "json:JSONDecoder", "pyarrow.compute:Any", "hivesink.core.log:A"):
        assert modules_for_tasks(SinkConfig.parse({"sink.bucket.assigner": value})) == {}
    assert modules_for_tasks(SinkConfig.parse({"sink.rolling-policy.class": "etl.mine:Any"})) == {}

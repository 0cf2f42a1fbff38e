"""Errors: each has its own code, which docs/operations.md explains, and a wording, which tests/messages.txt keeps.

`REWRITE=1 pytest tests/test_errors.py` writes that file anew.
"""

from __future__ import annotations

import os
import pickle
import re
import traceback
from pathlib import Path

from hivesink import errors
from hivesink.cli.codes import JobFailed

GOLDEN = Path(__file__).with_name("messages.txt")
PLACE = ("demo.t", "/log", "/cp")
KINDS: list[type[errors.HiveSinkError]] = [
    kind for name in errors.__all__ if isinstance(kind := getattr(errors, name), type)
]
INSTANCES: tuple[errors.HiveSinkError, ...] = (
    JobFailed(Path("job.py"), "ValueError: no"),
    errors.InvalidOption(("sink.x is unknown",)),
    errors.OwnCodeFailed("sink.x = a.B", "commit", ValueError("no")),
    errors.Unsupported("s3a://b/t", "no adapter", "use hdfs://"),
    errors.TypeTextInvalid("INTT", "no such type"),
    errors.PartitionInvalid("'dt'", "'dt' is not name=value"),
    errors.DdlInvalid(("a.sql:3: one", "b.sql: two")),
    errors.BadRecord("demo.t", "topic t, partition 0, offset 7", "id", "not a number"),
    errors.SourceUnreachable("topic t of Kafka at k:9092", "no broker answers"),
    errors.EpochTaken("/log", 4),
    errors.FencedOut("/log", 4, 6),
    errors.ReplayOvertaken("demo.t"),
    errors.ForeignHistory(PLACE, 4, "q1", None),
    errors.CheckpointUnreadable("/cp", "offsets/3", "it is missing"),
    errors.CheckpointUnreadable("/cp", "commits/3", "it is empty"),
    errors.CheckpointDiffers(PLACE, 4, "batch 2 comes after 3"),
    errors.CheckpointDiffers(PLACE, 4, "batch 3 comes again up to 9 instead of 7", ("/in/a.json",)),
    errors.CheckpointDiffers(PLACE, 0, "batch 0 runs back (t-0: 5 to 0)", advice="name the topics again"),
    errors.SourceChanged("/log", 4, "a, b", "reads b, a in their places"),
    errors.SourceChanged.topics("/log", 4, ("t",)),
    errors.SourceChanged("/log", 4, "columns", "would take its rows as raw records", keeps_checkpoint=True),
    errors.SourceFilesMissing("q1", 3, 2, ("/in/a.json",)),
    errors.SourceFilesChanged(3, ("/in/a.json",)),
    errors.CalledTwice("/log", 3, 4),
    errors.LogDamaged("/log/w/manifests/4.json", "not JSON"),
    errors.LogDamaged("/log/w/manifests/floor-4", "not JSON"),
    errors.LogDamaged.other_format("/log/w/manifests/4.json", 9, 3),
    errors.LogMissing.behind("/log", 3),
    errors.LogMissing.behind("/log", 9, 4, 3),
    errors.LogMissing.gone("/log"),
    errors.SegmentLost("/log/w/segments/1.arrow", "it is missing"),
    errors.RowsUnfit("demo.t", "dt=1", "id", ("BIGINT", "INT"), "5000000000"),
    errors.RowsHeldBack(("rows wait", "others too"), retryable=False),
    errors.LogOfAnotherTable("demo.copy", "/log", "demo.t", "/t"),
    errors.TableMadeAgain("demo.t", "/log", "ALTER TABLE …"),
    errors.FilesUnknown("demo.t", "w", "/log", "/t/part-1", "0a1b"),
    errors.PartLost.missing("/t/.part-1.pending", "/t/part-1").of("demo.t", "dt=1"),
    errors.PartLost.wrong_length("/t/part-1", 9, 7).of("demo.t", ""),
    errors.TargetTaken("/t/.part-1.pending", "/t/part-1"),
    errors.StoreUnavailable("write", "/t/part-1", "no space"),
    errors.OutcomeUnknown("rename", "/t/part-1", "timed out"),
    errors.NotWritable("/t", "Permission denied"),
    errors.folder_gone("demo.t", "/t", "/log"),
    errors.property_refused("demo.t", "no ALTER", "ALTER TABLE …"),
    errors.unknown_file_system("hdfs://x/t", "no such host"),
    errors.JavaFailed("no Java 17 to 17 found here (PATH: none)", "install one"),
    errors.ServerFailed("the metastore", "was not ready", "/log", ""),
    errors.TaskFailed("no", retryable=False),
    errors.UnknownTable("default.t", "thrift://h:9083"),
    errors.UnknownTable("demo.t", "thrift://h:9083", gone=True),
    errors.UnknownTable("demo.t__rejected", "thrift://h:9083"),
    errors.MetastoreUnreachable("thrift://h:9083", "refused"),
    errors.MetastoreNotUnderstood("thrift://h:9083", "no such call"),
    errors.RegistrationFailed("demo.t", "register", "no", "thrift://h:9083", ("dt=1",)),
    errors.FolderTaken("demo.t", {"dt=A": ("/t/dt=A", "dt=B")}, "thrift://h:9083"),
    errors.RegistrationUnknown("demo.t", "register", "timed out", "thrift://h:9083"),
    errors.PartitionElsewhere("demo.t", "dt=1", "/x", "another file system", "h:9083", folder="/t/dt=1"),
    errors.TableReplaced("demo.t", "somebody has created it"),
    errors.TableReplaced("demo.t", "it names another log"),
    errors.QueryFailed("no such function"),
    errors.LoginFailed("thrift://h:9083", "alice@EXAMPLE.COM", "its ticket has ended", "run kinit"),
    errors.NotCovered("a window"),
)


def test_a_trace_names_the_place_to_import_them_from() -> None:
    text = "".join(traceback.format_exception_only(errors.InvalidOption(("sink.x is unknown",))))
    assert text.startswith("hivesink.errors.InvalidOption: ")
    for kind in KINDS:
        assert f"{kind.__module__}.{kind.__qualname__}" == f"hivesink.errors.{kind.__name__}"
        assert pickle.loads(pickle.dumps(kind)) is kind  # noqa: S301 - its own


def test_each_error_has_a_code_of_its_own_which_the_page_explains_once() -> None:
    codes = [JobFailed.code, *(kind.code for kind in KINDS)]
    assert len({*codes}) == len(codes)
    page = GOLDEN.parents[1].joinpath("docs", "operations.md").read_text(encoding="utf-8")
    places = re.findall(r"^(?:\| (HS\d{3}[^|]*) \||\*\*(HS\d{3}[^*]*)\*\*)", page, re.MULTILINE)
    assert sorted(re.findall(r"HS\d{3}", str(places))) == sorted({*codes} - {errors.HiveSinkError.code})


def test_each_error_is_worded_as_in_the_golden_file() -> None:
    assert {type(error) for error in INSTANCES} == {*KINDS, JobFailed} - {errors.HiveSinkError}
    text = "".join(f"{error.code} {type(error).__name__}: {error}\n" for error in INSTANCES)
    if os.environ.get("REWRITE"):
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8")

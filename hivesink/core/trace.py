"""What Python or Java raised, read from the text of a stack trace that came through another process."""

from __future__ import annotations

import re

_RAISED = re.compile(r"Traceback \(most recent call last\):\n(?:\s.*\n)*(\S.*)")
_CARRIERS = ("py4j.protocol.Py4J", "pyspark.errors.exceptions.")
"""Errors that only pass on what was raised elsewhere."""
_STATE = re.compile(r"(?:\s*SQLSTATE: \w+)+$")


_TWO_RUNS = re.compile(
    r"\bSparkConcurrentModificationException\b|\[CONCURRENT_|another query with same id is already active"
    r"|\bMultiple streaming (?:jobs detected|queries are concurrently)"
)


def says_two_runs(text: str) -> bool:
    """Whether Spark has found another run of a query at its checkpoint."""
    return _TWO_RUNS.search(text) is not None


_OTHER_PLAN = re.compile(
    r"assertion failed: (There are \[\d+\] sources in the checkpoint offsets and now there are \[\d+\] sources)"
    r"|\[(?:STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA|STATE_STORE_(?:KEY_SCHEMA_NOT_COMPATIBLE"
    r"|VALUE_SCHEMA_NOT_COMPATIBLE|COLUMN_FAMILY_SCHEMA_INCOMPATIBLE|INVALID_VALUE_SCHEMA_EVOLUTION"
    r"|INVALID_VARIABLE_TYPE_CHANGE))\] ([^.\n]+)"
)


def other_plan(text: str) -> str | None:
    """How a query differs from the one that its checkpoint is of, if Spark refuses it for that."""
    found = _OTHER_PLAN.search(text)
    return (found[1] or found[2]) if found else None


_UNREADABLE_RECORD = re.compile(
    r"Record at topic (\S+) partition (\d+) offset (\d+) has timestamp value (-?\d+) that overflows"
)


def unreadable_record(text: str) -> tuple[str, int, int, int] | None:
    """The Kafka record whose time Spark can't hold: topic, partition, offset and its timestamp (milliseconds)."""
    found = _UNREADABLE_RECORD.search(text)
    return (found[1], int(found[2]), int(found[3]), int(found[4])) if found else None


_JAVA = re.compile(r"^\s*(?:: |Caused by: )?((?:[a-z]\w*\.)+[A-Z]\w*(?:Exception|Error|Failure): .+)$", re.MULTILINE)


_DENIED = re.compile(
    r"""
    (?: (?:java\.io\.FileNotFoundException|terminated\ with\ exception):\ (?P<disk>/.+)
        \ \((?P<errno>Permission\ denied|Operation\ not\ permitted|Read-only\ file\ system)\)
    | java\.nio\.file\.AccessDeniedException:\ (?P<nio>[^\n]+?)(?:\ *:\ Permission\ denied)?$
    | AccessControlException:\ (?P<hdfs>Permission\ denied:\ user=.+?,\ inode="(?P<inode>[^"\n]+)".*)
    )
    """,
    re.VERBOSE | re.MULTILINE,
)
_UNBORN = re.compile(r"/\.[^/]+\.tmp$")


def denied(text: str) -> tuple[str, str] | None:
    """The file or folder that Java's clients may not use, and the reason; None if no error says so."""
    found = _DENIED.search(text)
    if found is None:
        return None
    # What could not be created isn't there: its folder is.
    path = found["disk"] or found["nio"] or found["inode"]
    return _UNBORN.sub("", path), found["errno"] or found["hdfs"] or "Permission denied"


_STATE_DAMAGE = re.compile(
    r"""
    \b(Error\ reading\ (?:(?:delta|snapshot)\ file|streaming\ state\ file\ of)\ .+)
    | \[CANNOT_LOAD_STATE_STORE\.(?:CANNOT_FIND_BASE_SNAPSHOT_CHECKPOINT|UNEXPECTED_FILE_SIZE)\]\ (.+)
    | ^Caused\ by:\ ( java\.io\.EOFException(?::\ (?:Stream\ ended\ prematurely|Unexpected\ end\ of\ ZLIB.*))?
        | java\.util\.zip\.ZipException:\ .+
        | java\.io\.FileNotFoundException:\ File\ .+/state/\d+/.+\ does\ not\ exist
        | java\.nio\.file\.NoSuchFileException:\ .+/workingDir-.+
        | org\.rocksdb\.RocksDBException:\ (?:Bad\ table|Corruption|.*\bNo\ such\ file).*
        | java\.io\.IOException:\ Stream\ is\ corrupted
        | org\.apache\.hadoop\.fs\.ChecksumException:\ .+ )\n
      (?: (?! Caused\ by | .*\borg\.apache\.hadoop\.(?:hdfs|ipc)\. ) .*\n )*?
      \s+at\ org\.apache\.spark\.sql\.execution\.streaming\.state\.
    """,
    re.VERBOSE | re.MULTILINE,
)
"""What Spark's readers of state say of a file's content. A stream that HDFS has broken off says nothing of it."""
_STATE_FILE = re.compile(r"/(state/\d+/\d+/\S+?)(?=[,.:]?(?:\s|$))")


_SOURCE_DAMAGE = re.compile(
    r"""
    (?:
      \b(?:while\ reading|cannot\ be\ converted\ in)\ file\ (.+?)\.?\s+(?:SQLSTATE|Data\ type|Column:|\n)
      (?s:.*?)
    )?
    ^Caused\ by:\ (?:\w+\.)+\w+Exception(?::\ (.+))?
    \n\s+at\ (?:
      org\.apache\.hadoop\.io\.compress | com\.github\.luben\.zstd
      | org\.apache\.parquet | org\.apache\.spark\.sql\.execution\.datasources\.parquet | org\.apache\.orc
    )\.
    """,
    re.VERBOSE | re.MULTILINE,
)
_SERVERS = re.compile(r"^\s+at org\.apache\.hadoop\.(?:hdfs|ipc|net)\.", re.MULTILINE)
_OTHER_TYPE = re.compile(r"column: \[(.+)\], physicalType: (\w+), logicalType: (.+)")


def damaged_source(text: str) -> tuple[str, str] | None:
    """The file of a source that Java's readers can't read to its end, and why; None if no error says so."""
    found = _SOURCE_DAMAGE.search(text)
    # Its file system may be there again, and whole.
    if found is None or _SERVERS.search(text):
        return None
    file, why = found[1] or "a file of the batch (Spark doesn't say which)", found[2] or "unexpected end"
    # Java says so as well of what follows the last member: gzip itself passes over zeros there.
    if why == "not a gzip file":
        why += ", or other bytes after its end"
    return file, _OTHER_TYPE.sub(r"its column \1 is \2; the schema has \3", why)


def damaged_state(text: str) -> tuple[str, str] | None:
    """The file of a query's state that is missing or damaged, as a path below its checkpoint, and the reason.

    The path is `state` where Spark doesn't name the file. None if no error says so.
    """
    found = None if denied(text) else _STATE_DAMAGE.search(text)
    if found is None:
        return None
    said = found[1] or found[2] or found[3]
    file = _STATE_FILE.search(said)
    return (file[1] if file else "state"), _STATE.sub("", said)


def java_lines(text: str) -> list[str]:
    """The errors of Java in a text that holds its stack traces: type and first line of the message, outermost first."""
    return _JAVA.findall(text)


def reason(text: str) -> str:
    """One line of an error's text: what a traceback in it ends with, else its first line.

    Where that line says only that a call of Py4J's failed: the error of Java.
    """
    raised = [line for line in _RAISED.findall(text) if not line.startswith(_CARRIERS)]
    if raised:
        return _STATE.sub("", raised[-1]).strip()
    first = next((line.strip() for line in text.splitlines() if line.strip()), "(no message)")
    java = java_lines(text) if first.startswith("An error occurred while calling") else []
    return java[0] if java else first

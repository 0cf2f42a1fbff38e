"""What a stack trace's text says was raised."""

from __future__ import annotations

import pytest

from hivesink.core.trace import damaged_source, damaged_state, denied, java_lines

PY4J = """An error occurred while calling o261.collectToPython.
: org.apache.spark.SparkException: Job aborted: no space
\tat org.apache.spark.Some.call(Some.scala:1)
Caused by: java.io.IOException: No space left on device
\t... 7 more
"""


def test_javas_errors_outermost_first() -> None:
    told = ["org.apache.spark.SparkException: Job aborted: no space", "java.io.IOException: No space left on device"]
    assert java_lines(PY4J) == told
    assert java_lines("An error occurred while calling o1.x.\n") == []


@pytest.mark.parametrize(
    ("java", "path"),
    [
        ("Caused by: java.io.FileNotFoundException: /in put/a.json (Permission denied)", "/in put/a.json"),
        ("terminated with exception: /c/commits/.3.1f-2e.tmp (Read-only file system) SQLSTATE: XXKST", "/c/commits"),
        (
            (
                "org.apache.hadoop.security.AccessControlException: Permission denied: user=a, access=WRITE, "
                'inode="/c/commits":root:root:drwxr-xr-x'
            ),
            "/c/commits",
        ),
        ("java.io.FileNotFoundException: File file:/in/a.json does not exist", None),
        ("org.apache.hadoop.security.AccessControlException: SIMPLE authentication is not enabled.", None),
    ],
)
def test_the_path_that_java_may_not_use(java: str, path: str | None) -> None:
    found = denied(f"[STREAM_FAILED] Query failed\n{java}\n\tat a.b.C")
    assert (found and found[0]) == path


_READER = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider.updateFromDeltaFile(H.scala:8)"
_MISSING = (
    "Error reading delta file file:/c p/state/0/0/2.delta of HDFS[id=1]: file:/c p/state/0/0/2.delta does not exist"
)


@pytest.mark.parametrize(
    ("java", "file"),
    [
        (_MISSING, "state/0/0/2.delta"),
        ("Error reading streaming state file of hdfs://n/c/state/1/3/4.delta does not exist.", "state/1/3/4.delta"),
        ("Caused by: java.io.EOFException", "state"),
        ("Caused by: java.io.EOFException: Stream ended prematurely", "state"),
        ("Caused by: java.io.IOException: Stream is corrupted", "state"),
        (
            "Caused by: org.apache.hadoop.fs.ChecksumException: Checksum error: file:/c/state/0/0/2.delta at 0 exp: 1",
            "state/0/0/2.delta",
        ),
        # RocksDB's: its zip, its files, and what came out of them.
        ("Caused by: java.io.EOFException: Unexpected end of ZLIB input stream", "state"),
        ("Caused by: java.util.zip.ZipException: invalid stored block lengths", "state"),
        (
            "Caused by: java.io.FileNotFoundException: File file:/c p/state/0/1/SSTs/000015-7.sst does not exist",
            "state/0/1/SSTs/000015-7.sst",
        ),
        ("Caused by: java.nio.file.NoSuchFileException: /tmp/StateStoreId(opId=0)-2/workingDir-5/metadata", "state"),
        ("Caused by: org.rocksdb.RocksDBException: Bad table magic number: expected 9, found 0 in /tmp/a.sst", "state"),
        ("Caused by: org.rocksdb.RocksDBException: While open a file: /tmp/a: No space left on device", None),
        # The file system is away, or refuses.
        ("Caused by: java.io.EOFException: End of File Exception between local host is: a", None),
        ("Caused by: java.io.EOFException\n\tat org.apache.hadoop.hdfs.protocolPB.PBHelper.read(P.java:1)", None),
        ("Caused by: java.net.ConnectException: Connection refused", None),
        (f"{_MISSING}\nCaused by: java.io.FileNotFoundException: /c p/state/0/0/2.delta (Permission denied)", None),
    ],
)
def test_the_state_file_that_is_missing_or_damaged(java: str, file: str | None) -> None:
    failed = "org.apache.spark.SparkException: [CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred"
    found = damaged_state(f"{failed}\n{java}\n\tat java.io.DataInputStream.readFully(D.java:1)\n\tat {_READER}\n")
    assert (found and found[0]) == file


_READ = "a.SparkException: [FAILED_READ_FILE.NO_HINT] Encountered error while reading file {}. SQLSTATE: KD001"
_UNPACKER = "\tat org.apache.hadoop.io.compress.DecompressorStream.read(D.java:1)\n"


@pytest.mark.parametrize(
    ("java", "found"),
    [
        (
            f"Caused by: java.io.IOException: not a gzip file\n{_UNPACKER}",
            ("file:///in/a%20b.gz", "not a gzip file, or other bytes after its end"),
        ),
        (f"Caused by: java.io.EOFException: Unexpected end\n{_UNPACKER}", ("file:///in/a%20b.gz", "Unexpected end")),
        # Parquet and ORC.
        (
            "Caused by: java.lang.RuntimeException: a is not a Parquet file\n\tat org.apache.parquet.hadoop.P.r(P:1)\n",
            ("file:///in/a%20b.gz", "a is not a Parquet file"),
        ),
        (
            "Caused by: java.io.EOFException\n\tat org.apache.parquet.bytes.B.slice(B.java:1)\n",
            ("file:///in/a%20b.gz", "unexpected end"),
        ),
        (
            (
                "Caused by: a.SException: column: [id], physicalType: INT64, logicalType: int\n"
                "\tat org.apache.spark.sql.execution.datasources.parquet.P.c(P.java:1)\n"
            ),
            ("file:///in/a%20b.gz", "its column id is INT64; the schema has int"),
        ),
        ("Caused by: java.lang.OutOfMemoryError: Java heap space\n\tat org.apache.parquet.bytes.B.a(B:1)\n", None),
        (
            (
                "Caused by: a.PException: could not read page\n\tat org.apache.parquet.P.r(P:1)\n"
                "Caused by: a.BlockMissingException: blk_1\n\tat org.apache.hadoop.hdfs.DFSInputStream.read(D:1)\n"
            ),
            None,
        ),
        # Its file system may be there again, and whole.
        (
            f"Caused by: java.io.IOException: gone\n\tat org.apache.hadoop.hdfs.DFSInputStream.read(D)\n{_UNPACKER}",
            None,
        ),
        ("Caused by: java.net.ConnectException: Connection refused\n\tat a.b.C\n", None),
    ],
)
def test_a_source_file_that_is_damaged(java: str, found: tuple[str, str] | None) -> None:
    assert damaged_source(f"{_READ.format('file:///in/a%20b.gz')}\n\tat a.b.C\n{java}") == found
    unnamed = damaged_source(f"org.apache.spark.SparkException: Job aborted\n\tat a.b.C\n{java}")
    assert unnamed == (found and ("a file of the batch (Spark doesn't say which)", found[1]))

"""The files of a batch, and what Spark would do wrong with some of them."""

from __future__ import annotations

import re
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from hivesink.core.offsets import FilesOffset
from hivesink.core.partfile import PartName
from hivesink.errors import SourceFileDamaged, Unsupported, few
from hivesink.spark.filenames import has_colon, is_pattern, read_twice, without_links
from hivesink.spark.site import driver_jvm, hadoop_configuration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from hivesink.core.epoch import BatchRef

_STATUS = re.compile(r"path=(.*?); isDirectory=false; length=(\d+);.*?; modification_time=(\d+);", re.DOTALL)
_NAMED, _ALL = 3, 100
"""How many files an error names as examples, and of those that a user has to find."""
_ONCE = 'start once with HiveSink.for_table(…, options={"sink.on-missing-file": "ignore"})'
_RENAMED = f"{_ONCE}: under its new name Spark reads a file once"
_INT = 4
_BZIP2 = re.compile(rb"BZh[1-9](?:\x31\x41\x59\x26\x53\x59|\x17\x72\x45\x38\x50\x90)")
_BZIP2_END, _BZIP2_LEAST = 0x177245385090, 14
"""After its header a bzip2 file has a block's mark or, if it is empty, the end's. The end's, and the least bytes."""
_NOTES = ("metadata", "offsets/", "commits/", "sources/", "state/")
"""What is in a checkpoint."""
_SOURCE = re.compile(r"FileStreamSource\[(.+)\]")


class SourceFiles:
    """A batch's files: which its file sources planned, and which of them Spark found.

    Spark reads only the files that its checkpoint plans for the batch, but lists them first, and silently leaves out
    those that are gone by then. `execution` is Spark's `StreamExecution` of the batch's query.
    """

    def __init__(self, spark: SparkSession, execution: Any, ref: BatchRef) -> None:
        self._spark = spark
        self.planned = [path for end in ref.end if isinstance(end, FilesOffset) for _, path in end.paths]
        self._relations = _file_relations(spark, execution) if self.planned else []
        self._execution, self._ref = execution, ref
        self._patterns = [path for path in map(unquote, self.planned) if is_pattern(path)]
        self._colons = [path for path in self.planned if has_colon(unquote(path))]

    def missing(self) -> list[str]:
        """The planned files that weren't there when Spark last listed them.

        Raises Unsupported if Spark can't open one on a local disk, for a colon in its name; and if one's name is a
        pattern to Spark, which then lists the batch's other files twice.
        """
        listed = [relation.location().inputFiles() for relation in self._relations]
        # A listing holds only planned files, so a full one needs no call for each file.
        if not (self._patterns or self._colons) and sum(len(files) for files in listed) == len(self.planned):
            return []
        present, planned = Counter(str(file) for files in listed for file in files), Counter(self.planned)
        if colons := [unquote(path) for path in self._colons if path in present]:
            msg = f"a colon in a file's name on a local disk ({few(colons, _NAMED)})"
            raise Unsupported(msg, "Spark can't open it", f"rename it, and {_RENAMED}")
        if self._patterns and present - planned:
            msg = f"a file's name that is a pattern to Spark ({few(self._patterns, _NAMED)})"
            raise Unsupported(
                msg,
                "Spark reads the other files of its batch twice",
                f"rename all {len(self.planned)} files of that batch, without any of {{}}[]*?\\, and {_RENAMED}; they "
                f"are {few(list(map(unquote, self.planned)), _ALL)}",
            )
        return list((planned - present).elements())

    def require_one_name(self) -> None:
        """Raises Unsupported if a link in a source's folder leads to a file that the source reads by its own name."""
        for number, end in enumerate(self._ref.end):
            local = _local(end)
            found = _SOURCE.fullmatch(str(self._execution.sources().apply(number).toString())) if local else None
            if found and (twice := self._twice(found[1], local)):
                msg = f"a link in a source's folder ({twice[0]} leads to {twice[1]})"
                raise Unsupported(msg, "Spark reads the file under both names", f"move the link away, and {_ONCE}")

    def _twice(self, root: str, local: Sequence[str]) -> tuple[str, str] | None:
        deep = any(_is_set(relation, "recursiveFileLookup") for relation in self._relations)
        filters = {_option(relation, "pathGlobFilter", "*") for relation in self._relations}
        names = filters.pop() if len(filters) == 1 else "*"
        return next(read_twice(root, local, deep=deep, names=names), None)

    def require_foreign(self, checkpoint: str, log: str, table: str) -> None:
        """Raises Unsupported for the query's own files in these folders, by whatever links Spark found them."""
        notes, parts = (
            (*(f"{without_links(checkpoint)}/{name}" for name in _NOTES), f"{without_links(log)}/"),
            f"{without_links(table)}/",
        )
        folders = dict[str, str]()
        for path in map(unquote, self.planned):
            folder, _, name = path.rpartition("/")
            if folder not in folders:
                folders[folder] = without_links(folder)
            file = f"{folders[folder]}/{name}"
            if file.startswith(notes) or (file.startswith(parts) and PartName.parse(name)):
                msg = f"a source that reads the query's own checkpoint, log or table ({path})"
                way = f"take that folder, or the link to it, out of the source, and {_ONCE}"
                raise Unsupported(msg, "its files would become rows", way)

    def require_whole(self) -> None:
        """Raises Unsupported if Spark would leave out the rest of a damaged file in silence."""
        if any(_is_set(one, "ignoreCorruptFiles", _conf(one).ignoreCorruptFiles()) for one in self._relations):
            what, way = "ignoreCorruptFiles", "remove that option, or the setting spark.sql.files.ignoreCorruptFiles"
            raise Unsupported(what, "Spark leaves out the rest of a damaged file in silence", way)

    def require_unpackable(self) -> None:
        """Raises SourceFileDamaged for packed files that Hadoop would misread in silence."""
        jvm = driver_jvm(self._spark)
        for name in self.planned:
            suffix = name.rpartition(".")[2]
            if suffix not in _PACKED:
                continue
            path = jvm.org.apache.hadoop.fs.Path(jvm.java.net.URI(name))
            files = path.getFileSystem(hadoop_configuration(self._spark))
            if not files.exists(path):
                continue  # It is passed over.
            length = files.getFileStatus(path).getLen()
            with closing(files.open(path)) as stream:
                if length and (why := _PACKED[suffix](stream, length)):
                    raise SourceFileDamaged(name, why)

    def changed(self) -> list[str]:
        """The files that have another length or time by now than those that Spark planned its tasks for.

        A task reads a file by the length that it had then: of a longer one that took its place, the end is left out.
        """
        return [path for relation in self._relations for path in _changed(driver_jvm(self._spark), relation)]

    def missing_after(self, *, failed: bool = False) -> list[str]:
        """The same once the tasks have ended; nothing if they succeeded where a missing file fails its task."""
        doubtful = [relation for relation in self._relations if failed or _ignores_missing(relation)]
        for relation in doubtful:
            relation.location().refresh()
        return self.missing() if doubtful else []


def _not_hadoops(stream: Any, length: int) -> str | None:
    """Of another format Hadoop would take the first bytes for a length, and the driver's JVM end for lack of memory."""
    # The length of a block, 0 of an empty one, then that of its first piece.
    block = stream.readInt() if length >= _INT else -1
    piece = stream.readInt() if block and length >= 2 * _INT else block
    is_own = block >= 0 and 0 <= piece <= length
    return None if is_own else "not as Hadoop packs it; another program did: unpack it, or use gzip"


def _no_bzip2(stream: Any, length: int) -> str | None:
    """Hadoop passes over what doesn't begin as bzip2 does, and over what follows the last whole stream or block."""
    if length < _BZIP2_LEAST or not _BZIP2.match(_bytes(stream, 3)):
        return "not a bzip2 file"
    stream.seek(length - 3 * _INT)
    last = _bytes(stream, 3)
    # After the mark come the checksum and up to 7 bits that fill the byte.
    ends = (int.from_bytes(last, "big") >> 8 * _INT + bits for bits in range(8))
    return None if any(end % (1 << 48) == _BZIP2_END for end in ends) else "cut short, or other bytes after its end"


def _bytes(stream: Any, ints: int) -> bytes:
    return b"".join(stream.readInt().to_bytes(_INT, "big", signed=True) for _ in range(ints))


_PACKED = {"bz2": _no_bzip2, "lz4": _not_hadoops, "snappy": _not_hadoops}
"""Why a file of that suffix and of so many bytes can't be read, from a stream at its beginning."""


def _file_relations(spark: SparkSession, execution: Any) -> list[Any]:
    leaves = execution.lastExecution().logical().collectLeaves()
    # A table that the stream is joined with is also a relation, but no stream.
    streams = [leaf for leaf in map(leaves.apply, range(leaves.size())) if leaf.isStreaming()]
    relations = [leaf.relation() for leaf in streams if leaf.getClass().getSimpleName() == "LogicalRelation"]
    if len(relations) == 1:
        return relations
    identity = driver_jvm(spark).java.lang.System.identityHashCode
    # A stream joined with itself appears twice as one object; two streams of one folder are two, though equal.
    return list({identity(relation): relation for relation in relations}.values())


def _changed(jvm: Any, relation: Any) -> list[str]:
    datasources, none = jvm.org.apache.spark.sql.execution.datasources, jvm.scala.Option.empty()
    no_cache = getattr(getattr(datasources, "NoopCache$"), "MODULE$")
    location = relation.location()
    # Another index: if a file was deleted since, the batch must not leave it out where it is run again.
    index = datasources.InMemoryFileIndex(
        relation.sparkSession(), location.rootPaths(), relation.options(), none, no_cache, none, none
    )
    planned, now = ({path: rest for path, *rest in _STATUS.findall(_statuses(one))} for one in (location, index))
    return [path for path, rest in now.items() if planned.get(path, rest) != rest]


def _statuses(index: Any) -> str:
    """Hadoop's text for each of the index's files: one call, however many there are."""
    return str(index.allFiles().mkString("\n"))


def _local(end: object) -> list[str]:
    """A batch's files on a local disk, by their names."""
    paths = [path for _, path in end.paths] if isinstance(end, FilesOffset) else []
    return [unquote(path) for path in paths if path.startswith("file:")]


def _ignores_missing(relation: Any) -> bool:
    return _is_set(relation, "ignoreMissingFiles", _conf(relation).ignoreMissingFiles())


def _conf(relation: Any) -> Any:
    return relation.sparkSession().sessionState().conf()


def _is_set(relation: Any, option: str, usual: object = False) -> bool:
    return _option(relation, option, usual).lower() == "true"


def _option(relation: Any, option: str, usual: object) -> str:
    own = relation.options().get(option)
    return str(own.get() if own.isDefined() else usual)

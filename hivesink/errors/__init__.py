"""What can go wrong, as types: fields first, and one line that says what, where and what to do.

`HiveSinkError.retryable` tells a supervisor (`hivesink run --restart`) whether the same command may succeed
later by itself, or needs a person.
"""

from __future__ import annotations

from hivesink.errors.base import (
    HiveSinkError,
    InvalidOption,
    Unsupported,
)
from hivesink.errors.files import (
    DanglingLink,
    EncryptionDiffers,
    FileSystemUnknown,
    LengthMismatch,
    NotWritable,
    OutcomeUnknown,
    PartLost,
    StoreUnavailable,
    TargetTaken,
)
from hivesink.errors.history import (
    BatchBehindLog,
    BatchesMissing,
    CalledTwice,
    CheckpointLeftOver,
    CheckpointUnreadable,
    EpochTaken,
    FencedOut,
    ForeignHistory,
    ForeignParts,
    LogCopied,
    LogDamaged,
    LogMissing,
    LogTwice,
    NewerFormat,
    OffsetsDontChain,
    PointerTaken,
    ReplayDiffers,
    ResumeImpossible,
    SourceFilesMissing,
    TableRemade,
)
from hivesink.errors.machines import (
    JarsUnavailable,
    JavaNotFound,
    MasterUnreachable,
    ModuleMissing,
    ServerFailed,
    TaskFailed,
    VersionsDiffer,
)
from hivesink.errors.metastore import (
    MetastoreFailing,
    MetastoreNotUnderstood,
    MetastoreUnreachable,
    PartitionElsewhere,
    QueryFailed,
    RegistrationFailed,
    RegistrationUnknown,
    TableExists,
    TableReplaced,
    UnknownTable,
)
from hivesink.errors.rows import (
    BadRecord,
    ColumnsDontFit,
    MissingColumns,
    SourceUnreachable,
    ValueUnfit,
)
from hivesink.errors.text import (
    DdlDiffers,
    DdlInvalid,
    DdlProblem,
    PartitionPathInvalid,
    SiteInvalid,
    TypeTextInvalid,
)

__all__ = [
    "BadRecord",
    "BatchBehindLog",
    "BatchesMissing",
    "CalledTwice",
    "CheckpointLeftOver",
    "CheckpointUnreadable",
    "ColumnsDontFit",
    "DanglingLink",
    "DdlDiffers",
    "DdlInvalid",
    "DdlProblem",
    "EncryptionDiffers",
    "EpochTaken",
    "FencedOut",
    "FileSystemUnknown",
    "ForeignHistory",
    "ForeignParts",
    "HiveSinkError",
    "InvalidOption",
    "JarsUnavailable",
    "JavaNotFound",
    "LengthMismatch",
    "LogCopied",
    "LogDamaged",
    "LogMissing",
    "LogTwice",
    "MasterUnreachable",
    "MetastoreFailing",
    "MetastoreNotUnderstood",
    "MetastoreUnreachable",
    "MissingColumns",
    "ModuleMissing",
    "NewerFormat",
    "NotWritable",
    "OffsetsDontChain",
    "OutcomeUnknown",
    "PartLost",
    "PartitionElsewhere",
    "PartitionPathInvalid",
    "PointerTaken",
    "QueryFailed",
    "RegistrationFailed",
    "RegistrationUnknown",
    "ReplayDiffers",
    "ResumeImpossible",
    "ServerFailed",
    "SiteInvalid",
    "SourceFilesMissing",
    "SourceUnreachable",
    "StoreUnavailable",
    "TableExists",
    "TableRemade",
    "TableReplaced",
    "TargetTaken",
    "TaskFailed",
    "TypeTextInvalid",
    "UnknownTable",
    "Unsupported",
    "ValueUnfit",
    "VersionsDiffer",
]

# Traces show the name by which they are imported, and by which the driver finds them in what Spark tells of a task.
for _name in __all__:
    globals()[_name].__module__ = __name__

"""What can go wrong, as types, each with one line that says what, where and what to do.

`HiveSinkError.retryable` tells a supervisor (`hivesink run --restart`) whether the same command may succeed
later by itself, or needs a person.
"""

from __future__ import annotations

from hivesink.errors.base import *
from hivesink.errors.files import *
from hivesink.errors.history import *
from hivesink.errors.logs import *
from hivesink.errors.machines import *
from hivesink.errors.metastore import *

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
    "LogGone",
    "LogMissing",
    "LogShared",
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
    "PointerCopied",
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
    "TableFolderGone",
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

# Traces, and the driver that reads one of a task, name errors by where they are imported from.
for _name in __all__:
    globals()[_name].__module__ = __name__

"""What HDFS refused, as hivesink's errors: each names the server, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hivesink.errors import FileSystemUnknown, NotWritable, OutcomeUnknown, StoreUnavailable, Unsupported
from hivesink.storage.hdfs_address import nameservices
from hivesink.storage.hdfs_failures import Failure, Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hivesink.storage.hdfs_calls import Calls


def refusal(
    action: str, path: str, failure: Failure, calls: Calls, properties: Mapping[str, str], *, changing: bool
) -> Exception:
    """The error for a call that failed. `changing` calls without an answer are OutcomeUnknown."""
    server, reason = calls.address, failure.reason
    match failure.kind:
        case Kind.EXISTS:
            found: Exception = FileExistsError(path)
        case Kind.MISSING | Kind.NO_PARENT:
            found = FileNotFoundError(path)
        case Kind.DENIED:
            found = NotWritable(path, reason)
        case Kind.UNSUPPORTED:
            found = _unsupported(action, path, reason)
        case Kind.UNKNOWN_HOST:
            found = FileSystemUnknown(path, _unknown(calls, reason, properties))
        case Kind.UNANSWERED if changing:
            found = OutcomeUnknown(action, path, f"{server}: {reason}")
        case kind:
            found = StoreUnavailable(action, path, _advice(kind, str(server), reason, calls.retry_policy.window))
    return found


def _advice(kind: Kind, server: str, reason: str, window: float) -> str:
    match kind:
        case Kind.NOT_TAKEN:
            return f"{server} took nothing for {window:g} s ({reason}); is it running, and active?"
        case Kind.UNANSWERED:
            return f"{server} gave no answer ({reason}); is it running, and active?"
        case Kind.SAFE_MODE:
            return (
                f"{server} is in safe mode, where nothing can be changed; see why with `hdfs dfsadmin -safemode get`, "
                f"and end it with `hdfs dfsadmin -safemode leave` ({reason})"
            )
        case Kind.QUOTA:
            return (
                f"{reason} at {server}; free some of it, or raise it with `hdfs dfsadmin -setQuota` or "
                "`-setSpaceQuota`: a new file counts as a whole block for each replica"
            )
        case Kind.NO_ROOM | Kind.NO_DATA:
            return f"{reason}; are the DataNodes of {server} running, and is there room on them?"
        case _:
            return f"{server} says: {reason}"


def _unsupported(action: str, path: str, reason: str) -> Unsupported:
    if "KMS" in reason:
        way = "set hadoop.security.key.provider.path in core-site.xml, and give this user the zone's key"
        return Unsupported(f"to {action} {path} in its encryption zone", reason, way)
    if "ncryption zone" in reason:
        way = "keep a table's partitions, and their staged files, in one encryption zone"
        return Unsupported(f"to {action} {path}", reason, way)
    return Unsupported(f"to {action} {path}", reason, "do it by hand, or see docs/hdfs.md for what the client knows")


def _unknown(calls: Calls, reason: str, properties: Mapping[str, str]) -> str:
    known = ", ".join(nameservices(properties)) or "none"
    return f"{calls.address}: {reason}; nameservices of this site: {known}"

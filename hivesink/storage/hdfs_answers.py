"""What hdfs-native's errors say.

hdfs-native says most things as text: `RPCError("<Java class>", "<message>")`. Seen in 0.14.7: a changing call is handed
to the next NameNode only where it was surely not taken (no connection, StandbyException); where a connection breaks
after the request, the call always ends in `OSError("RPC listener disconnected")`. So every other OSError of a
NameNode call came before the request.
"""

from __future__ import annotations

import re
from enum import Enum

from hivesink.kerberos.tickets import Trouble, trouble, trouble_of_java


class Kind(Enum):
    """What a failure says about the call."""

    EXISTS = "something is there"
    MISSING = "it is not there"
    NO_PARENT = "the target's folder is not there"
    NOT_A_FOLDER = "a file is in the way"
    DENIED = "no permission"
    NOT_TAKEN = "no NameNode took the call, and the same call may succeed soon"
    UNANSWERED = "done or not"
    NO_DATA = "no DataNode gives or takes the data"
    UNKNOWN_HOST = "no such host"
    UNSUPPORTED = "the client can't"
    NO_LOGIN = "no ticket, or one that isn't taken"
    REFUSED = "refused for another reason"


class Failed(Exception):
    """A call that failed. `reason` is a line, in the server's own words where it had any; `login` is of NO_LOGIN."""

    def __init__(self, kind: Kind, reason: str, login: Trouble = Trouble.REFUSED) -> None:
        # With a silent key server no NameNode took the call.
        self.kind = Kind.NOT_TAKEN if login is Trouble.NO_KDC else kind
        self.reason, self.login = reason, login
        super().__init__(reason)


UNCERTAIN = frozenset({Kind.UNANSWERED, Kind.NO_DATA})
"""Only repeatable calls are tried again after these."""
ABSENT = frozenset({Kind.MISSING, Kind.NOT_A_FOLDER})
"""There is nothing of that name."""


_VARIANT = re.compile(r'(?P<variant>\w+)\((?:"(?P<first>(?:[^"\\]|\\.)*)")?(?:, "(?P<second>.*)")?', re.DOTALL)
_GSS = re.compile(r'GSSAPIError\(.*raw: "0x(?P<major>\w+)".*\}, (?P<minor>\d+), ".*?: (?P<words>.*)"\)', re.DOTALL)
_PARENT = ("rename destination parent", "Parent directory")
_DATA = frozenset({"DataTransferError", "BlocksNotFound", "ChecksumError", "OperationFailed", "ErasureCodingError"})
_OF_THE_SERVER = (
    ("AccessControlException", r"\(is not a directory\)", Kind.NOT_A_FOLDER),
    ("AccessControlException", "", Kind.DENIED),
    ("ParentNotDirectoryException", "", Kind.NOT_A_FOLDER),
    ("SafeModeException|RetriableException|StandbyException|ObserverRetryOnActiveException", "", Kind.NOT_TAKEN),
    ("PathIsNotEmptyDirectoryException", "", Kind.EXISTS),
    ("LeaseExpiredException", "", Kind.MISSING),
    ("IOException", "must both be directories", Kind.EXISTS),
    (r"\w+", "encryption zone", Kind.UNSUPPORTED),
    (r"SaslException|SecretManager\$InvalidToken", "", Kind.NO_LOGIN),
)
"""The class of an exception, a part of its text, and what they say; the first that fits."""


def judge(error: BaseException) -> Failed:
    """What `error` means. Only for what hdfs-native and `HdfsCalls` raise; an unknown text is REFUSED."""
    text, kind = str(error), Kind.NOT_TAKEN
    match error:
        case Failed():
            return Failed(error.kind, error.reason, error.login)
        case FileExistsError():
            kind = Kind.EXISTS
        case FileNotFoundError():
            kind = Kind.NO_PARENT if text.startswith(_PARENT) else Kind.MISSING
        case NotImplementedError():
            kind = Kind.UNSUPPORTED
        case OSError() if text.startswith("RPC listener disconnected"):
            kind = Kind.UNANSWERED
        case OSError() if text.startswith("failed to lookup address") and "emporary" not in text:
            kind = Kind.UNKNOWN_HOST
        case OSError():
            pass
        case _:
            return _of_variant(text)
    return Failed(kind, _line(text))


def _of_variant(text: str) -> Failed:
    parts = _VARIANT.match(text)
    if parts is None:
        return Failed(Kind.REFUSED, _line(text))
    if parts["variant"] in {"RPCError", "FatalRPCError"}:
        java, reason = (parts["first"] or "").rpartition(".")[2], _line(parts["second"] or "")
        for classes, pattern, kind in _OF_THE_SERVER:
            if re.fullmatch(classes, java) and re.search(pattern, reason):
                return Failed(kind, reason, trouble_of_java(java) or Trouble.REFUSED)
        return Failed(Kind.REFUSED, f"{java}: {reason}")
    if gss := _GSS.match(text):
        return Failed(Kind.NO_LOGIN, _line(gss["words"]), trouble(int(gss["major"], 16), int(gss["minor"])))
    kind = Kind.NO_DATA if parts["variant"] in _DATA else Kind.REFUSED
    if "no KMS provider is configured" in text:
        kind = Kind.UNSUPPORTED
    return Failed(kind, f"{parts['variant']}: {_line(parts['first'] or text)}")


def _line(text: str) -> str:
    """The first line: what follows is the server's stack trace."""
    return re.split(r"\n|\\n", text, maxsplit=1)[0].replace('\\"', '"')

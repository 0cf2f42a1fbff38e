"""The file of `hivesink show --html`: whole or not at all, and never in the place of somebody else's."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from hivesink.errors import WrongUsage

if TYPE_CHECKING:
    from pathlib import Path

MARK = '<meta name="generator" content="hivesink show">'
"""In the head of each page: a file with it may be replaced."""
_HEAD = 1000


def require_replaceable(path: Path, *, force: bool) -> None:
    """Raise WrongUsage unless a page may be written to `path`: nothing, or such a page, or any file with `force`."""
    if not path.parent.is_dir():
        raise _refused(path, "there is no such folder; make it first")
    try:
        if not path.exists():
            return
        if not path.is_file():
            raise _refused(path, "that is no file; name one")
        with path.open("rb") as stream:
            if force or MARK.encode() in stream.read(_HEAD):
                return
    except OSError as error:
        raise _unusable(path, error) from error
    raise _refused(path, "that file is no page of `hivesink show`; name another one, or replace it with --force")


def write_page(path: Path, text: str, *, force: bool) -> None:
    """Write `text` to a temporary file beside `path`, and rename it. Raises WrongUsage."""
    require_replaceable(path, force=force)
    # A link stays a link.
    target = path.resolve()
    temporary = target.with_name(f".{target.name[:100]}.{secrets.token_hex(4)}.tmp")
    try:
        try:
            temporary.write_text(text, encoding="utf-8")
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise _unusable(path, error) from error


def _unusable(path: Path, error: OSError) -> WrongUsage:
    return _refused(path, f"{error.strerror or error}; give this user access, or name another file")


def _refused(path: Path, reason: str) -> WrongUsage:
    return WrongUsage((f"--html = {str(path)!r}: {reason}",))

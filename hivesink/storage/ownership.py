"""Whose a table's files are, and who may read them: `sink.file.permission`, `.owner` and `.group`."""

from __future__ import annotations

from dataclasses import dataclass

from hivesink.errors import Unsupported

_READ = 0o444


@dataclass(frozen=True, slots=True)
class Ownership:
    """What a file system gives to the files that it makes; None: what it gives by itself.

    `permission` is a file's mode. Folders that are made for such files get its folder mode.
    """

    permission: int | None = None
    owner: str | None = None
    group: str | None = None

    @property
    def folder_permission(self) -> int | None:
        """The mode of folders: who may read files may also enter and list their folder."""
        if self.permission is None:
            return None
        return self.permission | 0o300 | (self.permission & _READ) >> 2

    @property
    def has_names(self) -> bool:
        """Whether owner or group is set."""
        return self.owner is not None or self.group is not None


def cannot_give(path: str, wanted: Ownership, reason: str) -> Unsupported:
    """The file system doesn't let this user make `path` what is wanted."""
    said = {"permission": wanted.permission, "owner": wanted.owner, "group": wanted.group}
    what = ", ".join(
        f"sink.file.{name} = {value:o}" if name == "permission" else f"sink.file.{name} = {value}"
        for name, value in said.items()
        if value is not None
    )
    way = "set an owner only where a superuser writes, and a group that this user is in"
    return Unsupported(f"{what} for {path}", reason, way)

"""What columns read of a JSON object: its fields, or what is deeper in them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hivesink.decode.scan import elements, members, unquote
from hivesink.decode.values import InvalidValue

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

_KINDS = {'"': "text", "{": "object", "[": "array", "t": "boolean", "f": "boolean", "n": "null"}


def kind_of(raw: str) -> str:
    """What JSON calls the value."""
    return _KINDS.get(raw[0], "number")


def fields(raw: str, names: Container[Any], *, ignore_unknown: bool) -> dict[str, str]:
    """An object's members that match `names`, which are in lower case, without regard to case. Raises InvalidValue."""
    texts: dict[str, str] = {}
    for quoted, value in members(raw):
        name = unquote(quoted).lower()
        if name in names:
            if name in texts:
                raise InvalidValue(reason="duplicate field").within(_shown(name))
            texts[name] = value
        elif not ignore_unknown:
            raise InvalidValue(reason="unknown field").within(_shown(name))
    return texts


def _shown(name: str) -> str:
    return name.encode("utf-8", "replace").decode()


@dataclass(slots=True)
class Branch:
    """What is read of one JSON value: `columns` (by number) take the value itself, others what is below it."""

    columns: list[int] = field(default_factory=list)
    below: dict[str | int, Branch] = field(default_factory=dict)

    @classmethod
    def of(cls, paths: Iterable[tuple[str | int, ...]]) -> Branch:
        """The tree of the columns' paths."""
        root = cls()
        for column, steps in enumerate(paths):
            at = root
            for step in steps:
                at = at.below.setdefault(step, cls())
            at.columns.append(column)
        return root

    def all_columns(self) -> tuple[int, ...]:
        """Its own, and those below it."""
        return (*self.columns, *(column for branch in self.below.values() for column in branch.all_columns()))

    def pick(self, raw: str, found: dict[int, str]) -> None:
        """Put the JSON text of each column into `found`; a path that leads nowhere, or through a null, has none.

        Raises InvalidValue where a path leads into what is no object, or no array.
        """
        found.update(dict.fromkeys(self.columns, raw))
        if not self.below or raw == "null":
            return
        below: dict[str | int, str] = {}
        if names := [step for step in self.below if isinstance(step, str)]:
            if raw[0] != "{":
                raise InvalidValue(reason=f"wrong type: {kind_of(raw)}, not an object")
            below.update(fields(raw, names, ignore_unknown=True))
        if len(names) < len(self.below):
            if raw[0] != "[":
                raise InvalidValue(reason=f"wrong type: {kind_of(raw)}, not an array")
            below.update(enumerate(elements(raw)))
        self.descend(below, found)

    def descend(self, below: Mapping[Any, str], found: dict[int, str]) -> None:
        """`pick` from the values below this one."""
        for step, branch in self.below.items():
            raw = below.get(step)
            if raw is not None:
                try:
                    branch.pick(raw, found)
                except InvalidValue as error:
                    raise error.within(str(step)) from None

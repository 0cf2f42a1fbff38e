"""The exact decoder: one record at a time in plain Python, the reference for what every input means.

`docs/types.md` lists its decisions. The other decoders pass on every record that they doubt.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import Any, TypeAlias

from hivesink.config.options import OnUnknownField, SinkConfig
from hivesink.config.parsers import NullText
from hivesink.core.column_source import JsonPath
from hivesink.core.table import Array, Char, Column, Decimal, HiveType, Map, Primitive, Struct, Varchar
from hivesink.decode import values
from hivesink.decode.arrowtypes import INTEGER_BITS
from hivesink.decode.json.scan import NotJson, document, members, unquote
from hivesink.decode.values import NUMBER, InvalidValue, TimeRules

_NUMBER = re.compile(NUMBER)
_CLOCKS = frozenset({Primitive.DATE, Primitive.TIMESTAMP})
_ZERO_DATE = re.compile(r"0000-00-00([T ]00:00(:00(\.0+)?)?Z?)?")
_SURROGATE = re.compile("[\ud800-\udfff]")
_KINDS = {'"': "text", "{": "object", "[": "array", "t": "boolean", "f": "boolean", "n": "null"}


def _fields(raw: str, names: Container[Any], *, ignore_unknown: bool) -> dict[str, str]:
    """An object's members that match `names`, which are in lower case, without regard to case. Raises InvalidValue."""
    texts: dict[str, str] = {}
    for quoted, value, _ in members(raw):
        name = unquote(quoted).lower()
        is_known = name in names
        if name in texts or not (is_known or ignore_unknown):
            raise InvalidValue(reason="duplicate field" if is_known else "unknown field").within(_shown(name))
        if is_known:
            texts[name] = value
    return texts


def _shown(name: str) -> str:
    return name.encode("utf-8", "replace").decode()


@dataclass(slots=True)
class Branch:
    """What is read of one JSON value: `columns` (of slots) take the value itself, others what is below it."""

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

    def pick(self, raw: str, texts: dict[int, str], *, ignore_unknown: bool = True) -> None:
        """Put the JSON text of each column into `texts`; a path that leads nowhere, or through a null, has none.

        Raises InvalidValue where a path leads into what is no object, or no array. `ignore_unknown` speaks of the
        fields of `raw` itself.
        """
        texts.update(dict.fromkeys(self.columns, raw))
        if not self.below or raw == "null":
            return
        below: dict[str | int, str] = {}
        if names := [step for step in self.below if isinstance(step, str)]:
            if raw[0] != "{":
                raise wrong_type(raw, ", not an object")
            below.update(_fields(raw, names, ignore_unknown=ignore_unknown))
        if len(names) < len(self.below):
            if raw[0] != "[":
                raise wrong_type(raw, ", not an array")
            below.update(enumerate(value for _, value, _ in members(raw)))
        for step, branch in self.below.items():
            if step in below:
                try:
                    branch.pick(below[step], texts)
                except InvalidValue as error:
                    raise error.within(str(step)) from None


def wrong_type(raw: str, why: str) -> InvalidValue:
    """`raw` is JSON; `why` says what it isn't."""
    return InvalidValue(reason=f"wrong type: {_KINDS.get(raw[0], 'number')}{why}")


def number_of(raw: str, kind: HiveType) -> str:
    """A number's text, from a number or a string that holds exactly one. Raises InvalidValue."""
    text = unquote(raw) if raw[0] == '"' else raw
    if _NUMBER.fullmatch(text) is None:
        raise wrong_type(raw, f" into {kind}")
    return text


def _text_of(raw: str) -> str:
    """A string's content; any other value's JSON text unchanged."""
    if raw[0] != '"':
        return raw
    text = unquote(raw)
    if "\\u" in raw and _SURROGATE.search(text):
        raise InvalidValue(reason="lone surrogate")
    return text


@dataclass(frozen=True, slots=True)
class ValueParser:
    """JSON text to the Python values of one column, which `pa.array` takes as they are."""

    times: TimeRules
    ignore_unknown: bool
    nulls: frozenset[NullText] = frozenset()
    """Texts that are null."""
    number: Callable[[str, HiveType], str] = number_of
    """A number's text from a JSON value, for a column of a type. Raises InvalidValue."""

    def parse(self, raw: str, kind: HiveType) -> Any:  # noqa: PLR0911 -- one for each kind of type
        """`raw` is one JSON value without white space around it. Raises InvalidValue."""
        if raw == "null" or (self.nulls and raw[0] == '"' and self._is_null(unquote(raw), kind)):
            return None
        match kind:
            case Primitive():
                return self._primitive(raw, kind)
            case Decimal():
                return values.decimal_of(self.number(raw, kind), kind)
            case Varchar() | Char():
                return values.bounded(_text_of(raw), kind)
            case Array() if raw[0] == "[":
                return [self.at(str(index), item, kind.element) for index, (_, item, _) in enumerate(members(raw))]
            case Map() if raw[0] == "{":
                return self._map(raw, kind)
            case Struct() if raw[0] == "{":
                kinds = {name.lower(): field for name, field in kind.fields}
                texts = _fields(raw, kinds, ignore_unknown=self.ignore_unknown)
                return {name: self.at(name, texts.get(name, "null"), field) for name, field in kinds.items()}
            case _:
                raise wrong_type(raw, f" into {kind}")

    def null_texts(self, kind: HiveType) -> list[bytes]:
        """The likeliest of those that are null in a column of `kind`, as JSON."""
        texts = [b'""', b'"0000-00-00"', b'"0000-00-00 00:00:00"']
        return [text for text in texts if self._is_null(text[1:-1].decode(), kind)]

    def _is_null(self, text: str, kind: HiveType) -> bool:
        if not text:
            return NullText.EMPTY in self.nulls
        return NullText.ZERO_DATE in self.nulls and kind in _CLOCKS and _ZERO_DATE.fullmatch(text) is not None

    def _primitive(self, raw: str, kind: Primitive) -> Any:  # noqa: PLR0911 -- one for each type
        if kind in INTEGER_BITS:
            return values.integer(self.number(raw, kind), INTEGER_BITS[kind], str(kind))
        match kind:
            case Primitive.STRING:
                return _text_of(raw)
            case Primitive.DOUBLE:
                return values.double(self.number(raw, kind))
            case Primitive.FLOAT:
                return values.single(self.number(raw, kind))
            case Primitive.TIMESTAMP | Primitive.DATE:
                return self._time(raw, kind)
            case Primitive.BOOLEAN if raw in {"true", "false"}:
                return raw == "true"
            case Primitive.BINARY if raw[0] == '"':
                return values.binary_of(unquote(raw))
            case _:
                raise wrong_type(raw, f" into {kind}")

    def _time(self, raw: str, kind: Primitive) -> date | datetime:
        is_number = self.times.format is not None and _NUMBER.fullmatch(raw)
        if raw[0] != '"' and not is_number:
            raise wrong_type(raw, f" into {kind}")
        return values.clock_of(raw if is_number else unquote(raw), kind, self.times)

    def at(self, step: str, raw: str, kind: HiveType) -> Any:
        """As `parse`; an error's path begins with `step`."""
        try:
            return self.parse(raw, kind)
        except InvalidValue as error:
            raise error.within(step) from None

    def _map(self, raw: str, kind: Map) -> list[tuple[Any, Any]]:
        entries: dict[Any, Any] = {}
        for quoted, value, _ in members(raw):
            try:
                key = self.of_text(quoted, kind.key)
                if key in entries:
                    raise InvalidValue(reason="duplicate key")  # noqa: TRY301 -- as the others of this entry
                entries[key] = self.parse(value, kind.value)
            except InvalidValue as error:  # noqa: PERF203 -- says which element it was
                raise error.within(_shown(unquote(quoted))) from None
        return list(entries.items())

    def of_text(self, quoted: str, kind: HiveType) -> Any:
        """A JSON string, such as the key of a map, which stands for any type. Raises InvalidValue."""
        text = unquote(quoted)
        is_boolean = kind is Primitive.BOOLEAN and text in {"true", "false"}
        # However values are written, a key is a text, and not null.
        is_plain = not self.nulls and self.number is number_of
        parser = self if is_plain else replace(self, nulls=frozenset(), number=number_of)
        return text == "true" if is_boolean else parser.parse(quoted, kind)


Refine: TypeAlias = "Callable[[Column, tuple[str | int, ...], ValueParser], ValueParser]"


class ExactDecoder:
    """Records of a table's `columns`, one at a time. `refine` changes how what is at a column's path is read."""

    def __init__(
        self, columns: Sequence[Column], config: SinkConfig, refine: Refine = lambda *given: given[-1]
    ) -> None:
        self.columns = tuple(columns)
        self.names = [column.name.lower() for column in columns]
        self.ignore_unknown = config["sink.on-unknown-field"] is OnUnknownField.IGNORE
        sources = map(config.sources.get, self.names)
        paths = [
            source.every if isinstance(source, JsonPath) else ((name,),)
            for name, source in zip(self.names, sources, strict=True)
        ]
        self.slots = [index for index, some in enumerate(paths) for _ in some]
        """The column of each path. What is read of a record is a text for each slot."""
        self.slots_of = [[slot for slot, of in enumerate(self.slots) if of == index] for index in range(len(paths))]
        self.read = Branch.of(path for some in paths for path in some)
        """What the slots read of a record."""
        every: Mapping[str, frozenset[NullText]] = config["sink.json.null-text"]
        self.parsers = list[ValueParser]()
        """Of the slots."""
        for column, name, some in zip(self.columns, self.names, paths, strict=True):
            nulls = every.get("", frozenset()) | every.get(name, frozenset())
            parser = ValueParser(TimeRules.of(config, name), self.ignore_unknown, nulls)
            self.parsers += [refine(column, steps, parser) for steps in some]

    def row(self, record: bytes) -> list[Any]:
        """The record's values in column order. Raises InvalidValue with the field's path."""
        try:
            raw = document(record.decode())
        except UnicodeDecodeError:
            raise InvalidValue(reason="not UTF-8") from None
        except NotJson:
            raise InvalidValue(reason="not JSON" if record.strip() else "empty, not JSON") from None
        if raw[0] != "{":
            raise InvalidValue(reason="not a JSON object")
        texts: dict[int, str] = {}
        self.read.pick(raw, texts, ignore_unknown=self.ignore_unknown)
        return [self._column(index, texts) for index in range(len(self.columns))]

    def _column(self, index: int, texts: Mapping[int, str]) -> Any:
        slots = self.slots_of[index]
        for slot in slots:
            if (value := self.value(slot, texts.get(slot))) is not None:
                return value
        if not self.columns[index].nullable:
            reason = "null" if any(slot in texts for slot in slots) else "missing"
            raise InvalidValue(reason).within(self.names[index])
        return None

    def is_required(self, slot: int) -> bool:
        """Whether its text may not be null: its column may not, and has no other."""
        index = self.slots[slot]
        return not self.columns[index].nullable and len(self.slots_of[index]) == 1

    def value(self, slot: int, raw: str | None) -> Any:
        """What a slot's column makes of its JSON text, or of None. Raises InvalidValue."""
        index = self.slots[slot]
        return self.parsers[slot].at(self.names[index], raw or "null", self.columns[index].type)

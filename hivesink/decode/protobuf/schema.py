"""Protobuf schemas: the text of files, as registries have it, or a set of descriptors, as protoc writes it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hivesink.errors import Unsupported, few

_MAIN = "the schema.proto"
_CONFLUENT = (
    """// confluent/meta.proto
syntax = "proto3"; package confluent; import "google/protobuf/descriptor.proto";
message Meta { string doc = 1; map<string, string> params = 2; repeated string tags = 3; repeated Rule rules = 4; }
message Rule { string name = 1; string doc = 2; string expr = 3; string sql = 4; }
extend google.protobuf.FileOptions { Meta file_meta = 1088; }
extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }
""",
    """// confluent/type/decimal.proto
syntax = "proto3"; package confluent.type;
message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }
""",
)
"""What Confluent's clients know by themselves, beside google/protobuf and google/type."""


@dataclass(frozen=True, slots=True)
class Record:
    """A type of messages, google's class of it, and its fields by lower-case name."""

    descriptor: Any
    message: Any
    names: Mapping[str, Sequence[Any]]
    symbols: Mapping[str, Mapping[int, str]]
    """Of each field of an enum, by its full name. The fields themselves are int32."""

    def rewritten(self, octets: bytes) -> bytes:
        """A message as google writes what its parser reads: each field once, in order. Raises ValueError."""
        from google.protobuf.message import DecodeError

        kind = self.message
        try:
            message = kind.FromString(octets)
        except DecodeError as error:
            raise ValueError(str(error)) from error
        # A field may have any name.
        kind.DiscardUnknownFields(message)
        if not kind.IsInitialized(message):
            raise ValueError(self.descriptor.full_name)
        return bytes(kind.SerializeToString(message, deterministic=True))


class Schema:
    """Messages that are declared together. An enum may have any number, as in the newest syntax."""

    def __init__(self, descriptors: bytes) -> None:
        """Raises ValueError for what is no set of descriptors, or one that lacks what a file imports."""
        google = _google()
        self._class_of = google.message_factory.GetMessageClass
        self._pool = google.descriptor_pool.DescriptorPool()
        self._symbols: dict[str, Mapping[int, str]] = {}
        try:
            files = google.descriptor_pb2.FileDescriptorSet.FromString(descriptors).file
            enums = {f".{name}": enum for name, _, enum in _declared(files) if enum is not None}
            for name, message, _ in _declared(files):
                for field in () if message is None else message.field:
                    if field.type == field.TYPE_ENUM:
                        self._symbols[f"{name}.{field.name}"] = _as_number(field, enums[field.type_name])
                # No column is made of an extension: they are unknown fields.
                if message is not None:
                    message.ClearField("extension")
            for file in files:
                file.ClearField("extension")
                self._pool.Add(file)
            self._last = files[-1]
        except (google.message.Error, TypeError, LookupError) as error:
            message = f"no set of descriptors with all that they import ({type(error).__name__})"
            raise ValueError(message) from error

    @lru_cache(maxsize=1000)  # noqa: B019 -- a process has few schemas, and keeps them
    def record(self, which: str | tuple[int, ...]) -> Record:
        """A message type by its full name, or by its place in the last file. Raises ValueError."""
        try:
            name = which if isinstance(which, str) else self._name(which)
            descriptor = self._pool.FindMessageTypeByName(name)
        except LookupError as error:
            package = self._last.package and f"{self._last.package}."
            others = few([f"{package}{message.name}" for message in self._last.message_type], 5)
            lacking = f"{which}; it has {others}" if isinstance(which, str) else "at its place"
            message = f"its schema has no message {lacking}"
            raise ValueError(message) from error
        names: dict[str, list[Any]] = {}
        for field in descriptor.fields:
            names.setdefault(field.name.lower(), []).append(field)
        return Record(descriptor, self._class_of(descriptor), names, self._symbols)

    def _name(self, places: tuple[int, ...]) -> str:
        messages, names = self._last.message_type, [self._last.package] if self._last.package else []
        for place in places:
            # The types of a map's entries aren't in the file's text.
            message = dict(enumerate(message for message in messages if not message.options.map_entry))[place]
            names.append(message.name)
            messages = message.nested_type
        return ".".join(names)


def _google() -> Any:
    """Its package, which only this format needs, beside the compiler's."""
    try:
        import google.protobuf as google
        import grpc_tools.protoc  # noqa: F401
        from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory  # noqa: F401
    except ImportError as error:
        instead = "run: pip install 'hivesink[protobuf]'"
        raise Unsupported(what="Protobuf", why="protobuf or grpcio-tools is not installed", instead=instead) from error
    return google


def _declared(files: Iterable[Any]) -> Iterable[tuple[str, Any, Any]]:
    """All messages and enums by their full names: a name, and either of the two."""
    rest = [(f"{file.package}." if file.package else "", file.message_type, file.enum_type) for file in files]
    while rest:
        space, messages, enums = rest.pop()
        yield from ((space + enum.name, None, enum) for enum in enums)
        for message in messages:
            yield space + message.name, message, None
            rest.append((f"{space}{message.name}.", message.nested_type, message.enum_type))


def _as_number(field: Any, enum: Any) -> Mapping[int, str]:
    """Make `field` an int32, which has the same bytes; the first name of each number of its enum."""
    field.type = field.TYPE_INT32
    field.ClearField("type_name")
    if field.default_value:
        field.default_value = str({value.name: value.number for value in enum.value}[field.default_value])
    return {value.number: value.name for value in reversed(enum.value)}


@lru_cache(maxsize=1000)
def described(texts: tuple[str, ...]) -> Schema:
    """The schema in the last of `texts`, a set of descriptors: its bytes, with `surrogateescape`. Raises ValueError."""
    return Schema(texts[-1].encode("utf-8", "surrogateescape"))


@lru_cache(maxsize=1000)
def parsed(texts: tuple[str, ...]) -> Schema:
    """The schema in the last of `texts`, .proto files. The others begin with a comment: the name to import them by.

    Raises ValueError, and OSError where the machine fails.
    """
    google = _google()
    from grpc_tools import protoc

    with TemporaryDirectory() as name:
        folder, status = Path(name).resolve(), 1
        output = folder / "descriptors"
        # Here are google/protobuf, and google/type.
        known = (Path(protoc.__file__).parent / "_proto", Path(google.__file__).parents[2])
        options = ["protoc", *(f"-I{path}" for path in (folder, *known)), "--include_imports", _MAIN]
        # Names may be unfit. All else that a file system refuses says nothing about the texts.
        with suppress(ValueError, FileExistsError, IsADirectoryError, NotADirectoryError):
            for text in (*_CONFLUENT, *texts):
                path = _MAIN if text is texts[-1] else text.partition("\n")[0].removeprefix("// ")
                # Raises ValueError for a path that leads out of it.
                file = folder / (folder / path).resolve().relative_to(folder)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, "utf-8")
            status = protoc.main([*options, f"--descriptor_set_out={output}"])
            if status and not protoc.main([*options, "--descriptor_set_out=/dev/null"]):
                message = f"protoc can't write {output}"
                raise OSError(message)
        if status:
            message = "not a Protobuf schema, or of files that the registry doesn't have"
            raise ValueError(message)
        return Schema(output.read_bytes())

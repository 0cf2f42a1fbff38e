"""Debezium's change events in Avro as rows, by the rules of those in JSON; a registry has each event's schema."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hivesink.config.options import Image, SinkConfig
from hivesink.core.column_source import JsonPath
from hivesink.core.table import Column, Primitive, Struct
from hivesink.decode.avro.decoder import ConfluentDecoder, first_of, unknown_field
from hivesink.decode.avro.schema import Type
from hivesink.decode.avro.wants import Want
from hivesink.decode.clocks import nulls
from hivesink.decode.convert import Converted
from hivesink.decode.json.debezium import BEFORE, NO_IMAGE, images_of
from hivesink.decode.values import InvalidValue, TimeRules
from hivesink.ports.rows import Schemas

_ANY = Struct((("\0", Primitive.STRING),))
"""Null where a record is."""


class DebeziumAvroDecoder(ConfluentDecoder):
    """As the decoder of events in JSON; an event is an Avro record behind its schema's number in a registry."""

    def __init__(self, columns: Sequence[Column], config: SinkConfig, schemas: Schemas) -> None:
        super().__init__(columns, config, schemas)
        self._images, sources = images_of(config), config.sources
        is_both = config["sink.value.debezium.image"] is Image.BOTH
        self._of_image = list[bool]()
        for place, (name, (want, *_)) in enumerate(zip(self._schema.names, self._wants, strict=True)):
            is_field = not isinstance(sources.get(name), JsonPath)
            is_before = is_both and name.startswith(BEFORE)
            if is_field and is_before:
                self._wants[place] = [want._replace(steps=("before", name.removeprefix(BEFORE)))]
            elif is_field:
                self._wants[place] = [want._replace(steps=(image, name)) for image in self._images]
            self._of_image.append(is_field and not is_before)
        self._wants = [[want._replace(is_change=True) for want in some] for some in self._wants]
        self._wants.append([Want(("op",), Primitive.STRING, TimeRules())])
        self._wants.append([Want((image,), _ANY, TimeRules()) for image in self._images])

    def _read(self, read: list[list[Converted]]) -> list[Converted]:
        *columns, (op,), (image, other) = read
        absent, none = nulls(image[0]), nulls(other[0])
        made = list[Converted]()
        for is_of_image, some in zip(self._of_image, columns, strict=True):
            if not is_of_image:
                made += super()._read([some])
                continue
            array, bad = first_of(some[0], some[1], absent)
            for error in bad.values():
                # A column is called as the image's field.
                del error.path[:1]
            made.append((array, bad))
        wrong = dict.fromkeys(np.flatnonzero(absent & none).tolist(), InvalidValue(NO_IMAGE))
        wrong |= dict.fromkeys(np.flatnonzero(nulls(op[0])).tolist(), InvalidValue("missing").within("op"))
        for name, (_, odd) in zip(self._images, (image, other), strict=True):
            kinds = {row: error.reason.partition(" into ")[0] for row, error in odd.items()}
            wrong |= {row: InvalidValue(f"{kind}, not a record").within(name) for row, kind in kinds.items()}
        (first, bad), *others = made
        return [(first, bad | wrong | op[1]), *others]

    def _unknown(self, kind: Type) -> str | None:
        """As for JSON, of the image alone all fields are the table's."""
        paths = [want.steps for some in self._wants for want in some]
        taken = {str(steps[1]) for steps in paths if steps[0] == "after" and steps[1:]}
        images = [kind.parts[place] for place in kind.names.get("after", ())]
        images += [branch for image in images for branch in image.parts if image.name == "union"]
        return next(filter(None, (unknown_field(image, taken) for image in images)), None)

"""The file of dead letters that `--export` writes, a JSON object each, and `--mended` reads."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from hivesink.errors import InvalidOption, WrongUsage
from hivesink.tables.replay import place

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hivesink.tables.replay import DeadLetters, Wanted


def export(letters: DeadLetters, wanted: Wanted, file: Path) -> int:
    """Write the records, and return how many. Raises WrongUsage if there is such a file, or none can be made."""
    written = 0
    try:
        with file.open("x", encoding="utf-8") as lines:
            for _, rows in letters.wanted(wanted):
                for row in rows.to_pylist():
                    letter = {"id": row["id"], "field": row["field"], "reason": row["reason"], "from": place(row)}
                    lines.write(json.dumps({**letter, **_value(row["value"])}, ensure_ascii=False) + "\n")
                    written += 1
    except FileExistsError:
        raise WrongUsage((f"--export: there is a file {file}; name another",)) from None
    except OSError as error:
        way = "give this user access, or name another file"
        raise WrongUsage((f"--export {file}: {error.strerror or error}; {way}",)) from error
    return written


def mended(file: Path) -> dict[str, bytes | None]:
    """The mended values by id. Raises InvalidOption with the line that is wrong; WrongUsage."""
    values: dict[str, bytes | None] = {}
    try:
        # Some editors put a mark of the byte order in front.
        lines: Sequence[str] = file.read_text(encoding="utf-8-sig").split("\n")
    except OSError as error:
        raise WrongUsage((f"--mended {file}: {error.strerror or error}",)) from error
    except UnicodeDecodeError as error:
        number = error.object[: error.start].count(b"\n") + 1
        raise InvalidOption((f"--mended {file} line {number} isn't UTF-8; save the file as that",)) from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            letter = json.loads(line)
            name, value = str(letter["id"]), _mended(letter)
        except (ValueError, TypeError, KeyError, AttributeError):
            what = "isn't an object with an id and a value (text), as --export writes them"
            raise InvalidOption((f"{file} line {number} {what}",)) from None
        if "value" in letter and "base64" in letter:
            raise InvalidOption((f"{file} line {number} has both `value` and `base64`; leave one",))
        if name in values:
            raise InvalidOption((f"{file} line {number}: the id {name} is there twice; leave one",))
        values[name] = value
    return values


def _value(value: bytes | None) -> dict[str, str | None]:
    with suppress(UnicodeDecodeError):
        return {"value": value.decode() if value is not None else None}
    return {"base64": b64encode(value or b"").decode()}


def _mended(letter: Any) -> bytes | None:
    if "value" in letter:
        return None if letter["value"] is None else bytes(letter["value"].encode())
    return b64decode(letter["base64"], validate=True)

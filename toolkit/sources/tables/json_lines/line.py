"""One line of JSON as the fields of a row: nothing lost, and nothing that two readers would take differently.

By RFC 8259, in the stricter sense: a name comes once in an object, text is of characters, NaN is no value. What lies
deeper than the row's own fields is kept as it is written.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any

__all__ = ["LineError", "Nested", "parse_line"]

_SPACE = re.compile(r"[ \t\n\r]*")


class LineError(ValueError):
    """Why a line is no row."""


class Nested(str):
    """A value as it is written, in JSON: an array, an object, or whatever was asked for so."""

    __slots__ = ()


def parse_line(data: bytes, as_json: Collection[str] = (), as_text: Collection[str] = ()) -> dict[str, Any]:
    """Return the fields of a row: None, bool, int, float, str or Nested.

    Args:
        data: The line, in UTF-8, without its end.
        as_json: Names of fields whose values are Nested in any case, but for null.
        as_text: Names of fields whose values are text in any case, but for null: as they are written.

    Raises:
        LineError: It is no JSON object, or can be understood in two ways.
    """
    try:
        text = data.decode()
        row = _DECODER.decode(text)
        if not isinstance(row, dict):
            raise LineError(f"{_name_of(row)}, and each line is a JSON object")
        if "\\ud" in text or "\\uD" in text:  # half of a character outside the basic plane, or two that make one
            json.dumps(row, ensure_ascii=False).encode()
    except LineError:
        raise
    except UnicodeDecodeError as error:
        raise LineError(f"not UTF-8 text at byte {error.start} of the line") from error
    except UnicodeEncodeError as error:
        half = ascii(error.object[error.start])[1:-1]
        raise LineError(f"{half} is a lone surrogate, which is no character") from error
    except (ValueError, RecursionError) as error:
        raise LineError(f"not valid JSON: {' '.join(str(error).split())}") from error
    values = row.values()
    types = set(map(type, values))
    if dict in types or list in types or ((as_json or as_text) and any(name in row for name in (*as_json, *as_text))):
        return _as_written(text, as_json, as_text)
    if float in types and any(type(value) is float and math.isinf(value) for value in values):
        raise LineError("a number is larger than a float64 can be")
    return row


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise LineError(f"{twice!a} comes twice in an object")
    return found


def _constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON value")


_DECODER = json.JSONDecoder(object_pairs_hook=_pairs, parse_constant=_constant)


def _as_written(text: str, as_json: Collection[str], as_text: Collection[str]) -> dict[str, Any]:
    """Return the fields of an object that is valid JSON, with the text of each that is to be kept."""
    row: dict[str, Any] = {}
    at = _behind(text, _behind(text, 0) + 1)
    while text[at] != "}":
        name, at = scanstring(text, at + 1)
        at = _behind(text, _behind(text, at) + 1)
        value, end = _DECODER.scan_once(text, at)  # type: ignore[attr-defined]
        if name in as_text and value is not None:
            value = value if isinstance(value, str) else text[at:end]
        elif isinstance(value, dict | list) or (name in as_json and value is not None):
            value = Nested(text[at:end])
        elif type(value) is float and math.isinf(value):
            raise LineError("a number is larger than a float64 can be")
        row[name] = value
        at = _behind(text, end)
        at = _behind(text, at + 1) if text[at] == "," else at
    return row


def _behind(text: str, at: int) -> int:
    """Return where the next character stands that is no white space."""
    match = _SPACE.match(text, at)
    return at if match is None else match.end()


def _name_of(value: object) -> str:
    names = {list: "an array", str: "a text", bool: "a truth value", type(None): "null"}
    return names.get(type(value), "a number")

"""Lines of JSON against Python's json module: the same values, as written or not, or a refusal."""

from __future__ import annotations

import json
from typing import Any

from fuzz.inputs import refused

from toolkit.sources.tables.json_lines.line import LineError, Nested, parse_line


def fuzz(data: bytes) -> object:
    """Use one input."""
    try:
        row = parse_line(data)
    except LineError as error:
        return refused(error).partition(":")[0][:40]
    wanted: dict[str, Any] = json.loads(data)
    assert list(row) == list(wanted)
    written = parse_line(data, tuple(row))
    for name, value in row.items():
        assert type(value) is (Nested if isinstance(wanted[name], dict | list) else type(wanted[name]))
        assert (json.loads(value) if isinstance(value, Nested) else value) == wanted[name]
        assert (None if written[name] is None else json.loads(written[name])) == wanted[name]
    return tuple(sorted({type(value).__name__ for value in row.values()}))


def seeds() -> list[bytes]:
    """Return lines, good and bad."""
    texts = [
        '{"a": 1, "b": [1.50, {"k" : "}"}], "c": null, "d": "\\u00e9\\"\\\\"}',
        '{"a":1,"a":2}',
        '{"a": {"b": 1, "b": 2}}',
        '{"a": NaN}',
        '{"a": "\\ud834\\udd1e", "b": "\\ud834"}',
        ' { "a" : [ ] , "b" : { } } ',
        '{"a": 1e999}',
        '{"a": -0, "b": 1E+2, "c": 12345678901234567890}',
        "[1]",
        "{}",
    ]
    return [text.encode() for text in texts]

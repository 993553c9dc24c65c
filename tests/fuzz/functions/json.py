"""The check of JSON columns against a reader of RFC 8259 that is written here: both take a text, or neither does."""

from __future__ import annotations

import re

from fuzz.inputs import refused

from toolkit.sources.contents import UnfitError, check_json, text_of

_SPACE = re.compile(r"[ \t\n\r]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_STRING = re.compile(r'"((?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*)"')
_WORD = re.compile(r"true|false|null")
_LONE = re.compile(r"[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]")
_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})|\\.")
_LONG_NUMBER = re.compile(r"[0-9]{4300}")  # Python reads no longer one
_DEEPEST = 200  # what is deeper may be refused


class _NoJSON(ValueError):
    pass


def _value(text: str, at: int, depth: int) -> int:
    """Return where a value ends; `at` is where it begins."""
    if depth > _DEEPEST:
        raise RecursionError
    if text[at : at + 1] in ("[", "{"):
        close = "]" if text[at] == "[" else "}"
        begin, at = at, _skip(text, at + 1)
        if text[at : at + 1] == close:
            return at + 1
        while True:
            if text[begin] == "{":
                at = _skip(text, _string(text, at))
                if text[at : at + 1] != ":":
                    raise _NoJSON
                at = _skip(text, at + 1)
            at = _skip(text, _value(text, at, depth + 1))
            if text[at : at + 1] == close:
                return at + 1
            if text[at : at + 1] != ",":
                raise _NoJSON
            at = _skip(text, at + 1)
    if text[at : at + 1] == '"':
        return _string(text, at)
    match = _NUMBER.match(text, at) or _WORD.match(text, at)
    if match is None:
        raise _NoJSON
    return match.end()


def _string(text: str, at: int) -> int:
    match = _STRING.match(text, at)
    if match is None:
        raise _NoJSON
    said = _ESCAPE.sub(lambda escape: chr(int(escape[1], 16)) if escape[1] else "x", match[1])
    if _LONE.search(said):
        raise _NoJSON
    return match.end()


def _skip(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    assert space is not None
    return space.end()


def _is_json(text: str) -> bool:
    try:
        return _skip(text, _value(text, _skip(text, 0), 0)) == len(text)
    except _NoJSON:
        return False


def fuzz(data: bytes) -> object:
    """Use one input."""
    try:
        text = text_of(data)
    except UnfitError:
        return "no text"
    try:
        check_json(text)
        reason = ""
    except UnfitError as error:
        reason = refused(error)
    if _LONG_NUMBER.search(text):
        return "long number"
    try:
        wanted = _is_json(text)
    except RecursionError:
        return "deep"
    assert wanted == (not reason), (text, reason)
    return reason.partition(" (")[0][:40]


def seeds() -> list[bytes]:
    """Return texts of every kind, good and bad."""
    texts = [
        '{"a": [1, -2.5e+3, 0.1E-7, true, false, null], "é": {"\\u00e9\\n\\"": "\\ud83d\\ude00"}, "a": []}',
        '[[[[]]], {}, "", " \t", "\\/\\b\\f\\r\\t\\\\"]',
        '["\\ud800", "\\udc00\\ud800", "\\\\ud800"]',
        "[NaN, Infinity, -Infinity]",
        "-0",
        " 12345678901234567890 ",
        '"\U0001f600\u2028"',
        "[" * 60 + "]" * 60,
        "01",
        "1.",
        "{'a': 1,}",
        "\ufeff{}",
    ]
    return [text.encode() for text in texts]

"""Check the bytes of values whose kind promises something: text is UTF-8, JSON parses, a tensor is a whole NumPy file.

Every source asks here, so that a value is refused or stored whatever it came in. Media are checked in sources.payloads.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping, Sequence

from toolkit.sources.npy import NpyError, read_npy_header

__all__ = ["UnfitError", "check_json", "check_tensor", "integer_of", "label_of", "text_of"]


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON value")


_JSON = json.JSONDecoder(parse_constant=_refuse_constant)
_INTEGER = re.compile(rb"\s*([+-]?[0-9]{1,19})\s*")
_SHOWN_BYTES = 40


class UnfitError(ValueError):
    """Why bytes are no value of their column."""


def text_of(data: bytes | memoryview) -> str:
    """Return UTF-8 text. Raises UnfitError."""
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError as error:
        raise UnfitError(f"not UTF-8 text at byte {error.start}") from error


def check_json(text: str) -> None:
    """Raise UnfitError when `text` is no JSON: by RFC 8259, so without NaN, and of text that UTF-8 can hold."""
    try:
        value = _JSON.decode(text)
        if "\\ud" in text or "\\uD" in text:  # half of a character outside the basic plane, or two that make one
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = ascii(error.object[error.start])[1:-1]
        raise UnfitError(f"no valid JSON: {half} is a lone surrogate, which is no character") from error
    except (ValueError, RecursionError) as error:
        raise UnfitError(f"no valid JSON: {_said(error)}") from error


def integer_of(data: bytes | memoryview) -> int:
    """Return the 64-bit integer that is written there, as in a .cls file. Raises UnfitError."""
    match = _INTEGER.fullmatch(data)
    number = int(match[1]) if match else 1 << 63
    if not -(1 << 63) <= number < 1 << 63:
        hint = "" if match or not data else "; if it names a class, give the names of all with --classes"
        raise UnfitError(f"{_shown(data)} is no 64-bit integer{hint}")
    return number


def label_of(data: bytes | memoryview, names: Sequence[str], ids: Mapping[str, int]) -> int:
    """Return the id that is written there, or the id of the class that is named there. Raises UnfitError.

    `ids` has the id of each of `names`.
    """
    if _INTEGER.fullmatch(data):
        number = integer_of(data)
        if not 0 <= number < len(names):
            raise UnfitError(f"{number} is not among the ids 0 to {len(names) - 1} of --classes")
        return number
    name = text_of(data).strip()
    if name not in ids:
        raise UnfitError(f"{_shown(data)} is neither an id nor a name of --classes")
    return ids[name]


def check_tensor(data: bytes | memoryview) -> None:
    """Raise UnfitError when `data` is no NumPy file (.npy), or its values aren't all there. Never unpickles."""
    try:
        header = read_npy_header(io.BytesIO(data))
        header.check_size(len(data) - header.head_bytes)
    except NpyError as error:
        raise UnfitError(str(error)) from error


def _shown(data: bytes | memoryview) -> str:
    head = bytes(data[:_SHOWN_BYTES])
    return ascii(head.decode("utf-8", "backslashreplace")) + (" …" if len(data) > len(head) else "")


def _said(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__

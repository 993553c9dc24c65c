"""Check the bytes of values whose kind promises something: text is UTF-8, JSON parses, a tensor is a whole NumPy file.

Every source asks here, so that a value is refused or stored whatever it came in. Media are checked in sources.payloads.
"""

from __future__ import annotations

import io
import json

from toolkit.sources.npy import NpyError, read_npy_header

__all__ = ["UnfitError", "check_json", "check_tensor", "text_of"]


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON value")


_JSON = json.JSONDecoder(parse_constant=_refuse_constant)


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


def check_tensor(data: bytes | memoryview) -> None:
    """Raise UnfitError when `data` is no NumPy file (.npy), or its values aren't all there. Never unpickles."""
    try:
        header = read_npy_header(io.BytesIO(data))
        header.check_size(len(data) - header.head_bytes)
    except NpyError as error:
        raise UnfitError(str(error)) from error


def _said(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__

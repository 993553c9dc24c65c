"""Sizes as people write them: 4096, 100MB, 256MiB."""

from __future__ import annotations

import re
from decimal import Decimal

from toolkit.errors import UsageError
from toolkit.escapes import short

__all__ = ["parse_bytes", "size_text"]

_UNITS = {"": 1, "b": 1} | {
    f"{letter}{middle}b": base ** (power + 1)
    for power, letter in enumerate("kmgt")
    for middle, base in (("", 1000), ("i", 1024))
}
_SIZE = re.compile(r"(?P<number>\d+(\.\d+)?|\.\d+) *(?P<unit>[A-Za-z]*)", re.ASCII)
_MOST_BYTES = (1 << 63) - 1


def parse_bytes(value: str | int) -> int:
    """Return a size in bytes: 4096, 100MB (10^6), 256MiB (2^20), 1.5GiB. Raises UsageError."""
    text = str(value).strip()
    shown, match = short(text, 80, quoted=True), _SIZE.fullmatch(text)
    unit = "" if match is None else match["unit"].lower()
    if unit in ("k", "m", "g", "t"):
        number, letter = short(text[:-1].strip(), 40), unit.upper()
        raise UsageError(
            f"{shown} can mean two sizes: say {number}{letter}B (powers of 1000) or {number}{letter}iB (of 1024)"
        )
    if match is None or unit not in _UNITS:
        raise UsageError(f"{shown} is not a size: expected bytes or a unit, as in 4096, 100MB, 256MiB, 1.5GiB")
    nbytes = int(Decimal(match["number"]) * _UNITS[unit])
    if nbytes > _MOST_BYTES:
        raise UsageError(f"{shown} is more bytes than a file can have")
    return nbytes


def size_text(nbytes: int) -> str:
    """Return a size with the exact bytes and, from 1 MiB on, in MiB: "8388608 bytes (8.0 MiB)"."""
    return f"{nbytes} bytes" + (f" ({nbytes / (1 << 20):.1f} MiB)" if nbytes >= 1 << 20 else "")

"""Numbers and sizes as people read them."""

from __future__ import annotations

__all__ = ["bytes_text", "count", "number", "size_text"]

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")


def number(value: float) -> str:
    """Return a number with thousands separators; a fraction keeps what is worth reading."""
    if float(value).is_integer() and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.1f}" if abs(value) >= 100 else f"{value:.3g}"


def count(value: int, noun: str) -> str:
    """Return "1 sample", "2 samples"."""
    return f"{value:,} {noun}" if value == 1 else f"{value:,} {noun}s"


def size_text(nbytes: float) -> str:
    """Return a size in the unit that fits: 268435456 is 256 MiB."""
    power = 0
    while abs(nbytes) >= 1024 and power < len(_UNITS) - 1:
        nbytes, power = nbytes / 1024, power + 1
    digits = f"{nbytes:.0f}" if power == 0 else f"{nbytes:.1f}".removesuffix(".0")
    return f"{digits} {_UNITS[power]}"


def bytes_text(nbytes: int) -> str:
    """Return a size in bytes, and what that is."""
    return f"{nbytes:,} bytes ({size_text(nbytes)})" if nbytes >= 1024 else count(nbytes, "byte")

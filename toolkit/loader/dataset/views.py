"""Name what a view holds: a hash of the pin and of what was done since; equal ones hold equal samples in order."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["array_hash", "joined_pin", "short_pins", "view_hash"]

_SHOWN_PINS = 3


def view_hash(operation: str, *parts: str | int) -> str:
    """Return the hash, 64 hex digits, of a view: the operation, the hash of what it was done to, its arguments."""
    return hashlib.sha256(json.dumps([operation, *parts]).encode()).hexdigest()


def array_hash(values: NDArray[np.generic]) -> str:
    """Return the hash of an operation's result: of the rows, not of how they were asked for, so it can't go stale."""
    little_endian = values.astype(values.dtype.newbyteorder("<"), copy=False)
    return hashlib.sha256(np.ascontiguousarray(little_endian).data).hexdigest()


def joined_pin(pins: Sequence[str]) -> str:
    """Return the pin, or a hash of several: small, however many datasets were joined."""
    return pins[0] if len(pins) == 1 else view_hash("pins", *pins)


def short_pins(pins: Sequence[str]) -> str:
    """Return the beginnings of pins, for people: of many datasets the first."""
    shown = "+".join(pin[:12] for pin in pins[:_SHOWN_PINS])
    return shown if len(pins) <= _SHOWN_PINS else f"{shown} and {len(pins) - _SHOWN_PINS} more"

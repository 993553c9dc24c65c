"""Count the scans of a JPEG without decoding it: PIL would pass over the whole picture for each of them."""

from __future__ import annotations

import re

__all__ = ["count_scans"]

_MARKER = re.compile(rb"\xff([^\x00\xff\xd0-\xd7])", re.DOTALL)  # no stuffing, no filling, no restart
_SCAN, _END = 0xDA, 0xD9
_WITHOUT_LENGTH = frozenset({0x01, 0xD8, _END})


def count_scans(encoded: bytes) -> int:
    """Return how many scans the first picture in `encoded` has."""
    scans = place = 0
    while (found := _MARKER.search(encoded, place)) is not None:
        marker, place = found[1][0], found.end()
        if marker == _END:
            break
        scans += marker == _SCAN
        if marker not in _WITHOUT_LENGTH:
            place += max(2, int.from_bytes(encoded[place : place + 2]))
    return scans

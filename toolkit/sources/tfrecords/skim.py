"""Find where values of bytes lie in tf.train.Examples, and leave them out: by lengths, and without reading them.

An Example is looked at as every writer writes it: names before values, each once, one list a feature. What protobuf
would read as well, though nothing writes it so, isn't tried.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection

__all__ = ["Get", "ShortFileError", "Span", "Window", "skim", "span_of"]

_WINDOW_BYTES = 16 * 1024
_FIRST, _SECOND = 0x0A, 0x12  # tags of the fields 1 and 2, where they have lengths
_TAG_BYTES = 11  # a tag and the longest length behind it
_EMPTY_VALUE = bytes([_FIRST, 0])

Get = Callable[[int, int], bytes]
"""Returns the bytes from an offset on, so many."""

Span = tuple[int, int]
"""Offset and length."""


class _UnusualError(ValueError):
    """A payload that is no tf.train.Example, or is written in another way than by its writers."""


class ShortFileError(ValueError):
    """A file that ends before bytes that are asked for."""


class Window:
    """Reads here and there in an open file: a few KiB at a time, which next to each other aren't read twice."""

    def __init__(self, fd: int) -> None:
        """Borrow the descriptor."""
        self._fd = fd
        self._base = 0
        self._data = b""

    def get(self, offset: int, length: int) -> bytes:
        """Return the bytes there. Raises ShortFileError."""
        at = offset - self._base
        if at < 0 or at + length > len(self._data):
            self._data = os.pread(self._fd, max(length, _WINDOW_BYTES), offset)
            self._base, at = offset, 0
            if len(self._data) < length:
                raise ShortFileError
        return self._data[at : at + length]


def skim(get: Get, start: int, length: int, names: Collection[bytes]) -> tuple[bytes, dict[bytes, Span] | None]:
    """Return a payload with the bytes of some features left out, and where the first value of each lies.

    Or all of it and None, where it can't be told what lies where.

    Such a feature has as many values as it had, and all of them are empty. They aren't asked for.

    Args:
        get: Returns bytes of the payload, by offsets that count as `start` does.
        start: Where the payload begins.
        length: Its bytes.
        names: The features; of feature lists none are left out.
    """
    try:
        return _skimmed(get, start, length, names)
    except _UnusualError:
        return get(start, length), None


def span_of(payload: bytes, name: bytes, value: bytes) -> Span | None:
    """Return where in a whole payload the value lies that is the first of a feature; None: that can't be told."""
    # As it is written when it is the only one: all lengths follow from the value's.
    inner = _head(_FIRST, len(value))
    middle = _head(_FIRST, len(inner) + len(value))
    head = _head(_FIRST, len(name)) + name + _head(_SECOND, len(middle) + len(inner) + len(value)) + middle + inner
    at = payload.find(head)
    if at >= 0 and payload.startswith(value, at + len(head)):
        return at + len(head), len(value)
    _, found = skim(lambda offset, length: payload[offset : offset + length], 0, len(payload), (name,))
    span = (found or {}).get(name)
    return span if span is not None and payload[span[0] : sum(span)] == value else None


def _skimmed(get: Get, start: int, length: int, names: Collection[bytes]) -> tuple[bytes, dict[bytes, Span]]:
    parts: list[bytes] = []
    found: dict[bytes, Span] = {}
    at, end = start, start + length
    while at < end:
        tag, inner, stop = _field(get, at, end)
        if tag == _FIRST:
            features = _features(get, inner, stop, names, found)
            parts.append(_written(_FIRST, features))
        elif tag == _SECOND:
            parts.append(get(at, stop - at))
        else:
            raise _UnusualError
        at = stop
    return b"".join(parts), found


def _features(get: Get, at: int, end: int, names: Collection[bytes], found: dict[bytes, Span]) -> bytes:
    """Return the entries of a map of features without what is left out."""
    parts: list[bytes] = []
    longest = max(map(len, names), default=0)
    while at < end:
        tag, inner, stop = _field(get, at, end)
        key_tag, key_at, key_stop = _field(get, inner, stop)
        value_tag, value_at, value_stop = _field(get, key_stop, stop)
        if (tag, key_tag, value_tag) != (_FIRST, _FIRST, _SECOND) or value_stop != stop:
            raise _UnusualError
        key = get(key_at, key_stop - key_at) if key_stop - key_at <= longest else b""
        if key in names:
            found.pop(key, None)  # the last one holds
            parts.append(_without(get, key, value_at, stop, found) or get(at, stop - at))
        else:
            parts.append(get(at, stop - at))
        at = stop
    return b"".join(parts)


def _without(get: Get, key: bytes, at: int, end: int, found: dict[bytes, Span]) -> bytes | None:
    """Return the entry of a feature with empty values; None when it holds no bytes."""
    if at == end:
        return None
    tag, inner, stop = _field(get, at, end)
    if stop != end:
        raise _UnusualError
    if tag != _FIRST:
        return None
    count = 0
    while inner < end:
        tag, value, stop = _field(get, inner, end)
        if tag != _FIRST:
            raise _UnusualError
        if not count:
            found[key] = (value, stop - value)
        count += 1
        inner = stop
    feature = _written(_FIRST, _EMPTY_VALUE * count)
    return _written(_FIRST, _written(_FIRST, key) + _written(_SECOND, feature))


def _field(get: Get, at: int, end: int) -> tuple[int, int, int]:
    """Return the tag of a field with a length, and where its content begins and ends."""
    head = get(at, min(_TAG_BYTES, end - at))
    size = shift = 0
    for i in range(1, len(head)):
        byte = head[i]
        size |= (byte & 127) << shift
        if byte < 128:
            begin = at + i + 1
            if begin + size > end:
                break
            return head[0], begin, begin + size
        shift += 7
    raise _UnusualError


def _written(tag: int, content: bytes) -> bytes:
    """Return a field with that content."""
    return _head(tag, len(content)) + content


def _head(tag: int, size: int) -> bytes:
    """Return what stands before a content of so many bytes."""
    out = bytearray([tag])
    while size > 127:
        out.append(size & 127 | 128)
        size >>= 7
    out.append(size)
    return bytes(out)

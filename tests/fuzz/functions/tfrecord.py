"""TFRecord files through their source, against a reader of records and tf.train.Examples that is written here.

The first byte of an input says whether the CRCs are mended, whether the rest is compressed, and whether records are
taken as they are. What is rejected is up to the source; what is delivered has to be what the other reader reads.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from fuzz.inputs import File, check_places, pieces, refused, same
from pictures import encode, picture
from tfrecords import example, frame, masked_crc, sequence

from toolkit.errors import ToolkitError
from toolkit.format.kinds import Kind
from toolkit.sources.kinds.tfrecord.source import TFRecordSource
from toolkit.sources.options import Missing, SourceOptions

_FILE = File("a.tfrecord")
_LONGEST = 4000  # the CRC here is in Python
_MEND, _RAW, _GZIP, _ZLIB = 1, 2, 4, 8  # flags in the first byte
_STEP = {1: 8, 5: 4}  # wire type: bytes
_DEEPEST = 100  # of groups that mean nothing

Features = dict[str, list[Any] | None]


class _NoExample(ValueError):
    pass


# ---- Records ---------------------------------------------------------------------------------------------------------


def _mended(data: bytes) -> bytes:
    """Return the records with the CRCs that they have to have."""
    out, at = bytearray(data), 0
    while at + 12 <= len(out):
        out[at + 8 : at + 12] = masked_crc(bytes(out[at : at + 8]))
        end = at + 12 + int.from_bytes(out[at : at + 8], "little")
        if end + 4 > len(out):
            break
        out[end : end + 4] = masked_crc(bytes(out[at + 12 : end]))
        at = end + 4
    return bytes(out)


def _records(data: bytes) -> Iterator[bytes | None]:
    """Yield the payload of each record, None for one with another CRC. The file is whole."""
    at = 0
    while at < len(data):
        length = int.from_bytes(data[at : at + 8], "little")
        end = at + 12 + length
        assert masked_crc(data[at : at + 8]) == data[at + 8 : at + 12]
        assert end + 4 <= len(data)
        payload = data[at + 12 : end]
        yield payload if masked_crc(payload) == data[end : end + 4] else None
        at = end + 4


# ---- Examples --------------------------------------------------------------------------------------------------------


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for i in range(10):
        if at + i >= len(data):
            raise _NoExample
        value |= (data[at + i] & 127) << 7 * i
        if data[at + i] < 128:
            return value % (1 << 64), at + i + 1
    raise _NoExample


def _fields(data: bytes) -> Iterator[tuple[int, int, Any]]:
    """Yield number, wire type and value of each field of a message."""
    at = 0
    while at < len(data):
        number, kind, value, at = _field(data, at)
        if kind == 4:
            raise _NoExample
        yield number, kind, value


def _field(data: bytes, at: int, depth: int = 0) -> tuple[int, int, Any, int]:
    tag, at = _varint(data, at)
    number, kind = tag >> 3, tag & 7
    # Within an unknown group protobuf lets number 0 pass.
    if tag >= 1 << 32 or (number == 0 and not depth) or depth > _DEEPEST:
        raise _NoExample
    value: Any = None
    if kind == 0:
        value, at = _varint(data, at)
    elif kind == 3:
        while True:
            inner, inner_kind, _, at = _field(data, at, depth + 1)
            if inner_kind == 4:
                break
        if inner != number:
            raise _NoExample
    elif kind != 4:
        length, at = (_STEP[kind], at) if kind in _STEP else _varint(data, at)
        if kind > 5 or at + length > len(data):
            raise _NoExample
        value, at = data[at : at + length], at + length
    return number, kind, value, at


def _feature(data: bytes, known: list[Any] | None) -> list[Any] | None:
    """Return the feature, [kind, *values], that comes of merging `data` into `known`."""
    for number, kind, value in _fields(data):
        if number not in (1, 2, 3) or kind != 2:
            continue
        if known is None or known[0] != number:
            known = [number]
        for inner, wire, content in _fields(value):
            if inner == 1:
                known += _numbers(number, wire, content)
    return known


def _numbers(number: int, wire: int, content: Any) -> list[Any]:
    """Return the values in a field of a list: bytes; numbers one by one, or packed; nothing of another wire type."""
    if number == 1:
        return [content] if wire == 2 else []
    if number == 2:
        if wire == 2 and len(content) % 4:
            raise _NoExample
        return list(struct.unpack(f"<{len(content) // 4}f", content)) if wire in (2, 5) else []
    if wire == 0:
        return [content - (content >> 63 << 64)]
    found, at = [], 0
    while wire == 2 and at < len(content):
        value, at = _varint(content, at)
        found.append(value - (value >> 63 << 64))
    return found


def _entries(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield name and value of each entry of a map."""
    for number, kind, value in _fields(data):
        if number == 1 and kind == 2:
            name, content, unknown = b"", b"", False
            for inner, wire, part in _fields(value):
                if wire == 2 and inner == 1:
                    name = part
                    _text(part)
                elif wire == 2 and inner == 2:
                    list(_fields(part))
                    content += part  # merged, as one behind the other is
                else:
                    unknown = True
            if not unknown:  # protobuf's parser (upb) leaves such an entry with the unknown fields of the message
                yield _text(name), content


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise _NoExample from error


def _parsed(payload: bytes) -> tuple[Features, dict[str, list[list[Any] | None]]]:
    """Return the features and the feature lists of a payload; the last of several with one name."""
    features: Features = {}
    lists: dict[str, list[list[Any] | None]] = {}
    for number, kind, value in _fields(payload):
        if number == 1 and kind == 2:
            for name, content in _entries(value):
                features[name] = _feature(content, None)
        elif number == 2 and kind == 2:
            for name, content in _entries(value):
                lists[name] = [_feature(step, None) for of, wire, step in _fields(content) if (of, wire) == (1, 2)]
    return features, lists


# ---- The target ------------------------------------------------------------------------------------------------------


def _fits(row: dict[str, Any], payload: bytes) -> bool:
    """Tell whether a row has what the payload has."""
    features, lists = _parsed(payload)
    for name, value in row.items():
        if isinstance(value, dict):
            value = value["bytes"]
        feature = features.get(name)
        wanted: Any = None if feature is None else feature[1:]
        if name in lists and (isinstance(value, list) and all(isinstance(step, list) for step in value)):
            wanted = [[] if step is None else step[1:] for step in lists[name]]
        elif wanted is not None and not isinstance(value, list):
            wanted = wanted[0] if len(wanted) == 1 else wanted
        if not same(_as_bytes(value), wanted):
            return False
    return True


def _as_bytes(value: Any) -> Any:
    if isinstance(value, list):
        return [_as_bytes(one) for one in value]
    return value.encode() if isinstance(value, str) else value


def fuzz(data: bytes) -> object:
    """Use one input."""
    flags, plain = data[0] if data else 0, data[1:_LONGEST]
    if flags & _MEND:
        plain = _mended(plain)
    packed = gzip.compress(plain) if flags & _GZIP else zlib.compress(plain) if flags & _ZLIB else plain
    raw = bool(flags & _RAW)
    missing = Missing.ERROR if raw else Missing.NULL
    options = SourceOptions(paths=(_FILE.write(packed),), slice_bytes=200, missing=missing, tfrecord_raw=raw)
    check_places(TFRecordSource, replace(options, kind={"record": Kind.IMAGE} if raw else {}), packed)
    rows: list[dict[str, Any]] = []
    rejected: dict[int, str] = {}
    kinds: tuple[str, ...] = ()
    try:
        for survey, _, made in pieces(TFRecordSource(options)):
            kinds = tuple(sorted(str(dtype) for dtype in survey.types.values()))
            rows += made.batch.to_pylist()
            rejected |= {int(reject.source.rpartition("#")[2]): reject.reason for reject in made.rejects}
    except ToolkitError as error:
        return "".join(c for c in refused(error).partition(_FILE.path)[2][:60] if not c.isdigit())
    payloads = list(_records(plain))
    assert len(rows) + len(rejected) == len(payloads), (rows, rejected, payloads)
    for row in rows:
        number = int(row.pop("__key__").rpartition("#")[2])
        payload = payloads[number]
        assert number not in rejected, number
        assert payload is not None, row
        assert row == {"record": payload} if raw else _fits(row, payload), (row, payload, raw or _parsed(payload))
    return kinds, len(rejected), next(iter(rejected.values()), "")[:20]


def seeds() -> list[bytes]:
    """Return files of the shapes that examples have."""
    rows = [
        example(i=[1], f=[0.5], b=[b"\xff"], t=[b"text"], many=[1, 2, -3], none=None, empty=([], bytes)),
        example(i=[-(1 << 63)], f=[float("nan")], b=[b""], t=[b"x"], many=([], int), g=[1.0, 2.0]),
    ]
    steps = sequence({"id": [7]}, {"words": [[b"a"], [b"b", b"c"], None], "n": [[1], [2, 3]], "e": []})
    # Not packed, an unknown field, a group, a value that comes twice.
    odd = b"\x0a\x12\x0a\x10\x0a\x01k\x12\x0b\x1a\x09\x08\x01\x08\x02\x1b\x1c\x0a\x01\x05" + b"\x18\x05\x23\x08\x01\x24"
    image = encode(picture(1, 4, 4), "PNG")
    media = [example(p=[image], i=[i], q=[image], t=[b"x"]) for i in range(2)]
    payloads = (rows, [steps, steps], [odd, rows[0]], [b"", b"raw", rows[1]], [odd], media)
    files = [b"".join(map(frame, of)) for of in payloads]
    return [bytes([flags]) + file for file in files for flags in (0, _MEND, _MEND | _RAW, _GZIP, _ZLIB | _MEND)]

"""Write TFRecord files and tf.train.Examples by hand, without protobuf or native code, and pack them."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import toolkit
from toolkit.pack.job import OnExisting, PackJob, PackResult
from toolkit.pack.run import pack

_TABLE = []
for _byte in range(256):
    for _ in range(8):
        _byte = _byte >> 1 ^ (0x82F63B78 if _byte & 1 else 0)
    _TABLE.append(_byte)

Values = Sequence[bytes] | Sequence[int] | Sequence[float] | None


def masked_crc(data: bytes) -> bytes:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 255]
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17 & 0xFFFFFFFF) + 0xA282EAD8) & 0xFFFFFFFF)


def frame(payload: bytes) -> bytes:
    length = struct.pack("<Q", len(payload))
    return length + masked_crc(length) + payload + masked_crc(payload)


def write(path: Path, payloads: Iterable[bytes]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(map(frame, payloads)))
    return path


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def part(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def feature(values: Values, kind: type | None = None) -> bytes:
    """None is a feature of which no list is set. `kind` is needed for empty lists."""
    if values is None:
        return b""
    kind = kind or type(values[0])
    if kind is bytes:
        return part(1, b"".join(part(1, value) for value in values))  # type: ignore[arg-type]
    if kind is float:
        return part(2, part(1, struct.pack(f"<{len(values)}f", *values)) if values else b"")
    return part(3, part(1, b"".join(map(varint, values))) if values else b"")  # type: ignore[arg-type]


def features(of: Mapping[str, Values | tuple[Values, type]]) -> bytes:
    entries = []
    for name, values in of.items():
        encoded = feature(*values) if isinstance(values, tuple) else feature(values)
        entries.append(part(1, part(1, name.encode()) + part(2, encoded)))
    return b"".join(entries)


def example(**of: Values | tuple[Values, type]) -> bytes:
    return part(1, features(of))


def sequence(context: Mapping[str, Values], lists: Mapping[str, Sequence[Values | tuple[Values, type]]]) -> bytes:
    entries = []
    for name, steps in lists.items():
        encoded = [feature(*step) if isinstance(step, tuple) else feature(step) for step in steps]
        entries.append(part(1, part(1, name.encode()) + part(2, b"".join(part(1, step) for step in encoded))))
    return part(1, features(context)) + part(2, b"".join(entries))


def job(source: Path, dataset: Path, **options: Any) -> PackJob:
    return PackJob(source=str(source), dataset=str(dataset), source_kind="tfrecord", **options)


def packed(source: Path, **options: Any) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Pack one split; return its samples and the columns' kinds."""
    dataset = source.parent.with_name("packed")
    pack(job(source, dataset, on_existing=OnExisting.OVERWRITE, **options))
    opened = toolkit.open(dataset)
    return [opened[i] for i in range(len(opened))], {c.name: c.kind.value for c in opened.columns}


def rejected(source: Path, **options: Any) -> tuple[PackResult, list[tuple[str, str]]]:
    dataset = source.parent.with_name("packed")
    result = pack(job(source, dataset, max_rejects=1000, on_existing=OnExisting.OVERWRITE, **options))
    return result, [(reject.key, reject.reason) for reject in result.rejects]


def many(count: int, size: int = 600) -> list[bytes]:
    rng = np.random.default_rng(count)
    return [example(i=[i], b=[b"\xff" + rng.bytes(int(rng.integers(size)))]) for i in range(count)]

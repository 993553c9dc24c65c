"""TFDS folders through their source: a description or an example that comes from anywhere.

The first byte of an input says which. Each example is a row or a reject, and rows have the types of their features.
"""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path

import tfds_folders
from fuzz.inputs import File, pieces, refused
from tfds_folders import BOX, TEXT, label, sequence, tensor
from tfrecords import example, frame

from toolkit.errors import ToolkitError
from toolkit.sources.kinds.tfds.source import TFDSSource
from toolkit.sources.options import SourceOptions

_FOLDER = Path(os.path.dirname(File("x").path)) / "tfds"
_LONGEST = 2000  # the CRC here is in Python
_FEATURES = {
    "b": BOX,
    "c": label(3),
    "f": tensor("float16", -1, 2),
    "i": tensor("int8", 2),
    "l": sequence(label(2)),
    "n": tensor("uint64"),
    "o": tensor("int16", -1, -1, encoding="zlib"),
    "r": sequence(sequence(TEXT)),
    "s": sequence(tensor("bool")),
    "t": TEXT,
    "w": tensor("string", -1),
    "z": tensor("float64", 2, encoding="bytes"),
}
_GOOD = {
    "b": [0.0, 0.5, 1.0, 1.0],
    "c": [2],
    "f": [1.0, 2.0, 3.0, 4.0],
    "i": [-1, 7],
    "l": [0, 1],
    "n": [-1],
    "o/shape": [2, 1],
    "o/value": [zlib.compress(b"\1\0\2\0")],
    "r/ragged_flat_values": [b"a", b"b"],
    "r/ragged_row_lengths_0": [0, 2],
    "s": [0, 1],
    "t": [b"text"],
    "w": [b"a", b"\xff"],
    "z": [bytes(16)],
}
_SPLITS = {"train": [2]}
_DESCRIPTIONS = ("features.json", "dataset_info.json")


def fuzz(data: bytes) -> object:
    """Use one input."""
    kind, content = (data[0] % 3, data[1:_LONGEST]) if data else (0, b"")
    tfds_folders.describe(_FOLDER, _FEATURES, _SPLITS)
    records = [example(**_GOOD), content if kind == 2 else example(**_GOOD)]
    (_FOLDER / "x-train.tfrecord-00000-of-00001").write_bytes(b"".join(map(frame, records)))
    if kind < 2:
        (_FOLDER / _DESCRIPTIONS[kind]).write_bytes(content)
    rows = 0
    rejected: list[str] = []
    try:
        for _, _, made in pieces(TFDSSource(SourceOptions(paths=(str(_FOLDER),), slice_bytes=1 << 20))):
            rows += len(made.batch.to_pylist())
            rejected += [reject.reason for reject in made.rejects]
    except ToolkitError as error:
        return "".join(c for c in refused(error).rpartition(str(_FOLDER))[2][:60] if not c.isdigit())
    assert rows + len(rejected) == 2 or kind == 1, (rows, rejected)
    assert kind < 2 or rows, rejected
    return kind, rows, "".join(rejected[:1])[:40]


def seeds() -> list[bytes]:
    """Return descriptions, and examples of all features and of none."""
    tfds_folders.describe(_FOLDER, _FEATURES, _SPLITS)
    found = [
        bytes([i]) + (_FOLDER / name).read_bytes() for i, name in enumerate(("features.json", "dataset_info.json"))
    ]
    small = {"featuresDict": {"features": {"t": TEXT, "a": {"featuresDict": {"features": {"b": sequence(TEXT, 2)}}}}}}
    found.append(b"\0" + json.dumps(small).encode())
    found += [b"\2" + example(**_GOOD), b"\2"]
    return found + [b"\2" + example(**{**_GOOD, name: values}) for name, values in (("i", [300, 1]), ("t", [b"\xff"]))]

"""Write folders as tensorflow-datasets prepares them, by hand, and pack them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tfrecords

import toolkit
from toolkit.pack.job import OnExisting, PackJob, PackResult
from toolkit.pack.run import pack


def tensor(dtype: str, *shape: int, encoding: str = "none") -> dict[str, Any]:
    sides = {"dimensions": [str(side) for side in shape]} if shape else {}
    return {"tensor": {"dtype": dtype, "encoding": encoding, "shape": sides}, "pythonClassName": "tfds.Tensor"}


def sequence(feature: object, length: int = -1) -> dict[str, Any]:
    return {"sequence": {"feature": feature, "length": str(length)}}


def label(count: int) -> dict[str, Any]:
    return {"classLabel": {"numClasses": str(count)}}


TEXT = {"text": {}}
IMAGE = {"image": {"dtype": "uint8", "encodingFormat": "png", "shape": {"dimensions": ["-1", "-1", "3"]}}}
BOX = {"boundingBox": {"bboxFormat": "REL_YXYX", "dtype": "float32", "shape": {"dimensions": ["4"]}}}


def describe(folder: Path, features: Mapping[str, object], splits: Mapping[str, Sequence[int]], **more: Any) -> Path:
    """Write the descriptions. `splits` are the lengths of the files."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "features.json").write_text(json.dumps({"featuresDict": {"features": features}}))
    info = {
        "fileFormat": "tfrecord",
        "name": "x",
        "splits": [{"name": name, "shardLengths": [str(n) for n in of]} for name, of in splits.items()],
        "version": "1.0.0",
    }
    (folder / "dataset_info.json").write_text(json.dumps(info | more))
    return folder


def write(folder: Path, features: Mapping[str, object], splits: Mapping[str, Sequence[Sequence[bytes]]]) -> Path:
    """Write files of examples, and their descriptions."""
    for name, files in splits.items():
        for number, payloads in enumerate(files):
            tfrecords.write(folder / f"x-{name}.tfrecord-{number:05}-of-{len(files):05}", payloads)
    return describe(folder, features, {name: [len(one) for one in files] for name, files in splits.items()})


def numbers(folder: Path, **splits: Sequence[int]) -> Path:
    """Examples of a number, counted through, and a text; files of these lengths."""
    made: dict[str, list[list[bytes]]] = {}
    n = 0
    for name, lengths in splits.items():
        made[name] = []
        for length in lengths:
            made[name].append([tfrecords.example(n=[i], t=[f"text {i}".encode()]) for i in range(n, n + length)])
            n += length
    return write(folder, {"n": tensor("int64"), "t": TEXT}, made)


def packed(source: Path, dataset: Path, **options: Any) -> PackResult:
    return pack(PackJob(source=str(source), dataset=str(dataset), on_existing=OnExisting.OVERWRITE, **options))


def samples(dataset: Path, split: str | None = None) -> list[dict[str, Any]]:
    opened = toolkit.open(dataset, split=split) if split else toolkit.open(dataset)
    return [opened[i] for i in range(len(opened))]

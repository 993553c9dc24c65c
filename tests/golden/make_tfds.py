"""Write tests/golden/tfds: datasets of TensorFlow Datasets, and in values.json what tfds.as_numpy gives of them.

    python tests/golden/make_tfds.py

Run with tensorflow-datasets 4.9.10 and tensorflow 2.21, neither of which the tests need.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds

HERE = Path(__file__).parent / "tfds"
F = tfds.features


def everything() -> F.FeaturesDict:
    return F.FeaturesDict(
        {
            "image": F.Image(shape=(None, None, 3), encoding_format="png"),
            "photo": F.Image(encoding_format="jpeg"),
            "deep": F.Image(shape=(4, 5, 1), dtype=np.uint16, encoding_format="png"),
            "label": F.ClassLabel(names=["cat", "dog", "Eichhörnchen"]),
            "digit": F.ClassLabel(num_classes=10),
            "text": F.Text(),
            "flag": F.Scalar(np.bool_),
            **{
                f"a_{name}": F.Scalar(np.dtype(name))
                for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32")
            },
            "bytes_or_text": np.str_,
            "vector": F.Tensor(shape=(3,), dtype=np.float32),
            "matrix": F.Tensor(shape=(2, 3), dtype=np.uint8),
            "ragged_rows": F.Tensor(shape=(None, 2), dtype=np.int32),
            "zlibbed": F.Tensor(shape=(2, 2), dtype=np.float64, encoding="zlib"),
            "as_bytes": F.Tensor(shape=(2, 2), dtype=np.float64, encoding="bytes"),
            "any_shape": F.Tensor(shape=(None, None), dtype=np.int16, encoding="zlib"),
            "box": F.BBoxFeature(),
            "objects": F.Sequence(
                {"bbox": F.BBoxFeature(), "label": F.ClassLabel(names=["a", "b"]), "is_crowd": np.bool_}
            ),
            "tags": F.Sequence(F.Text()),
            "pair": F.Sequence(np.int64, length=2),
            "captions": F.Sequence(F.Sequence(F.Text())),
            "pictures": F.Sequence(F.Image(shape=(2, 2, 1), encoding_format="png")),
            "nested": {"a": {"b": np.int64}, "c": F.Text()},
            "sound": F.Audio(shape=(None,), dtype=np.int64, sample_rate=8000),
            "translation": F.Translation(["de", "en"]),
        }
    )


def examples(count: int) -> Iterator[dict[str, Any]]:
    rng = np.random.default_rng(5)
    for i in range(count):
        size = int(rng.integers(2, 6))
        boxes = [F.BBox(ymin=0.1 * k, xmin=0.2, ymax=0.1 * k + 0.5, xmax=0.75) for k in range(i % 3)]
        limits = {name: np.iinfo(name) for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")}
        yield {
            "image": rng.integers(0, 256, (size, size + 1, 3)).astype(np.uint8),
            "photo": rng.integers(0, 256, (size, size + 1, 3)).astype(np.uint8),
            "deep": rng.integers(0, 1 << 16, (4, 5, 1)).astype(np.uint16),
            "label": ["cat", "dog", "Eichhörnchen"][i % 3],
            "digit": i % 10,
            "text": ["", "text", "Grüße, 世界\n"][i % 3],
            "flag": bool(i % 2),
            **{f"a_{name}": int([limit.min, limit.max, 3][i % 3]) for name, limit in limits.items()},
            "a_uint64": np.uint64([0, (1 << 64) - 1, 3][i % 3]),
            "a_float32": [0.1, -0.0, 3e38][i % 3],
            "bytes_or_text": [b"\xff\x00", b"text"][i % 2],
            "vector": rng.random(3).astype(np.float32),
            "matrix": rng.integers(0, 9, (2, 3)).astype(np.uint8),
            "ragged_rows": rng.integers(0, 9, (i % 3, 2)).astype(np.int32),
            "zlibbed": rng.random((2, 2)),
            "as_bytes": rng.random((2, 2)),
            "any_shape": rng.integers(-9, 9, (i % 3, 2)).astype(np.int16),
            "box": F.BBox(ymin=0.25, xmin=0.5, ymax=0.75, xmax=1.0),
            "objects": [{"bbox": box, "label": k % 2, "is_crowd": k % 2 == 1} for k, box in enumerate(boxes)],
            "tags": ["a", "bc"][: i % 3],
            "pair": [i, -i],
            "captions": [["x"] * (k + i % 2) for k in range(i % 3)],
            "pictures": [rng.integers(0, 256, (2, 2, 1)).astype(np.uint8) for _ in range(i % 3)],
            "nested": {"a": {"b": i}, "c": "deep"},
            "sound": rng.integers(-9, 9, 5),
            "translation": {"de": "ja", "en": "yes"},
        }


def simple() -> F.FeaturesDict:
    return F.FeaturesDict({"image": F.Image(encoding_format="png"), "label": F.ClassLabel(names=["no", "yes"])})


def pictures(count: int, seed: int) -> Iterator[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    for i in range(count):
        yield {"image": rng.integers(0, 256, (3, 4, 3)).astype(np.uint8), "label": i % 2}


def builder_of(name: str, made: F.FeaturesDict, splits: dict[str, Any]) -> type:
    def info(self: Any) -> tfds.core.DatasetInfo:
        return tfds.core.DatasetInfo(builder=self, features=made)

    def generators(self: Any, _: Any) -> dict[str, Any]:
        return {split: enumerate(make()) for split, make in splits.items()}

    members = {
        "VERSION": tfds.core.Version("1.0.0"),
        "_info": info,
        "_split_generators": generators,
        "_generate_examples": lambda self: iter(()),
        "__module__": __name__,
    }
    return type(name.capitalize(), (tfds.core.GeneratorBasedBuilder,), members)


def plain(value: Any) -> Any:
    """Return a value as JSON has it."""
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, tf.RaggedTensor):
        return {"ragged": plain(value.to_list())}
    if isinstance(value, bytes):
        return {"hex": value.hex()}
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, np.ndarray) and value.dtype == object:
        return [plain(one) for one in value.tolist()]
    if isinstance(value, np.ndarray):
        return {"dtype": value.dtype.name, "shape": list(value.shape), "hex": value.tobytes().hex()}
    if isinstance(value, np.generic):
        return {"dtype": value.dtype.name, "value": value.item()}
    return value


def write(name: str, made: F.FeaturesDict, splits: dict[str, Any], **options: Any) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        builder = builder_of(name, made, splits)(data_dir=folder, file_format="tfrecord")
        config = tfds.download.DownloadConfig(**options)
        builder.download_and_prepare(download_config=config)
        target = HERE / name
        shutil.copytree(builder.data_dir, target)
    read = tfds.builder_from_directory(str(target))
    return {
        split: [plain(example) for example in tfds.as_numpy(read.as_dataset(split=split, shuffle_files=False))]
        for split in splits
    }


def main() -> None:
    shutil.rmtree(HERE, ignore_errors=True)
    HERE.mkdir()
    values = {
        "everything": write("everything", everything(), {"train": lambda: examples(6)}),
        "simple": write(
            "simple",
            simple(),
            {"train": lambda: pictures(9, 1), "validation": lambda: pictures(4, 2), "test": lambda: pictures(2, 3)},
            num_shards=2,
        ),
    }
    text = json.dumps(values, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    (HERE / "values.json").write_text(text.replace('},{"', '},\n{"') + "\n")


if __name__ == "__main__":
    main()

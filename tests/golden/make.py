"""Make tests/golden/source and the datasets beside it once; never again: it refuses to overwrite them.

    PYTHONPATH=.:tests python tests/golden/make.py

Run in the set-up of requirements/dev.txt. Reports are left out: they say when and where a dataset was packed.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
from conftest import commit_columns
from PIL import Image

from toolkit.format.media import IMAGE_TYPE
from toolkit.format.schema import (
    KEY,
    Column,
    Kind,
    TokenEncoding,
    arrow_schema,
    derived_of,
    image_column,
    label_column,
    token_column,
    token_type,
)
from toolkit.format.tables import encode_label_table, sha256
from toolkit.pack.derive import Deriver
from toolkit.pack.job import PackJob
from toolkit.pack.run import pack

HERE = Path(__file__).parent
NAMES = [
    "train/café/e\u0301 composed.png",
    "train/café/photo.jpg",
    "train/no class.png",
    "train/猫 🐈/2.jpeg",
    "train/猫 🐈/ｆｕｌｌ width.png",
    "val/café/last.png",
    "val/猫 🐈/first.jpg",
]
CLASSES = ("ant", "β")
TYPES = {
    "ids": token_type(300),
    "photo": IMAGE_TYPE,
    "vector": pa.list_(pa.float32()),
    "caption": pa.string(),
    "when": pa.timestamp("ms", "UTC"),
    "extra": pa.string(),
    "label": pa.int64(),
    "nothing": pa.null(),
    "score": pa.float64(),
}
# In the user's order, which is none of the shards': large columns first, and the smallest last.
COLUMNS = (
    token_column("ids", TokenEncoding(vocabulary=300, eos=256, tokenizer="bytes")),
    image_column("photo"),
    Column(name="vector", kind=Kind.VALUE, arrow_type=str(TYPES["vector"])),
    Column(name="caption", kind=Kind.TEXT, arrow_type="string"),
    Column(name="when", kind=Kind.VALUE, arrow_type=str(TYPES["when"])),
    Column(name="extra", kind=Kind.JSON, arrow_type="string"),
    label_column("label", sha256(encode_label_table(CLASSES))),
    Column(name="nothing", kind=Kind.VALUE, arrow_type="null"),
    Column(name="score", kind=Kind.SCALAR, arrow_type="double"),
)
DERIVED = derived_of(COLUMNS)


def rows() -> pa.RecordBatch:
    """Return nine rows: pictures of the source, values that are missing, and documents without tokens."""
    n = 9
    photos = [{"bytes": (HERE / "source" / name).read_bytes(), "path": name.rpartition("/")[2]} for name in NAMES]
    columns = {
        KEY: [f"k{i}·é" for i in range(n)],
        "ids": [[*f"doc {i}".encode(), 256] * (i % 4) for i in range(n)],
        "photo": [*photos, None, {"bytes": None, "path": "none"}],
        "vector": [None if i == 3 else [i + 0.5] * i for i in range(n)],
        "caption": [None if i == 5 else "ü" * i for i in range(n)],
        "when": [None if i == 0 else 1_000 * i for i in range(n)],
        "extra": [None if i % 3 else f'{{"i": {i}}}' for i in range(n)],
        "label": [None if i == 8 else i % 2 for i in range(n)],
        "nothing": [None] * n,
        "score": [None if i == 1 else i / 8 for i in range(n)],
    }
    types = {KEY: pa.string(), **TYPES}
    return pa.RecordBatch.from_arrays([pa.array(columns[name], types[name]) for name in columns], names=list(columns))


def make_columns(root: Path) -> str:
    """Commit a dataset with a column of every group of a shard, two shard tables and several record batches."""
    schema = arrow_schema(COLUMNS, TYPES, {"label": CLASSES}, DERIVED)
    made = Deriver(COLUMNS, DERIVED).added(rows())
    shards = {"train": [[made.slice(0, 4)], [made.slice(4, 1)], [made.slice(5, 2)]], "val": [[made.slice(7)]]}
    with mock.patch("toolkit.format.commit.MOST_SHARDS", 2):
        return commit_columns(
            root, shards, COLUMNS, schema, {"label": CLASSES}, batch_body_bytes=3000, changes={"derived": DERIVED}
        )


def main() -> None:
    source, dataset, columns = HERE / "source", HERE / "format-1", HERE / "format-1-columns"
    for path in (dataset, columns):
        if path.exists():
            raise SystemExit(f"{path} is there already: golden files are never rewritten")
    if not source.exists():
        rng = np.random.default_rng(0)
        for name in NAMES:
            path = source / name
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(rng.integers(0, 256, (5, 7, 3), np.uint8)).save(path)
    print(pack(PackJob(source=str(source), dataset=str(dataset))))
    print(make_columns(columns))
    for path in (dataset, columns):
        shutil.rmtree(path / "reports")
        (path / ".lock").unlink()


if __name__ == "__main__":
    main()

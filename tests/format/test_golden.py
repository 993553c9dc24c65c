"""Format 1 stays what it is: committed datasets open with the pins and values written down here.

Nothing here writes below tests/golden; a missing file is a failure. tests/golden/make.py made the files, once.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from format.pure_reader import PureReader
from golden.make import make_columns

import toolkit
from toolkit.checks.verify import verify
from toolkit.pack.job import PackJob
from toolkit.pack.run import pack

HERE = Path(__file__).parents[1]
SOURCE, GOLDEN, COLUMNS = (HERE / "golden" / name for name in ("source", "format-1", "format-1-columns"))
PIN = "6110107c77745b9cf69d0df935213526ee45368974f976136c36c179c4ab5be6"
COLUMNS_PIN = "771a533d1e2f08d861d4415cf317f2908b11b9a02a2f775495b3680dc593e3b7"
CLASSES = ("caf\xe9", "\u732b \U0001f408")
# split, key, first digits of the image's sha256, label
SAMPLES = [
    ("train", "train/caf\xe9/e\u0301 composed.png", "2f39745b010e6bbf", 0),
    ("train", "train/caf\xe9/photo.jpg", "58a4c66048a63e27", 0),
    ("train", "train/no class.png", "4869a18258655a9e", None),
    ("train", "train/\u732b \U0001f408/2.jpeg", "e3adf217c765cf93", 1),
    ("train", "train/\u732b \U0001f408/\uff46\uff55\uff4c\uff4c width.png", "2ccef180147233ad", 1),
    ("val", "val/caf\xe9/last.png", "85823a0affec2fb2", 0),
    ("val", "val/\u732b \U0001f408/first.jpg", "c298a06d150e718a", 1),
]
FILES = [
    "manifest.json",
    f"manifests/{PIN}.json",
    "shards/train-000000-8478ccc2f3d47213.arrow",
    "shards/val-000000-801e9abda68ce298.arrow",
    "tables/31ba151bdcdc0278ffb56a5e0172188e5f6f30c66c0b53fd78edc39f6168ff21.arrow",
    "tables/389f091083e3cc09c96dc9fa3a5689332954ee1f1bb27f56893fe2c98be18106.arrow",
    "tables/7d9040ff41deb264b20f77a2699cdc09f7d33d7b2bf2f3fd4542343d0ef74b9d.arrow",
    "tables/eafbb68bb9345408cb6469c3988d79bddbf7fd8000a4ac4eeb771a6766a81438.arrow",
]
COLUMNS_FILES = [
    "manifest.json",
    f"manifests/{COLUMNS_PIN}.json",
    "shards/train-000000-b9a6eb865f56157d.arrow",
    "shards/train-000001-5de21bfa5f151c0a.arrow",
    "shards/train-000002-708c520ddaebb385.arrow",
    "shards/val-000000-8b75dd143771b386.arrow",
    "tables/39b6da729425eb043c149ab1f01a5cafe799469a978b6bbc65175f61cc59e108.arrow",
    "tables/3fda7acde297bc64bd6f795c783c95e3f1d3d629527340d38f06e8e76b041cd5.arrow",
    "tables/60d46d0724a7b78d5dc8ff86654e5b9906251fa2d5266b5f617ce72f3638c261.arrow",
    "tables/830b14d2a3edece88f0f357769fff1fa9b45596842bb449592146a0b0d4d92ea.arrow",
    "tables/c090d310aabe154e91b757102fb778c8ade4751d781843ad3ac03a3c3ab077f1.arrow",
]
# In this order in a manifest; shards have them by size: numbers, texts, what is derived, then whatever may be large.
NAMES = ["ids", "photo", "vector", "caption", "when", "extra", "label", "nothing", "score"]
DERIVED = ["__photo.height__", "__photo.width__", "__photo.orientation__", "__photo.format__"]
STORED = [
    *("__key__", "__digest__", "when", "label", "nothing", "score", "caption", "extra"),
    *(*DERIVED, "ids", "photo", "vector"),
]
# First digits of the picture's sha256, and what is derived of it, by row; then a missing picture, and a missing file.
PHOTOS = [(key, 5, 7, 1, "PNG" if name.endswith("png") else "JPEG") for _, name, key, _ in SAMPLES] + [(None,) * 5] * 2


def short(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def files(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def test_the_golden_files_are_all_there() -> None:
    assert files(GOLDEN) == FILES
    assert files(COLUMNS) == COLUMNS_FILES
    assert len(files(SOURCE)) == len(SAMPLES)


def test_toolkit_reads_them() -> None:
    found = []
    for split in ("train", "val"):
        ds = toolkit.open(f"{GOLDEN}@sha256:{PIN}", split=split)
        assert ds.pin == PIN
        assert ds.classes == CLASSES
        found += [(split, s["__key__"], short(s["image"]), s["label"]) for s in ds]
    assert found == SAMPLES
    assert toolkit.open(GOLDEN, split="val").pin == PIN
    assert verify(GOLDEN, full=True, decode=True).findings == ()


def test_the_pure_reader_reads_them() -> None:
    reader = PureReader(GOLDEN)
    assert reader.pin == PIN
    assert reader.classes == {"label": list(CLASSES)}
    samples = [(split, sample) for split in ("train", "val") for sample in reader.samples(split)]
    assert [(split, s["__key__"], short(s["image"]["bytes"]), s["label"]) for split, s in samples] == SAMPLES
    assert all(s["image"]["path"] == s["__key__"].rpartition("/")[2] for _, s in samples)


def test_they_hold_the_source_as_it_is() -> None:
    reader = PureReader(GOLDEN)
    for split in ("train", "val"):
        for sample in reader.samples(split):
            assert sample["image"]["bytes"] == (SOURCE / sample["__key__"]).read_bytes()


def need_pinned_pyarrow() -> None:
    requirements = (HERE.parent / "requirements" / "dev.txt").read_text()
    pinned = re.search(r"^pyarrow==(\S+)", requirements, re.MULTILINE)
    assert pinned is not None
    if pa.__version__ != pinned[1]:
        pytest.skip(f"pyarrow is {pa.__version__}; the same pin is promised for {pinned[1]}")


@pytest.mark.parametrize("jobs", [1, 3])
def test_packing_the_source_again_gives_the_same_bytes(tmp_path: Path, jobs: int) -> None:
    need_pinned_pyarrow()
    result = pack(PackJob(source=str(SOURCE), dataset=str(tmp_path / "again"), jobs=jobs))
    assert result.pin == PIN
    for name in FILES:
        assert (tmp_path / "again" / name).read_bytes() == (GOLDEN / name).read_bytes(), name


def expected(row: int) -> dict[str, Any]:
    """A sample of the dataset of many columns, but for its picture."""
    return {
        "__key__": f"k{row}\xb7\xe9",
        "ids": [*f"doc {row}".encode(), 256] * (row % 4),
        "vector": None if row == 3 else [row + 0.5] * row,
        "caption": None if row == 5 else "\xfc" * row,
        "when": None if row == 0 else 1_000 * row,
        "extra": None if row % 3 else f'{{"i": {row}}}',
        "label": None if row == 8 else row % 2,
        "nothing": None,
        "score": None if row == 1 else row / 8,
    }


def test_toolkit_reads_all_kinds_of_columns() -> None:
    row = 0
    for split, rows in (("train", 7), ("val", 2)):
        ds = toolkit.open(f"{COLUMNS}@sha256:{COLUMNS_PIN}", split=split)
        assert (len(ds), ds.class_names) == (rows, {"label": ("ant", "\u03b2")})
        assert ds.schema.names == STORED
        assert [column.name for column in ds.columns] == NAMES
        for sample in ds:
            assert list(sample) == ["__key__", *NAMES]
            photo, when = sample.pop("photo"), sample["when"]
            sample["when"] = None if when is None else round(when.timestamp() * 1000)
            assert sample == expected(row)
            assert (None if photo is None else short(photo)) == PHOTOS[row][0]
            row += 1
    ids = [token for row in range(7) for token in expected(row)["ids"]]
    stream = toolkit.open(COLUMNS, split="train").tokens(seq_len=3, batch_size=1, shuffle="none")
    windows = [token for batch in stream for token in batch["tokens"].reshape(-1).tolist()]
    assert windows == ids[: len(windows)]
    assert len(ids) - len(windows) < 6
    assert [len(toolkit.open(COLUMNS, split=split).index) for split in ("train", "val")] == [2, 1]
    assert verify(COLUMNS, full=True, decode=True).findings == ()


def test_the_pure_reader_reads_all_kinds_of_columns() -> None:
    reader = PureReader(COLUMNS)
    assert reader.pin == COLUMNS_PIN
    samples = [one for split in ("train", "val") for one in reader.samples(split, derived=DERIVED)]
    for row, sample in enumerate(samples):
        photo = sample["photo"]
        found = None if photo is None or photo["bytes"] is None else short(photo["bytes"])
        assert (found, *(sample[name] for name in DERIVED)) == PHOTOS[row]
        assert {name: sample[name] for name in expected(row)} == {**expected(row), "when": sample["when"]}
    assert len(samples) == len(PHOTOS)


def test_writing_all_kinds_of_columns_again_gives_the_same_bytes(tmp_path: Path) -> None:
    need_pinned_pyarrow()
    assert make_columns(tmp_path / "again") == COLUMNS_PIN
    for name in COLUMNS_FILES:
        assert (tmp_path / "again" / name).read_bytes() == (COLUMNS / name).read_bytes(), name

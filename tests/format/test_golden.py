"""Format 1 stays what it is: a committed dataset opens with the pin and values written down here.

Nothing here writes below tests/golden; a missing file is a failure. tests/golden/make.py made the files, once.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pyarrow as pa
import pytest
from format.pure_reader import PureReader

import toolkit
from toolkit.checks.verify import verify
from toolkit.pack.job import PackJob
from toolkit.pack.run import pack

HERE = Path(__file__).parents[1]
SOURCE, GOLDEN = HERE / "golden" / "source", HERE / "golden" / "format-1"
PIN = "956fe2f0cea921fc8cd1e4d931ef0c2a5aeb4d9d27f45f3807f6dc5625454431"
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
    "shards/train-000000-a3ab763804717530.arrow",
    "shards/val-000000-662ac468b69a4250.arrow",
    "tables/389f091083e3cc09c96dc9fa3a5689332954ee1f1bb27f56893fe2c98be18106.arrow",
    "tables/a92b10d0f32f3326b2566968d83d338a5c955175d37ba4914ccbab92de24d9b9.arrow",
    "tables/bb68f03aaa1ee3382e86d2a61427228d8248f1b4167eeba31d558a1ad073ed3b.arrow",
    "tables/fcf6ef20e21bd2d3e56ef60334a78be2ad9738a57893025e4f9239f8c5e93f1f.arrow",
]


def short(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def files(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def test_the_golden_files_are_all_there() -> None:
    assert files(GOLDEN) == FILES
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


@pytest.mark.parametrize("jobs", [1, 3])
def test_packing_the_source_again_gives_the_same_bytes(tmp_path: Path, jobs: int) -> None:
    requirements = (HERE.parent / "requirements" / "dev.txt").read_text()
    pinned = re.search(r"^pyarrow==(\S+)", requirements, re.MULTILINE)
    assert pinned is not None
    if pa.__version__ != pinned[1]:
        pytest.skip(f"pyarrow is {pa.__version__}; the same pin is promised for {pinned[1]}")
    result = pack(PackJob(source=str(SOURCE), dataset=str(tmp_path / "again"), jobs=jobs))
    assert result.pin == PIN
    for name in FILES:
        assert (tmp_path / "again" / name).read_bytes() == (GOLDEN / name).read_bytes(), name

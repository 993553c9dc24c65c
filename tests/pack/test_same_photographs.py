"""The same photographs in every kind of input, written by other people's tools: equal images, labels and classes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tfrecords
from photos import make_photos

import toolkit
from toolkit.format.kinds import Kind
from toolkit.pack.job import PackJob
from toolkit.pack.run import pack

COUNT = 60
Photograph = tuple[str, bytes, int]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, tuple[str, ...], list[Photograph]]:
    """An image folder, its classes, and its train photographs in order: (class/name, bytes, label)."""
    root = tmp_path_factory.mktemp("photographs")
    make_photos(root / "photos", COUNT, debian=False)
    folder = root / "photos" / "train"
    classes = tuple(sorted(path.name for path in folder.iterdir()))
    files = sorted(folder.rglob("*.jpg"))
    photographs = [
        (f"{path.parent.name}/{path.name}", path.read_bytes(), classes.index(path.parent.name)) for path in files
    ]
    (root / "classes.txt").write_text("\n".join(classes) + "\n")
    return folder, classes, photographs


def samples(dataset: str) -> list[tuple[bytes, int]]:
    ds = toolkit.open(dataset, split="train")
    return [(sample["image"], sample["label"]) for sample in (ds[i] for i in range(len(ds)))]


def packed(source: Path, dataset: Path, **options: object) -> str:
    pack(PackJob(source=str(source), dataset=str(dataset), split="train", **options))  # type: ignore[arg-type]
    return str(dataset)


@pytest.mark.parametrize("kind", ["imagefolder", "parquet", "tfrecord", "webdataset"])
def test_equal_whatever_they_came_in(
    kind: str, inputs: tuple[Path, tuple[str, ...], list[Photograph]], tmp_path: Path
) -> None:
    folder, classes, photographs = inputs
    if kind == "imagefolder":
        dataset = packed(folder, tmp_path / "ds")
    elif kind == "parquet":
        table = pa.table(
            {"image": [data for _, data, _ in photographs], "label": [label for _, _, label in photographs]}
        )
        pq.write_table(table, tmp_path / "in.parquet", row_group_size=7)
        dataset = packed(tmp_path / "in.parquet", tmp_path / "ds", kinds={"label": Kind.LABEL}, classes=classes)
    elif kind == "tfrecord":
        tfrecords.write(
            tmp_path / "in.tfrecord",
            [tfrecords.example(image=[data], label=[label]) for _, data, label in photographs],
        )
        dataset = packed(tmp_path / "in.tfrecord", tmp_path / "ds", kinds={"label": Kind.LABEL}, classes=classes)
    else:
        for number, (_, data, label) in enumerate(photographs):
            (tmp_path / f"{number:05d}.jpg").write_bytes(data)
            (tmp_path / f"{number:05d}.cls").write_text(str(label))
        subprocess.run("ls *.jpg *.cls | sort | tar -cf in.tar -T -", shell=True, check=True, cwd=tmp_path)
        dataset = packed(
            tmp_path / "in.tar", tmp_path / "ds", mapping={"image": "jpg", "label": "cls"}, classes=classes
        )
    assert toolkit.open(dataset, split="train").classes == classes
    assert samples(dataset) == [(data, label) for _, data, label in photographs]

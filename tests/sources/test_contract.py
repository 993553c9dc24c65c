"""Every kind of source keeps the contract, and takes no input of another."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

import h5py
import mds_shards
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tfds_folders
import tfrecords
from contracts.source import Bad, SourceContract
from pictures import encode, make_folder, picture
from sources import cocos, roxxels, tars

from toolkit.sources import registry
from toolkit.sources.detect import find_kind


class TestImageFolder(SourceContract):
    kind = "imagefolder"

    def good(self, root: Path) -> Path:
        return make_folder(root / "in", {"train/cat": 8, "train/dog": 8, "val/cat": 5})

    def bad(self, root: Path) -> Bad:
        (make_folder(root / "in", {"train/cat": 3}) / "train/cat/x.jpg").write_bytes(b"no picture")
        return Bad(root / "in", "x.jpg", "train/cat/x.jpg")


class TestHdf5(SourceContract):
    kind = "hdf5"

    def good(self, root: Path) -> Path:
        (root / "in").mkdir()
        for name, rows in {"train-0": 12, "train-1": 5, "val-0": 6}.items():
            with h5py.File(root / f"in/{name}.h5", "w") as file:
                file.create_dataset("x", data=np.arange(rows * 6).reshape(rows, 2, 3), chunks=(4, 2, 3))
                file["y"] = np.arange(rows)
        return root / "in"

    def bad(self, root: Path) -> Bad:
        with h5py.File(root / "x.h5", "w") as file:
            file["text"] = np.array([b"a", b"b", b"\xff", b"c"])
        return Bad(root / "x.h5", "x.h5", "x.h5#2")


class TestNumpy(SourceContract):
    kind = "numpy"

    def good(self, root: Path) -> Path:
        (root / "in").mkdir()
        for name, rows in {"train-0": 12, "train-1": 5, "val-0": 6}.items():
            np.savez(root / f"in/{name}.npz", x=np.arange(rows * 6).reshape(rows, 2, 3), y=np.arange(rows))
        return root / "in"

    def bad(self, root: Path) -> Bad:
        np.savez(root / "x.npz", n=np.arange(4), text=np.array([97, 98, 0xD800, 99], "<u4").view("<U1"))
        return Bad(root / "x.npz", "x.npz", "x.npz#2")


class TestCoco(SourceContract):
    kind = "coco"
    largest = 1 << 12
    beside = (".jpg",)

    def good(self, root: Path) -> Path:
        for split, count in {"train": 15, "val": 6}.items():
            names = [f"{number}.jpg" for number in range(count)]
            cocos.photos(root / f"in/{split}2017", *names)
            images = [cocos.image(number, name) for number, name in enumerate(names)]
            boxes = [cocos.box(number, number) for number in range(1, count)]
            cocos.write(root / f"in/annotations/instances_{split}2017.json", cocos.document(images, boxes))
        return root / "in"

    def bad(self, root: Path) -> Bad:
        cocos.photos(root / "in/train", "0.jpg", "1.jpg", "2.jpg")
        boxes = [cocos.box(0, 0), cocos.box(1, 1, 99)]
        made = cocos.document([cocos.image(number) for number in range(3)], boxes)
        cocos.write(root / "in/annotations/a_train.json", made)
        return Bad(root / "in", "a_train.json", "train/1.jpg")


class TestParquet(SourceContract):
    kind = "parquet"
    largest = 256

    def good(self, root: Path) -> Path:
        for name, rows in {"train-0": 12, "train-1": 5, "val-0": 6}.items():
            table = pa.table({"n": range(rows), "text": [f"{name} {i}" for i in range(rows)]})
            (root / "in").mkdir(exist_ok=True)
            pq.write_table(table, root / f"in/{name}.parquet", row_group_size=4)
        return root / "in"

    def bad(self, root: Path) -> Bad:
        images = [encode(picture(seed)) for seed in range(4)]
        pq.write_table(pa.table({"image": [*images[:2], b"no picture", *images[2:]]}), root / "x.parquet")
        return Bad(root / "x.parquet", "x.parquet", "x.parquet#2")


class TestTFRecord(SourceContract):
    kind = "tfrecord"

    def good(self, root: Path) -> Path:
        for name, rows in {"train-0": 12, "train-1": 5, "val-0": 6}.items():
            tfrecords.write(root / f"in/{name}.tfrecord", tfrecords.many(rows))
        return root / "in"

    def media(self, root: Path) -> Path:
        for name, count in {"train-0": 9, "train-1": 5, "val-0": 6}.items():
            examples = [
                tfrecords.example(i=[i], photo=[encode(picture(i))], t=[f"{name} é".encode()], list=[b"\xff", b"b"])
                for i in range(count)
            ]
            tfrecords.write(root / f"in/{name}.tfrecord", examples)
        return root / "in"

    def bad(self, root: Path) -> Bad:
        payloads = [tfrecords.example(i=[i]) for i in range(4)]
        tfrecords.write(root / "x.tfrecord", [*payloads[:2], b"\xff\xff", *payloads[2:]])
        return Bad(root / "x.tfrecord", "x.tfrecord", "x.tfrecord#2")


class TestWebDataset(SourceContract):
    kind = "webdataset"
    largest = 1 << 14

    def good(self, root: Path) -> Path:
        for name, (start, count) in {"train-0": (0, 12), "train-1": (12, 5), "val-0": (17, 6)}.items():
            tars.write(root / f"in/{name}.tar", tars.tar_bytes(tars.samples(count, start=start)))
        return root / "in"

    def bad(self, root: Path) -> Bad:
        items = [(f"{i}.jpg", b"no picture" if i == 5 else tars.JPEG) for i in range(7)]
        tars.write(root / "x.tar", tars.tar_bytes(items))
        return Bad(root / "x.tar", "x.tar", "5")


class TestText(SourceContract):
    kind = "text"
    largest = 128

    def good(self, root: Path) -> Path:
        (root / "in").mkdir()
        for name, lines in {"train-0": 12, "train-1": 5, "val-0": 6}.items():
            texts = [json.dumps({"text": f"{name}, line {i}"}) for i in range(lines)]
            (root / f"in/{name}.jsonl").write_text("\n".join(texts) + "\n")
        return root / "in"

    def bad(self, root: Path) -> Bad:
        (root / "x.jsonl").write_text('{"text": "a"}\n{"text": "b"}\n{"text"}\n{"text": "c"}\n')
        return Bad(root / "x.jsonl", "x.jsonl", "x.jsonl#3")


class TestRoxxel(SourceContract):
    kind = "roxxel"
    largest = 512

    def good(self, root: Path) -> Path:
        (root / "in").mkdir()
        for i, name in enumerate(("train-0", "train-1", "val-0")):
            ids = np.arange(i, 64 * (12 - 2 * i) + i, dtype=np.uint16)
            roxxels.write(root / f"in/{name}.roxxel", ids, 128)
        return root / "in"

    def bad(self, root: Path) -> Bad | None:
        return None


class TestMDS(SourceContract):
    kind = "mds"
    largest = 64
    beside = ("index.json",)  # a text by its name, where no shards lie beside it

    def good(self, root: Path) -> Path:
        mds_shards.numbers(root / "in/train", 12, 0, 5)
        mds_shards.numbers(root / "in/val", 6)
        return root / "in"

    def bad(self, root: Path) -> Bad:
        rows = [{"x": b"7" if i != 2 else b"seven"} for i in range(5)]
        mds_shards.write(root / "in", [rows], {"x": "str_int"})
        return Bad(root / "in", "shard.00000.mds", "shard.00000.mds#2")


class TestVoc(SourceContract):
    kind = "voc"
    largest = 1 << 14
    beside = (".jpg", ".xml", ".txt")

    def good(self, root: Path) -> Path:
        make_folder(root / "in", {"JPEGImages": 24})
        (root / "in/Annotations").mkdir()
        (root / "in/ImageSets/Main").mkdir(parents=True)
        for i in range(24):
            self.annotate(root / "in", f"{i:04d}")
        for name, part in {"train": range(16), "val": range(16, 24)}.items():
            (root / f"in/ImageSets/Main/{name}.txt").write_text("".join(f"{i:04d}\n" for i in part))
        return root / "in"

    def bad(self, root: Path) -> Bad:
        make_folder(root / "in", {"JPEGImages": 3})
        (root / "in/Annotations").mkdir()
        for name in ("0000", "0001", "0002"):
            self.annotate(root / "in", name, "xmin" if name != "0001" else "nothing")
        return Bad(root / "in", "0001.xml", "JPEGImages/0001.jpg")

    def annotate(self, folder: Path, name: str, first: str = "xmin") -> None:
        box = f"<{first}>1</{first}><ymin>2</ymin><xmax>30</xmax><ymax>40</ymax>"
        text = f"<annotation><object><name>dog</name><bndbox>{box}</bndbox></object></annotation>"
        (folder / f"Annotations/{name}.xml").write_text(text)

    def stranger(self, folder: Path) -> str:
        (folder / "JPEGImages/stranger.bin").write_bytes(b"of no kind")
        (folder / "JPEGImages/.hidden").write_bytes(b"hidden")
        return "JPEGImages/stranger.bin"


class TestYolo(SourceContract):
    kind = "yolo"
    largest = 1 << 14
    beside = (".jpg", ".txt")

    def good(self, root: Path) -> Path:
        make_folder(root / "in", {"images/train": 16, "images/val": 8})
        for path in sorted(root.rglob("*.jpg")):
            self.annotate(path, "1 0.5 0.5 0.25 0.25\n0 0.1 0.1 0.1 0.1\n")
        (root / "in/data.yaml").write_text("train: images/train\nval: images/val\nnames: [cat, dog]\n")
        return root / "in"

    def bad(self, root: Path) -> Bad:
        make_folder(root / "in", {"images": 3})
        for path in sorted(root.rglob("*.jpg")):
            self.annotate(path, f"{int(path.stem)} 0.5 0.5 0.25 0.25\n")
        (root / "in/classes.txt").write_text("cat\ndog\n")
        return Bad(root / "in", "0002.txt", "images/0002.jpg")

    def annotate(self, path: Path, text: str) -> None:
        label = Path(str(path).replace("/images", "/labels")).with_suffix(".txt")
        label.parent.mkdir(parents=True, exist_ok=True)
        label.write_text(text)

    def stranger(self, folder: Path) -> str:
        (folder / "images/train/stranger.bin").write_bytes(b"of no kind")
        return "images/train/stranger.bin"


class TestCsv(SourceContract):
    kind = "csv"
    largest = 256
    with_media: ClassVar[dict[str, Any]] = {"image_column": ("path",)}

    def good(self, root: Path) -> Path:
        (root / "in").mkdir()
        for name, rows in {"train-0": 12, "train-1": 5, "val-0": 6}.items():
            text = "".join(f'{i},"{name}, row {i}"\r\n' for i in range(rows))
            (root / f"in/{name}.csv").write_text(f"n,text\r\n{text}", newline="")
        return root / "in"

    def media(self, root: Path) -> Path:
        for name in ("train-0", "val-1"):
            make_folder(root / "in" / name, {"pics": 8})
            lines = [f"{i},{name}/pics/{i:04d}.jpg" for i in range(8)]
            (root / f"in/{name}.csv").write_text("\n".join(["n,path", *lines]))
        return root / "in"

    def bad(self, root: Path) -> Bad:
        (root / "x.csv").write_text("a,b\n1,2\n1,2,3\n4,5\n")
        return Bad(root / "x.csv", "x.csv, line 3", "x.csv, line 3")


class TestMetadata(SourceContract):
    kind = "metadata"
    largest = 1 << 14
    beside = (".jpg", ".csv")

    def good(self, root: Path) -> Path:
        for split, count in {"train": 16, "val": 8}.items():
            self.write(make_folder(root / "in", {split: count}) / split)
        return root / "in"

    def bad(self, root: Path) -> Bad:
        folder = make_folder(root / "in", {"train": 3}) / "train"
        self.write(folder)
        (folder / "0001.jpg").write_bytes(b"no picture")
        return Bad(root / "in", "train/metadata.csv, line 3", "train/0001.jpg")

    def write(self, folder: Path) -> None:
        names = sorted(path.name for path in folder.glob("*.jpg"))
        (folder / "metadata.csv").write_text("file_name,n\n" + "".join(f"{name},1\n" for name in names))


class TestJsonLines(SourceContract):
    kind = "jsonl"
    largest = 256
    with_media: ClassVar[dict[str, Any]] = {"image_column": ("path",)}

    def good(self, root: Path) -> Path:
        (root / "in").mkdir()
        for name, rows in {"train-0": 12, "train-1": 5, "val-0": 6}.items():
            lines = [json.dumps({"n": i, "text": f"{name}, row {i}", "more": [i]}) for i in range(rows)]
            (root / f"in/{name}.jsonl").write_text("\n".join(lines) + "\n")
        return root / "in"

    def media(self, root: Path) -> Path:
        for name in ("train-0", "val-1"):
            make_folder(root / "in" / name, {"pics": 8})
            lines = [json.dumps({"n": i, "path": f"./{name}/pics/{i:04d}.jpg"}) for i in range(8)]
            (root / f"in/{name}.jsonl").write_text("\n".join(lines))
        return root / "in"

    def bad(self, root: Path) -> Bad:
        (root / "x.jsonl").write_text('{"a": 1}\n{"a": 1, "a": 2}\n{"a": 3}\n')
        return Bad(root / "x.jsonl", "x.jsonl, line 2", "x.jsonl, line 2")


class TestPairs(SourceContract):
    kind = "pairs"
    always: ClassVar[dict[str, Any]] = {"pair": {"image": ("images/{}.jpg",), "caption": ("texts/{}.txt",)}}

    def good(self, root: Path) -> Path:
        make_folder(root / "in/images", {"train": 12, "val": 9})
        for path in (root / "in/images").rglob("*.jpg"):
            text = root / "in/texts" / path.relative_to(root / "in/images").with_suffix(".txt")
            text.parent.mkdir(parents=True, exist_ok=True)
            text.write_text(f"caption of {path.name}")
        return root / "in"

    def bad(self, root: Path) -> Bad:
        folder = self.good(root)
        (folder / "texts/val/0003.txt").unlink()
        return Bad(folder, "images/val/0003.jpg", "images/val/0003.jpg")


class TestTFDS(SourceContract):
    kind = "tfds"
    beside = (".json", "-of-00001", "-of-00002")  # all of them are known by their folder

    def good(self, root: Path) -> Path:
        return tfds_folders.numbers(root / "in", train=[12, 5], val=[6])

    def bad(self, root: Path) -> Bad:
        payloads = [tfrecords.example(n=[i]) for i in range(4)]
        files = {"train": [[*payloads[:2], b"\xff\xff", *payloads[2:]]]}
        tfds_folders.write(root / "in", {"n": tfds_folders.tensor("int64")}, files)
        name = "x-train.tfrecord-00000-of-00001"
        return Bad(root / "in", name, f"{name}#2")


KINDS = (
    TestCoco,
    TestHdf5,
    TestCsv,
    TestImageFolder,
    TestJsonLines,
    TestMetadata,
    TestMDS,
    TestNumpy,
    TestPairs,
    TestParquet,
    TestTFDS,
    TestTFRecord,
    TestWebDataset,
    TestText,
    TestRoxxel,
    TestVoc,
    TestYolo,
)


def test_every_kind_keeps_it() -> None:
    assert sorted(one.kind for one in KINDS) == registry.names()


@pytest.mark.parametrize("owner", [one for one in KINDS if registry.named(one.kind).told_by is None])
def test_no_kind_takes_what_is_another_s(owner: type[SourceContract], tmp_path: Path) -> None:
    folder = owner().good(tmp_path)
    files = list(map(str, owner().inputs(folder)))
    assert files or registry.named(owner.kind).takes_folder(str(folder))
    for other in registry.every():
        if other.name != owner.kind:
            taken = [path for path in files if other.looks_like(path) or other.is_named(path)]
            if other.is_faint:  # it goes by names, and is asked last
                taken = [path for path in taken if find_kind([path]) != owner.kind]
            assert not taken, other.name
            assert not other.takes_folder(str(folder)), other.name

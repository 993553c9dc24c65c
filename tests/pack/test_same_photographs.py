"""The same photographs in every kind of input, written by other people's tools: equal images, labels and classes."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tfrecords
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from pictures import encode, picture

import toolkit
from toolkit.checks.verify import verify
from toolkit.format.kinds import Kind
from toolkit.pack.job import PackJob
from toolkit.pack.run import pack

COUNT = 500
CLASSES = ("ant", "bee", "cat", "dog", "elk")


@dataclass(frozen=True)
class Photograph:
    name: str
    data: bytes
    label: int


@pytest.fixture(scope="module")
def photographs() -> list[Photograph]:
    """Photographs in the order of class and name."""
    share = COUNT // len(CLASSES)
    return [
        Photograph(
            f"{CLASSES[i // share]}/{i:04d}.jpg", encode(picture(i, 24 + i % 17, 24 + i % 13), quality=85), i // share
        )
        for i in range(COUNT)
    ]


def as_folder(photographs: list[Photograph], root: Path) -> PackJob:
    for one in photographs:
        path = root / "in" / one.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(one.data)
    return job(root / "in", root)


def as_parquet(photographs: list[Photograph], root: Path) -> PackJob:
    """As Hugging Face writes them: structs of bytes and path, the features in the metadata."""
    image = pa.struct({"bytes": pa.binary(), "path": pa.string()})
    features = {"image": {"_type": "Image"}, "label": {"_type": "ClassLabel", "names": list(CLASSES)}}
    schema = pa.schema({"image": image, "label": pa.int64()}).with_metadata(
        {"huggingface": json.dumps({"info": {"features": features}})}
    )
    rows = [{"image": {"bytes": one.data, "path": one.name}, "label": one.label} for one in photographs]
    pq.write_table(pa.Table.from_pylist(rows, schema), root / "in.parquet", row_group_size=70)
    return job(root / "in.parquet", root)


def as_tfrecord(photographs: list[Photograph], root: Path) -> PackJob:
    example = example_class()
    payloads = []
    for one in photographs:
        message = example()
        message.features.feature["image/encoded"].bytes_list.value.append(one.data)
        message.features.feature["image/class/label"].int64_list.value.append(one.label)
        payloads.append(message.SerializeToString())
    tfrecords.write(root / "in.tfrecord", payloads)
    return job(
        root / "in.tfrecord",
        root,
        map={"image": "image/encoded", "label": "image/class/label"},
        kind={"label": Kind.LABEL},
        classes=CLASSES,
    )


def as_webdataset(photographs: list[Photograph], root: Path) -> PackJob:
    with tarfile.open(root / "in.tar", "w") as tar:
        for number, one in enumerate(photographs):
            for extension, data in (("jpg", one.data), ("cls", str(one.label).encode())):
                info = tarfile.TarInfo(f"{number:06d}.{extension}")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    return job(root / "in.tar", root, map={"image": "jpg", "label": "cls"}, classes=CLASSES)


def job(source: Path, root: Path, **options: object) -> PackJob:
    return PackJob(source=str(source), dataset=str(root / "ds"), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("write", [as_folder, as_parquet, as_tfrecord, as_webdataset])
def test_equal_whatever_they_came_in(
    write: Callable[[list[Photograph], Path], PackJob], photographs: list[Photograph], tmp_path: Path
) -> None:
    pack(write(photographs, tmp_path))
    ds = toolkit.open(tmp_path / "ds")
    assert ds.classes == CLASSES
    assert [(column.name, column.kind) for column in ds.columns] == [("image", Kind.IMAGE), ("label", Kind.LABEL)]
    samples = (ds[i] for i in range(len(ds)))
    assert [(s["image"], s["label"]) for s in samples] == [(one.data, one.label) for one in photographs]
    assert verify(tmp_path / "ds", full=True, decode=True).findings == ()


def example_class() -> type:
    """Return tf.train.Example, made by protobuf of what tensorflow/core/example says."""

    def message(name: str, *fields: tuple[str, int, str, bool]) -> dict[str, object]:
        made = []
        for field, number, kind, repeated in fields:
            one = {"name": field, "number": number, "label": "LABEL_REPEATED" if repeated else "LABEL_OPTIONAL"}
            made.append(one | ({"type": kind} if kind.startswith("TYPE") else {"typeName": kind}))
        return {"name": name, "field": made}

    entry = message("FeatureEntry", ("key", 1, "TYPE_STRING", False), ("value", 2, ".tensorflow.Feature", False))
    feature = message(
        "Feature",
        ("bytes_list", 1, ".tensorflow.BytesList", False),
        ("float_list", 2, ".tensorflow.FloatList", False),
        ("int64_list", 3, ".tensorflow.Int64List", False),
    )
    for field in feature["field"]:  # type: ignore[attr-defined]
        field["oneofIndex"] = 0
    features = message("Features", ("feature", 1, ".tensorflow.Features.FeatureEntry", True))
    messages = [
        message("BytesList", ("value", 1, "TYPE_BYTES", True)),
        message("FloatList", ("value", 1, "TYPE_FLOAT", True)),
        message("Int64List", ("value", 1, "TYPE_INT64", True)),
        feature | {"oneofDecl": [{"name": "kind"}]},
        features | {"nestedType": [entry | {"options": {"mapEntry": True}}]},
        message("Example", ("features", 1, ".tensorflow.Features", False)),
    ]
    file = {"name": "example.proto", "package": "tensorflow", "syntax": "proto3", "messageType": messages}
    pool = descriptor_pool.DescriptorPool()
    pool.Add(json_format.ParseDict(file, descriptor_pb2.FileDescriptorProto()))
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("tensorflow.Example"))

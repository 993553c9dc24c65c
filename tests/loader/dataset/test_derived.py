"""Derived columns are delivered to those who name them, as other columns of their type are."""

from __future__ import annotations

import io
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pictures import encode, picture
from PIL import Image

import toolkit
from toolkit import slot
from toolkit.errors import NotFoundError, PipelineError, SampleError, UsageError
from toolkit.format.kinds import Kind
from toolkit.pack.job import PackJob
from toolkit.pack.run import pack

WIDTH, HEIGHT = "__image.width__", "__image.height__"
ORIENTATION, FORMAT = "__image.orientation__", "__image.format__"
DERIVED = [HEIGHT, WIDTH, ORIENTATION, FORMAT]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twenty images, each third one missing, beside a column of whole numbers that is null where they are."""
    root = tmp_path_factory.mktemp("derived")
    names = ("JPEG", "PNG")
    files = [None if i % 3 == 2 else encode(picture(i, 130 + i, 120), names[i % 2]) for i in range(20)]
    plain = [None if file is None else 130 + i for i, file in enumerate(files)]
    table = pa.table({"image": files, "plain": pa.array(plain, pa.int32()), "text": [f"t{i}" for i in range(20)]})
    pq.write_table(table, root / "in.parquet")
    pack(PackJob(source=str(root / "in.parquet"), dataset=str(root / "dataset"), shard_size=65536))
    return root / "dataset"


def facts(ds: toolkit.Dataset, row: int) -> list[Any]:
    """Return what PIL says of an image."""
    data = ds[row]["image"]
    if data is None:
        return [None] * 4
    with Image.open(io.BytesIO(data)) as image:
        return [image.height, image.width, 1, image.format]


def test_they_are_delivered_only_when_they_are_named(dataset: Path) -> None:
    whole = toolkit.open(dataset)
    assert [column.name for column in whole.columns] == ["image", "plain", "text"]
    assert not whole[0].keys() & set(DERIVED)
    with toolkit.open(dataset).loader(toolkit.pipeline(slot("plain", optional=True)), batch_size=2) as loader:
        assert not set(next(iter(loader)).keys()) & set(DERIVED)
    named = toolkit.open(dataset, columns=[FORMAT, "plain", *DERIVED[:3]])
    assert [(column.name, column.kind) for column in named.columns] == [
        ("plain", Kind.SCALAR),
        *((name, Kind.SCALAR) for name in DERIVED[:3]),
        (FORMAT, Kind.TEXT),
    ]
    for row in range(20):
        sample = named[row]
        assert list(sample) == ["__key__", "plain", *DERIVED]
        assert [sample[name] for name in DERIVED] == facts(whole, row)
        assert sample["plain"] == sample[WIDTH]


def test_a_name_that_is_none_finds_its_like(dataset: Path) -> None:
    with pytest.raises(NotFoundError, match=r"it has image, plain, text, and derived of them __image\.height__.*mean"):
        toolkit.open(dataset, columns=["__image.widht__"])
    with pytest.raises(NotFoundError, match="no column '__digest__'"):
        toolkit.open(dataset, columns=["__digest__"])
    with pytest.raises(UsageError, match=r"derived of them .*Did you mean '__image\.width__'"):
        toolkit.open(dataset).filter(pc.field("__image.widht__") > 1)
    with pytest.raises(PipelineError, match=r"'__image\.width__' is stored, but wasn't opened: .*columns="):
        toolkit.open(dataset).loader(toolkit.pipeline(slot(WIDTH)), batch_size=2)


@pytest.mark.parametrize("columns", [None, ["plain"], [WIDTH], ["image", HEIGHT]])
def test_filters_know_them(dataset: Path, columns: list[str] | None) -> None:
    ds = toolkit.open(dataset, columns=columns)
    wide = ds.filter((pc.field(WIDTH) >= 140) & (pc.field(FORMAT) == "PNG"))
    assert wide.keys() == [ds.keys([i])[0] for i in range(10, 20) if i % 3 != 2 and i % 2]
    assert len(ds.filter(pc.field(WIDTH).is_null())) == 6
    assert list(wide[0]) == ["__key__", *(column.name for column in ds.columns)]


@pytest.mark.parametrize("output", ["numpy", "torch", "jax"])
def test_loaders_deliver_them_as_other_numbers(dataset: Path, output: Any) -> None:
    pytest.importorskip(output)
    ds = toolkit.open(dataset, columns=["plain", *DERIVED])
    slots = [
        slot("plain", optional=True, fill=-1).scalar("int32"),
        slot(WIDTH, optional=True, fill=-1).scalar("int32"),
        slot(WIDTH, name="wide", optional=True, fill=-1).scalar("float32"),
        *(slot(name, optional=True) for name in (HEIGHT, ORIENTATION)),
        slot(FORMAT, optional=True, fill="none").text(),
    ]
    with ds.loader(toolkit.pipeline(*slots), batch_size=20, shuffle="none", output=output) as loader:
        [batch] = loader
        assert np.array_equal(np.asarray(batch[WIDTH]), np.asarray(batch["plain"]))
        assert np.array_equal(np.asarray(batch["wide"]), np.asarray(batch["plain"]).astype(np.float32))
        assert np.array_equal(batch.present[WIDTH], batch.present["plain"])
        assert list(batch[FORMAT][:3]) == ["JPEG", "PNG", "none"]
    there = ds.filter(pc.field(WIDTH).is_valid())
    with there.loader(batch_size=14, shuffle="none", output=output) as loader:
        [batch] = loader
        assert np.array_equal(np.asarray(batch[WIDTH]), np.asarray(batch["plain"]))
        assert np.asarray(batch[WIDTH]).dtype == np.int32
    for name in ("plain", WIDTH):
        one = toolkit.open(dataset, columns=[name])
        with pytest.raises(SampleError, match="missing"), one.loader(batch_size=20, output=output) as loader:
            list(loader)


def test_views_of_them_are_views(dataset: Path, tmp_path: Path) -> None:
    ds = toolkit.open(dataset, columns=["text", WIDTH])
    again = pickle.loads(pickle.dumps(ds[::2]))
    assert [again[i] for i in range(10)] == [ds[i] for i in range(0, 20, 2)]
    shutil.copytree(dataset, tmp_path / "copy")
    other = toolkit.open(tmp_path / "copy", columns=["text", WIDTH])
    both = toolkit.concat([ds, other[3:]])
    assert [both[i][WIDTH] for i in (0, 20, 21)] == [130, 133, 134]
    assert len(both.filter(pc.field(WIDTH) == 133)) == 2
    with pytest.raises(UsageError, match=r"read the columns text, __image\.width__ and text"):
        toolkit.concat([ds, toolkit.open(tmp_path / "copy", columns=["text"])])
    assert [column.name for column in ds.open_split(ds.split).columns] == ["text", WIDTH]
    assert [one[WIDTH] for one in map(ds.repeat(2).__getitem__, (0, 20))] == [130, 130]


def test_no_image_is_read_for_them(dataset: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(dataset, tmp_path / "copy"))
    index = toolkit.open(copy).index
    before = [toolkit.open(copy, columns=DERIVED)[i] for i in range(20)]
    for number in range(index.batches):
        batch = index.batch(number)
        path = copy / index.shard(batch.shard).path
        data = bytearray(path.read_bytes())
        start = batch.offset + batch.metadata_bytes
        behind = start + -(-batch.head_bytes // 16384) * 16384
        data[behind : start + batch.body_bytes] = bytes(max(0, start + batch.body_bytes - behind))
        path.chmod(0o644)
        path.write_bytes(data)
    assert [toolkit.open(copy, columns=DERIVED)[i] for i in range(20)] == before

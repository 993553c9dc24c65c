from __future__ import annotations

import datetime as dt
import decimal
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parquet_inputs import packed, rejected, samples, values, write
from pictures import NO_PICTURE, encode, picture

import toolkit
from toolkit.errors import RejectsError, UsageError
from toolkit.format.schema import Kind
from toolkit.pack.job import PackJob
from toolkit.pack.run import plan
from toolkit.sources.options import LabelMode

JPEG = encode(picture(1))
PNG = encode(picture(2), "PNG")


# --- values ------------------------------------------------------------------------------------------------------

UTC = dt.UTC
LEAP = dt.datetime(2024, 2, 29, tzinfo=UTC)
COLUMNS: dict[str, tuple[Any, list[Any]]] = {
    "int8": (pa.int8(), [1, None, -128]),
    "uint64": (pa.uint64(), [2**64 - 1, None, 0]),
    "float16": (pa.float16(), [0.5, None, -2.0]),
    "double": (pa.float64(), [1.5, None, -0.0]),
    "bool": (pa.bool_(), [True, None, False]),
    "text": (pa.string(), ["", None, "grüße\0x"]),
    "large": (pa.large_string(), ["a" * 1000, None, ""]),
    "view": (pa.string_view(), ["a" * 20, None, ""]),
    "binary": (pa.binary(), [b"", None, b"\0\xff"]),
    "large_binary": (pa.large_binary(), [b"x", None, b""]),
    "fixed": (pa.binary(3), [b"abc", None, b"\0\0\0"]),
    "decimal": (pa.decimal128(20, 4), [decimal.Decimal("12.3400"), None, decimal.Decimal("-0.0001")]),
    "decimal256": (pa.decimal256(60, 2), [decimal.Decimal("1.25"), None, decimal.Decimal(10) ** 50]),
    "date": (pa.date32(), [dt.date(1999, 12, 31), None, dt.date(1, 1, 1)]),
    "time": (pa.time64("us"), [dt.time(1, 2, 3, 4), None, dt.time(0)]),
    "zoned": (pa.timestamp("us", "Asia/Tokyo"), [LEAP, None, dt.datetime(1, 1, 2, tzinfo=UTC)]),
    "naive": (pa.timestamp("ms"), [dt.datetime(2024, 1, 1), None, dt.datetime(1900, 1, 1)]),
    "duration": (pa.duration("us"), [dt.timedelta(days=1), None, dt.timedelta(microseconds=1)]),
    "words": (pa.dictionary(pa.int32(), pa.string()), ["red", None, "blue"]),
    "lists": (pa.list_(pa.list_(pa.int16())), [[[1, 2], [], None], None, []]),
    "word_lists": (pa.list_(pa.dictionary(pa.int32(), pa.string())), [["a", None, "b"], None, []]),
    "fixed_list": (pa.list_(pa.float32(), 2), [[1.0, None], None, [0.0, 3.5]]),
    "large_list": (pa.large_list(pa.string()), [["a"], None, [None, ""]]),
    "struct": (
        pa.struct([("a", pa.int32()), ("b", pa.list_(pa.struct([("c", pa.bool_())])))]),
        [{"a": 1, "b": [{"c": True}, None]}, None, {"a": None, "b": None}],
    ),
    "nothing": (pa.null(), [None, None, None]),
}  # fmt: skip


@pytest.mark.parametrize(
    "chosen", [[name] for name in COLUMNS] + [list(COLUMNS)], ids=lambda names: "-".join(names)[:20]
)
@pytest.mark.parametrize("store_schema", [True, False])
def test_every_type_comes_back_as_it_was(tmp_path: Path, chosen: list[str], store_schema: bool) -> None:
    table = pa.table({name: pa.array(COLUMNS[name][1] * 5, COLUMNS[name][0]) for name in chosen})
    pq.write_table(table, tmp_path / "x.parquet", row_group_size=7, store_schema=store_schema)
    packed(tmp_path / "x.parquet", tmp_path / "ds")
    expected = pq.read_table(tmp_path / "x.parquet").to_pylist()
    assert len(expected) == 15
    got = samples(tmp_path / "ds")
    for i, (want, sample) in enumerate(zip(expected, got, strict=True)):
        assert sample.pop("__key__") == f"x.parquet#{i}"
        assert sample == want


def test_maps_are_lists_of_pairs(tmp_path: Path) -> None:
    made = pa.array([[("a", 1), ("b", None)], None, []], pa.map_(pa.string(), pa.int32()))
    packed(write(tmp_path / "x.parquet", {"m": made}), tmp_path / "ds")
    assert values(tmp_path / "ds", "m") == [[{"key": "a", "value": 1}, {"key": "b", "value": None}], None, []]


def test_kinds_follow_types(tmp_path: Path) -> None:
    columns = {name: pa.array(items, dtype) for name, (dtype, items) in COLUMNS.items()}
    planned = plan(
        PackJob(
            source=str(write(tmp_path / "x.parquet", columns)),
            dataset=str(tmp_path / "ds"),
            source_kind="parquet",
        )
    )
    scalars = {"int8", "uint64", "float16", "double", "bool"}
    kinds = {
        "text": {"text", "large", "view", "words"},
        "bytes": {"binary", "large_binary", "fixed"},
        "scalar": scalars,
    }
    for name in COLUMNS:
        expected = next((kind for kind, names in kinds.items() if name in names), "value")
        assert planned.columns[name] == expected, name
    assert planned.splits["train"].samples == 3
    assert not (tmp_path / "ds").exists()


def test_extension_types_become_their_storage(tmp_path: Path) -> None:
    ids = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes(range(16)), None], pa.binary(16)))
    tensors = pa.ExtensionArray.from_storage(
        pa.fixed_shape_tensor(pa.int32(), [2, 2]), pa.array([[1, 2, 3, 4], None], pa.list_(pa.int32(), 4))
    )
    packed(write(tmp_path / "x.parquet", {"id": ids, "t": tensors}), tmp_path / "ds")
    assert values(tmp_path / "ds", "id") == [bytes(range(16)), None]
    assert values(tmp_path / "ds", "t") == [[1, 2, 3, 4], None]


_leaf = st.sampled_from([pa.int64(), pa.string(), pa.bool_(), pa.binary(), pa.float32()])
_types = st.recursive(
    _leaf,
    lambda inner: st.one_of(
        inner.map(pa.list_),
        inner.map(pa.large_list),
        inner.map(lambda t: pa.list_(t, 2)),
        st.lists(inner, min_size=1, max_size=3).map(lambda ts: pa.struct([(f"f{i}", t) for i, t in enumerate(ts)])),
    ),
    max_leaves=4,
)


def _values_of(dtype: pa.DataType) -> st.SearchStrategy[Any]:
    if pa.types.is_struct(dtype):
        inner: st.SearchStrategy[Any] = st.fixed_dictionaries({child.name: _values_of(child.type) for child in dtype})
    elif pa.types.is_fixed_size_list(dtype):
        inner = st.lists(_values_of(dtype.value_type), min_size=2, max_size=2)
    elif pa.types.is_list(dtype) or pa.types.is_large_list(dtype):
        inner = st.lists(_values_of(dtype.value_type), max_size=3)
    else:
        inner = {
            pa.int64(): st.integers(-(2**63), 2**63 - 1),
            pa.string(): st.text(max_size=5),
            pa.bool_(): st.booleans(),
            pa.binary(): st.binary(max_size=5),
            pa.float32(): st.floats(width=32, allow_nan=False),
        }[dtype]
    return st.none() | inner


@settings(max_examples=40, deadline=None)
@given(data=st.data(), dtype=_types, rows=st.integers(1, 20), group=st.integers(1, 9))
def test_any_nesting_comes_back(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, dtype: pa.DataType, rows: int, group: int
) -> None:
    folder = tmp_path_factory.mktemp("any")
    items = data.draw(st.lists(_values_of(dtype), min_size=rows, max_size=rows))
    write(folder / "x.parquet", {"v": pa.array(items, dtype)}, row_group_size=group)
    packed(folder / "x.parquet", folder / "ds")
    assert values(folder / "ds", "v") == pq.read_table(folder / "x.parquet").column("v").to_pylist()


def test_a_file_of_polars(tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(
        {
            "n": [1, None, 3],
            "s": ["a", "", None],
            "c": polars.Series(["x", "y", "x"], dtype=polars.Categorical),
            "e": polars.Series(["u", "v", None], dtype=polars.Enum(["v", "u"])),
            "l": [[1.5], [], None],
            "b": [b"\0", None, b""],
            "t": [dt.datetime(2020, 1, 1, tzinfo=UTC), None, dt.datetime(2021, 1, 1, tzinfo=UTC)],
            "d": [{"x": 1}, {"x": None}, {"x": 3}],
        }
    )
    frame.write_parquet(tmp_path / "x.parquet")
    packed(tmp_path / "x.parquet", tmp_path / "ds")
    for i, sample in enumerate(samples(tmp_path / "ds")):
        assert sample == {"__key__": f"x.parquet#{i}", **frame.row(i, named=True)}


def test_a_file_of_datasets(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    datasets.disable_progress_bars()
    features = datasets.Features(
        {
            "image": datasets.Image(),
            "label": datasets.ClassLabel(names=["cat", "dog"]),
            "text": datasets.Value("string"),
        }
    )
    rows = {
        "image": [{"bytes": JPEG, "path": "cat.jpg"}, {"bytes": PNG, "path": None}, None],
        "label": [0, 1, -1],
        "text": ["a", "b", "c"],
    }
    datasets.Dataset.from_dict(rows, features=features).to_parquet(str(tmp_path / "x.parquet"))
    result = packed(tmp_path / "x.parquet", tmp_path / "ds")
    opened = toolkit.open(tmp_path / "ds")
    assert result.classes == 2
    assert opened.classes == ("cat", "dog")
    assert {column.name: column.kind for column in opened.columns} == {
        "image": Kind.IMAGE,
        "label": Kind.LABEL,
        "text": Kind.TEXT,
    }
    assert [(s["image"], s["label"], s["text"]) for s in samples(tmp_path / "ds")] == [
        (JPEG, 0, "a"),
        (PNG, 1, "b"),
        (None, None, "c"),
    ]
    assert opened.manifest.splits["train"].labels["label"].counts == (1, 1)
    with pq_of(opened.files[0]) as table:
        assert table.column("image").to_pylist() == [
            {"bytes": JPEG, "path": "cat.jpg"},
            {"bytes": PNG, "path": None},
            None,
        ]
    plain = packed(tmp_path / "x.parquet", tmp_path / "plain", label_mode=LabelMode.NONE)
    assert plain.classes is None
    assert values(tmp_path / "plain", "label") == [0, 1, -1]


class pq_of:
    """Reads a shard whole."""

    def __init__(self, path: str) -> None:
        self._file = pa.OSFile(path)

    def __enter__(self) -> pa.Table:
        return pa.ipc.open_file(self._file).read_all()

    def __exit__(self, *_: object) -> None:
        self._file.close()


# --- images ------------------------------------------------------------------------------------------------------


def test_binary_that_begins_as_an_image_is_one(tmp_path: Path) -> None:
    columns = {
        "a": pa.array([None, JPEG, PNG]),
        "b": pa.array([None, b"raw", JPEG]),
        "c": pa.array([JPEG, None, PNG], pa.large_binary()),
        "d": pa.array([None, None, None], pa.binary()),
    }
    packed(write(tmp_path / "x.parquet", columns), tmp_path / "ds")
    opened = toolkit.open(tmp_path / "ds")
    assert [column.kind for column in opened.columns] == [Kind.IMAGE, Kind.BYTES, Kind.IMAGE, Kind.BYTES]
    assert [list(sample.values())[1:] for sample in samples(tmp_path / "ds")] == [
        [None, None, JPEG, None],
        [JPEG, b"raw", None, None],
        [PNG, JPEG, PNG, None],
    ]


def test_bad_images_are_rejected_with_reason_and_place(tmp_path: Path) -> None:
    image = pa.array(
        [
            {"bytes": JPEG, "path": "/home/me/a.jpg"},
            {"bytes": None, "path": "far/away.jpg"},
            {"bytes": b"nope", "path": None},
            {"bytes": b"", "path": None},
            {"bytes": JPEG[:30], "path": None},
            {"bytes": None, "path": None},
            None,
        ]
    )
    source = write(tmp_path / "x.parquet", {"image": image, "n": range(7)}, row_group_size=2)
    with pytest.raises(RejectsError, match="4 samples rejected"):
        packed(source, tmp_path / "ds")
    found = rejected(source, tmp_path / "ds")
    assert [(reject.key, reject.reason) for reject in found] == [
        ("x.parquet#1", "column 'image': image bytes are not in the file"),
        ("x.parquet#2", f"column 'image': {NO_PICTURE}"),
        ("x.parquet#3", "column 'image': no bytes"),
        ("x.parquet#4", found[3].reason),
    ]
    assert found[3].reason.startswith("column 'image': no readable JPEG header: ")
    assert found[0].source == f"{source}, row 1"
    assert values(tmp_path / "ds", "n") == [0, 5, 6]
    assert values(tmp_path / "ds", "image") == [JPEG, None, None]
    with pq_of(toolkit.open(tmp_path / "ds").files[0]) as table:
        assert table.column("image").to_pylist() == [{"bytes": JPEG, "path": "a.jpg"}, None, None]


def test_kinds_can_be_said(tmp_path: Path) -> None:
    columns = {"a": [b"raw", JPEG, JPEG], "b": [JPEG] * 3, "c": ['{"x": 1}', "{", "null"], "n": [1, 2, 3]}
    source = write(tmp_path / "x.parquet", columns)
    kinds = {"a": Kind.IMAGE, "b": Kind.BYTES, "c": Kind.JSON, "n": Kind.VALUE}
    found = rejected(source, tmp_path / "ds", kind=kinds)
    assert [(reject.key, reject.reason[:18]) for reject in found] == [
        ("x.parquet#0", "column 'a': not an"),
        ("x.parquet#1", "column 'c': no val"),
    ]
    assert samples(tmp_path / "ds") == [{"__key__": "x.parquet#2", "a": JPEG, "b": JPEG, "c": "null", "n": 3}]
    assert [column.kind for column in toolkit.open(tmp_path / "ds").columns] == list(kinds.values())
    with pytest.raises(UsageError, match="can't be image"):
        packed(source, tmp_path / "no", kind={"c": Kind.IMAGE})
    with pytest.raises(UsageError, match="can't be tensor"):
        packed(source, tmp_path / "no", kind={"c": Kind.TENSOR})
    with pytest.raises(UsageError, match="can't be label"):
        packed(source, tmp_path / "no", kind={"a": Kind.LABEL})


def test_tensors_are_numpy_files(tmp_path: Path) -> None:
    sink = io.BytesIO()
    np.save(sink, np.arange(3))
    source = write(tmp_path / "x.parquet", {"t": [sink.getvalue(), b"no", None]})
    assert [r.key for r in rejected(source, tmp_path / "ds", kind={"t": Kind.TENSOR})] == ["x.parquet#1"]
    assert values(tmp_path / "ds", "t") == [sink.getvalue(), None]


def test_audio_of_datasets_is_no_image(tmp_path: Path) -> None:
    table = pa.table({"a": pa.array([{"bytes": b"RIFF", "path": "x.wav"}])})
    metadata = {"huggingface": json.dumps({"info": {"features": {"a": {"_type": "Audio"}}}})}
    pq.write_table(table.replace_schema_metadata(metadata), tmp_path / "x.parquet")
    packed(tmp_path / "x.parquet", tmp_path / "ds")
    assert values(tmp_path / "ds", "a") == [{"bytes": b"RIFF", "path": "x.wav"}]


def test_bytes_in_a_dictionary_are_bytes(tmp_path: Path) -> None:
    for name, first in (("image", encode(picture(1))), ("bytes", b"none")):
        column = pa.array([first, None, first], pa.binary()).dictionary_encode()
        write(tmp_path / f"{name}.parquet", {"data": column})
        packed(tmp_path / f"{name}.parquet", tmp_path / name)
        assert values(tmp_path / name, "data") == [first, None, first]
        job = PackJob(source=str(tmp_path / f"{name}.parquet"), dataset=str(tmp_path / "no"))
        assert plan(job).columns == {"data": name}

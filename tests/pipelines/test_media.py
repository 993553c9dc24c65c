"""A new medium costs a folder and tests: one that toolkit doesn't have is packed, inspected, verified and loaded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from contracts.medium import MediumContract
from gray_medium import GRAY, added, gray_file

import toolkit
from toolkit.checks.inspect import inspect
from toolkit.checks.verify import verify
from toolkit.format.kinds import Kind
from toolkit.pack.job import PackJob
from toolkit.pack.run import pack
from toolkit.pipelines.media import add_medium, medium_of
from toolkit.pipelines.medium import Medium
from toolkit.report.inspect_view import inspect_views
from toolkit.sources.options import VerifyImages

ROWS = [np.arange(6, dtype=np.uint8).reshape(2, 3), np.arange(20, dtype=np.uint8).reshape(5, 4)]
FILES = [gray_file(rows) for rows in ROWS]


@pytest.fixture
def gray() -> Iterator[Medium]:
    with added() as medium:
        yield medium


@pytest.mark.usefixtures("gray")
class TestGray(MediumContract):
    files: ClassVar = {"gray": FILES[1]}
    damaged = FILES[1][:-1]
    encoding = "rows"

    @property
    def medium(self) -> Medium:
        medium = medium_of(GRAY)
        assert medium is not None
        return medium

    def slot(self, *, optional: bool = False) -> toolkit.Slot:
        return toolkit.slot("x", optional=optional).decode_gray()


def parquet(path: Path, values: list[Any], dtype: pa.DataType) -> str:
    """Write a column "x" and return the path."""
    pq.write_table(pa.table({"x": pa.array(values, dtype)}), path)
    return str(path)


@pytest.mark.parametrize("how", ["by its content", "by its kind", "by its struct"])
def test_from_a_file_to_a_batch(gray: Medium, tmp_path: Path, how: str) -> None:
    values: list[Any] = [*FILES, None]
    if how == "by its struct":
        values = [{"data": value, "name": f"in/{i}.gray"} for i, value in enumerate(FILES)] + [None]
    if how == "by its kind":
        values = [None, *FILES]
    dtype = gray.stored.source_form.type if how == "by its struct" else pa.binary()
    source = parquet(tmp_path / "rows.parquet", values, dtype)
    kinds = {"x": GRAY} if how == "by its kind" else {}
    options = {"kind": kinds, "verify_images": VerifyImages.DECODE}
    result = pack(PackJob(source=source, dataset=str(tmp_path / "dataset"), **options))
    assert (result.samples, result.rejects) == (3, [])

    ds = toolkit.open(tmp_path / "dataset")
    assert [(column.kind, column.encoding) for column in ds.columns] == [(GRAY, "keep")]
    assert sorted(ds[i]["x"] or b"" for i in range(3)) == sorted([*FILES, b""])
    decode = toolkit.pipeline(toolkit.slot("x", optional=True).decode_gray())
    with ds.loader(decode, batch_size=3, shuffle="none") as loader:
        [batch] = loader
    found = [array for array in batch["x"] if array is not None]
    assert all(np.array_equal(array, rows) for array, rows in zip(found, ROWS, strict=True))

    named = toolkit.open(tmp_path / "dataset", columns=["__x.height__", "__x.shape__"])
    shapes = [
        (None, None) if rows is None else (len(rows), f"{rows.shape[1]} x {len(rows)} gray") for rows in batch["x"]
    ]
    assert [(one["__x.height__"], one["__x.shape__"]) for one in map(named.__getitem__, range(3))] == shapes

    facts = inspect(str(tmp_path / "dataset"))
    assert (facts.media["x"].missing, facts.media["x"].marks, facts.media["x"].formats) == (1, {"tall": 1}, {"GRAY": 2})
    text = "\n".join(str(view) for view in inspect_views(facts))
    assert "gray pictures of x: all 3 looked at, 1 missing, 1 taller than wide" in text
    assert facts.document()["gray pictures"]
    assert verify(tmp_path / "dataset", full=True, decode=True, jobs=1).findings == ()


@pytest.mark.usefixtures("gray")
def test_what_is_damaged_is_not_packed(tmp_path: Path) -> None:
    source = parquet(tmp_path / "rows.parquet", [FILES[0], FILES[1][:-1], b"GREY 1 1\n0"], pa.binary())
    options = {"kind": {"x": GRAY}, "verify_images": VerifyImages.DECODE, "max_rejects": 2}
    result = pack(PackJob(source=source, dataset=str(tmp_path / "dataset"), **options))
    assert result.samples == 1
    reasons = [reject.reason for reject in sorted(result.rejects, key=lambda one: one.key)]
    assert reasons == ["column 'x': 19 bytes of 5 rows of 4", "column 'x': it doesn't begin as a gray picture"]


def test_a_kind_has_one_medium(gray: Medium) -> None:
    with pytest.raises(ValueError, match="there is a medium of kind gray already"):
        add_medium(gray)


def test_without_it_its_values_are_read_by_their_type(commit_rows: Callable[..., str], tmp_path: Path) -> None:
    with added():
        dataset = TestGray().commit(commit_rows, tmp_path / "dataset", FILES)
        assert len(toolkit.open(dataset)) == 2
    assert medium_of(GRAY) is None
    ds = toolkit.open(dataset)
    assert [column.kind for column in ds.columns] == [Kind.UNKNOWN]
    assert ds[1]["x"] == {"data": FILES[1], "name": None}

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from keyed_rows import keyed

import toolkit
from toolkit import slot
from toolkit.errors import PipelineError, UsageError


def test_a_dry_run_says_what_comes_and_what_fails(tmp_path: Path, commit_rows: Callable[..., str]) -> None:
    columns = {
        "json": pa.array(['{"a": 1}', "{", "[2]", "3"]),
        "numbers": pa.array([[1], [2, 3], None, [4]], pa.list_(pa.int64())),
        "n": pa.array([1, 2, 3, 4]),
    }
    commit_rows(tmp_path / "ds", {"train": [[keyed(columns)]]})
    ds = toolkit.open(tmp_path / "ds")
    made = toolkit.pipeline(slot("json").json(), slot("numbers", optional=True).array("float32", (None,)))
    ran = made.dry_run(ds, 3)
    assert (ran.samples, ran.ok) == (3, False)
    json, numbers, n = ran.columns["json"], ran.columns["numbers"], ran.columns["n"]
    assert json.types == ["dict", "list"]
    assert list(json.errors) == ["k1"]
    assert "slot 'json', step json()" in str(json.errors["k1"])
    assert (numbers.types, numbers.shapes, numbers.missing) == (["float32"], [(1,), (2,)], 1)
    assert (n.types, n.shapes, n.least, n.most) == (["int64"], [()], 1, 3)
    assert str(ran).splitlines()[:2] == ["3 samples, with errors", "  json: dict or list"]
    assert "  numbers: float32, (1,) or (2,), 1..3, 1 missing" in str(ran).splitlines()
    assert made.dry_run(ds[2:], 9).ok
    with pytest.raises(UsageError, match="at least 1"):
        made.dry_run(ds, 0)


def test_a_dry_run_of_images_is_what_a_loader_gives(packed: Path) -> None:
    ds = toolkit.open(packed, split="val")

    def noise(value: Any, rng: np.random.Generator) -> Any:
        return rng.integers(0, 256, value.shape, np.uint8)

    made = toolkit.pipeline(
        slot("image").decode_image().center_crop(8).python(noise, ("uint8", (8, 8, 3)), random=True)
    )
    ran = made.dry_run(ds, 4)
    batch = next(iter(ds.loader(made, batch_size=4)))
    assert ran.ok
    assert ran.columns["image"].shapes == [(8, 8, 3)]
    assert ran.columns["image"].most == batch["image"].max()
    with pytest.raises(PipelineError, match="no column 'imgae'"):
        toolkit.pipeline(slot("imgae")).dry_run(ds)

"""What takes two passes together with what is done to images, and kills at their end."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from kills import contents
from pictures import encode, make_folder, picture

import toolkit
from toolkit.checks.gc import gc
from toolkit.checks.verify import verify
from toolkit.errors import ExistsError, NotFoundError
from toolkit.format.encodings import ImageEncoding
from toolkit.format.kinds import Kind
from toolkit.pack.job import KeyConflict, OnExisting, PackJob
from toolkit.pack.run import pack, packing
from toolkit.sources.shuffle import shuffled

COUNT = 40
SUFFIX = {"key_conflict": KeyConflict.SUFFIX}
SHUFFLE = {"shuffle_seed": 5}


def job(source: Path, dataset: Path, **options: object) -> PackJob:
    options = {"shard_size": 64 * 1024, "key": "id", "kind": {"image": Kind.IMAGE}, **options}
    return PackJob(source=str(source), dataset=str(dataset), **options)  # type: ignore[arg-type]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Images of 48 x 32, every fourth key a repeat, one that can't be decoded."""
    images = [encode(picture(i, 48, 32), quality=95) for i in range(COUNT)]
    images[7] = images[7][:400]
    keys = [f"k{i - i % 4 if i % 4 == 3 else i}" for i in range(COUNT)]
    pq.write_table(pa.table({"id": keys, "image": images}), tmp_path / "in.parquet", row_group_size=9)
    return tmp_path / "in.parquet"


def samples(dataset: Path) -> list[tuple[str, Any]]:
    ds = toolkit.open(dataset, split="train")
    return [(ds[i]["__key__"], ds[i]["image"]) for i in range(len(ds))]


@pytest.mark.parametrize("encoding", ["jpeg:60", "raw"])
def test_images_are_made_anew_once(source: Path, tmp_path: Path, encoding: str) -> None:
    """A JPEG of a JPEG of a picture, or a picture made smaller twice, would not be what one pass makes of it."""
    options: dict[str, Any] = {
        "image_encoding": ImageEncoding.parse(encoding),
        "short_side": 24,
        "max_rejects": 1,
        **SUFFIX,
    }
    result = pack(job(source, tmp_path / "plain", **options))
    plain = samples(tmp_path / "plain")
    assert (len(plain), result.renamed, len(result.rejects)) == (COUNT - 1, 9, 1)
    assert plain[3][0] == "k0#1"
    for jobs in (1, 3):
        pack(job(source, tmp_path / f"s{jobs}", jobs=jobs, **options, **SHUFFLE))
        order = shuffled(COUNT - 1, 5, "train", np.arange(COUNT - 1, dtype=np.int64)).tolist()
        found = samples(tmp_path / f"s{jobs}")
        assert [key for key, _ in found] == [plain[i][0] for i in order]
        assert all(np.array_equal(image, plain[i][1]) for (_, image), i in zip(found, order, strict=True))
    assert contents(tmp_path / "s1") == contents(tmp_path / "s3")
    assert verify(tmp_path / "s1", full=True).findings == ()


def test_a_slice_that_is_packed_again_with_new_keys_is_shaped_again(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "in", {"ant": 5})
    options: dict[str, Any] = {"key": None, "kind": {}, "image_encoding": ImageEncoding.parse("raw"), **SUFFIX}
    pack(job(folder, tmp_path / "ds", **options))
    assert pack(job(folder, tmp_path / "ds", on_existing=OnExisting.APPEND, **options)).renamed == 5
    found = samples(tmp_path / "ds")
    assert all(np.array_equal(one, other) for (_, one), (_, other) in zip(found[:5], found[5:], strict=True))


# --- killed between the commit and the end of the journal --------------------------------------------------------


def committed(source: Path, dataset: Path, **options: object) -> str:
    """Pack, and be stopped before anybody was told the pin; return it."""
    with contextlib.suppress(BrokenPipeError), packing(job(source, dataset, max_rejects=1, **options)) as result:
        raise BrokenPipeError
    assert (dataset / ".journal/stage/train-000000.json").exists()
    return result.pin


@pytest.mark.parametrize("options", [SUFFIX, SHUFFLE, {**SUFFIX, **SHUFFLE}])
@pytest.mark.parametrize("how", ["refuse", "resume", "overwrite"])
def test_it_says_its_pin_when_it_is_run_again(source: Path, tmp_path: Path, options: dict[str, Any], how: str) -> None:
    if "key_conflict" not in options:
        options = {**options, "key": None}
    pin = committed(source, tmp_path / "ds", **options)
    assert gc(str(tmp_path / "ds")).files == ()  # nothing is unfinished
    before = contents(tmp_path / "ds/shards")
    again = pack(job(source, tmp_path / "ds", max_rejects=1, on_existing=OnExisting(how), **options))
    assert again.pin == pin
    assert contents(tmp_path / "ds/shards") == before
    assert not (tmp_path / "ds/.journal").exists()


@pytest.mark.parametrize("change", ["source", "options", "metadata"])
@pytest.mark.parametrize("how", ["refuse", "resume"])
def test_it_is_no_leave_to_replace_what_is_there(source: Path, tmp_path: Path, change: str, how: str) -> None:
    options: dict[str, Any] = {**SUFFIX, **SHUFFLE}
    pin = committed(source, tmp_path / "ds", **options)
    match change:
        case "source":
            pq.write_table(pq.read_table(source).slice(9), source, row_group_size=9)
        case "options":
            options["shuffle_seed"] = 6
        case "metadata":
            options["user_metadata"] = {"owner": "me"}
    error = NotFoundError if how == "resume" else ExistsError
    with pytest.raises(error, match=r"no unfinished pack|already holds a dataset"):
        pack(job(source, tmp_path / "ds", max_rejects=1, on_existing=OnExisting(how), **options))
    assert toolkit.open(tmp_path / "ds", split="train").pin == pin
    assert not (tmp_path / "ds/.journal").exists()

"""--shuffle-seed: the same samples spread over all shards, whatever they came in, how many work, and what stops it."""

from __future__ import annotations

import itertools
import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tfrecords
from format.arrow_values import TYPES, arrays
from hypothesis import given, settings
from hypothesis import strategies as st
from kills import contents, killed
from pictures import encode, make_folder, picture
from sources import tars

import toolkit
from toolkit.checks.verify import verify
from toolkit.errors import ExistsError, RejectsError, StorageError
from toolkit.format.compact import compact_batch
from toolkit.format.digest import sample_digests
from toolkit.format.kinds import Kind
from toolkit.format.schema import Column, arrow_schema
from toolkit.pack import shuffled
from toolkit.pack.derive import Deriver
from toolkit.pack.job import KeyConflict, OnExisting, PackJob
from toolkit.pack.run import pack, plan
from toolkit.pack.shuffled import ShuffledRows
from toolkit.pack.slices import SlicePacker
from toolkit.pack.stage import Stage
from toolkit.sources.base import Rows, Slice, Survey, rows_schema
from toolkit.sources.shuffle import shuffled as order_of
from toolkit.storage.local import LocalStore

SHARD_BYTES = 64 * 1024
COUNT = 300


def job(source: Path, dataset: Path, **options: object) -> PackJob:
    options = {"shard_size": SHARD_BYTES, "shuffle_seed": 5, **options}
    return PackJob(source=str(source), dataset=str(dataset), **options)  # type: ignore[arg-type]


def samples(dataset: Path, split: str | None = "train") -> list[dict[str, Any]]:
    ds = toolkit.open(dataset, split=split)
    return [ds[i] for i in range(len(ds))]


def parquet(folder: Path) -> Path:
    """Class-sorted rows: label n * 3 // COUNT, of different sizes; nulls among them."""
    for number in range(3):
        rows = range(number * 100, number * 100 + 100)
        table = {
            "n": list(rows),
            "text": [None if n % 10 == 0 else "x" * (n * 7 % 2000) for n in rows],
            "group": [f"g{number}" for _ in rows],
        }
        folder.mkdir(exist_ok=True)
        pq.write_table(pa.table(table), folder / f"{number}.parquet", row_group_size=30)
    return folder


def parquet_source(root: Path) -> Path:
    return parquet(root / "in")


def tfrecord_source(root: Path) -> Path:
    return tfrecords.write(root / "in.tfrecord", tfrecords.many(COUNT))


def tar_source(name: str) -> Callable[[Path], Path]:
    def make(root: Path) -> Path:
        items = [(f"{i:04d}.txt", b"text %d" % i * (i % 90)) for i in range(COUNT)]
        return tars.write(root / name, tars.tar_bytes(items))

    return make


def folder_source(root: Path) -> Path:
    return make_folder(root / "in", {"ant": COUNT // 2, "bee": COUNT // 2}, width=24, height=16)


SOURCES = {
    "imagefolder": folder_source,
    "parquet": parquet_source,
    "tfrecord": tfrecord_source,
    "tar": tar_source("in.tar"),
    "tar.gz": tar_source("in.tar.gz"),
    "tar.zst": tar_source("in.tar.zst"),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_the_same_samples_in_the_order_of_the_seed(kind: str, tmp_path: Path) -> None:
    source = SOURCES[kind](tmp_path)
    plain = pack(job(source, tmp_path / "plain", shuffle_seed=None))
    results = [pack(job(source, tmp_path / f"s{jobs}", jobs=jobs)) for jobs in (1, 2, 4)]
    assert len({result.pin for result in results}) == 1
    assert contents(tmp_path / "s1") == contents(tmp_path / "s2") == contents(tmp_path / "s4")
    order = order_of(COUNT, 5, "train", np.arange(COUNT, dtype=np.int64)).tolist()
    before = samples(tmp_path / "plain")
    assert samples(tmp_path / "s1") == [before[i] for i in order]
    assert verify(tmp_path / "s1", full=True).findings == ()
    assert results[0].samples == plain.samples == COUNT
    assert results[0].splits == plain.splits
    assert toolkit.open(tmp_path / "s1", split="train").manifest.options["shuffle_seed"] == 5
    assert "shuffle_seed" not in toolkit.open(tmp_path / "plain", split="train").manifest.options
    assert pack(job(source, tmp_path / "other", shuffle_seed=6)).pin != results[0].pin


@pytest.mark.parametrize("kind", ["imagefolder", "parquet"])
def test_each_shard_has_a_share_of_each_class_and_is_full(kind: str, tmp_path: Path) -> None:
    result = pack(job(SOURCES[kind](tmp_path), tmp_path / "ds"))
    assert result.shards >= 4
    sizes = []
    for path in sorted((tmp_path / "ds/shards").iterdir()):
        sizes.append(path.stat().st_size)
        with pa.memory_map(str(path)) as file:
            table = pa.ipc.open_file(file).read_all()
        counts = Counter(table.column("label" if kind == "imagefolder" else "group").to_pylist())
        if table.num_rows > 40:
            assert len(counts) == (2 if kind == "imagefolder" else 3)
            assert max(counts.values()) < 0.75 * table.num_rows
    assert max(sizes) <= SHARD_BYTES + 4096
    assert min(sizes[:-1]) > SHARD_BYTES - 8192  # the next row didn't fit


class Given:
    """Rows that are there: two slices, in pieces of 7."""

    def __init__(self, values: pa.Array) -> None:
        self.columns = [pa.array([f"k{i}" for i in range(len(values))]), values]

    @property
    def survey(self) -> Survey:
        dtype, rows = self.columns[1].type, len(self.columns[0])
        return Survey(
            columns=(Column(name="x", kind=Kind.VALUE, arrow_type=str(dtype)),),
            types={"x": dtype},
            classes={},
            splits=("train",),
            slices=(Slice("train", 0, None, 0, (0, rows // 2)), Slice("train", 1, None, 0, (rows // 2, rows))),
        )

    def rows(self, part: Slice) -> Iterator[Rows]:
        start, stop = part.payload  # type: ignore[misc]
        batch = pa.RecordBatch.from_arrays(self.columns, schema=rows_schema(self.survey))
        for first in range(start, stop, 7):
            yield Rows(batch.slice(first, min(7, stop - first)), (), 0)


@given(data=st.data())
@settings(max_examples=30, deadline=None)
def test_any_type_survives_the_stage(data: st.DataObject) -> None:
    rows = data.draw(st.integers(1, 40))
    source = Given(data.draw(arrays(TYPES, rows=rows)))
    survey = source.survey
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(shuffled, "_PIECE_BYTES", data.draw(st.sampled_from([1, 500, 1 << 20])))
        patch.setattr(shuffled, "_PLACES", data.draw(st.sampled_from([1, 7, 1 << 20])))
        patch.setattr(shuffled, "_OPEN_FILES", data.draw(st.sampled_from([1, 2])))
        (Path(folder) / ".journal").mkdir()
        stage = Stage(LocalStore(folder))
        schema = arrow_schema(survey.columns, survey.types, {})
        limit = data.draw(st.sampled_from([64, 1 << 16]))
        packer = SlicePacker(source, schema, stage, stage.journal, limit, Deriver(survey.columns, ()))
        results = [packer.pack(part) for part in survey.slices]
        limit = data.draw(st.sampled_from([1, 300, 1 << 16]))
        mixed = ShuffledRows(survey, results, stage, seed=1, slice_bytes=limit)
        parts = mixed.survey.slices
        found = [rows.batch for part in parts for rows in mixed.rows(part)]
        order = order_of(rows, 1, "train", np.arange(rows, dtype=np.int64))
        expected = pa.RecordBatch.from_arrays(source.columns, schema=rows_schema(survey))
        before, after = (sample_digests(compact_batch(one)) for one in (expected, pa.concat_batches(found)))
        assert after == [before[i] for i in order.tolist()]
        assert sum(part.samples or 0 for part in parts) == rows
        assert all(part.samples == 1 or part.bytes <= limit for part in parts)
        assert all(one.bytes + other.bytes > limit for one, other in itertools.pairwise(parts) if other.samples == 1)


# --- splits, limits, rejects, appends ---------------------------------------------------------------------------


def test_each_split_is_shuffled_by_itself(tmp_path: Path) -> None:
    for split, count in (("train", 50), ("val", 20)):
        (tmp_path / "in" / split).mkdir(parents=True)
        pq.write_table(pa.table({"n": range(count)}), tmp_path / "in" / split / "x.parquet")
    pack(job(tmp_path / "in", tmp_path / "ds"))
    for split, count in (("train", 50), ("val", 20)):
        expected = order_of(count, 5, split, np.arange(count, dtype=np.int64)).tolist()
        assert [sample["n"] for sample in samples(tmp_path / "ds", split)] == expected


@pytest.mark.parametrize("kind", ["imagefolder", "parquet"])
def test_a_limit_takes_the_first_samples_and_then_shuffles(kind: str, tmp_path: Path) -> None:
    source = SOURCES[kind](tmp_path)
    pack(job(source, tmp_path / "plain", shuffle_seed=None, limit=40))
    pack(job(source, tmp_path / "ds", limit=40))
    keys = [[sample["__key__"] for sample in samples(tmp_path / name)] for name in ("plain", "ds")]
    assert keys[0] != keys[1]
    assert keys[0] == sorted(keys[1], key=keys[0].index)


def test_a_row_bigger_than_a_shard_has_one_of_its_own(tmp_path: Path) -> None:
    sizes = [100, 200_000, 50, 70_000, 60_000, 65_536, 10]
    pq.write_table(pa.table({"x": [b"\1" * size for size in sizes]}), tmp_path / "in.parquet", row_group_size=2)
    result = pack(job(tmp_path / "in.parquet", tmp_path / "ds"))
    assert sorted(len(sample["x"]) for sample in samples(tmp_path / "ds")) == sorted(sizes)
    assert result.shards >= 4


def test_rejects_are_found_in_the_first_pass_and_nothing_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = [encode(picture(i)) if i % 9 else b"no picture" for i in range(30)]
    pq.write_table(pa.table({"image": images, "n": range(30)}), tmp_path / "in.parquet", row_group_size=8)
    options = {"kind": {"image": Kind.IMAGE}}
    says = r"(?s)4 samples rejected, 1 allowed.*in.parquet#9 \(.*in.parquet, row 9\): column 'image'"
    with pytest.raises(RejectsError, match=says):
        pack(job(tmp_path / "in.parquet", tmp_path / "ds", max_rejects=1, **options))
    assert not list((tmp_path / "ds").glob("shards/*"))
    with monkeypatch.context() as patch:
        patch.setattr("toolkit.sources.kinds.parquet.source.ParquetSource.read", lambda *_: pytest.fail("read again"))
        result = pack(job(tmp_path / "in.parquet", tmp_path / "ds", max_rejects=4, **options))
    assert [reject.key for reject in result.rejects] == [f"in.parquet#{n}" for n in (0, 9, 18, 27)]
    assert result.samples == 26
    assert not (tmp_path / "ds/.journal").exists()


def test_an_append_shuffles_what_it_brings(tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": range(20)}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"n": range(100, 130)}), tmp_path / "b.parquet")
    pack(job(tmp_path / "a.parquet", tmp_path / "ds"))
    old = samples(tmp_path / "ds")
    result = pack(job(tmp_path / "b.parquet", tmp_path / "ds", on_existing=OnExisting.APPEND))
    assert (result.added, result.samples) == (30, 50)
    now = samples(tmp_path / "ds")
    assert now[:20] == old
    order = order_of(30, 5, "train", np.arange(30, dtype=np.int64))
    assert [sample["n"] for sample in now[20:]] == (100 + order).tolist()


def test_a_plan_says_nothing_of_it(tmp_path: Path) -> None:
    assert plan(job(parquet_source(tmp_path), tmp_path / "ds")).splits["train"].samples == COUNT
    assert not (tmp_path / "ds").exists()


def test_progress_ends_at_the_samples_in_both_passes(tmp_path: Path) -> None:
    seen: list[tuple[int, int | None, int, int]] = []
    pack(job(parquet_source(tmp_path), tmp_path / "ds"), lambda *now: seen.append(now))
    ends = [now for now in seen if now[0] == now[1]]
    assert [now[0] for now in ends] == [COUNT, COUNT]
    assert all(now[2] == now[3] for now in ends)


# --- kills ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("step", "at"), [("replace", 9), ("replace", 20), ("fsync", 12), ("fsync", 50)])
def test_a_killed_pack_goes_on_where_it_was(tmp_path: Path, step: str, at: int) -> None:
    source = parquet_source(tmp_path)
    whole = pack(job(source, tmp_path / "whole"))
    assert killed(step, at, job(source, tmp_path / "ds"))
    entries = list((tmp_path / "ds/.journal").rglob("[!.]*-*.json"))
    again = pack(job(source, tmp_path / "ds", jobs=2))
    assert again.pin == whole.pin
    assert again.resumed == len(entries)
    assert contents(tmp_path / "ds") == contents(tmp_path / "whole")


def stopped_in_the_second_pass(source: Path, root: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ShuffledRows, "rows", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            pack(job(source, root))


def test_another_seed_is_another_job(tmp_path: Path) -> None:
    source = parquet_source(tmp_path)
    stopped_in_the_second_pass(source, tmp_path / "ds")
    with pytest.raises(ExistsError, match="shuffle_seed: then 5, now 6"):
        pack(job(source, tmp_path / "ds", shuffle_seed=6))
    with pytest.raises(ExistsError, match="shuffle_seed: then 5, now null"):
        pack(job(source, tmp_path / "ds", shuffle_seed=None))
    with pytest.raises(ExistsError, match='key_conflict: then "error", now "suffix"'):
        pack(job(source, tmp_path / "ds", key_conflict=KeyConflict.SUFFIX))
    assert pack(job(source, tmp_path / "ds")).resumed == 6


def test_a_changed_file_changes_every_shard_and_only_its_slices_are_read(tmp_path: Path) -> None:
    source = parquet_source(tmp_path)
    stopped_in_the_second_pass(source, tmp_path / "ds")
    pq.write_table(pa.table({"n": [-1], "text": ["new"], "group": ["g"]}), source / "2.parquet")
    entries = [json.loads(path.read_bytes()) for path in (tmp_path / "ds/.journal/stage").glob("[!.]*-*.json")]
    result = pack(job(source, tmp_path / "ds"))
    assert result.resumed == sum(entry["source"] != "2.parquet" for entry in entries) > 0
    assert result.pin == pack(job(source, tmp_path / "whole")).pin
    assert contents(tmp_path / "ds") == contents(tmp_path / "whole")


@pytest.mark.parametrize("jobs", [1, 4])
def test_a_flip_in_the_stage_is_found_and_mended_by_the_same_command(tmp_path: Path, jobs: int) -> None:
    source = parquet_source(tmp_path)
    stopped_in_the_second_pass(source, tmp_path / "ds")
    entry = json.loads((tmp_path / "ds/.journal/stage/train-000001.json").read_bytes())
    shard = tmp_path / "ds" / entry["records"][0]["path"]
    data = bytearray(shard.read_bytes())
    data[data.index(b"xxxxxxxxxxxxxxxx")] ^= 1
    shard.write_bytes(data)
    with pytest.raises(StorageError, match=f"{shard.name}.*is not what this pack wrote.*The same command"):
        pack(job(source, tmp_path / "ds", jobs=jobs))
    assert pack(job(source, tmp_path / "ds")).pin == pack(job(source, tmp_path / "whole")).pin

"""A dataset of references gives what the packed one gives, in every way it is read; a file that changed is an error."""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import resource
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest
from forks import forked, unheard
from referenced import refer, sums_of

import toolkit
from toolkit import slot
from toolkit.errors import (
    ChangedFileError,
    CorruptShardError,
    CorruptTableError,
    NotFoundError,
    SampleError,
    StorageError,
    UsageError,
)
from toolkit.loader import api

open_dataset = api.open
Refer = Callable[..., Path]


@pytest.fixture(scope="module", autouse=True)
def state(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(scope="module")
def shared(packed: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The packed dataset and datasets that refer to its images, which tests only read."""
    base = tmp_path_factory.mktemp("referenced")
    return {
        "packed": packed,
        "files": refer(packed, base / "files", base / "root"),
        "tar": refer(packed, base / "tar", base / "tars", tar=True),
        "unhashed": refer(packed, base / "unhashed", base / "root", hashed=False),
        "unhashed tar": refer(packed, base / "unhashed-tar", base / "tars", hashed=False, tar=True),
    }


FORMS = ["files", "tar", "unhashed", "unhashed tar"]


@pytest.fixture
def fresh(packed: Path, tmp_path: Path) -> Refer:
    """Return a dataset of references of its own, whose files lie in root/."""
    return lambda **options: refer(packed, tmp_path / "ds", tmp_path / "root", **options)


SMALL = toolkit.pipeline(slot("image").decode_image().random_crop((24, 20)).hflip(), slot("label").scalar("int64"))
TWICE = toolkit.pipeline(
    slot("image").decode_image().resize((8, 8)),
    slot("image", name="again").decode_image().center_crop(12),
    slot("label").scalar("int64"),
)
LENGTH = toolkit.pipeline(slot("image").python(len, "int64"), slot("label").scalar("int64"))


def batches(ds: toolkit.Dataset, pipeline: Any = None, **options: Any) -> list[dict[str, list[Any]]]:
    """Return every batch's columns as lists, with the rows and the mask."""
    options = {"batch_size": 16, "threads": 2, "shuffle": "full", "seed": 5, **options}
    made = []
    with ds.loader(pipeline, **options) as loader:
        for batch in loader:
            columns = {name: [np.asarray(one).tolist() for one in values] for name, values in batch.items()}
            made.append({**columns, "rows": batch.rows.tolist(), "mask": batch.mask.tolist()})
    return made


# --- the same as packed ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_samples_keys_and_views_are_the_packed_ones(shared: dict[str, Path], form: str) -> None:
    packed, referred = (toolkit.open(shared[name], split="train") for name in ("packed", form))
    assert referred.keys() == packed.keys()
    assert [referred[i] for i in range(len(referred))] == [packed[i] for i in range(len(packed))]
    for view in (
        lambda ds: ds.take([3, 99, 3, 0]),
        lambda ds: ds[140:2:-7],
        lambda ds: ds.filter(pc.field("label") == 1),
    ):
        assert [view(referred)[i] for i in range(4)] == [view(packed)[i] for i in range(4)]
    assert referred.open_split("val")[3] == packed.open_split("val")[3]
    referred.check_row(7)
    located = referred.fetcher.locate(np.array([5, 99]))
    names = [key.rpartition("/")[2] for key in packed.keys([5, 99])]
    assert referred.fetcher.values("image", located) == [
        {"bytes": packed[i]["image"], "path": name} for i, name in zip((5, 99), names, strict=True)
    ]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("pipeline", [None, SMALL, TWICE, LENGTH], ids=["bytes", "images", "shared", "python"])
def test_batches_are_the_packed_ones(shared: dict[str, Path], form: str, pipeline: Any) -> None:
    packed, referred = (toolkit.open(shared[name], split="train") for name in ("packed", form))
    assert batches(referred, pipeline) == batches(packed, pipeline)


def test_always_reads_the_same(shared: dict[str, Path]) -> None:
    packed, referred = (toolkit.open(shared[name], split="train", verify="always") for name in ("packed", "files"))
    assert batches(referred) == batches(packed)
    assert referred.verified("touch")[3] == packed[3]


def test_digests_are_the_packed_ones(shared: dict[str, Path]) -> None:
    packed, referred = (toolkit.open(shared[name], split="train") for name in ("packed", "files"))
    assert (
        referred.fetcher.array("__digest__", 0).to_pylist()
        == packed.fetcher.array("__digest__", 0).to_pylist()[: len(referred.fetcher.array("__digest__", 0))]
    )


def test_columns_as_arrays_are_the_packed_ones(shared: dict[str, Path]) -> None:
    packed, referred = (toolkit.open(shared[name], split="train") for name in ("packed", "files"))
    assert referred.column("image", media=True) == packed.column("image", media=True)
    assert referred.to_arrow().schema.field("image").type == packed.to_arrow().schema.field("image").type
    assert referred.take([5, 3]).to_arrow().to_pylist() == packed.take([5, 3]).to_arrow().to_pylist()


def test_renamed_columns_and_keys_as_columns(shared: dict[str, Path]) -> None:
    packed, referred = (
        toolkit.open(shared[name], split="train").rename({"image": "photo"}).with_key("id")
        for name in ("packed", "files")
    )
    assert referred[7] == packed[7]
    assert batches(referred) == batches(packed)


def test_filters_see_what_is_stored(shared: dict[str, Path]) -> None:
    ds = toolkit.open(shared["files"], split="train")
    sizes = [len(ds[i]["image"]) for i in range(len(ds))]
    middle = sorted(sizes)[75]
    assert len(ds.filter(pc.field("image", "length") > middle)) == sum(size > middle for size in sizes)
    assert len(ds.filter(pc.field("image").is_valid())) == 150
    with pytest.raises(UsageError, match=r"filter .*bytes"):
        ds.filter(pc.field("image", "bytes") == b"")


def test_lengths_are_known_without_a_read(fresh: Refer) -> None:
    root = fresh()
    ds = toolkit.open(root, split="train")
    sizes = [len(ds[i]["image"]) for i in range(5)]
    shutil.rmtree(root.parent / "root/train")
    located = ds.fetcher.locate(np.arange(5))
    assert ds.fetcher.lengths("image\0bytes", located).tolist() == sizes


def test_nulls_and_empty_names(tmp_path: Path, commit_samples: Callable[..., str], dataset: Path) -> None:
    image = toolkit.open(dataset, split="train")[0]["image"]
    samples = [
        {"__key__": "a", "image": {"bytes": image, "path": None}, "label": 0},
        {"__key__": "b", "image": None, "label": None},
        {"__key__": "c", "image": {"bytes": image, "path": "c.jpg"}, "label": 1},
    ]
    commit_samples(tmp_path / "packed", {"train": [samples]})
    for hashed in (True, False):
        ds = toolkit.open(
            refer(tmp_path / "packed", tmp_path / f"ds{hashed}", tmp_path / "root", hashed=hashed, shards=1)
        )
        assert [ds[i]["image"] for i in range(3)] == [image, None, image]
        located = ds.fetcher.locate(np.arange(3))
        assert ds.fetcher.values("image", located) == [
            {"bytes": image, "path": None}, None, {"bytes": image, "path": "c.jpg"}
        ]  # fmt: skip
        assert ds.fetcher.lengths("image\0bytes", located).tolist() == [len(image), -1, len(image)]
        with ds.select(["image"]).loader(batch_size=3) as loader:
            (batch,) = list(loader)
        assert batch["image"] == [image, None, image]
        optional = toolkit.pipeline(slot("image", optional=True).decode_image().resize((4, 4)))
        with ds.select(["image"]).loader(optional, batch_size=3) as loader:
            (batch,) = list(loader)
        assert batch.present["image"].tolist() == [True, False, True]


# --- joined, pickled, forked ----------------------------------------------------------------------------------------


def test_joined_datasets_read_each_from_its_own_root(packed: Path, tmp_path: Path) -> None:
    plain, made = toolkit.open(packed, split="train"), []
    for name, options in (("a", {}), ("b", {"tar": True}), ("c", {"hashed": False})):
        refer(packed, tmp_path / name, tmp_path / f"root-{name}", **options)  # type: ignore[arg-type]
        made.append(toolkit.open(tmp_path / name, split="train"))
    joined, expected = toolkit.concat(made), toolkit.concat([plain, plain, plain])
    picked = [449, 0, 151, 300, 299, 7]
    assert [joined[i] for i in picked] == [expected[i] for i in picked]
    for pipeline in (None, SMALL):
        assert batches(joined.take(picked * 3), pipeline) == batches(expected.take(picked * 3), pipeline)
    shutil.rmtree(tmp_path / "root-b")
    with pytest.raises(ChangedFileError) as caught:
        joined[151]
    assert caught.value.row == 1
    assert caught.value.file == str(tmp_path / "root-b/train.tar")
    assert joined[0] == plain[0]
    with pytest.raises(UsageError, match="no roots in common"):
        joined.roots  # noqa: B018
    sums_without = refer(
        packed, tmp_path / "d", tmp_path / "root-a", change=lambda row, value: {**value, "crc32c": None}
    )
    with pytest.raises(CorruptShardError, match="can't be followed"):  # whatever the one beside it may have
        toolkit.concat([made[2], toolkit.open(sums_without, split="train")])[150]


def _read_all(ds: toolkit.Dataset, rows: list[int]) -> list[Any]:
    return [ds[i] for i in rows]


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_roots_travel_with_a_pickle(packed: Path, tmp_path: Path, start: str) -> None:
    refer(packed, tmp_path / "ds", tmp_path / "root", own=False)
    (tmp_path / "root").rename(tmp_path / "moved")
    ds = open_dataset(tmp_path / "ds", split="train", roots=tmp_path / "moved")
    expected = _read_all(toolkit.open(packed, split="train"), [3, 149])
    assert _read_all(ds, [3, 149]) == expected
    assert pickle.loads(pickle.dumps(ds)).roots == ds.roots == {"source": str(tmp_path / "moved")}
    with unheard(), multiprocessing.get_context(start).Pool(1) as pool:
        assert pool.apply(_read_all, (ds, [3, 149])) == expected
        assert pool.apply(_read_all, (ds.take([3, 149]), [0, 1])) == expected


def test_a_forked_child_reads_by_the_open_roots(shared: dict[str, Path]) -> None:
    ds = toolkit.open(shared["files"], split="train")
    expected = ds[5]

    def read() -> None:
        assert ds[5] == expected
        assert toolkit.open(shared["tar"], split="train")[5] == expected

    child = forked(read)
    child.join()
    assert child.exitcode == 0


# --- where the roots are --------------------------------------------------------------------------------------------


def test_roots_move_when_the_caller_says_so(fresh: Refer, tmp_path: Path) -> None:
    ds = toolkit.open(fresh(), split="train")
    expected = ds[0]
    (tmp_path / "root").rename(tmp_path / "moved")
    assert ds[1]  # it has the folder open
    with pytest.raises(NotFoundError, match=r"root 'source' of .* should be the folder .*root', which isn't there"):
        toolkit.open(tmp_path / "ds", split="train")[0]
    for roots in (tmp_path / "moved", {"source": str(tmp_path / "moved")}):
        moved = open_dataset(tmp_path / "ds", split="train", roots=roots)
        assert moved[0] == expected
        assert moved.open_split("val").roots == moved.roots == {"source": str(tmp_path / "moved")}
        assert open_dataset(tmp_path / "ds", split="*", roots=roots)["train"][0] == expected


def test_a_dataset_without_roots_reads_its_other_columns(fresh: Refer, tmp_path: Path) -> None:
    root = fresh(own=False)
    ds = toolkit.open(root, split="train", columns=["label"])
    assert ds[0]["label"] == 0
    assert len(ds.filter(pc.field("label") == 2)) == 30
    everything = toolkit.open(root, split="train")
    for read in (lambda: everything[0], lambda: batches(everything), lambda: batches(everything, SMALL)):
        with pytest.raises(UsageError, match=r"root 'source', and nothing says where that is.*roots=.*--roots"):
            read()
    with pytest.raises(UsageError, match="nothing says where"):
        batches(everything, SMALL, on_error="skip")  # no sample is at fault


def test_roots_are_only_for_datasets_that_have_some(packed: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds all its values"):
        open_dataset(packed, split="train", roots=tmp_path)
    assert toolkit.open(packed, split="train").roots == {}


# --- files that changed ---------------------------------------------------------------------------------------------


def flip(path: Path) -> None:
    info, data = path.stat(), bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)
    os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns))  # equal in size and time


def spoil(path: Path, how: str, elsewhere: Path) -> None:
    data = path.read_bytes()
    if how == "flipped":
        flip(path)
    elif how == "longer":
        path.write_bytes(data + b"!")
    elif how == "shorter":
        path.write_bytes(data[:-1])
    else:
        path.unlink()
    if how == "pipe":
        os.mkfifo(path)
    elif how == "link":
        (elsewhere / "x").write_bytes(data)
        path.symlink_to(elsewhere / "x")


SPOILT = {
    "removed": "isn't there any more",
    "shorter": "ends before the value does",
    "flipped": r"aren't those that were indexed \(bytes 0 to 16384",
    "pipe": "no regular file",
    "link": "leads out of the root",
}


@pytest.mark.parametrize(("how", "says"), SPOILT.items())
def test_a_file_that_changed_is_an_error_that_names_it(fresh: Refer, tmp_path: Path, how: str, says: str) -> None:
    ds = toolkit.open(fresh(), split="train")
    key, file = ds.keys([40])[0], tmp_path / "root" / ds.keys([40])[0]
    spoil(file, how, tmp_path)
    for read in (
        lambda: ds[40],
        lambda: ds.check_row(40),
        lambda: batches(ds, None),
        lambda: batches(ds, SMALL),
        lambda: batches(ds, LENGTH),
    ):
        with pytest.raises(ChangedFileError, match=says) as caught:
            read()
        error = caught.value
        assert (error.row, error.key, error.column, error.file) == (40, key, "image", str(file))
        assert error.exit_code == 4
        assert str(file) in str(error)
        assert f"dataset {tmp_path / 'ds'}" in str(error)
        assert "index the source again" in str(error)
    assert ds[39]


@pytest.mark.parametrize("pipeline", [None, SMALL], ids=["bytes", "images"])
def test_changed_files_are_skipped_and_counted(fresh: Refer, tmp_path: Path, pipeline: Any) -> None:
    ds = toolkit.open(fresh(), split="train")
    good = {
        row: sample
        for batch in batches(ds, pipeline)
        for row, sample in zip(batch["rows"], batch["image"], strict=True)
    }
    bad = [3, 40, 41, 149]
    for row, how in zip(bad, SPOILT, strict=False):
        spoil(tmp_path / "root" / ds.keys([row])[0], how, tmp_path)
    with ds.loader(pipeline, batch_size=16, threads=2, on_error="skip", shuffle="full", seed=5) as loader:
        for batch in loader:
            for row, there, image in zip(batch.rows.tolist(), batch.mask.tolist(), batch["image"], strict=True):
                assert there == (row not in bad)
                if there:
                    assert np.asarray(image).tolist() == good[row]
        assert loader.stats()["skipped"] == 4


@pytest.mark.parametrize("how", ["touched", "longer", "flipped", "removed"])
def test_without_sums_sizes_and_times_are_compared(fresh: Refer, tmp_path: Path, how: str) -> None:
    ds = toolkit.open(fresh(hashed=False), split="train")
    file = tmp_path / "root" / ds.keys([40])[0]
    if how == "touched":
        os.utime(file, ns=(0, file.stat().st_mtime_ns + 1))
    else:
        spoil(file, how, tmp_path)
    if how == "flipped":
        assert ds[40]  # of equal size and time: what isn't hashed can't tell
        return
    for read in (lambda: ds[40], lambda: batches(ds), lambda: batches(ds, SMALL), lambda: batches(ds, LENGTH)):
        with pytest.raises(ChangedFileError, match=r"another size or modification time|any more") as caught:
            read()
        assert caught.value.row == 40


def test_without_sums_what_a_pack_would_reject_is_an_error(fresh: Refer, tmp_path: Path) -> None:
    root = fresh(hashed=False)
    ds = toolkit.open(root, split="train")
    files = [tmp_path / "root" / key for key in ds.keys([40, 41])]
    files[0].write_bytes(b"no picture")
    files[1].write_bytes(b"")
    refer_again(root, tmp_path)
    ds = toolkit.open(root, split="train")
    for read in (lambda: ds[40], lambda: batches(ds), lambda: batches(ds, SMALL), lambda: batches(ds, LENGTH)):
        with pytest.raises(SampleError, match=str(files[0])) as caught:
            read()
        assert (caught.value.row, caught.value.slot) == (40, "image")
    with pytest.raises(SampleError, match="empty file"):
        ds[41]
    with ds.loader(batch_size=16, on_error="skip") as loader:
        list(loader)
        assert loader.stats()["skipped"] == 2


def refer_again(root: Path, tmp_path: Path) -> None:
    """Make the dataset's sizes, times and lengths those of the files as they are now."""
    listed = {
        str(path.relative_to(tmp_path / "root")): path.stat().st_size for path in (tmp_path / "root").rglob("*.*")
    }
    refer(
        tmp_path / "packed" if (tmp_path / "packed").exists() else PACKED[0],
        root,
        tmp_path / "root",
        hashed=False,
        change=lambda row, value: {**value, "length": listed[str(value["path"])]},
    )


PACKED: list[Path] = []


@pytest.fixture(autouse=True)
def remember(packed: Path) -> None:
    PACKED[:] = [packed]


@pytest.mark.parametrize("how", ["missing", "cut", "pipe"])
def test_sizes_and_times_that_are_gone_are_an_error(fresh: Refer, tmp_path: Path, how: str) -> None:
    ds = toolkit.open(fresh(hashed=False), split="train")
    for path in (tmp_path / "ds/shards").glob("train-*.stat"):
        if how == "cut":
            path.write_bytes(path.read_bytes()[:-1])
        else:
            path.unlink()
        if how == "pipe":
            os.mkfifo(path)
    for read in (lambda: ds[40], lambda: batches(ds), lambda: batches(ds, on_error="skip")):
        with pytest.raises(CorruptTableError, match=r"\.stat (is missing|has \d+ bytes)"):
            read()


def test_a_sample_that_can_not_be_decoded_names_its_file(fresh: Refer, tmp_path: Path) -> None:
    def spoilt(row: int, value: dict[str, object]) -> dict[str, object]:
        file = tmp_path / "root" / str(value["path"])
        if row == 40 and "train" in str(value["path"]):
            file.write_bytes(b"\xff\xd8\xff nothing")
            return {**value, "length": 11, "crc32c": sums_of(b"\xff\xd8\xff nothing")}
        return value

    ds = toolkit.open(fresh(change=spoilt), split="train")
    with pytest.raises(SampleError, match=rf"file '{tmp_path}/root/train/"):
        batches(ds, SMALL)
    assert ds[40]["image"] == b"\xff\xd8\xff nothing"  # as it was indexed


def test_too_many_open_files_is_no_fault_of_a_file(shared: dict[str, Path]) -> None:
    ds = toolkit.open(shared["files"], split="train")
    assert ds[0]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    gc.collect()  # what other tests left open would be room
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
    try:
        with pytest.raises(StorageError, match="too many open files: raise `ulimit -n`"):
            ds[1]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# --- what a stranger may have written -------------------------------------------------------------------------------

HOSTILE: dict[str, dict[str, Any]] = {
    "up": {"path": "../secret"},
    "absolute": {"path": "/etc/passwd"},
    "inside": {"path": "a/../../secret"},
    "before": {"offset": -1},
    "negative": {"length": -1},
    "far": {"offset": (1 << 63) - 1},
    "no sums": {"crc32c": None},
    "few sums": {"crc32c": b""},
    "many sums": {"crc32c": b"12345678"},
    "no path": {"path": None},
    "no length": {"length": None},
    "no offset": {"offset": None},
    "root": {"root": "\x1b[2J"},
}


@pytest.mark.parametrize("lie", HOSTILE)
def test_a_reference_that_can_not_be_is_not_followed(fresh: Refer, tmp_path: Path, lie: str) -> None:
    (tmp_path / "secret").write_bytes(b"key")
    ds = toolkit.open(fresh(change=lambda row, v: {**v, **HOSTILE[lie]} if row == 7 else v), split="train")
    for read in (lambda: ds[7], lambda: batches(ds), lambda: batches(ds, SMALL)):
        with pytest.raises(CorruptShardError, match=r"can't be followed|ends before") as caught:
            read()
        assert caught.value.row == 7
        assert str(caught.value).isprintable()
    with ds.loader(batch_size=16, on_error="skip") as loader:
        list(loader)
        assert loader.stats()["skipped"] == 1


@pytest.mark.parametrize("hashed", [True, False])
def test_a_length_that_is_a_lie_takes_no_memory(fresh: Refer, hashed: bool) -> None:
    size = 1 << 45

    def lie(row: int, value: dict[str, object]) -> dict[str, object]:
        return {**value, "length": size, "crc32c": None} if row == 7 else value

    ds = toolkit.open(fresh(hashed=hashed, change=lie), split="train")
    assert ds.fetcher.find("image\0bytes", ds.fetcher.locate(np.array([6, 7]))).lengths[1] == 0
    for read in (lambda: ds[7], lambda: batches(ds), lambda: batches(ds, SMALL)):
        with pytest.raises(CorruptShardError, match=r"can't be followed|ends before the value does"):
            read()
    with ds.loader(batch_size=16, on_error="skip", max_bytes="64MiB") as loader:
        list(loader)
        assert loader.stats()["skipped"] == 1


def test_another_root_than_the_dataset_says_is_asked_for_by_name(fresh: Refer) -> None:
    ds = toolkit.open(fresh(change=lambda row, v: {**v, "root": "source-2"} if row == 7 else v), split="train")
    assert ds[6]
    with pytest.raises(UsageError, match=r"files of the root 'source-2', and nothing says where .* knows source\."):
        ds[7]
    nameless = toolkit.open(fresh(change=lambda row, v: {**v, "root": None} if row == 7 else v), split="train")
    with pytest.raises(CorruptShardError, match="names no root"):
        nameless[7]


# --- memory ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pipeline", [None, SMALL], ids=["bytes", "images"])
def test_memory_counts_what_is_read(shared: dict[str, Path], pipeline: Any) -> None:
    packed, referred = (toolkit.open(shared[name], split="train") for name in ("packed", "files"))
    options: dict[str, Any] = {"batch_size": 16, "threads": 1, "shuffle": "full", "seed": 5, "prefetch": 1}
    asked = []
    for ds in (packed, referred):
        with ds.loader(pipeline, **options) as loader:
            list(loader)
            stats = loader.stats()
        asked.append([stats["fetched_bytes"], stats["budget_peak_bytes"]])
    assert asked[0] == asked[1]

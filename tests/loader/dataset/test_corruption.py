"""A bit that could change a delivered value, a file cut short, replaced or rewritten: an error that names the place."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pyarrow as pa
import pytest

import toolkit
from toolkit import slot
from toolkit.errors import CorruptShardError

PIPELINE = toolkit.pipeline(slot("image").decode_image().resize_short(32).center_crop(24))


def read_all(ds: toolkit.Dataset) -> None:
    for batch in ds.loader(PIPELINE, batch_size=16):
        del batch


def value_offset(shard: Path, column: str) -> int:
    """Return where, in the file, the first row's value of a column begins."""
    whole = pa.memory_map(str(shard)).read_buffer()
    batch = pa.ipc.open_file(whole).get_batch(0)
    array = {
        "image": lambda: batch.column("image").field("bytes"),
        "label": lambda: batch.column("label"),
        "key": lambda: batch.column("__key__"),
    }[column]()
    return int(array.buffers()[-1].address - whole.address)


@pytest.mark.parametrize("column", ["image", "label"])
def test_a_flipped_bit_names_shard_row_and_key(damaged: Path, column: str) -> None:
    ds = toolkit.open(damaged, split="train")
    shard = Path(ds.files[1])
    row = ds.index.batch(ds.index.shard(1).batches[0]).start
    key = ds.keys([row])[0]
    flip(shard, value_offset(shard, column))
    # Of one column: small ones share their first chunk with the places of images.
    loader = toolkit.open(damaged, split="train", columns=[column]).loader(batch_size=16)
    with pytest.raises(CorruptShardError) as caught:
        list(loader)
    assert caught.value.shard == f"shards/{shard.name}"
    assert caught.value.row == row
    assert (caught.value.column or "").startswith(column)
    # Keys and values may share a 16 KiB chunk: then the key can't be trusted either, and isn't named.
    assert caught.value.key in (key, "?")
    assert shard.name in str(caught.value)


def test_a_flipped_image_bit_far_from_the_key_names_the_key(damaged: Path) -> None:
    ds = toolkit.open(damaged, split="train")
    shard = Path(ds.files[0])
    flip(shard, shard.stat().st_size - 20_000)
    with pytest.raises(CorruptShardError) as caught:
        read_all(toolkit.open(damaged, split="train"))
    assert caught.value.row is not None
    assert caught.value.key == ds.keys([caught.value.row])[0]
    assert repr(caught.value.key) in str(caught.value)


def test_a_flipped_key_bit_is_found_when_the_key_is_read(damaged: Path) -> None:
    ds = toolkit.open(damaged, split="train")
    shard = Path(ds.files[0])
    flip(shard, value_offset(shard, "key"))
    with pytest.raises(CorruptShardError, match=shard.name):
        _ = toolkit.open(damaged, split="train").keys(range(len(ds)))


def flip(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 0x10
    path.write_bytes(data)


@pytest.mark.parametrize("how", ["missing", "short", "long", "metadata"])
def test_a_shard_that_is_not_the_packed_one_is_refused_at_first_use(damaged: Path, how: str) -> None:
    ds = toolkit.open(damaged, split="train")
    shard = Path(ds.files[2])
    match how:
        case "missing":
            shard.unlink()
        case "short":
            shard.write_bytes(shard.read_bytes()[:-100])
        case "long":
            shard.write_bytes(shard.read_bytes() + b"\0")
        case "metadata":
            flip(shard, ds.index.batch(ds.index.shard(2).batches[0]).offset + 40)
    loader = ds.loader(PIPELINE, batch_size=8)
    with pytest.raises(CorruptShardError, match=shard.name) as caught:
        list(loader)
    assert "pack again" in str(caught.value)


def test_a_shard_rewritten_in_place_while_open_is_noticed(damaged: Path) -> None:
    ds = toolkit.open(damaged, split="train")
    first = ds[0]
    shard = Path(ds.files[0])
    data = shard.read_bytes()
    with open(shard, "r+b") as file:
        file.write(data)
    os.utime(shard, ns=(1, 1))
    with pytest.raises(CorruptShardError, match="changed while it was open"):
        _ = ds[0]
    assert first["__key__"]


def test_a_shard_removed_or_replaced_by_name_still_delivers_what_was_planned(damaged: Path, tmp_path: Path) -> None:
    ds = toolkit.open(damaged, split="train")
    expected = [ds[i]["image"] for i in range(len(ds))]
    for number, file in enumerate(ds.files):
        if number % 2:
            os.unlink(file)
        else:
            shutil.copy(ds.files[0], tmp_path / "other")
            os.replace(tmp_path / "other", file)
    assert [ds[i]["image"] for i in range(len(ds))] == expected


def test_truncation_under_a_running_loader_raises_and_the_process_lives(damaged: Path) -> None:
    # Every epoch touches every chunk; identity is hidden from the loader, so that only the guard can save it.
    code = f"""
        import os, sys, toolkit
        from toolkit.errors import CorruptShardError
        from toolkit._native.shards.locate import FileIdentity
        from toolkit.loader.dataset.fetch import Fetcher
        if sys.argv[1] == "guard":
            other = {str(damaged / "manifest.json")!r}  # a file that never changes, in place of the shards
            opened, identity = Fetcher.open_batch, FileIdentity(other.encode(), os.stat(other))
            Fetcher.open_batch = lambda self, batch: (opened(self, batch)[0], identity)
        ds = toolkit.open({str(damaged)!r}, split="train")
        delivered = 0
        try:
            with ds.loader(batch_size=10, epochs=1000, threads=2) as loader:
                for batch in loader:
                    delivered += 1
                    if delivered == 20:
                        for file in ds.files:
                            os.truncate(file, 4096)
        except CorruptShardError as error:
            print("caught", error)
        print("alive")
    """
    for mode in ("identity", "guard"):
        copy = damaged.parent / mode
        shutil.copytree(damaged, copy)
        source = textwrap.dedent(code).replace(str(damaged), str(copy))
        done = subprocess.run([sys.executable, "-c", source, mode], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("caught shard"), done.stdout
        assert done.stdout.endswith("alive\n")


def test_an_undecodable_sample_names_dataset_key_slot_and_step(tmp_path: Path) -> None:
    from pictures import encode, make_folder, picture

    from toolkit.errors import SampleError
    from toolkit.pack.job import PackJob
    from toolkit.pack.run import pack

    make_folder(tmp_path / "src", {"a": 5})
    whole = encode(picture(1))
    (tmp_path / "src/a/0002.jpg").write_bytes(whole[: len(whole) * 2 // 3])
    pack(PackJob(source=str(tmp_path / "src"), dataset=str(tmp_path / "ds")))
    with pytest.raises(SampleError) as caught:
        list(toolkit.open(tmp_path / "ds").loader(PIPELINE, batch_size=2))
    error = caught.value
    assert (error.row, error.key, error.slot, error.step) == (2, "a/0002.jpg", "image", "decode_image()")
    assert "a/0002.jpg" in str(error)
    assert "end too early" in str(error)


def test_a_missing_label_is_an_error_and_not_a_number(tmp_path: Path) -> None:
    from pictures import encode, make_folder, picture

    from toolkit.errors import SampleError
    from toolkit.pack.job import PackJob
    from toolkit.pack.run import pack

    make_folder(tmp_path / "src", {"a": 2})
    (tmp_path / "src/loose.jpg").write_bytes(encode(picture(9)))
    pack(PackJob(source=str(tmp_path / "src"), dataset=str(tmp_path / "ds")))
    ds = toolkit.open(tmp_path / "ds")
    assert [ds[i]["label"] for i in range(3)] == [0, 0, None]
    with pytest.raises(SampleError, match="the value is missing"):
        list(ds.loader(batch_size=3))

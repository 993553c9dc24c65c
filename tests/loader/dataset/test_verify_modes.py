"""What verify= promises: damage behind the back of every front, with the times of the file put back, or untouched."""

from __future__ import annotations

import itertools
import os
import pickle
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow.compute as pc
import pytest
import token_oracle
from pictures import make_folder

import toolkit
from toolkit import slot
from toolkit.errors import CorruptShardError, UsageError
from toolkit.format.encodings import ImageEncoding
from toolkit.loader.tokens import run as run_module
from toolkit.pack.job import PackJob
from toolkit.pack.run import pack

TICK = 0.02  # file systems count changes by a clock that moves every few milliseconds
DECODE = toolkit.pipeline(slot("image").decode_image().resize_short(40).center_crop(32))
CROP = toolkit.pipeline(slot("image").decode_image().center_crop((40, 33)))
RANDOM_CROP = toolkit.pipeline(slot("image").decode_image().random_crop(20))

Read = Callable[[toolkit.Dataset], Any]


def batches(ds: toolkit.Dataset, pipeline: Any = None, **options: Any) -> list[Any]:
    with ds.loader(pipeline, batch_size=6, threads=2, shuffle="full", **options) as loader:
        return [
            (batch.sample_keys, {name: list(values) for name, values in batch.items()}, batch.positions.tolist())
            for batch in loader
        ]


def windows(ds: toolkit.Dataset, **options: Any) -> list[Any]:
    with ds.tokens(seq_len=64, batch_size=8, shuffle="block", threads=1, **options) as stream:
        return [{name: array.tolist() for name, array in batch.items()} for batch in stream]


def columns(ds: toolkit.Dataset) -> list[Any]:
    return [
        ds.fetcher.array(name, batch).to_pylist() for name in ("__key__", "image") for batch in range(ds.index.batches)
    ]


FRONTS: dict[str, tuple[str, Read]] = {
    "samples": ("keep", list),
    "a slice": ("keep", lambda ds: list(ds[::-2])),
    "keys": ("keep", lambda ds: ds.keys()),
    "bytes": ("keep", batches),
    "decoded": ("keep", lambda ds: batches(ds, DECODE)),
    "columns": ("keep", columns),
    "joined": ("keep", lambda ds: list(toolkit.concat([ds, ds[:3]]))),
    "raw samples": ("raw", list),
    "raw images": ("raw", batches),
    "raw crops": ("raw", lambda ds: batches(ds, CROP)),
    "raw random crops": ("raw", lambda ds: batches(ds, RANDOM_CROP)),
    "windows": ("tokens", windows),
    "documents": ("tokens", lambda ds: windows(ds, documents=True, targets=True)),
    "packed documents": ("tokens", lambda ds: windows(ds, pack="best")),
    "token samples": ("tokens", list),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("verify")
    make_folder(root / "src", {"a": 14, "b": 10}, width=60, height=50)
    pack(PackJob(source=str(root / "src"), dataset=str(root / "keep")))
    pack(PackJob(source=str(root / "src"), dataset=str(root / "raw"), image_encoding=ImageEncoding.parse("raw")))
    token_oracle.write(root / "tokens", token_oracle.documents(200, 200))
    return root


@pytest.fixture(autouse=True)
def look_always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "_IDENTITY_SECONDS", 0)


@pytest.fixture
def opened(made: Path, tmp_path: Path) -> Callable[..., tuple[toolkit.Dataset, Path]]:
    def opener(kind: str, **options: Any) -> tuple[toolkit.Dataset, Path]:
        shutil.copytree(made / kind, tmp_path / kind)
        ds = toolkit.open(tmp_path / kind, **options)
        return ds, Path(ds.files[0])

    return opener


def flip(path: Path, at: int) -> None:
    """Flip a bit of a byte, and put the times back that can be put back."""
    time.sleep(TICK)
    status = path.stat()
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1 << at % 8]))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert path.stat().st_mtime_ns == status.st_mtime_ns


def outcome(read: Read, ds: toolkit.Dataset) -> Any:
    """Return what is read, as numbers and bytes that can be compared; None where damage is said."""
    try:
        return pickle.dumps(_plain(read(ds)))
    except CorruptShardError as error:
        return None if error.shard else error


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value


@pytest.mark.parametrize("verify", ["touch", "always"])
@pytest.mark.parametrize("front", FRONTS)
def test_a_flip_in_place_with_its_time_put_back_is_never_delivered(
    opened: Callable[..., tuple[toolkit.Dataset, Path]], front: str, verify: str
) -> None:
    kind, read = FRONTS[front]
    ds, path = opened(kind, verify=verify)
    good = outcome(read, ds)
    index = ds.index
    batch = index.batch(0)
    size = path.stat().st_size
    # A body's first byte and a message are read; the footer and the schema message only by other tools.
    places = [
        batch.body_offset,
        batch.offset + 40,
        size - 1,
        8,
        *np.random.default_rng(len(front)).integers(0, size, 4).tolist(),
    ]
    found = []
    for at in places:
        flip(path, at)
        found.append(outcome(read, ds))
        flip(path, at)
        assert outcome(read, ds) == good, f"byte {at} is as it was"
    assert set(found) <= {None, good}
    assert None in found
    assert found[1:4] == [None, good, good], "metadata is read anew with the file"


@pytest.mark.parametrize("front", FRONTS)
def test_always_finds_a_flip_that_no_time_shows(
    opened: Callable[..., tuple[toolkit.Dataset, Path]], front: str, tmp_path: Path
) -> None:
    """A file that was replaced by name is looked at no more, and its map goes on; here another name writes it."""
    kind, read = FRONTS[front]
    ds, path = opened(kind)
    good = outcome(read, ds)
    always = ds.verified("always")
    assert outcome(read, always) == good
    os.rename(path, tmp_path / "elsewhere")
    shutil.copy(tmp_path / "elsewhere", path)
    assert outcome(read, ds) == good
    data = ds.index.batch(ds.index.batches - 1).body_offset
    for at in range(data, (tmp_path / "elsewhere").stat().st_size - 2000, 4000):
        flip(tmp_path / "elsewhere", at)
    assert outcome(read, always) is None
    with pytest.raises(CorruptShardError, match="CRC32C"):
        read(always)


@pytest.mark.parametrize("verify", ["touch", "always"])
def test_every_record_batch_of_a_changed_file_is_read_anew(dataset: Path, verify: Literal["touch", "always"]) -> None:
    """One read of two record batches of one shard, both known already; the second one was changed since."""
    ds = toolkit.open(dataset, split="train", verify=verify)
    path = dataset / ds.index.shard(0).path
    batches = [ds.index.batch(number) for number in ds.index.shard(0).batches][:2]
    rows = np.array([one.start for one in batches], np.int64)
    assert len(ds.fetcher.values("image", ds.fetcher.locate(rows))) == 2
    for at in range(batches[1].body_offset, batches[1].body_offset + batches[1].body_bytes, 1000):
        flip(path, at)
    with pytest.raises(CorruptShardError, match="CRC32C"):
        ds.fetcher.values("image", ds.fetcher.locate(rows))


@pytest.mark.parametrize("front", FRONTS)
def test_links_and_permissions_may_change_under_a_dataset(
    opened: Callable[..., tuple[toolkit.Dataset, Path]], front: str, tmp_path: Path
) -> None:
    kind, read = FRONTS[front]
    ds, path = opened(kind)
    good = outcome(read, ds)
    for change in (
        lambda: os.link(path, tmp_path / "backup"),
        lambda: os.chmod(path, 0o440),
        lambda: os.unlink(tmp_path / "backup"),
        lambda: (os.rename(path, tmp_path / "moved"), os.rename(tmp_path / "moved", path)),
    ):
        time.sleep(TICK)
        change()
        assert outcome(read, ds) == good


@pytest.mark.parametrize("verify", ["touch", "always"])
def test_a_shard_of_another_size_or_time_is_an_error(
    opened: Callable[..., tuple[toolkit.Dataset, Path]], verify: str
) -> None:
    ds, path = opened("keep", verify=verify)
    assert ds[0]["image"]
    with path.open("ab") as file:
        file.write(b"#")
    for read in (list, batches, lambda ds: ds.keys(), columns):
        with pytest.raises(CorruptShardError, match="changed while it was open"):
            read(ds)


def test_a_running_loader_notices_a_flip_in_what_it_has_checked(
    opened: Callable[..., tuple[toolkit.Dataset, Path]],
) -> None:
    ds, path = opened("keep")
    with ds.loader(batch_size=4, epochs=1000, threads=2, prefetch=2) as loader:
        seen = {}
        for number, batch in enumerate(loader):
            for key, image in zip(batch.sample_keys, batch["image"], strict=True):
                assert seen.setdefault(key, image) == image
            if number == 20:
                break
    iterator = iter(ds.loader(batch_size=4, epochs=1000, threads=2, prefetch=2))
    next(iterator)
    for at in range(4000, path.stat().st_size, 8000):
        flip(path, at)
    with pytest.raises(CorruptShardError):
        list(itertools.islice(iterator, 1000))


def test_the_mode_is_the_datasets_or_the_loaders(opened: Callable[..., tuple[toolkit.Dataset, Path]]) -> None:
    ds, _ = opened("keep", verify="always")

    def checked(ds: toolkit.Dataset) -> int:
        located = ds.fetcher.locate(np.arange(len(ds)))
        ds.fetcher.keys(located)
        return sum(body.checked_chunks for body in located.bodies)

    touch = ds.verified("touch")
    assert checked(touch) > 0
    for each in (
        ds,
        ds[2:],
        ds.filter(pc.field("label") == 1),
        ds.repeat(2)[:4],
        toolkit.concat([ds, ds]),
        pickle.loads(pickle.dumps(ds)),
        ds.verified("always"),
        touch.verified("always"),
        toolkit.concat([touch, touch]).verified("always"),
        touch.loader(batch_size=2, verify="always").dataset,
        ds.loader(batch_size=2).dataset,
    ):
        assert checked(each) == 0
    assert checked(pickle.loads(pickle.dumps(touch))) > 0
    assert checked(ds.loader(batch_size=2, verify="touch").dataset) > 0
    assert (touch.view, touch.pin, len(touch)) == (ds.view, ds.pin, len(ds))
    state = ds.loader(batch_size=2).state_dict()
    touch.loader(batch_size=2).load_state_dict(state)


def test_a_mode_that_is_none(opened: Callable[..., tuple[toolkit.Dataset, Path]]) -> None:
    ds, _ = opened("keep")
    for call in (
        lambda: toolkit.open(ds.root, verify="allways"),
        lambda: ds.verified("allways"),
        lambda: ds.loader(batch_size=2, verify="allways"),
    ):
        with pytest.raises(UsageError, match=r"verify must be one of touch, always, got 'allways'\. Did you mean"):
            call()

"""Slots of one column share what is fetched and decoded, and give what each gives in a pipeline of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from keyed_rows import keyed
from pictures import encode, picture

import toolkit
from toolkit import chain, slot
from toolkit.errors import SampleError
from toolkit.format.encodings import ImageEncoding
from toolkit.pack.job import PackJob
from toolkit.pack.run import pack

COUNT = 23
LOADER: dict[str, Any] = {"batch_size": 7, "shuffle": "full", "seed": 3, "threads": 2}


def brightness(pixels: np.ndarray) -> float:
    return float(pixels.mean(dtype=np.float64))


CROP = chain().random_resized_crop(24, scale=(0.1, 0.5)).hflip()
VIEWS = {
    "image": slot("image", sync="a").decode_image().then(CROP).normalize("imagenet"),
    "again": slot("image", name="again", sync="b").decode_image().then(CROP).color_jitter(brightness=0.3, hue=0.1),
    "whole": slot("image", name="whole").decode_image(),  # of any size: a list
    "mean": slot("image", name="mean").decode_image().resize((20, 20)).python(brightness, "float64"),
    "gray": slot("image", name="gray", sync="c").decode_image(mode="gray").then(CROP),
    "cut": slot("image", name="cut").decode_image().center_crop(40),
    "small": slot("image", name="small", sync="b").decode_image().then(CROP),
}


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same pictures, JPEG and PNG, as files and as pixels."""
    root = tmp_path_factory.mktemp("sharing")
    (root / "src/a").mkdir(parents=True)
    for i in range(COUNT):
        format = "PNG" if i % 5 == 2 else "JPEG"
        made = encode(picture(i, 60 + 3 * i, 90 - 2 * i), format, **({"progressive": True} if i % 7 == 3 else {}))
        (root / f"src/a/{i:02}.{format.lower()}").write_bytes(made)
    pack(PackJob(source=str(root / "src"), dataset=str(root / "keep")))
    pack(PackJob(source=str(root / "src"), dataset=str(root / "raw"), image_encoding=ImageEncoding.parse("raw")))
    return {"keep": root / "keep", "raw": root / "raw"}


def values(ds: toolkit.Dataset, *slots: toolkit.Slot, **options: Any) -> dict[str, list[Any]]:
    made: dict[str, list[Any]] = {one.name: [] for one in slots}
    with ds.loader(toolkit.pipeline(*slots), **LOADER | options) as loader:
        for batch in loader:
            for name, found in made.items():
                found += list(batch[name])
        made["stats"] = [loader.stats()]
    return made


@pytest.mark.parametrize("stored", ["keep", "raw"])
@pytest.mark.parametrize("memory", [None, "3MiB"])
def test_together_they_are_what_they_are_alone(photos: dict[str, Path], stored: str, memory: str | None) -> None:
    ds = toolkit.open(photos[stored])
    together = values(ds, *VIEWS.values(), **({} if memory is None else {"max_bytes": memory}))
    for name, view in VIEWS.items():
        alone = values(ds, view)[name]
        assert len(alone) == COUNT
        for one, other in zip(together[name], alone, strict=True):
            assert np.array_equal(one, other), name


def test_what_is_fetched_once_counts_once(photos: dict[str, Path]) -> None:
    ds = toolkit.open(photos["keep"])
    (alone,) = values(ds, VIEWS["image"])["stats"]
    (together,) = values(ds, VIEWS["image"], VIEWS["again"], VIEWS["whole"])["stats"]
    assert together["fetched_bytes"] == alone["fetched_bytes"]


BAD = (2, 9)


@pytest.fixture
def spoilt(tmp_path: Path, commit_rows: Callable[..., str]) -> toolkit.Dataset:
    files: list[bytes | None] = [encode(picture(i, 60, 50)) for i in range(12)]
    for i in BAD:
        files[i] = files[i][:700]  # type: ignore[index]
    files[5] = None
    commit_rows(tmp_path / "spoilt", {"train": [[keyed({"image": pa.array(files, pa.large_binary())})]]})
    return toolkit.open(tmp_path / "spoilt")


def test_a_broken_picture_is_the_first_slots_fault(spoilt: toolkit.Dataset) -> None:
    first = slot("image", name="first", optional=True).decode_image().center_crop(20)
    second = slot("image", name="second", optional=True).decode_image().center_crop(30)
    for slots in ((first, second), (second, first)):
        with pytest.raises(SampleError, match="end too early") as caught:
            values(spoilt, *slots, shuffle="none")
        assert (caught.value.slot, caught.value.row) == (slots[0].name, 2)
    with pytest.raises(SampleError, match="the value is missing") as caught:
        values(spoilt, slot("image", name="first").decode_image().center_crop(20), second, shuffle="none", threads=1)
    assert (caught.value.slot, caught.value.row) == ("first", 5)


def test_a_broken_picture_is_skipped_in_all(spoilt: toolkit.Dataset) -> None:
    slots = [slot("image", name=f"v{n}", optional=True, fill=n).decode_image().center_crop(9 + n) for n in range(3)]
    with spoilt.loader(toolkit.pipeline(*slots), batch_size=12, on_error="skip") as loader:
        (batch,) = loader
    assert np.flatnonzero(~batch.mask).tolist() == list(BAD)
    for n, one in enumerate(slots):
        assert batch.present[one.name].tolist() == [i not in (*BAD, 5) for i in range(12)]
        assert (batch[one.name][5] == n).all()
        assert not batch[one.name][list(BAD)].any()
        assert batch[one.name][0].any()


def test_slots_that_decode_in_another_way_do_not_share(photos: dict[str, Path]) -> None:
    ds = toolkit.open(photos["keep"])
    slots = [
        slot("image").decode_image().center_crop(20),
        slot("image", name="small").decode_image(max_pixels=4000).center_crop(20),
    ]
    with pytest.raises(SampleError, match="more than max_pixels=4000") as caught:
        values(ds, *slots)
    assert caught.value.slot == "small"

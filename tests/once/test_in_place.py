"""Images that stay where they are when a folder, a tar or a TFRecord is opened at once."""

from __future__ import annotations

import gc
import gzip
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
import tfrecords
from pictures import encode, make_folder, picture
from sources import tars

import toolkit
from toolkit import slot
from toolkit.errors import ChangedFileError, NotFoundError, RejectsError, SampleError, SourceError, ToolkitError
from toolkit.storage.memory import MemoryStore


def folder(root: Path) -> Path:
    return make_folder(root / "photos", {"cat": 4, "dog": 3})


def tar(root: Path) -> Path:
    items = [
        (f"{i:03d}.{name}", data)
        for i in range(7)
        for name, data in (("cls", b"1"), ("jpg", encode(picture(i, 64, 48), quality=90)))
    ]
    return tars.write(root / "photos.tar", tars.tar_bytes(items))


def tfrecord(root: Path) -> Path:
    photos = [encode(picture(i, 64, 48), quality=90) for i in range(7)]
    examples = [tfrecords.example(**{"image/encoded": [one], "n": [i]}) for i, one in enumerate(photos)]
    return tfrecords.write(root / "photos.tfrecord", examples)


def store_of(ds: toolkit.Dataset) -> MemoryStore:
    store = ds.stored.parts[0].version.store
    assert isinstance(store, MemoryStore)
    return store


@pytest.mark.parametrize("source", [folder, tar, tfrecord], ids=lambda make: make.__name__)
def test_nothing_of_the_images_is_in_memory(source: Callable[[Path], Path], tmp_path: Path) -> None:
    given = source(tmp_path)
    ds = toolkit.open(given)
    assert ds.manifest.requires == ("references", "unhashed")
    assert store_of(ds).used_bytes < 30_000
    toolkit.pack(given, tmp_path / "packed")
    assert [*ds] == [*toolkit.open(tmp_path / "packed")]


def test_splits_of_a_listing_are_few_shards(tmp_path: Path) -> None:
    for number in range(70):
        items = [(f"{number:03d}.jpg", encode(picture(number, 16, 16))), (f"{number:03d}.cls", b"0")]
        tars.write(tmp_path / f"{number:03d}.tar", tars.tar_bytes(items))
    ds = toolkit.open(tmp_path / "{000..069}.tar")
    assert ds.keys() == [f"{number:03d}" for number in range(70)]
    assert len(ds.files) <= 64


def changed(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"more")


def touched(path: Path) -> None:
    os.utime(path, (1, 1))


def gone(path: Path) -> None:
    path.unlink()


def linked(path: Path) -> None:
    shutil.move(path, path.parent.parent.parent / "elsewhere.jpg")
    path.symlink_to(path.parent.parent.parent / "elsewhere.jpg")


def piped(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def plugged(path: Path) -> None:
    path.unlink()
    os.chdir(path.parent)
    with socket.socket(socket.AF_UNIX) as plug:
        plug.bind(path.name)


@pytest.mark.parametrize("change", [changed, touched, gone, linked, piped, plugged], ids=lambda one: one.__name__)
def test_a_file_that_is_another_one_is_an_error_that_names_it(
    change: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    photos = folder(tmp_path)
    ds = toolkit.open(photos)
    change(photos / "cat/0002.jpg")
    with pytest.raises(ToolkitError, match=r"cat/0002\.jpg") as caught:
        ds[2]
    assert type(caught.value).__name__ == "ChangedFileError"
    assert ds[1]["image"] == (photos / "cat/0001.jpg").read_bytes()
    with ds.loader(batch_size=7, on_error="skip") as loader:
        batch = next(iter(loader))
        assert batch.mask is not None
        assert batch.mask.tolist() == [True, True, False, True, True, True, True]
        assert loader.stats()["skipped"] == 1


def test_what_is_no_image_raises_when_it_is_read(tmp_path: Path) -> None:
    photos = folder(tmp_path)
    (photos / "cat/0002.jpg").write_bytes(b"no picture")
    (photos / "cat/0003.jpg").write_bytes(b"")
    ds = toolkit.open(photos)
    assert len(ds) == 7
    steps = toolkit.pipeline(slot("image").decode_image().resize((16, 16)))
    with pytest.raises(SampleError, match=r"cat/0002\.jpg"):
        list(ds.loader(steps, batch_size=7))
    with ds.loader(steps, batch_size=7, on_error="skip") as loader:
        batch = next(iter(loader))
        assert batch.mask is not None
        assert batch.mask.tolist() == [True, True, False, False, True, True, True]


def test_what_no_listing_can_name_is_refused(tmp_path: Path) -> None:
    photos = folder(tmp_path)
    (photos / "cat/lost.jpg").symlink_to(tmp_path / "nowhere.jpg")
    with pytest.raises(RejectsError, match=r"cat/lost\.jpg: broken symbolic link\n.*max_rejects=1"):
        toolkit.open(photos)
    assert len(toolkit.open(photos, max_rejects=1)) == 7
    (photos / "cat/lost.jpg").unlink()
    (tmp_path / "outside.jpg").write_bytes(b"private")
    (photos / "cat/out.jpg").symlink_to(tmp_path / "outside.jpg")
    with pytest.raises(RejectsError, match=r"cat/out\.jpg: symbolic link that leads out of the source"):
        toolkit.open(photos)


def test_what_cannot_stay_is_read(tmp_path: Path) -> None:
    plain = tar(tmp_path)
    packed = tmp_path / "photos.tar.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    ds, listed = toolkit.open(packed), toolkit.open(plain)
    assert (ds.manifest.requires, [*ds]) == ((), [*listed])
    read = toolkit.open(folder(tmp_path), verify_images="decode")
    assert read.manifest.requires == ()


def test_no_file_of_the_user_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    photos = folder(tmp_path)
    assert toolkit.open(photos)[0]["label"] == 0
    assert sorted(os.listdir(tmp_path)) == ["photos"]


def test_a_moved_folder_is_another_listing(tmp_path: Path) -> None:
    photos = folder(tmp_path)
    ds = toolkit.open(photos)
    photos.rename(tmp_path / "moved")
    assert toolkit.open(tmp_path / "moved").pin != ds.pin
    with pytest.raises(ToolkitError, match="photos"):
        toolkit.open(photos)


def test_links_that_lead_elsewhere_are_followed_when_asked(tmp_path: Path) -> None:
    blobs = make_folder(tmp_path / "blobs", {"x": 2})
    (tmp_path / "photos/cat").mkdir(parents=True)
    for name in ("0000.jpg", "0001.jpg"):
        (tmp_path / "photos/cat" / name).symlink_to(blobs / "x" / name)
    ds = toolkit.open(tmp_path / "photos", follow_links=True)
    assert ds.manifest.requires == ("references", "unhashed")
    assert [one["image"] for one in ds] == [(blobs / "x" / name).read_bytes() for name in ("0000.jpg", "0001.jpg")]


def test_what_tables_name_stays_too(tmp_path: Path) -> None:
    photos = folder(tmp_path)
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables/rows.csv").write_text("photo,n\ncat/0001.jpg,1\ndog/0002.jpg,2\n")
    ds = toolkit.open(tmp_path / "tables/rows.csv", image_column=["photo"], root=photos)
    assert ds.manifest.requires == ("references", "unhashed")
    toolkit.pack(tmp_path / "tables/rows.csv", tmp_path / "packed", image_column=["photo"], root=photos)
    assert [*ds] == [*toolkit.open(tmp_path / "packed")]
    (photos / "dog/0002.jpg").unlink()
    with pytest.raises(ToolkitError, match=r"dog/0002\.jpg"):
        ds[1]


def test_a_folder_that_changed_is_not_packed_as_what_was_opened(tmp_path: Path) -> None:
    photos = folder(tmp_path)
    ds = toolkit.open(photos)
    (photos / "cat/0002.jpg").unlink()
    with pytest.raises(SourceError, match="photos' isn't what it was when the dataset was opened"):
        ds.pack(tmp_path / "ds")
    assert not (tmp_path / "ds").exists()
    assert toolkit.open(photos).pack(tmp_path / "ds").samples == 6


@pytest.mark.parametrize("source", [folder, tar, tfrecord], ids=lambda make: make.__name__)
def test_it_is_gone_with_its_last_user_and_not_some_day(source: Callable[[Path], Path], tmp_path: Path) -> None:
    given = source(tmp_path)
    gc.collect()
    gc.disable()
    try:
        before = os.listdir("/proc/self/fd")
        ds = toolkit.open(given)
        assert ds[:2][0]
        with ds.loader(batch_size=3) as loader:
            next(iter(loader))
        assert len(os.listdir("/proc/self/fd")) > len(before)
        del ds, loader
        assert len(os.listdir("/proc/self/fd")) == len(before)
    finally:
        gc.enable()


def test_records_are_gone_with_their_last_user() -> None:
    gc.collect()
    gc.disable()
    try:
        before = os.listdir("/proc/self/fd")
        ds = toolkit.open([{"n": 1}, {"n": 2}])
        assert ds[1]["n"] == 2
        del ds
        assert len(os.listdir("/proc/self/fd")) == len(before)
    finally:
        gc.enable()


def test_what_nobody_shall_look_at_is_delivered(tmp_path: Path) -> None:
    """With verify_images off a pack rejects nothing, and so reading what stays refuses nothing."""
    photos = make_folder(tmp_path / "photos", {"cat": 2})
    (photos / "cat/x.jpg").write_bytes(b"no picture")
    toolkit.pack(photos, tmp_path / "packed", verify_images="off")
    toolkit.index(photos, tmp_path / "index", verify_images="off", trust="stat")
    packed, index = (toolkit.open(tmp_path / name) for name in ("packed", "index"))
    at_once = toolkit.open(photos, verify_images="off")
    both = toolkit.concat([index, toolkit.open(photos)])
    assert [*packed] == [*at_once] == [*index] == [both[i] for i in range(3)]
    assert [b["image"] for b in index.loader(batch_size=3, shuffle="none")] == [[one["image"] for one in packed]]
    with pytest.raises(SampleError, match="would have rejected"):
        both[5]
    assert not toolkit.verify(tmp_path / "index", against=photos).findings
    make_folder(tmp_path / "more", {"cow": 2})
    toolkit.index(tmp_path / "more", tmp_path / "index", trust="stat", on_existing="append", extend_classes=True)
    assert toolkit.open(tmp_path / "index")[2] == packed[2]


def test_an_error_about_a_file_says_what_can_be_done(tmp_path: Path) -> None:
    photos = make_folder(tmp_path / "photos", {"cat": 1})
    ds = toolkit.open(photos)
    os.utime(photos / "cat/0000.jpg", ns=(5, 5))
    with pytest.raises(ChangedFileError, match=r"as it was, or open the source anew$"):
        ds[0]


def test_columns_of_a_tar_have_the_names_that_they_are_opened_by(tmp_path: Path) -> None:
    """In a tar they are jpg and cls."""
    given = tar(tmp_path)
    whole = toolkit.open(given)
    for name in ("image", "label"):
        ds = toolkit.open(given, columns=[name])
        assert [one.name for one in ds.columns] == [name]
        assert ds[3][name] == whole[3][name]
    with pytest.raises(NotFoundError, match="has no column 'jpg'; it has label, image"):
        toolkit.open(given, columns=["jpg"])

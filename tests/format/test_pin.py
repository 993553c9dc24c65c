"""Pins: what names a version, and what is refused."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import toolkit
from toolkit.errors import NotFoundError, PinMismatchError, UsageError
from toolkit.format.pin import resolve, split_pin
from toolkit.pack.job import OnExisting, PackJob
from toolkit.pack.run import pack


@pytest.fixture
def versions(dataset: Path, image_folder: Path) -> tuple[str, str]:
    """Pins of two versions of `dataset`, the older one first."""
    older = resolve(dataset).pin
    job = PackJob(source=str(image_folder), dataset=str(dataset), limit=2, on_existing=OnExisting.OVERWRITE)
    return older, pack(job).pin


# --- references ---------------------------------------------------------------------------------------------------


@given(st.text().filter(lambda path: "@sha256:" not in path), st.text("0123456789abcdef", min_size=12, max_size=64))
def test_split_pin(path: str, pin: str) -> None:
    assert split_pin(f"{path}@sha256:{pin}") == (path, pin)
    assert split_pin(f"{path}@sha256:{pin.upper()}") == (path, pin)
    assert split_pin(path) == (path, None)


@pytest.mark.parametrize("path", ["a@b", "a@sha256:zz/b", "@", "", "a@sha1:0123456789ab"])
def test_plain_paths(path: str) -> None:
    assert split_pin(path) == (path, None)


@pytest.mark.parametrize(
    ("pin", "message"),
    [
        ("", "has 0 digits"),
        ("0123456789a", "has 11 digits: give at least 12"),
        ("0123456789ag", "isn't hexadecimal"),
        ("current", "isn't hexadecimal"),
        ("0" * 65, "isn't hexadecimal"),
        ("0123456789ab ", "isn't hexadecimal"),
        ("٣" * 12, "isn't hexadecimal"),
    ],
)
def test_pins_that_are_refused(dataset: Path, pin: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        toolkit.open(f"{dataset}@sha256:{pin}")


def test_any_prefix_from_twelve_digits_on(dataset: Path, versions: tuple[str, str]) -> None:
    for pin in versions:
        for digits in (12, 13, 63, 64):
            assert resolve(f"{dataset}@sha256:{pin[:digits]}").pin == pin
            assert resolve(f"{dataset}@sha256:{pin[:digits].upper()}").pin == pin


def test_a_plain_path_is_the_current_version(dataset: Path, versions: tuple[str, str]) -> None:
    for reference in (dataset, str(dataset), f"{dataset}/", dataset / "manifest.json"):
        assert resolve(reference).pin == versions[1]
    assert len(toolkit.open(dataset, split="train")) == 2
    assert len(toolkit.open(f"{dataset}@sha256:{versions[0]}", split="train")) == 12


def test_the_manifest_file_of_any_version_can_be_opened(dataset: Path, versions: tuple[str, str]) -> None:
    for pin in versions:
        file = dataset / "manifests" / f"{pin}.json"
        version = resolve(file)
        assert (version.pin, Path(version.root)) == (pin, dataset)
        assert resolve(f"{file}@sha256:{pin[:20]}").pin == pin
        assert toolkit.open(file, split="val")[0]["label"] == 0


def test_relative_paths(dataset: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pin = resolve(dataset).pin
    monkeypatch.chdir(dataset)
    for reference in (".", "manifest.json", f".@sha256:{pin}", f"manifests/{pin}.json"):
        assert toolkit.open(reference, split="val")[0]["label"] == 0
    monkeypatch.chdir(dataset / "manifests")
    assert resolve(f"{pin}.json").pin == pin


def test_a_moved_dataset_keeps_its_pin(dataset: Path, tmp_path: Path) -> None:
    pin, first = resolve(dataset).pin, toolkit.open(dataset, split="train")[0]
    shutil.copytree(dataset, tmp_path / "copy")
    os.rename(dataset, tmp_path / "moved @ elsewhere")
    for place in ("copy", "moved @ elsewhere"):
        ds = toolkit.open(f"{tmp_path / place}@sha256:{pin}", split="train")
        assert ds.pin == pin
        assert ds[0] == first


# --- refused ------------------------------------------------------------------------------------------------------


def test_a_wrong_pin_names_those_that_are_there(dataset: Path, versions: tuple[str, str]) -> None:
    with pytest.raises(PinMismatchError, match="has no version with the pin 000000000000") as caught:
        resolve(f"{dataset}@sha256:{'0' * 12}")
    assert all(pin[:12] in str(caught.value) for pin in versions)
    with pytest.raises(PinMismatchError, match="not the pin"):
        resolve(f"{dataset}/manifest.json@sha256:{versions[0]}")


def test_an_ambiguous_prefix(dataset: Path) -> None:
    pin = resolve(dataset).pin
    twin = pin[:20] + "0" * 44
    (dataset / "manifests" / f"{twin}.json").write_bytes(b"{}")
    with pytest.raises(UsageError, match=r"fits 2 versions.*give more digits"):
        resolve(f"{dataset}@sha256:{pin[:12]}")
    assert resolve(f"{dataset}@sha256:{pin[:24]}").pin == pin


def test_a_manifest_edited_by_hand(dataset: Path) -> None:
    pin, path = resolve(dataset).pin, dataset / "manifest.json"
    path.write_text(path.read_text().replace('"limit": null', '"limit": 5'))
    for reference in (dataset, path):
        with pytest.raises(PinMismatchError, match=f"no committed version.*{pin[:12]}") as caught:
            toolkit.open(reference, split="train")
        assert caught.value.exit_code == 4
    assert resolve(f"{dataset}@sha256:{pin}").pin == pin


def test_a_committed_manifest_edited_by_hand(dataset: Path) -> None:
    pin = resolve(dataset).pin
    path = dataset / "manifests" / f"{pin}.json"
    path.write_text(path.read_text() + " ")
    for reference in (f"{dataset}@sha256:{pin}", f"{path}@sha256:{pin}", path):
        with pytest.raises(PinMismatchError):
            resolve(reference)


def test_what_is_no_dataset(tmp_path: Path, dataset: Path) -> None:
    with pytest.raises(NotFoundError, match="Did you mean 'dataset'"):
        resolve(tmp_path / "datasett")
    with pytest.raises(NotFoundError, match="it isn't a dataset"):
        resolve(tmp_path)
    with pytest.raises(NotFoundError, match="it isn't a dataset"):
        resolve(f"{tmp_path}@sha256:{'a' * 64}")
    with pytest.raises(NotFoundError):
        resolve(tmp_path / "no" / "such" / "place")
    with pytest.raises(NotFoundError):
        resolve("")

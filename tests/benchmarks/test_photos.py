"""The ImageFolder of photographs: what is in it, that it repeats, and what it refuses. Needs no network."""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, JpegImagePlugin

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "photos.py"
sys.path.append(str(SCRIPT.parent))  # the processes it starts import it by name too
photos: Any = importlib.import_module("photos")
COUNT = 160


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return photos.make_photos(tmp_path_factory.mktemp("made") / "set", COUNT, debian=False, workers=1)


@pytest.fixture
def no_background(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Neither installed backgrounds nor any command; returns the only folder of PATH."""
    monkeypatch.setattr(photos, "INSTALLED", tmp_path / "absent")
    tools = tmp_path / "tools"
    tools.mkdir()
    monkeypatch.setenv("PATH", str(tools))
    return tools


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), *map(str, arguments)], capture_output=True, text=True, check=False
    )


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*.jpg"))}


def write_tool(path: Path, *lines: str) -> None:
    path.write_text("\n".join(["#!/bin/sh", *lines]) + "\n")
    path.chmod(0o755)


def test_every_class_is_in_train_and_val(made: Any) -> None:
    train = {path.name: len(list(path.glob("*.jpg"))) for path in (made.folder / "train").iterdir()}
    val = {path.name: len(list(path.glob("*.jpg"))) for path in (made.folder / "val").iterdir()}
    assert sorted(train) == sorted(val) == list(made.classes)
    assert len(made.classes) == 8
    assert set(train.values()) == {16}
    assert set(val.values()) == {4}
    assert made.photographs == COUNT


def test_summary_agrees_with_the_files(made: Any) -> None:
    files = sorted(made.folder.rglob("*.jpg"))
    sizes, samplings, progressive = [], [], 0
    for file in files:
        with Image.open(file) as picture:
            assert picture.mode == "RGB"
            sizes.append(picture.size)
            samplings.append(JpegImagePlugin.get_sampling(picture))
            progressive += "progressive" in picture.info
    width, height = np.mean(sizes, axis=0)
    assert (made.mean_width, made.mean_height) == pytest.approx((width, height))
    assert made.mean_bytes == pytest.approx(np.mean([file.stat().st_size for file in files]))
    assert made.progressive == progressive
    assert made.full_chroma == samplings.count(0)
    assert samplings.count(0) + samplings.count(2) == COUNT  # 4:4:4 and 4:2:0


def test_photos_are_like_imagenet(made: Any) -> None:
    sizes = []
    for file in made.folder.rglob("*.jpg"):
        with Image.open(file) as picture:
            sizes.append(picture.size)
    assert np.min(sizes) >= photos.SHORTEST_SIDE
    assert np.max(sizes) <= photos.FREE_LONG_SIDE[1]
    assert 400 <= made.mean_width <= 500
    assert 340 <= made.mean_height <= 430
    assert 20_000 <= made.mean_bytes <= 150_000
    assert sizes.count((500, 375)) > COUNT / 5
    assert 0.01 <= made.progressive / COUNT <= 0.12
    assert 0.10 <= made.full_chroma / COUNT <= 0.30


def test_same_arguments_give_the_same_bytes_for_any_number_of_processes(tmp_path: Path) -> None:
    one = photos.make_photos(tmp_path / "one", 24, seed=5, debian=False, workers=1)
    two = photos.make_photos(tmp_path / "two", 24, seed=5, debian=False, workers=2)
    assert contents(one.folder) == contents(two.folder)
    assert len(contents(one.folder)) == 24


def test_another_seed_gives_other_photos(tmp_path: Path) -> None:
    one = photos.make_photos(tmp_path / "one", 16, seed=1, debian=False, workers=1)
    two = photos.make_photos(tmp_path / "two", 16, seed=2, debian=False, workers=1)
    assert not set(contents(one.folder).values()) & set(contents(two.folder).values())


@pytest.mark.parametrize("axis", ["x", "y"])
@pytest.mark.parametrize("size", [(512, 512), (640, 427), (2560, 1600)])
def test_train_and_val_cuts_never_overlap(axis: str, size: tuple[int, int]) -> None:
    train, val = (photos._region(size, axis, split) for split in ("train", "val"))
    assert train[2] == val[0] if axis == "x" else train[3] == val[1]
    for region in (train, val):
        for index in range(300):
            rng = np.random.default_rng([0, index])
            (left, top, right, bottom), target = photos._draw_cut(rng, region, photos._draw_size(rng))
            assert region[0] <= left < right <= region[2]
            assert region[1] <= top < bottom <= region[3]
            assert (right - left) * 2.02 >= target[0]
            assert (right - left) <= target[0] * photos.LARGEST_CUT + 1


def test_command_line_makes_then_reuses_then_refuses(tmp_path: Path) -> None:
    first = run(tmp_path / "set", "--count", 16, "--no-debian")
    assert first.returncode == 0, first.stderr
    assert first.stdout.startswith("16 photographs in 8 classes, mean ")
    assert len(first.stdout.splitlines()) == 1
    before = contents(tmp_path / "set")

    again = run(tmp_path / "set", "--count", 16, "--no-debian")
    assert again.returncode == 0
    assert again.stdout == first.stdout.replace(f"in {tmp_path}", f"already in {tmp_path}")

    other = run(tmp_path / "set", "--count", 17, "--no-debian")
    assert other.returncode == 2
    assert "was made with count 16: remove it or name another folder" in other.stderr
    assert contents(tmp_path / "set") == before
    assert [path.name for path in tmp_path.iterdir()] == ["set"]


@pytest.mark.parametrize("record", [None, "", "[]", '{"arguments": {}, "made": {}}'])
def test_foreign_folder_is_refused_and_left_alone(
    tmp_path: Path, record: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.txt").write_text("keep")
    if record is not None:
        (tmp_path / photos.RECORD).write_text(record)
    assert photos.main([str(tmp_path), "--count", "16", "--no-debian"]) == 2
    assert "exists and was not made here" in capsys.readouterr().err
    assert (tmp_path / "mine.txt").read_text() == "keep"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"count": 0}, "count is 0"),
        ({"count": 15}, "8 classes need 16"),
        ({"count": 16, "seed": -1}, "seed is -1"),
        ({"count": 16, "val_fraction": 0.0}, "between 0 and 1"),
        ({"count": 16, "val_fraction": 1.0}, "between 0 and 1"),
    ],
)
def test_bad_arguments_leave_nothing(tmp_path: Path, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(photos.PhotosError, match=message):
        photos.make_photos(tmp_path / "set", debian=False, **arguments)
    assert list(tmp_path.iterdir()) == []


def test_a_failure_half_way_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(photos, "_write_photo", fail)
    with pytest.raises(OSError, match="disk full"):
        photos.make_photos(tmp_path / "set", 16, debian=False, workers=1)
    assert list(tmp_path.iterdir()) == []


def test_without_apt_the_other_sources_serve(tmp_path: Path, no_background: Path) -> None:
    made = photos.make_photos(tmp_path / "set", 16, cache=tmp_path / "cache", workers=1)
    assert len(made.classes) == 8
    assert made.notes == ("left out Debian's mate-backgrounds: no apt-get here",)


def test_failing_apt_is_one_note(tmp_path: Path, no_background: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_tool(no_background / "apt-get", "echo 'E: Unable to locate package' >&2", "exit 100")
    write_tool(no_background / "dpkg-deb", "exit 1")
    out, cache = tmp_path / "set", tmp_path / "cache"
    assert photos.main([str(out), "--count", "16", "--cache", str(cache)]) == 0
    assert capsys.readouterr().err.splitlines() == [
        "photos: left out Debian's mate-backgrounds: apt-get said 'E: Unable to locate package' "
        "(apt-get update may help)"
    ]
    assert list(cache.iterdir()) == []


def test_debian_package_is_fetched_once(tmp_path: Path, no_background: Path) -> None:
    picture = tmp_path / "picture.jpg"
    Image.new("RGB", (1680, 1050), "green").save(picture)
    folder = f"$3/{photos.BACKGROUNDS}/nature"
    mkdir, copy = shutil.which("mkdir", path="/usr/bin:/bin"), shutil.which("cp", path="/usr/bin:/bin")
    write_tool(no_background / "apt-get", f"echo once >> {tmp_path}/calls", ": > package.deb")
    write_tool(no_background / "dpkg-deb", f"{mkdir} -p {folder}", f"{copy} {picture} {folder}/Dune.jpg")
    for name in ("one", "two"):
        made = photos.make_photos(tmp_path / name, 18, cache=tmp_path / "cache", workers=1)
        assert "dune" in made.classes
        assert made.notes == ()
    assert (tmp_path / "calls").read_text() == "once\n"
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["mate-backgrounds"]


def test_no_source_at_all_says_what_to_install(
    tmp_path: Path, no_background: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(photos, "SKIMAGE_PHOTOS", {})
    monkeypatch.setattr(photos, "SKLEARN_PHOTOS", {})
    with pytest.raises(photos.PhotosError, match="pip install scikit-image scikit-learn"):
        photos.make_photos(tmp_path / "set", 16, cache=tmp_path / "cache")

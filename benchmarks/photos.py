"""Cut an ImageFolder of JPEG photographs at ImageNet-like sizes out of freely packaged pictures.

    python benchmarks/photos.py OUT --count 600 [--seed 0] [--val-fraction 0.2] [--cache build/photos]

Sources are Debian's package mate-backgrounds (fetched once with apt-get into the cache; no root needed) and
the pictures inside the installed scikit-image and scikit-learn. A class is one source photograph; its train
and val crops come from disjoint parts of it. Every photo follows from (seed, index) alone: the number of
processes never changes a byte. It must not download anything else, nor write into a folder it did not make.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import importlib.util
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

__all__ = ["PhotoSet", "PhotosError", "make_photos"]

RECORD = ".photos.json"
FORMAT = 1

PACKAGE = "mate-backgrounds"
BACKGROUNDS = Path("usr/share/backgrounds/mate")
INSTALLED = Path("/") / BACKGROUNDS
COMMAND_SECONDS = 300

TRAIN_SHARE = 0.75  # of the source photograph; val crops come from the rest
LARGEST_CUT = 4.0  # source pixels per photo pixel, along one side
SMALLEST_CUT = 0.5  # a photo is never enlarged more than twice
TIGHT_CUT = 0.6  # where the source is small, a cut may be this share of the largest that fits, for variety
PROGRESSIVE_SHARE = 0.05
FULL_CHROMA_SHARE = 0.20  # 4:4:4; the others are 4:2:0
QUALITY = (75, 96)
BATCH_PHOTOS = 25

# (width, height) of most photos with the share of each; the others have a free long side.
COMMON_SIZES = (((500, 375), 0.45), ((375, 500), 0.12), ((500, 333), 0.12), ((333, 500), 0.04))
FREE_LONG_SIDE = (200, 800)
FREE_ASPECTS = (4 / 3, 3 / 2, 1.0, 16 / 9)
FREE_PORTRAIT_SHARE = 0.2
SHORTEST_SIDE = 200

# File in the source -> the axis it is parted along: x (left train, right val) or y (top train, bottom val).
DEBIAN_PHOTOS = {
    "abstract/Elephants_3840x2160.jpg": "y", "nature/Aqua.jpg": "x", "nature/Blinds.jpg": "x",
    "nature/Dune.jpg": "x", "nature/FreshFlower.jpg": "y", "nature/Garden.jpg": "x",
    "nature/GreenMeadow.jpg": "x", "nature/LadyBird.jpg": "x", "nature/RainDrops.jpg": "y",
    "nature/Storm.jpg": "x", "nature/TwoWings.jpg": "y", "nature/YellowFlower.jpg": "x",
}  # fmt: skip
SKIMAGE_PHOTOS = {
    "data/astronaut.png": "y", "data/grass.png": "x", "data/gravel.png": "x", "data/ihc.png": "x",
    "data/hubble_deep_field.jpg": "x", "data/motorcycle_left.png": "x", "data/rocket.jpg": "x",
}  # fmt: skip
SKLEARN_PHOTOS = {"datasets/images/china.jpg": "x"}

Box = tuple[int, int, int, int]


class PhotosError(Exception):
    """The photos cannot be made; the text says what to do."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class PhotoSet:
    """What a finished folder holds.

    Attributes:
        folder: Where train and val are.
        photographs: Number of JPEG files, train and val together.
        classes: Names of the class folders, sorted.
        mean_width: In pixels.
        mean_height: In pixels.
        mean_bytes: Of a file.
        progressive: Number of progressive files.
        full_chroma: Number of 4:4:4 files.
        notes: What was left out and why, one line each.
        reused: True when the folder was there already, made with the same arguments.
    """

    folder: Path
    photographs: int
    classes: tuple[str, ...]
    mean_width: float
    mean_height: float
    mean_bytes: float
    progressive: int
    full_chroma: int
    notes: tuple[str, ...] = ()
    reused: bool = False

    def line(self) -> str:
        """Return the summary as one line."""
        return (
            f"{self.photographs} photographs in {len(self.classes)} classes, "
            f"mean {self.mean_width:.0f}x{self.mean_height:.0f} and {self.mean_bytes:.0f} bytes, "
            f"{self.progressive} progressive, {self.full_chroma} 4:4:4, "
            f"{'already in' if self.reused else 'in'} {self.folder}"
        )


def make_photos(
    out: str | os.PathLike[str],
    count: int,
    seed: int = 0,
    val_fraction: float = 0.2,
    cache: str | os.PathLike[str] = "build/photos",
    debian: bool = True,
    workers: int | None = None,
) -> PhotoSet:
    """Make the folder `out`, or find it made already with the same arguments.

    The files are written into a folder beside `out`, which gets its name when all are there.

    Args:
        out: Becomes `out/train/<class>/NNNNN.jpg` and `out/val/<class>/NNNNN.jpg`.
        count: Photos in train and val together, at least two for each class.
        seed: Together with the index of a photo decides everything about that photo.
        val_fraction: Share of each class that goes to val, at least one photo.
        cache: Holds the unpacked Debian package.
        debian: False leaves that package out, and so needs no network.
        workers: Processes; by default one for each CPU. The result does not depend on it.

    Raises:
        PhotosError: An argument is out of range, no source is installed, or `out` holds something else.
    """
    out = Path(out)
    _check_arguments(count, seed, val_fraction)
    arguments: dict[str, Any] = {"format": FORMAT, "count": count, "seed": seed}
    arguments |= {"val_fraction": val_fraction, "debian": debian}
    if out.exists() or out.is_symlink():
        return _reuse(out, arguments)
    sources, notes = _find_sources(Path(cache), debian)
    least = 2 * len(sources)
    if count < least:
        raise PhotosError(f"count {count} is too small: {len(sources)} classes need {least} photos or more")
    part = out.with_name(f".{out.name}.{os.getpid()}.part")
    part.mkdir(parents=True)
    try:
        written = _write_all(part, _plan(sources, count, seed, val_fraction), workers or os.cpu_count() or 1)
        made = _summarise(out, sources, written, notes)
        record = {"arguments": arguments, "made": dataclasses.asdict(made) | {"folder": None}}
        (part / RECORD).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        part.rename(out)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    return made


class _Source(NamedTuple):
    name: str
    path: Path
    axis: str


class _Batch(NamedTuple):
    source: _Source
    seed: int
    photos: tuple[tuple[int, str], ...]  # index and split of each


class _Written(NamedTuple):
    width: int
    height: int
    size_bytes: int
    progressive: int  # 0 or 1, as the next: to be summed
    full_chroma: int


def _check_arguments(count: int, seed: int, val_fraction: float) -> None:
    if count < 1:
        raise PhotosError(f"count is {count}: give a positive number of photos")
    if seed < 0:
        raise PhotosError(f"seed is {seed}: give zero or more")
    if not 0 < val_fraction < 1:
        raise PhotosError(f"val fraction is {val_fraction}: give a number between 0 and 1, neither included")


def _reuse(out: Path, arguments: dict[str, Any]) -> PhotoSet:
    try:
        record = json.loads((out / RECORD).read_text(encoding="utf-8"))
        found, made = dict(record["arguments"]), record["made"]
        made |= {"classes": tuple(made["classes"]), "notes": tuple(made["notes"])}
        photos = PhotoSet(**made | {"folder": out, "reused": True})
    except (OSError, ValueError, KeyError, TypeError):
        raise PhotosError(f"{out} exists and was not made here: remove it or name another folder") from None
    if found != arguments:
        differ = ", ".join(f"{key} {found.get(key)}" for key in arguments if found.get(key) != arguments[key])
        raise PhotosError(f"{out} was made with {differ}: remove it or name another folder")
    return photos


def _find_sources(cache: Path, debian: bool) -> tuple[list[_Source], tuple[str, ...]]:
    found, notes = [], []
    if debian:
        try:
            found += _listed(_debian_folder(cache), DEBIAN_PHOTOS)
        except PhotosError as error:
            notes.append(f"left out Debian's {PACKAGE}: {error}")
    for package, photos in (("skimage", SKIMAGE_PHOTOS), ("sklearn", SKLEARN_PHOTOS)):
        spec = importlib.util.find_spec(package)
        for folder in (spec.submodule_search_locations or []) if spec else []:
            found += _listed(Path(folder), photos)
    if not found:
        why = "".join(f" ({note})" for note in notes)
        todo = f"pip install scikit-image scikit-learn, or on Debian: apt-get install {PACKAGE}"
        raise PhotosError(f"no source photographs found{why}: {todo}")
    return sorted(found, key=lambda source: source.name), tuple(notes)


def _listed(folder: Path, photos: dict[str, str]) -> list[_Source]:
    return [
        _Source(name=Path(file).stem.split("_")[0].lower(), path=folder / file, axis=axis)
        for file, axis in photos.items()
        if (folder / file).is_file()
    ]


def _debian_folder(cache: Path) -> Path:
    """Return the folder of backgrounds: in the cache, installed, or fetched into the cache now."""
    unpacked = cache / PACKAGE
    if not unpacked.is_dir():
        if INSTALLED.is_dir():
            return INSTALLED
        _fetch(unpacked)
    return unpacked / BACKGROUNDS


def _fetch(unpacked: Path) -> None:
    missing = [tool for tool in ("apt-get", "dpkg-deb") if shutil.which(tool) is None]
    if missing:
        raise PhotosError(f"no {missing[0]} here")
    try:
        unpacked.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=unpacked.parent) as folder:
            _command(["apt-get", "download", PACKAGE], folder)
            archives = sorted(file.name for file in Path(folder).glob("*.deb"))
            _command(["dpkg-deb", "-x", *archives, "unpacked"], folder)
            (Path(folder) / "unpacked").rename(unpacked)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PhotosError(str(error)) from error


def _command(command: list[str], folder: str) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=COMMAND_SECONDS)
    if done.returncode != 0:
        said = (done.stderr.strip() or f"exit status {done.returncode}").splitlines()[-1]
        raise PhotosError(f"{command[0]} said {said!r} (apt-get update may help)")


def _plan(sources: Sequence[_Source], count: int, seed: int, val_fraction: float) -> Iterator[_Batch]:
    """Deal the indices out to the classes in turn; the last of each class are its val photos."""
    for number, source in enumerate(sources):
        indices = range(number, count, len(sources))
        val = min(max(1, round(len(indices) * val_fraction)), len(indices) - 1)
        splits = ["train"] * (len(indices) - val) + ["val"] * val
        photos = tuple(zip(indices, splits, strict=True))
        for start in range(0, len(photos), BATCH_PHOTOS):
            yield _Batch(source=source, seed=seed, photos=photos[start : start + BATCH_PHOTOS])


def _write_all(folder: Path, plan: Iterator[_Batch], workers: int) -> list[_Written]:
    batches = list(plan)
    for name, split in {(batch.source.name, split) for batch in batches for _, split in batch.photos}:
        (folder / split / name).mkdir(parents=True)
    write = functools.partial(_write_batch, folder)
    workers = min(workers, len(batches))
    if workers == 1:
        return [photo for batch in batches for photo in write(batch)]
    # spawn: a fork of a process with threads (any with torch in it) may hang
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        return [photo for photos in pool.map(write, batches) for photo in photos]


def _write_batch(folder: Path, batch: _Batch) -> list[_Written]:
    picture = _load(batch.source.path)
    return [
        _write_photo(
            folder / split / batch.source.name / f"{index:05d}.jpg",
            picture,
            _region(picture.size, batch.source.axis, split),
            np.random.default_rng([batch.seed, index]),
        )
        for index, split in batch.photos
    ]


@functools.lru_cache(maxsize=1)
def _load(path: Path) -> Image.Image:
    with Image.open(path) as picture:
        return picture.convert("RGB")


def _region(size: tuple[int, int], axis: str, split: str) -> Box:
    width, height = size
    x, y = int(width * TRAIN_SHARE), int(height * TRAIN_SHARE)
    if axis == "x":
        return (0, 0, x, height) if split == "train" else (x, 0, width, height)
    return (0, 0, width, y) if split == "train" else (0, y, width, height)


def _write_photo(path: Path, picture: Image.Image, region: Box, rng: np.random.Generator) -> _Written:
    box, size = _draw_cut(rng, region, _draw_size(rng))
    progressive, full_chroma = bool(rng.random() < PROGRESSIVE_SHARE), bool(rng.random() < FULL_CHROMA_SHARE)
    quality = int(rng.integers(QUALITY[0], QUALITY[1] + 1))
    photo = picture.crop(box).resize(size, Image.Resampling.LANCZOS)
    subsampling = "4:4:4" if full_chroma else "4:2:0"
    photo.save(path, "JPEG", quality=quality, progressive=progressive, subsampling=subsampling)
    return _Written(*size, path.stat().st_size, progressive, full_chroma)


def _draw_size(rng: np.random.Generator) -> tuple[int, int]:
    left = rng.random()
    for size, share in COMMON_SIZES:
        left -= share
        if left < 0:
            return size
    long = int(rng.integers(FREE_LONG_SIDE[0], FREE_LONG_SIDE[1] + 1))
    short = max(SHORTEST_SIDE, round(long / FREE_ASPECTS[rng.integers(len(FREE_ASPECTS))]))
    return (short, long) if rng.random() < FREE_PORTRAIT_SHARE else (long, short)


def _draw_cut(rng: np.random.Generator, region: Box, size: tuple[int, int]) -> tuple[Box, tuple[int, int]]:
    """Draw what to cut out of the region and the size to give it: `size`, or less where that is small."""
    left, top, right, bottom = region
    if _largest_cut(region, size) < SMALLEST_CUT:
        size = max(size, size[::-1], key=functools.partial(_largest_cut, region))
    largest = min(LARGEST_CUT, _largest_cut(region, size))
    smallest = min(1.0, max(TIGHT_CUT * largest, SMALLEST_CUT * SHORTEST_SIDE / min(size)))
    cut = rng.uniform(min(smallest, largest), largest)
    width = min(right - left, round(size[0] * cut))
    height = min(bottom - top, round(size[1] * cut))
    x = left + int(rng.integers(right - left - width + 1))
    y = top + int(rng.integers(bottom - top - height + 1))
    shrink = min(1.0, cut / SMALLEST_CUT)
    return (x, y, x + width, y + height), (round(size[0] * shrink), round(size[1] * shrink))


def _largest_cut(region: Box, size: tuple[int, int]) -> float:
    """Return how many source pixels a photo pixel can span at most, along one side."""
    return min((region[2] - region[0]) / size[0], (region[3] - region[1]) / size[1])


def _summarise(out: Path, sources: Sequence[_Source], written: Sequence[_Written], notes: tuple[str, ...]) -> PhotoSet:
    count, total = len(written), _Written(*map(sum, zip(*written, strict=True)))
    return PhotoSet(
        folder=out,
        photographs=count,
        classes=tuple(source.name for source in sources),
        mean_width=total.width / count,
        mean_height=total.height / count,
        mean_bytes=total.size_bytes / count,
        progressive=total.progressive,
        full_chroma=total.full_chroma,
        notes=notes,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return 0, or 2 when the photos could not be made."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("out", type=Path, metavar="OUT", help="folder to make")
    parser.add_argument("--count", type=int, required=True, help="photos in train and val together")
    parser.add_argument("--seed", type=int, default=0, help="another seed gives other crops")
    parser.add_argument("--val-fraction", type=float, default=0.2, help="share of each class in val")
    parser.add_argument("--cache", type=Path, default=Path("build/photos"), help="keeps the Debian package")
    parser.add_argument("--no-debian", action="store_true", help="only the pictures of installed packages")
    given = parser.parse_args(argv)
    try:
        made = make_photos(
            given.out, given.count, given.seed, given.val_fraction, given.cache, debian=not given.no_debian
        )
    except (PhotosError, OSError) as error:
        print(f"photos: {error}", file=sys.stderr)
        return 2
    for note in made.notes:
        print(f"photos: {note}", file=sys.stderr)
    print(made.line())
    return 0


if __name__ == "__main__":
    sys.exit(main())

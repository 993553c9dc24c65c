"""Measure data where it lies: reading it, indexing it, and opening a folder of files at once.

    python benchmarks/in_place_files.py PHOTOS --peer-python PYTHON [--cases read_bytes,read_decoded,index,open]
        [--repeats 5] [--threads 2] [--files 30000] [--copies N] [--peers torchvision,...] [--work DIR] [--json]

read_bytes     an epoch of a loader, values as they are: references against the same photographs packed
read_decoded   the same with decode_image, resize_short(256) and center_crop(224)
index          toolkit index against reading every file once and hashing it with hashlib.sha256, on as many threads
open           FILES small JPEG files, made by this benchmark: opened, and the first batch of 64 decoded and resized to
               64 x 64, against torchvision's ImageFolder with a DataLoader, `datasets.load_dataset("imagefolder")`
               (with nothing in its cache, and again with what it left there) and webdataset (a tar of the same files)

PHOTOS has photographs in train/<class>/*.jpg. PYTHON is an interpreter that has torch, torchvision, datasets and
webdataset. A run is a fresh process; imports are done before its clock starts, and all files are in the page cache. The
sides take turns. A ratio is a side's time by the time of the side that it is compared with, in the same repeat: its
median, least and most; and by processor time as well, which other work on the machine changes less. For open the first
batch comes in any order from toolkit and torchvision, and as the files lie from the others. Exits with 1 when a side
fails.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import os
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from turns import BenchmarkError, command_line, environment, in_turns, reason, show, worker_command

__all__ = ["CASES", "Case", "measure"]

CASES = ("read_bytes", "read_decoded", "index", "open")
BATCH = 64
CLASSES = 100
DIFFERENT = 500  # pictures that are different; more of them are the same again
SIDE = 64
EPOCHS = {"read_bytes": 8, "read_decoded": 1}  # of a run, so that each takes a while
FOREIGN = ("torchvision", "datasets", "datasets_again", "webdataset")


@dataclasses.dataclass(frozen=True)
class Case:
    """A question: seconds of each repeat of each side, by the clock and of processors; the first side is ours."""

    name: str
    seconds: dict[str, tuple[float, ...]]
    processor: dict[str, tuple[float, ...]]

    def ratios(self, *, processor: bool = False) -> dict[str, tuple[float, float, float]]:
        """Return the median, least and most of the first side's time by that of another, by its name."""
        taken = self.processor if processor else self.seconds
        first, *others = taken
        found = {}
        for other in others:
            pairs = zip(taken[first], taken[other], strict=True)
            each = [mine / theirs for mine, theirs in pairs]
            found[other] = (statistics.median(each), min(each), max(each))
        return found


def measure(
    photos: str | os.PathLike[str] | None,
    peer_python: str | None,
    cases: Sequence[str] = CASES,
    repeats: int = 5,
    threads: int = 2,
    files: int = 30_000,
    copies: int = 1,
    peers: Sequence[str] = FOREIGN,
    work: str | os.PathLike[str] | None = None,
) -> list[Case]:
    """Measure the cases, in a folder below `work` (the system's place for such when None).

    Raises:
        BenchmarkError: A case isn't known or lacks what it needs, or a side fails.
    """
    unknown = [name for name in (*cases, *peers) if name not in (*CASES, *FOREIGN)]
    if unknown or min(repeats, threads, files, copies) < 1:
        raise BenchmarkError(
            f"unknown cases or peers {unknown}" if unknown else "repeats, threads, files and copies must be positive"
        )
    if photos is None and set(cases) - {"open"}:
        raise BenchmarkError("PHOTOS is missing: make them with benchmarks/photos.py")
    with tempfile.TemporaryDirectory(prefix="in_place.", dir=work) as made:
        folder = Path(made)
        source = None if photos is None else _copied(Path(photos), folder / "photos", copies)
        return [_case(name, source or folder, peer_python, repeats, threads, files, peers, folder) for name in cases]


def _case(
    name: str,
    photos: Path,
    peer: str | None,
    repeats: int,
    threads: int,
    files: int,
    peers: Sequence[str],
    folder: Path,
) -> Case:
    if name == "open":
        source = folder / "files"
        if not source.exists():
            make_files(source, files)
            make_tar(source, folder / "files.tar")
        sides: tuple[str, ...] = ("toolkit", *(peers if peer else ()))
    elif name == "index":
        source, sides = photos, ("index", "sha256")
    else:
        source, sides = folder, ("references", "packed")
        _prepare(photos, folder)
    runs: dict[str, list[tuple[float, float]]] = {side: [] for side in sides}
    for side in sides:  # what is read is in the page cache from here on
        _run(name, side, peer, source, threads, folder)
    for repeat, order in enumerate(in_turns(sides, repeats)):
        for side in order:
            runs[side].append(_run(name, side, peer, source, threads, folder))
        said = ", ".join(f"{side} {found[-1][0]:.3f}" for side, found in runs.items())
        print(f"{name}, repeat {repeat + 1}: {said}", file=sys.stderr)
    return Case(
        name,
        {side: tuple(seconds for seconds, _ in found) for side, found in runs.items()},
        {side: tuple(processor for _, processor in found) for side, found in runs.items()},
    )


def _run(case: str, side: str, peer: str | None, source: Path, threads: int, folder: Path) -> tuple[float, float]:
    python = peer if side in FOREIGN and peer else sys.executable
    # Caches of `datasets` begin empty but for the side that is about them.
    if side == "datasets":
        shutil.rmtree(folder / "hf", ignore_errors=True)
    command = [python, *worker_command(__file__, case, side, source, threads, folder)[1:]]
    roots = [] if side in FOREIGN else [str(Path(__file__).parents[1])]
    more = {"HF_HOME": str(folder / "hf"), "HF_HUB_OFFLINE": "1", "HF_DATASETS_DISABLE_PROGRESS_BARS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment(*roots, **more))
    if done.returncode != 0:
        raise BenchmarkError(f"{case}, {side}: {reason(done.stderr, done.returncode)}")
    seconds, processor = map(float, done.stdout.split()[-2:])
    return seconds, processor


def make_files(folder: Path, count: int) -> None:
    """Write small JPEG files of smooth pictures into CLASSES classes below `folder`, always the same ones."""
    import io

    import numpy as np
    from PIL import Image

    rng, made = np.random.default_rng(0), []
    for _ in range(min(DIFFERENT, count)):
        small = Image.fromarray(rng.integers(0, 256, (8, 8, 3), np.uint8))
        sink = io.BytesIO()
        small.resize((96, 96), Image.Resampling.BICUBIC).save(sink, "JPEG", quality=90)
        made.append(sink.getvalue())
    for number in range(CLASSES):
        (folder / f"class{number:03d}").mkdir(parents=True)
    for number in range(count):
        path = folder / f"class{number % CLASSES:03d}" / f"{number:06d}.jpg"
        path.write_bytes(made[number % len(made)])


def make_tar(folder: Path, path: Path) -> None:
    """Write the same files as samples of webdataset: a picture and its class, as they lie."""
    import io

    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for file in sorted(folder.glob("*/*.jpg")):
            tar.add(file, file.name)
            number = str(int(file.parent.name[-3:])).encode()
            info = tarfile.TarInfo(f"{file.stem}.cls")
            info.size = len(number)
            tar.addfile(info, io.BytesIO(number))


def _copied(photos: Path, folder: Path, copies: int) -> Path:
    """Return a folder with each photograph under so many names: links, so that they take no room."""
    if copies == 1:
        return photos
    for path in photos.rglob("*.jpg"):
        place = folder / path.relative_to(photos).parent
        place.mkdir(parents=True, exist_ok=True)
        for number in range(copies):
            os.link(path, place / f"{path.stem}-{number}.jpg")
    return folder


def _prepare(photos: Path, folder: Path) -> None:
    """Pack and index the photographs, once."""
    for verb in ("pack", "index"):
        if not (folder / verb).exists():
            _command(verb, str(photos), str(folder / verb), "-q")


def _command(*arguments: str) -> None:
    command = [sys.executable, "-m", "toolkit.cli.main", *arguments]
    env = environment(str(Path(__file__).parents[1]))
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    if done.returncode != 0:
        raise BenchmarkError(f"{' '.join(arguments)}: {reason(done.stderr, done.returncode)}")


# --- what measured processes do ----------------------------------------------------------------------------------


def _work(case: str, side: str, source: str, threads: str, folder: str) -> int:
    if case == "open":
        taken = _OPEN[side](source, folder)
    elif case == "index":
        taken = (_index if side == "index" else _hash)(source, folder, int(threads))
    else:
        taken = _read(case, str(Path(source) / ("index" if side == "references" else "pack")), int(threads))
    print(*taken)
    return 0


def _clock() -> tuple[float, float]:
    """Return the time, and that of this process's processors."""
    return time.perf_counter(), time.process_time()


def _since(begun: tuple[float, float]) -> tuple[float, float]:
    """Return the seconds since _clock() was asked."""
    now = _clock()
    return now[0] - begun[0], now[1] - begun[1]


def _read(case: str, dataset: str, threads: int) -> tuple[float, float]:
    import toolkit
    from toolkit import slot

    ds = toolkit.open(dataset, split="train", columns=["image", "label"])
    steps = slot("image").decode_image().resize_short(256).center_crop(224)
    pipeline = toolkit.pipeline(steps) if case == "read_decoded" else None
    seconds = processor = 0.0
    with ds.loader(pipeline, batch_size=BATCH, shuffle="full", epochs=1, threads=threads) as loader:
        for epoch in range(1 + EPOCHS[case]):
            begun, seen = _clock(), 0
            for batch in loader:
                seen += len(batch["label"])
            if seen != len(ds):
                raise BenchmarkError(f"{seen} samples of {len(ds)}")
            if epoch:
                taken = _since(begun)
                seconds, processor = seconds + taken[0], processor + taken[1]
    return seconds / EPOCHS[case], processor / EPOCHS[case]


def _index(source: str, folder: str, threads: int) -> tuple[float, float]:
    import toolkit

    out = Path(folder) / "indexed"
    run: Callable[..., object] = toolkit.index
    begun = _clock()
    run(source, out, jobs=threads)
    taken = _since(begun)
    shutil.rmtree(out)
    return taken


def _hash(source: str, folder: str, threads: int) -> tuple[float, float]:
    begun = _clock()
    paths = [Path(at) / name for at, _, names in os.walk(source) for name in names if name.endswith(".jpg")]
    with ThreadPoolExecutor(threads) as pool:
        if not all(pool.map(_sha256, paths, chunksize=16)):
            raise BenchmarkError("a file is empty")
    return _since(begun)


def _sha256(path: Path) -> bytes:
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).digest()


def _open_toolkit(source: str, folder: str) -> tuple[float, float]:
    import numpy  # noqa: F401 - as all that is imported late, before the clock starts
    import polars  # noqa: F401
    import pyarrow.compute  # noqa: F401

    import toolkit
    from toolkit import slot

    _imported(toolkit.open, toolkit.pipeline)
    begun = _clock()
    ds = toolkit.open(source)
    pipeline = toolkit.pipeline(slot("image").decode_image().resize((SIDE, SIDE)))
    with ds.loader(pipeline, batch_size=BATCH, shuffle="full") as loader:
        batch = next(iter(loader))
        taken = _since(begun)
        if batch["image"].shape != (BATCH, SIDE, SIDE, 3):
            raise BenchmarkError(f"a batch of {batch['image'].shape}")
    return taken


def _imported(*names: object) -> None:
    """Import what a first use imports: a picture in memory goes the same way."""
    import tempfile as scratch

    import toolkit
    from toolkit import slot

    with scratch.TemporaryDirectory() as made:
        make_files(Path(made) / "few", CLASSES)
        ds = toolkit.open(Path(made) / "few")
        with ds.loader(toolkit.pipeline(slot("image").decode_image().resize((SIDE, SIDE))), batch_size=4) as loader:
            next(iter(loader))


def _open_torchvision(source: str, folder: str) -> tuple[float, float]:
    from torch.utils.data import DataLoader
    from torchvision.datasets import ImageFolder
    from torchvision.transforms import v2

    begun = _clock()
    steps = v2.Compose([v2.Resize((SIDE, SIDE)), v2.PILToTensor()])
    images, _ = next(iter(DataLoader(ImageFolder(source, steps), batch_size=BATCH, shuffle=True)))
    taken = _since(begun)
    if tuple(images.shape) != (BATCH, 3, SIDE, SIDE):
        raise BenchmarkError(f"a batch of {images.shape}")
    return taken


def _open_datasets(source: str, folder: str) -> tuple[float, float]:
    import numpy as np
    from datasets import load_dataset
    from PIL import Image  # noqa: F401

    begun = _clock()
    ds = load_dataset("imagefolder", data_dir=source, split="train")
    images = [np.asarray(one.convert("RGB").resize((SIDE, SIDE))) for one in ds[:BATCH]["image"]]
    batch = np.stack(images)
    taken = _since(begun)
    if batch.shape != (BATCH, SIDE, SIDE, 3):
        raise BenchmarkError(f"a batch of {batch.shape}")
    return taken


def _open_webdataset(source: str, folder: str) -> tuple[float, float]:
    import webdataset as wds
    from torchvision.transforms import v2

    begun = _clock()
    steps = v2.Compose([v2.Resize((SIDE, SIDE)), v2.PILToTensor()])
    ds = wds.WebDataset(str(Path(folder) / "files.tar"), shardshuffle=False).decode("pil")
    batches = ds.to_tuple("jpg", "cls").map_tuple(steps).batched(BATCH)
    images, _ = next(iter(batches))
    taken = _since(begun)
    if tuple(images.shape) != (BATCH, 3, SIDE, SIDE):
        raise BenchmarkError(f"a batch of {images.shape}")
    return taken


_OPEN: dict[str, Callable[[str, str], tuple[float, float]]] = {
    "toolkit": _open_toolkit,
    "torchvision": _open_torchvision,
    "datasets": _open_datasets,
    "datasets_again": _open_datasets,
    "webdataset": _open_webdataset,
}


def _lines(cases: Sequence[Case]) -> Iterator[str]:
    """Yield a line for each side, and the ratios as the last line."""
    yield f"{'case':14} {'side':16} {'median s':>9} {'least':>8} {'most':>8} {'CPU s':>8} {'least':>8} {'most':>8}"
    ratios = []
    for case in cases:
        for side, seconds in case.seconds.items():
            median = statistics.median(seconds)
            cpu = case.processor[side]
            yield (
                f"{case.name:14} {side:16} {median:9.4f} {min(seconds):8.4f} {max(seconds):8.4f} "
                f"{statistics.median(cpu):8.4f} {min(cpu):8.4f} {max(cpu):8.4f}"
            )
        cpus = case.ratios(processor=True)
        for other, (median, least, most) in case.ratios().items():
            cpu_text = " ".join(f"{value:8.3f}" for value in cpus[other])
            yield f"{case.name:14} {f'by {other}':16} {median:9.3f} {least:8.3f} {most:8.3f} {cpu_text}"
            ratios.append(f"{case.name}_by_{other}={median:.3f}")
    yield " ".join(ratios)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return 0, or 1 when a side failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("photos", nargs="?", type=Path, metavar="PHOTOS", help="photographs in train/<class>/*.jpg")
    parser.add_argument("--peer-python", metavar="PYTHON", help="has torch, torchvision, datasets and webdataset")
    parser.add_argument("--cases", default=",".join(CASES), metavar="CASE,...", help=", ".join(CASES))
    parser.add_argument("--repeats", type=int, default=5, help="runs of each side, each in its own process")
    parser.add_argument("--threads", type=int, default=2, help="of loaders, and of hashing")
    parser.add_argument("--files", type=int, default=30_000, help="small files of the case open")
    parser.add_argument("--copies", type=int, default=1, help="has each photograph so often, by links")
    parser.add_argument("--peers", default=",".join(FOREIGN), metavar="PEER,...", help=", ".join(FOREIGN))
    parser.add_argument("--work", metavar="DIR", help="for what is made")
    parser.add_argument("--json", action="store_true", help="print the same as one JSON object")

    def run(given: argparse.Namespace) -> None:
        names = given.cases.split(",")
        cases = measure(
            given.photos,
            given.peer_python,
            names,
            given.repeats,
            given.threads,
            given.files,
            given.copies,
            given.peers.split(","),
            given.work,
        )
        found = [dataclasses.asdict(case) | {"ratios": case.ratios()} for case in cases]
        show(_lines(cases), {"cases": found}, given.json)

    return command_line(__file__, argv, parser, run, _work)


if __name__ == "__main__":
    sys.exit(main())

"""Compare packing the same photographs as ImageFolder, Parquet, TFRecord and WebDataset: in turns, medians, spread.

    python benchmarks/pack_inputs.py FOLDER --repeats 5 [--jobs 2] [--copies N] [--files 4] [--work DIR] [--json]

The inputs are made from FOLDER/train/<class>/*.jpg by tarfile, pyarrow (rows of {image: {bytes, path}, label}, row
groups of 100, no compression) and protobuf (tf.train.Example with image/encoded and image/class/label), each in
--files files. Timed is the call that packs one of them, in a fresh process for each repeat, inputs in the page cache
and dirty pages written out before each run. --copies N stores each photograph N times. A ratio is a kind's median by
that of the ImageFolder: below 1 it took less time. Exits with 1 when a pack fails or does not hold every photograph.
"""

from __future__ import annotations

import argparse
import dataclasses
import io
import os
import shutil
import statistics
import struct
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from turns import BenchmarkError, command_line, in_turns, run_worker, show

__all__ = ["Kind", "Result", "measure"]

IMAGEFOLDER = "imagefolder"
GROUP_ROWS = 100
MEGABYTE = 1_000_000


@dataclasses.dataclass(frozen=True)
class Photo:
    """A photograph to store: its bytes lie in the file `path`."""

    path: Path
    name: str
    label: int


@dataclasses.dataclass(frozen=True)
class Kind:
    """How long it took to pack one kind of input: seconds of each repeat."""

    name: str
    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """Of the seconds."""
        return statistics.median(self.seconds)


@dataclasses.dataclass(frozen=True)
class Result:
    """What was found: photographs packed, their bytes, threads, and each kind, the ImageFolder first."""

    photographs: int
    bytes: int
    jobs: int
    kinds: tuple[Kind, ...]

    @property
    def ratios(self) -> dict[str, float]:
        """Each other kind's median by the ImageFolder's."""
        return {f"{kind.name}_ratio": kind.median / self.kinds[0].median for kind in self.kinds[1:]}

    def lines(self) -> Iterator[str]:
        """Yield the table, and the ratios as the last line."""
        yield f"{self.photographs} photographs, {self.bytes / MEGABYTE:.1f} MB; {self.jobs} jobs, warm page cache"
        yield f"{'':12} {'seconds  [min .. max]':26} {'MB/s':>7} {'ratio':>6}"
        for kind in self.kinds:
            spread = f"{kind.median:7.3f}  [{min(kind.seconds):.3f} .. {max(kind.seconds):.3f}]"
            rate = self.bytes / MEGABYTE / kind.median
            yield f"{kind.name:12} {spread:26} {rate:7.1f} {kind.median / self.kinds[0].median:6.2f}"
        yield " ".join(f"{name}={ratio:.2f}" for name, ratio in self.ratios.items())


def measure(
    folder: str | os.PathLike[str],
    repeats: int = 5,
    jobs: int = 2,
    copies: int = 1,
    files: int = 4,
    work: str | os.PathLike[str] | None = None,
) -> Result:
    """Pack the photographs in `folder` from every kind of input, in turns, below `work` (beside it when None).

    Raises:
        BenchmarkError: There are no photographs, a pack fails, or its output does not hold all of them.
    """
    if min(repeats, jobs, copies, files) < 1:
        raise BenchmarkError("repeats, jobs, copies and files must be positive")
    folder = Path(folder).resolve()
    with tempfile.TemporaryDirectory(prefix="pack_inputs.", dir=work or folder.parent) as made:
        photos = list(_photos(folder, copies))
        for name, make in MAKERS.items():
            (Path(made) / name).mkdir()
            for number in range(files):
                make(Path(made) / name, number, photos[number::files])
        runs: dict[str, list[float]] = {name: [] for name in MAKERS}
        for repeat, order in enumerate(in_turns(MAKERS, repeats)):
            for name in order:
                runs[name].append(_run(Path(made) / name, Path(made) / "out", jobs, len(photos)))
            print(f"repeat {repeat + 1}: {', '.join(f'{k} {v[-1]:.2f}' for k, v in runs.items())}", file=sys.stderr)
        size = sum(photo.path.stat().st_size for photo in photos)
    return Result(len(photos), size, jobs, tuple(Kind(name, tuple(seconds)) for name, seconds in runs.items()))


def _photos(folder: Path, copies: int) -> Iterator[Photo]:
    classes = sorted(path for path in (folder / "train").glob("*") if path.is_dir())
    found = [(path, label) for label, one in enumerate(classes) for path in sorted(one.glob("*.jpg"))]
    if not found:
        raise BenchmarkError(f"{folder} has no train/<class>/*.jpg: make it with benchmarks/photos.py")
    for path, label in found:
        for copy in range(copies):
            yield Photo(path, f"{path.parent.name}/{path.stem}-{copy:04d}", label)


def _make_imagefolder(out: Path, number: int, photos: Sequence[Photo]) -> None:
    for photo in photos:
        target = out / "train" / f"{photo.name}.jpg"
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(photo.path, target)


def _make_parquet(out: Path, number: int, photos: Sequence[Photo]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    image = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    schema = pa.schema([("image", image), ("label", pa.int64())])
    with pq.ParquetWriter(
        out / f"train-{number:05d}.parquet", schema, compression="none", use_dictionary=False
    ) as file:
        for start in range(0, len(photos), GROUP_ROWS):
            group = photos[start : start + GROUP_ROWS]
            images = [{"bytes": one.path.read_bytes(), "path": f"{one.name}.jpg"} for one in group]
            file.write_table(pa.table({"image": images, "label": [one.label for one in group]}, schema=schema))


def _make_tfrecord(out: Path, number: int, photos: Sequence[Photo]) -> None:
    from toolkit._native.shards.sums import crc32c
    from toolkit.sources.tfrecords.example import parser

    def masked(data: bytes) -> bytes:
        crc = crc32c(data)
        return struct.pack("<I", ((crc >> 15 | crc << 17 & 0xFFFFFFFF) + 0xA282EAD8) & 0xFFFFFFFF)

    with (out / f"train-{number:05d}.tfrecord").open("wb") as file:
        for photo in photos:
            example = parser()(b"")  # a SequenceExample without lists is an Example
            feature = example.context.feature
            feature["image/encoded"].bytes_list.value.append(photo.path.read_bytes())
            feature["image/class/label"].int64_list.value.append(photo.label)
            payload = example.SerializeToString()
            length = struct.pack("<Q", len(payload))
            file.write(length + masked(length) + payload + masked(payload))


def _make_webdataset(out: Path, number: int, photos: Sequence[Photo]) -> None:
    with tarfile.open(out / f"train-{number:05d}.tar", "w") as archive:
        for photo in photos:
            for extension, data in (("jpg", photo.path.read_bytes()), ("cls", str(photo.label).encode())):
                member = tarfile.TarInfo(f"{photo.name}.{extension}")
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))


MAKERS: dict[str, Callable[[Path, int, Sequence[Photo]], None]] = {
    IMAGEFOLDER: _make_imagefolder,
    "parquet": _make_parquet,
    "tfrecord": _make_tfrecord,
    "webdataset": _make_webdataset,
}


def _run(source: Path, out: Path, jobs: int, photographs: int) -> float:
    """Pack one input in a process of its own; return the seconds of the call."""
    os.sync()
    seconds, samples = run_worker(source.name, __file__, source, out, jobs).split()
    if int(samples) != photographs:
        raise BenchmarkError(f"{source.name}: the output holds {samples} of {photographs} photographs")
    shutil.rmtree(out)
    return float(seconds)


def _work(source: str, out: str, jobs: str) -> int:
    from toolkit.pack.job import PackJob
    from toolkit.pack.run import pack

    job = PackJob(source=source, dataset=out, jobs=int(jobs))
    begun = time.perf_counter()
    result = pack(job)
    print(time.perf_counter() - begun, result.samples)
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return 0, or 1 when a pack failed or is not complete."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="has photographs in train/<class>/*.jpg")
    parser.add_argument("--repeats", type=int, default=5, help="packs of each kind, each in its own process")
    parser.add_argument("--jobs", type=int, default=2, help="slices packed at the same time")
    parser.add_argument("--copies", type=int, default=1, help="stores each photograph so often")
    parser.add_argument("--files", type=int, default=4, help="files of each kind but the ImageFolder")
    parser.add_argument("--work", metavar="DIR", help="for inputs and outputs; the folder that FOLDER is in")
    parser.add_argument("--json", action="store_true", help="print the same as one JSON object")

    def run(given: argparse.Namespace) -> None:
        result = measure(given.folder, given.repeats, given.jobs, given.copies, given.files, given.work)
        show(result.lines(), dataclasses.asdict(result) | {"ratios": result.ratios}, given.json)

    return command_line(__file__, argv, parser, run, _work)


if __name__ == "__main__":
    sys.exit(main())

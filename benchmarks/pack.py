"""Compare packing an ImageFolder of photographs with tar and with other packers: in turns, medians and spread.

    python benchmarks/pack.py FOLDER --repeats 5 [--jobs 2] [--copies N] [--work DIR] [--peer-path DIR] [--json]

Every side stores the photographs of FOLDER/train/<class>/*.jpg as they are, without decoding. Timed is the call that
packs, from listing the files until it returns, in a fresh process for each side and repeat. Start-up and the import of
the packer are left out, but not what it imports later, within the call; the whole process has a column of its own.
The files are in the page cache, and dirty pages are written out before each run. Outputs are counted, and removed,
after each run; that is not timed.

What each side guarantees when it returns differs, and is not evened out: toolkit has hashed and fsynced everything;
tar is followed by sync -f; tee | sha256sum hashes and does not sync; MDSWriter hashes with SHA-256; webdataset and
LitData do not hash; none of these three syncs. LitData starts its workers within the call. --peer-path is the peers'
site directory, as made by pip install --target DIR mosaicml-streaming webdataset litdata; a peer that can't be
imported from it is left out.

--copies N packs each photograph N times under other names, through hard links, so that there is more to write.
The copies share their pages: reading them is as cheap as reading one. A ratio is toolkit's median by that side's: above
1 toolkit took longer. Exits with 1 when a side fails, or its output does not hold every photograph. It must not read
what it checks in full: that would cost more than the packing.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import importlib.metadata
import json
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from turns import BenchmarkError, command_line, environment, in_turns, run_worker, show

__all__ = ["Result", "Side", "measure"]

OURS = "toolkit"
PACKAGES = {"mds": "streaming", "webdataset": "webdataset", "litdata": "litdata"}  # side -> what it imports
DISTRIBUTIONS = {"mds": "mosaicml-streaming", "webdataset": "webdataset", "litdata": "litdata"}
SPLIT = "train"
SHARD_BYTES = 64 << 20  # of MDS and LitData: MDSWriter's default; the others keep defaults of their own
READ_BYTES = 1 << 20
MEGABYTE = 1_000_000

Photo = tuple[str, int]  # its path and its class


@dataclasses.dataclass(frozen=True, kw_only=True)
class Side:
    """One of the things compared.

    Attributes:
        key: Short name, as in the last line of the report.
        name: What was measured, with its version.
        seconds: Of the call, one for each repeat.
        process_seconds: Of the whole process, start-up and imports included.
        samples: How many photographs its output holds.
    """

    key: str
    name: str
    seconds: tuple[float, ...]
    process_seconds: tuple[float, ...]
    samples: int

    @property
    def median(self) -> float:
        """Of the seconds."""
        return statistics.median(self.seconds)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Result:
    """What a comparison found.

    Attributes:
        photographs: How many were packed, copies included.
        bytes: Of all of them.
        jobs: Threads of toolkit, and workers of LitData.
        sides: In the order they were begun with; toolkit is the first.
    """

    photographs: int
    bytes: int
    jobs: int
    sides: tuple[Side, ...]

    @property
    def ratios(self) -> dict[str, float]:
        """toolkit's median by that of each other side."""
        return {f"{side.key}_ratio": self.sides[0].median / side.median for side in self.sides[1:]}

    def lines(self) -> Iterator[str]:
        """Yield the table, and the ratios as the last line."""
        size = f"{self.bytes / MEGABYTE:.1f} MB"
        yield f"{self.photographs} photographs, {size}, kept as they are; {self.jobs} jobs, warm page cache"
        width = max(len(side.name) for side in self.sides)
        yield f"{'':{width}}  {'seconds  [min .. max]':26}  {'MB/s':>7}  {'ratio':>5}  whole process"
        for side in self.sides:
            spread = f"{side.median:7.3f}  [{min(side.seconds):.3f} .. {max(side.seconds):.3f}]"
            rate = self.bytes / MEGABYTE / side.median
            ratio = self.sides[0].median / side.median
            whole = statistics.median(side.process_seconds)
            yield f"{side.name:{width}}  {spread:26}  {rate:7.1f}  {ratio:5.2f}  {whole:.3f} s"
        yield " ".join(f"{name}={ratio:.2f}" for name, ratio in self.ratios.items())


def measure(
    folder: str | os.PathLike[str],
    repeats: int = 5,
    jobs: int = 2,
    copies: int = 1,
    work: str | os.PathLike[str] | None = None,
    peer_path: str | None = None,
) -> Result:
    """Pack `copies` of the photographs in `folder` with every side, in turns, below `work` (beside it when None).

    Raises:
        BenchmarkError: There are no photographs, a side fails, or its output does not hold all of them.
    """
    if min(repeats, jobs, copies) < 1:
        raise BenchmarkError(f"repeats {repeats}, jobs {jobs} and copies {copies} must be positive")
    folder = Path(folder).resolve()
    with tempfile.TemporaryDirectory(prefix="pack_bench.", dir=work or folder.parent) as made:
        source, out = Path(made, "source"), Path(made, "out")
        photographs, size = _prepare(folder, copies, source)
        names = _names(peer_path)
        runs: dict[str, list[dict[str, float]]] = {key: [] for key in names}
        for repeat, order in enumerate(in_turns(names, repeats)):
            for key in order:
                out.mkdir()
                os.sync()
                runs[key].append(_run(key, source, out, jobs, peer_path))
                _check(key, out, photographs)
                shutil.rmtree(out)
            said = ", ".join(f"{key} {found[-1]['seconds']:.2f}" for key, found in runs.items())
            print(f"pack: repeat {repeat + 1} of {repeats}, seconds: {said}", file=sys.stderr)
    sides = [
        Side(
            key=key,
            name=name,
            seconds=tuple(run["seconds"] for run in runs[key]),
            process_seconds=tuple(run["process_seconds"] for run in runs[key]),
            samples=photographs,
        )
        for key, name in names.items()
    ]
    return Result(photographs=photographs, bytes=size, jobs=jobs, sides=tuple(sides))


def _prepare(folder: Path, copies: int, source: Path) -> tuple[int, int]:
    """Link `copies` of each photograph into `source` and read them once; return how many, and their bytes."""
    photographs = sorted(path for path in (folder / SPLIT).glob("*/*.jpg") if path.is_file())
    if not photographs:
        raise BenchmarkError(f"{folder} has no {SPLIT}/<class>/*.jpg: make it with benchmarks/photos.py")
    size = 0
    for path in photographs:
        target = source / SPLIT / path.parent.name
        target.mkdir(parents=True, exist_ok=True)
        for copy in range(copies):
            link = target / f"{path.stem}-{copy:04d}.jpg"
            try:
                os.link(path, link)
            except OSError as error:
                raise BenchmarkError(f"no hard links to {path}: give a --work on its file system ({error})") from error
            with link.open("rb") as file:
                while data := file.read(READ_BYTES):
                    size += len(data)
    return len(photographs) * copies, size


def _names(peer_path: str | None) -> dict[str, str]:
    """Return the sides that can be run, with their names; say which peers can't be imported."""
    tar = subprocess.run(["tar", "--version"], capture_output=True, text=True, check=False).stdout.split("\n")[0]
    if "GNU tar" not in tar:
        raise BenchmarkError("tar is not GNU tar: it has to store hard links as files")
    names = {
        OURS: f"{OURS} {importlib.metadata.version(OURS)}",
        "tar": "tar, sync -f",
        "tee_sha256": "tar | tee | sha256sum",
    }
    for key in PACKAGES if peer_path else ():
        try:
            version = run_worker(
                f"{DISTRIBUTIONS[key]} is left out", __file__, "import", key, env=_environment(key, peer_path, None)
            )
            names[key] = f"{DISTRIBUTIONS[key]} {version.splitlines()[-1]}"
        except BenchmarkError as error:
            print(f"pack: {error}", file=sys.stderr)
    return names


def _run(key: str, source: Path, out: Path, jobs: int, peer_path: str | None) -> dict[str, float]:
    """Run one side in a process of its own; return its seconds, and those of the process."""
    env = _environment(key, peer_path, out)
    begun = time.perf_counter()
    said = run_worker(key, __file__, key, source, out, jobs, env=env)
    whole = time.perf_counter() - begun
    return {"seconds": float(said.splitlines()[-1]), "process_seconds": whole}


def _environment(key: str, peer_path: str | None, out: Path | None) -> dict[str, str]:
    """Return the environment of a side's process. Only the peers see their site directory."""
    root = Path(peer_path).resolve() if peer_path and key in PACKAGES else Path(__file__).parents[1]
    env = environment(str(root), LITDATA_DISABLE_VERSION_CHECK="1")
    if out is not None:  # LitData's temporary files belong beside its output, not into /tmp
        env["DATA_OPTIMIZER_CACHE_FOLDER"] = str(out / "cache")
        env["DATA_OPTIMIZER_DATA_CACHE_FOLDER"] = str(out / "cache-data")
    return env


def _check(key: str, out: Path, photographs: int) -> None:
    """Count what one side's output holds, without reading the photographs again.

    Raises:
        BenchmarkError: It is not all of them, or toolkit's dataset does not verify.
    """
    samples = COUNTERS[key](out)
    if samples != photographs:
        raise BenchmarkError(f"{key}: the output holds {samples} of {photographs} photographs")


def _count_toolkit(out: Path) -> int:
    from toolkit.checks.verify import verify

    result = verify(out / "dataset")
    if result.findings:
        raise BenchmarkError(f"{OURS}: {result.findings[0].message}")
    return result.samples


def _count_tars(out: Path) -> int:
    samples = 0
    for path in out.glob("*.tar"):
        with tarfile.open(path) as archive:
            samples += sum(member.isreg() and member.name.endswith(".jpg") and member.size > 0 for member in archive)
    return samples


def _count_index(index: Path, parts: str, count: str) -> int:
    return sum(part[count] for part in json.loads(index.read_text(encoding="utf-8"))[parts])


COUNTERS: dict[str, Callable[[Path], int]] = {
    OURS: _count_toolkit,
    "tar": _count_tars,
    "tee_sha256": _count_tars,
    "mds": lambda out: _count_index(out / "mds" / "index.json", "shards", "samples"),
    "webdataset": _count_tars,
    "litdata": lambda out: _count_index(out / "litdata" / "index.json", "chunks", "chunk_size"),
}


# --- what runs in the measured processes ---------------------------------------------------------------------------


def _work(key: str, *arguments: str) -> int:
    """Run one side and print its seconds; or, for `import`, print the version of a peer."""
    if key == "import":
        importlib.import_module(PACKAGES[arguments[0]])
        print(importlib.metadata.version(DISTRIBUTIONS[arguments[0]]))
        return 0
    call = SIDES[key](Path(arguments[0]), Path(arguments[1]), int(arguments[2]))
    begun = time.perf_counter()
    call()
    print(time.perf_counter() - begun)
    return 0


def _toolkit_side(source: Path, out: Path, jobs: int) -> Callable[[], object]:
    from toolkit.pack.job import PackJob
    from toolkit.pack.run import pack

    return lambda: pack(PackJob(source=str(source), dataset=str(out / "dataset"), jobs=jobs))


def _tar_side(source: Path, out: Path, jobs: int) -> Callable[[], object]:
    target = shlex.quote(str(out / "photos.tar"))
    return _shell(f"tar --hard-dereference -cf {target} -C {shlex.quote(str(source))} . && sync -f {target}")


def _tee_side(source: Path, out: Path, jobs: int) -> Callable[[], object]:
    target, sums = shlex.quote(str(out / "photos.tar")), shlex.quote(str(out / "photos.sha256"))
    return _shell(f"tar --hard-dereference -cf - -C {shlex.quote(str(source))} . | tee {target} | sha256sum > {sums}")


def _shell(command: str) -> Callable[[], object]:
    return lambda: subprocess.run(["bash", "-o", "pipefail", "-c", command], check=True)


def _mds_side(source: Path, out: Path, jobs: int) -> Callable[[], object]:
    from streaming import MDSWriter

    def pack() -> None:
        columns = {"image": "bytes", "label": "int"}
        with MDSWriter(out=str(out / "mds"), columns=columns, hashes=["sha256"], size_limit=SHARD_BYTES) as writer:
            for path, label in _photos(source):
                writer.write({"image": Path(path).read_bytes(), "label": label})

    return pack


def _webdataset_side(source: Path, out: Path, jobs: int) -> Callable[[], object]:
    from webdataset import ShardWriter

    def pack() -> None:
        with ShardWriter(str(out / "photos-%06d.tar"), verbose=0) as writer:
            for number, (path, label) in enumerate(_photos(source)):
                writer.write({"__key__": f"{number:09d}", "jpg": Path(path).read_bytes(), "cls": label})

    return pack


def _litdata_side(source: Path, out: Path, jobs: int) -> Callable[[], object]:
    from litdata import optimize

    def pack() -> None:
        target = str(out / "litdata")
        optimize(_litdata_sample, _photos(source), target, chunk_bytes=SHARD_BYTES, num_workers=jobs, verbose=False)

    return pack


def _litdata_sample(photo: Photo) -> dict[str, Any]:
    """Return what LitData stores of a photograph. Its workers import it by name."""
    path, label = photo
    return {"image": Path(path).read_bytes(), "label": label}


def _photos(source: Path) -> list[Photo]:
    """List the photographs for a peer, in order."""
    found: list[Photo] = []
    for label, folder in enumerate(sorted(entry.path for entry in os.scandir(source / SPLIT))):
        found += ((path, label) for path in sorted(entry.path for entry in os.scandir(folder)))
    return found


SIDES: dict[str, Callable[[Path, Path, int], Callable[[], object]]] = {
    OURS: _toolkit_side,
    "tar": _tar_side,
    "tee_sha256": _tee_side,
    "mds": _mds_side,
    "webdataset": _webdataset_side,
    "litdata": _litdata_side,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return 0, or 1 when a side failed or its output is not complete."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, metavar="FOLDER", help=f"has photographs in {SPLIT}/<class>/*.jpg")
    parser.add_argument("--repeats", type=int, default=5, help="packs of each side, each in its own process")
    parser.add_argument("--jobs", type=int, default=2, help="threads of toolkit, and workers of LitData")
    parser.add_argument("--copies", type=int, default=1, help="packs each photograph so often, through hard links")
    parser.add_argument("--work", metavar="DIR", help="for the links and the outputs; the folder that FOLDER is in")
    parser.add_argument("--peer-path", metavar="DIR", help="a site directory with other packers, measured as well")
    parser.add_argument("--json", action="store_true", help="print the same as one JSON object")

    def run(given: argparse.Namespace) -> None:
        result = measure(given.folder, given.repeats, given.jobs, given.copies, given.work, given.peer_path)
        show(result.lines(), dataclasses.asdict(result) | {"ratios": result.ratios}, given.json)

    return command_line(__file__, argv, parser, run, _work)


if __name__ == "__main__":
    sys.exit(main())

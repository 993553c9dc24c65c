"""Compare toolkit.writer with MDSWriter of mosaicml-streaming: photographs, and records of 200 bytes, in turns.

    python benchmarks/writer.py PHOTOS --peer-python PYTHON [--repeats 5] [--copies N] [--records N]
        [--work DIR] [--json]

PYTHON is an interpreter that has mosaicml-streaming. Photographs are PHOTOS/train/<class>/*.jpg, each written N times
with an id; they are in memory before the clock starts. MDSWriter writes with hashes=["sha256"], and its files and
their folder are fsynced behind it, since toolkit's are. A run is a fresh process, timed from making the writer to the
end of its block, with all imports done; dirty pages are written out before. A ratio is toolkit's time by MDSWriter's,
the median of the repeats' ratios: below 1 toolkit took less. Exits with 1 when a side fails.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from turns import BenchmarkError, command_line, environment, in_turns, reason, show, worker_command

__all__ = ["Case", "Result", "measure"]

SIDES = ("toolkit", "mds")
RECORD_BYTES = 200
DIFFERENT = 4096  # records that are different; more of them are the same again


@dataclasses.dataclass(frozen=True)
class Case:
    """What one kind of records took: how many they were, and seconds of each repeat of each side."""

    name: str
    records: int
    toolkit: tuple[float, ...]
    mds: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """toolkit's time by MDSWriter's, the median of the repeats."""
        return statistics.median(one / other for one, other in zip(self.toolkit, self.mds, strict=True))


@dataclasses.dataclass(frozen=True)
class Result:
    """What was found."""

    cases: tuple[Case, ...]

    def lines(self) -> Iterator[str]:
        """Yield the table, and the ratios as the last line."""
        yield f"{'':14} {'records':>8} {'toolkit s':>10} {'MDSWriter s':>12} {'us a record':>12} {'ratio':>6}"
        for case in self.cases:
            mine, theirs = statistics.median(case.toolkit), statistics.median(case.mds)
            each = f"{mine / case.records * 1e6:.1f}"
            yield f"{case.name:14} {case.records:8} {mine:10.3f} {theirs:12.3f} {each:>12} {case.ratio:6.2f}"
        yield " ".join(f"{case.name}_ratio={case.ratio:.2f}" for case in self.cases)


def measure(
    photos: str | os.PathLike[str],
    peer_python: str,
    repeats: int = 5,
    copies: int = 1,
    records: int = 200_000,
    work: str | os.PathLike[str] | None = None,
) -> Result:
    """Write both kinds of records with both writers, in turns, below `work` (beside `photos` when None).

    Raises:
        BenchmarkError: There are no photographs, or a side fails.
    """
    if min(repeats, copies, records) < 1:
        raise BenchmarkError("repeats, copies and records must be positive")
    folder = Path(photos).resolve()
    cases = []
    with tempfile.TemporaryDirectory(prefix="writer.", dir=work or folder.parent) as made:
        out = Path(made) / "out"
        for name, count in (("photographs", len(_photos(folder)) * copies), ("small", records)):
            runs: dict[str, list[float]] = {side: [] for side in SIDES}
            for repeat, order in enumerate(in_turns(SIDES, repeats)):
                for side in order:
                    python = sys.executable if side == "toolkit" else peer_python
                    runs[side].append(_run(python, side, name, folder, out, copies, records))
                said = ", ".join(f"{side} {found[-1]:.2f}" for side, found in runs.items())
                print(f"{name}, repeat {repeat + 1}: {said}", file=sys.stderr)
            cases.append(Case(name, count, tuple(runs["toolkit"]), tuple(runs["mds"])))
    return Result(tuple(cases))


def _photos(folder: Path) -> list[tuple[Path, int]]:
    classes = sorted(path for path in (folder / "train").glob("*") if path.is_dir())
    found = [(path, label) for label, one in enumerate(classes) for path in sorted(one.glob("*.jpg"))]
    if not found:
        raise BenchmarkError(f"{folder} has no train/<class>/*.jpg: make it with benchmarks/photos.py")
    return found


def _run(python: str, side: str, name: str, folder: Path, out: Path, copies: int, records: int) -> float:
    """Write in a process of its own; return the seconds."""
    os.sync()
    command = [python, *worker_command(__file__, side, name, folder, out, copies, records)[1:]]
    env = environment(str(Path(__file__).parents[1])) if side == "toolkit" else None
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    if done.returncode != 0:
        raise BenchmarkError(f"{side}: {reason(done.stderr, done.returncode)}")
    shutil.rmtree(out)
    return float(done.stdout.split()[-1])


def _records(name: str, folder: str, copies: str, records: str) -> tuple[list[tuple[bytes, int]], int]:
    """Return different records, and how often they are written."""
    if name == "photographs":
        return [(path.read_bytes(), label) for path, label in _photos(Path(folder))], int(copies)
    rng = random.Random(0)
    return [(rng.randbytes(RECORD_BYTES), number) for number in range(DIFFERENT)], -(-int(records) // DIFFERENT)


def _work(side: str, name: str, folder: str, out: str, copies: str, records: str) -> int:
    given, times = _records(name, folder, copies, records)
    most = int(records) if name == "small" else len(given) * times
    write = _write_toolkit if side == "toolkit" else _write_mds
    print(write(given, times, most, out, name))
    return 0


def _write_toolkit(given: Sequence[tuple[bytes, int]], times: int, most: int, out: str, name: str) -> float:
    import toolkit

    kind = "image" if name == "photographs" else "bytes"
    make = toolkit.writer  # imported now, as MDSWriter is
    begun = time.perf_counter()
    with make(out, columns={"data": kind, "label": "int64"}) as w:
        left = most
        for _ in range(times):
            for data, label in given[:left]:
                w.add(data=data, label=label)
            left -= len(given[:left])
    return time.perf_counter() - begun


def _write_mds(given: Sequence[tuple[bytes, int]], times: int, most: int, out: str, name: str) -> float:
    from streaming import MDSWriter

    begun = time.perf_counter()
    with MDSWriter(out=out, columns={"data": "bytes", "label": "int"}, hashes=["sha256"]) as w:
        left = most
        for _ in range(times):
            for data, label in given[:left]:
                w.write({"data": data, "label": label})
            left -= len(given[:left])
    for path in (*Path(out).iterdir(), Path(out)):
        fd = os.open(path, os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)
    return time.perf_counter() - begun


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return 0, or 1 when a side failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("photos", type=Path, metavar="PHOTOS", help="has photographs in train/<class>/*.jpg")
    parser.add_argument("--peer-python", required=True, metavar="PYTHON", help="has mosaicml-streaming")
    parser.add_argument("--repeats", type=int, default=5, help="runs of each side, each in its own process")
    parser.add_argument("--copies", type=int, default=1, help="writes each photograph so often")
    parser.add_argument("--records", type=int, default=200_000, help="records of 200 bytes")
    parser.add_argument("--work", metavar="DIR", help="for outputs; the folder that PHOTOS is in")
    parser.add_argument("--json", action="store_true", help="print the same as one JSON object")

    def run(given: argparse.Namespace) -> None:
        result = measure(given.photos, given.peer_python, given.repeats, given.copies, given.records, given.work)
        ratios = {f"{case.name}_ratio": case.ratio for case in result.cases}
        show(result.lines(), dataclasses.asdict(result) | {"ratios": ratios}, given.json)

    return command_line(__file__, argv, parser, run, _work)


if __name__ == "__main__":
    sys.exit(main())

"""Measure the memory a pack takes as its input grows: many tiny records, and few large ones.

    python benchmarks/pack_memory.py [--kinds tfrecord parquet webdataset imagefolder] [--full] [--work DIR] [--json]

Each run packs one generated input in a process of its own with one job. Its anonymous and shared memory (RssAnon and
RssShmem of /proc/PID/status) is looked at every 5 ms; pages of mapped files are left out, which the system takes back
when it needs them. `peak` is the most that was seen; `above start` is less what the process had after its imports.

Tiny records have a number and a text of 8 bytes: 10^4, 10^5 and 10^6 of them, with --full 10^7 too (not in tars or as
files, of which 10^5 is the most without --full and 10^6 with it). Large ones are rows of 1 and 100 MiB, with --full
one of 1.5 GiB. Linux only.
"""

from __future__ import annotations

import argparse
import dataclasses
import io
import json
import os
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from turns import BenchmarkError, command_line, worker_command

__all__ = ["Run", "measure"]

MEBIBYTE = 1 << 20
SAMPLE_SECONDS = 0.005
TINY = (10_000, 100_000, 1_000_000)
FULL = 10_000_000
MOST_FILES = 100_000
MOST_FILES_FULL = 1_000_000
BATCH = 10_000


@dataclasses.dataclass(frozen=True)
class Run:
    """What one pack took. Bytes of memory; `records` of `record_bytes` each."""

    kind: str
    records: int
    record_bytes: int
    seconds: float
    peak: int
    start: int

    def line(self) -> str:
        """Return the run's line of the table."""
        above = (self.peak - self.start) / MEBIBYTE
        size = f"{self.record_bytes / MEBIBYTE:.0f} MiB" if self.record_bytes >= MEBIBYTE else f"{self.record_bytes} B"
        return (
            f"{self.kind:12} {self.records:>10,} x {size:>8} {self.seconds:9.2f} s "
            f"{self.peak / MEBIBYTE:8.1f} MiB {above:8.1f} MiB"
        )


# --- inputs ---------------------------------------------------------------------------------------------------------


def _tfrecords(out: Path, records: int, size: int) -> None:
    from toolkit._native.shards.sums import crc32c
    from toolkit.sources.tfrecords.example import parser

    def masked(data: bytes) -> bytes:
        crc = crc32c(data)
        return struct.pack("<I", ((crc >> 15 | crc << 17 & 0xFFFFFFFF) + 0xA282EAD8) & 0xFFFFFFFF)

    with (out / "tiny.tfrecord").open("wb", buffering=MEBIBYTE) as file:
        for number, payload in enumerate(_payloads(records, size)):
            example = parser()(b"")
            example.context.feature["n"].int64_list.value.append(number)
            example.context.feature["data"].bytes_list.value.append(payload)
            data = example.SerializeToString()
            length = struct.pack("<Q", len(data))
            file.write(length + masked(length) + data + masked(data))


def _parquet(out: Path, records: int, size: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([("n", pa.int64()), ("data", pa.binary())])
    rows = BATCH if size < MEBIBYTE else 1
    with pq.ParquetWriter(out / "tiny.parquet", schema, compression="none", use_dictionary=False) as file:
        for start in range(0, records, rows):
            numbers = list(range(start, min(start + rows, records)))
            data = [_payload(number, size) for number in numbers]
            file.write_table(pa.table({"n": numbers, "data": data}, schema=schema))


def _webdataset(out: Path, records: int, size: int) -> None:
    with tarfile.open(out / "tiny.tar", "w", bufsize=MEBIBYTE) as archive:
        for number in range(records):
            member = tarfile.TarInfo(f"{number:08d}.bin")
            member.size = size
            archive.addfile(member, io.BytesIO(_payload(number, size)))
            archive.members = []  # type: ignore[assignment]  # tarfile keeps all of them


def _imagefolder(out: Path, records: int, size: int) -> None:
    from PIL import Image

    for number in range(records):
        folder = out / f"class{number % 100:02d}"
        if number < 100:
            folder.mkdir()
            Image.new("L", (1, 1)).save(folder / "first.png")
        else:
            os.link(folder / "first.png", folder / f"{number:08d}.png")


def _payloads(records: int, size: int) -> Iterator[bytes]:
    return (_payload(number, size) for number in range(records))


def _payload(number: int, size: int) -> bytes:
    return struct.pack("<Q", number) + bytes(size - 8)


MAKERS: dict[str, Callable[[Path, int, int], None]] = {
    "tfrecord": _tfrecords,
    "parquet": _parquet,
    "webdataset": _webdataset,
    "imagefolder": _imagefolder,
}


# --- runs -----------------------------------------------------------------------------------------------------------


def cases(kinds: Sequence[str], full: bool) -> Iterator[tuple[str, int, int]]:
    """Yield (kind, records, bytes of a record)."""
    for kind in kinds:
        as_files = kind in ("webdataset", "imagefolder")
        most = (MOST_FILES_FULL if full else MOST_FILES) if as_files else FULL
        for records in (*TINY, *([FULL] if full else [])):
            if records <= most:
                yield kind, records, 8
        if kind != "imagefolder":
            yield kind, 300, MEBIBYTE
            yield kind, 5, 100 * MEBIBYTE
            if full:
                yield kind, 1, 1536 * MEBIBYTE


def measure(kind: str, records: int, size: int, work: str | os.PathLike[str] | None = None) -> Run:
    """Make an input below `work`, pack it, and return what that took. Raises BenchmarkError."""
    with tempfile.TemporaryDirectory(prefix="pack_memory.", dir=work) as made:
        source = Path(made, "source")
        source.mkdir()
        MAKERS[kind](source, records, size)
        command = worker_command(__file__, source, Path(made, "out"))
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            if process.stdout.readline() != "ready\n":
                raise BenchmarkError(f"{kind} of {records}: the process didn't start")
            start = peak = _anonymous(process.pid)
            begun = time.perf_counter()
            process.stdin.write("go\n")
            process.stdin.flush()
            while process.poll() is None:
                peak = max(peak, _anonymous(process.pid))
                time.sleep(SAMPLE_SECONDS)
            seconds = time.perf_counter() - begun
            packed = process.stdout.read().strip()
        if process.returncode != 0 or packed != str(records):
            raise BenchmarkError(f"{kind} of {records} x {size} bytes: exit {process.returncode}, packed {packed!r}")
        shutil.rmtree(source)
    return Run(kind, records, size, seconds, peak, start)


def _anonymous(pid: int) -> int:
    """Return the anonymous and shared memory of a process; 0 when it has ended."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii") as file:
            return sum(int(line.split()[1]) for line in file if line.startswith(("RssAnon", "RssShmem"))) * 1024
    except (FileNotFoundError, ProcessLookupError):
        return 0


def _work(source: str, out: str) -> int:
    from toolkit.pack.job import PackJob
    from toolkit.pack.run import pack

    print("ready", flush=True)
    sys.stdin.readline()
    print(pack(PackJob(source=source, dataset=out)).samples)
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return 0, or 1 when a pack failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kinds", nargs="+", choices=list(MAKERS), default=list(MAKERS), help="kinds of input")
    parser.add_argument("--full", action="store_true", help="10^7 records and one of 1.5 GiB as well: takes an hour")
    parser.add_argument("--records", type=int, nargs="+", help="only these numbers of tiny records")
    parser.add_argument("--work", metavar="DIR", help="for inputs and outputs; the system's temporary folder")
    parser.add_argument("--json", action="store_true", help="print the same as JSON, a line each")

    def run(given: argparse.Namespace) -> None:
        wanted = (
            [(kind, records, 8) for kind in given.kinds for records in given.records]
            if given.records
            else cases(given.kinds, given.full)
        )
        if not given.json:
            print(f"{'':12} {'records':>10}   {'of':>8} {'time':>11} {'peak':>12} {'above start':>12}")
        for case in wanted:
            found = measure(*case, given.work)
            print(json.dumps(dataclasses.asdict(found)) if given.json else found.line(), flush=True)

    return command_line(__file__, argv, parser, run, _work)


if __name__ == "__main__":
    sys.exit(main())

"""Compare loading records of bytes with a loop in C and with other loaders, every byte read on every side.

    python benchmarks/loader.py FOLDER --peer-path DIR

The records are cut from the files in FOLDER (photographs, as benchmarks/photos.py makes them). Each side has them in
its own format. Every repeat runs every side in a process of its own, in turns: shuffled batches over several epochs on
one thread, the page cache warm; and random single records. The consumer adds up all bytes it gets, so that nothing is
left unread, and the sums of all sides must agree.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib
import importlib.metadata
import json
import mmap
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from ctypes import CDLL, byref, c_char_p, c_int64, c_uint64, c_void_p
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

RECORD_BYTES = 8500
SEED = 7
EPOCHS = 4  # one that is checked for the first time, three of checked bytes
SINGLES = 20_000  # random records, one at a time

# Side -> (distribution, module). The others need nothing.
PEERS = {
    "mx8": ("mx8", "mx8"),
    "webdataset": ("webdataset", "webdataset"),
    "mds": ("mosaicml-streaming", "streaming"),
    "arrayrecord": ("array-record", "array_record.python.array_record_module"),
    "hf": ("datasets", "datasets"),
}


class LoaderBenchError(Exception):
    """The comparison cannot be made, or a side did not deliver every byte; the text says what and where."""


class Baseline:
    """The loops of loader_baseline.c."""

    def __init__(self, library: str) -> None:
        self._library = CDLL(library)
        self._library.sum_bytes.restype = self._library.sum_values.restype = c_uint64
        self._library.gather.restype = c_int64
        self._library.gather_crc.restype = c_int64

    @staticmethod
    def compile(folder: Path) -> str:
        """Compile the loops; return the library's path."""
        source, target = Path(__file__).with_name("loader_baseline.c"), folder / "baseline.so"
        command = ["cc", "-O3", "-march=native", "-shared", "-fPIC", str(source), "-o", str(target)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise LoaderBenchError(f"{source.name} does not compile: {done.stderr.strip()}")
        return str(target)

    def sum(self, values: bytes | NDArray[np.uint8] | Sequence[bytes]) -> int:
        """Return the sum of all bytes, of one block or of many values."""
        if isinstance(values, bytes):
            return int(self._library.sum_bytes(c_char_p(values), c_int64(len(values))))
        if isinstance(values, np.ndarray):
            return int(self._library.sum_bytes(_pointer(values), c_int64(len(values))))
        lengths = np.fromiter(map(len, values), np.int64, len(values))
        places = (c_char_p * len(values))(*values)
        return int(self._library.sum_values(places, _pointer(lengths), c_int64(len(values))))

    def gather(
        self, data: NDArray[np.uint8], starts: NDArray[np.int64], rows: NDArray[np.int64], out: NDArray[np.uint8]
    ) -> int:
        """Copy the records `rows` to `out`; return how many bytes."""
        return int(self._library.gather(*map(_pointer, (data, starts, rows)), c_int64(len(rows)), _pointer(out)))

    def gather_crc(
        self, data: NDArray[np.uint8], starts: NDArray[np.int64], rows: NDArray[np.int64], out: NDArray[np.uint8]
    ) -> int:
        """The same, with a checksum of each."""
        crc = c_uint64()
        given = (*map(_pointer, (data, starts, rows)), c_int64(len(rows)), _pointer(out))
        return int(self._library.gather_crc(*given, byref(crc)))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Side:
    """One of the things compared: samples a second of each repeat."""

    key: str
    name: str
    first: tuple[float, ...]
    later: tuple[float, ...]
    single: tuple[float, ...]


def measure(
    folder: Path, *, records: int, batch_size: int, repeats: int, peer_paths: Sequence[str], work: Path | None
) -> list[Side]:
    """Run every side `repeats` times in turns; return what was measured, toolkit first.

    Raises:
        LoaderBenchError: There is too little to cut records from, a side fails, or bytes are missing.
    """
    with tempfile.TemporaryDirectory(prefix="loader_bench.", dir=work) as made:
        place = Path(made)
        total = _cut(folder, records, place / "records.npy")
        library = Baseline.compile(place)
        names = _names(peer_paths)
        runs: dict[str, list[dict[str, float]]] = {key: [] for key in names}
        for key in names:
            _run(key, "build", place, library, batch_size, peer_paths)
        for repeat in range(repeats):
            for turn in range(len(names)):
                key = list(names)[(repeat + turn) % len(names)]
                found = _run(key, "read", place, library, batch_size, peer_paths)
                if "sum" in found and int(found["sum"]) != total * EPOCHS:
                    raise LoaderBenchError(f"{key}: the bytes add up to {found['sum']}, not to {total * EPOCHS}")
                runs[key].append(found)
            print(f"loader: repeat {repeat + 1} of {repeats}", file=sys.stderr)
    return [
        Side(
            key=key,
            name=name,
            **{what: tuple(run[what] for run in runs[key] if what in run) for what in ("first", "later", "single")},
        )
        for key, name in names.items()
    ]


def table(sides: Sequence[Side]) -> Iterator[str]:
    """Yield a line a side: medians with their spread, and what toolkit's are of them."""
    width = max(len(side.name) for side in sides)
    titles = {"first": "first epoch", "later": "later epochs", "single": "one at a time"}
    yield f"{'samples a second':{width}}  " + "".join(f"{title:>38}" for title in titles.values())
    for side in sides:
        cells = []
        for what in titles:
            values, ours = getattr(side, what), getattr(sides[0], what)
            if not values:
                cells.append(f"{'-':>38}")
                continue
            median = statistics.median(values)
            ratio = statistics.median(ours) / median
            cells.append(f"{median:10,.0f} [{min(values):9,.0f}..{max(values):9,.0f}]{ratio:5.2f}x")
        yield f"{side.name:{width}}  " + "".join(f"{cell:>38}" for cell in cells)


def _cut(folder: Path, records: int, target: Path) -> int:
    """Cut records out of the folder's files and save them, uint8 (records, RECORD_BYTES); return the sum of bytes."""
    wanted, parts, size = records * RECORD_BYTES, [], 0
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        if size >= wanted:
            break
        parts.append(np.fromfile(path, np.uint8))
        size += len(parts[-1])
    if not size:
        raise LoaderBenchError(f"{folder} has no files: make some with benchmarks/photos.py")
    flat = np.concatenate(parts)
    flat = np.tile(flat, -(-wanted // len(flat)))[:wanted]  # repeated where the folder holds less
    np.save(target, flat.reshape(records, RECORD_BYTES))
    return int(flat.sum(dtype=np.uint64))


def _names(peer_paths: Sequence[str]) -> dict[str, str]:
    names = {
        "toolkit": f"toolkit {importlib.metadata.version('toolkit')}",
        "gather": "loop in C",
        "gather_crc": "loop in C with CRC32C",
    }
    for key, (distribution, module) in PEERS.items():
        code = f"import {module}, importlib.metadata; print(importlib.metadata.version({distribution!r}))"
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=_environment(key, peer_paths)
        )
        if done.returncode == 0:
            names[key] = f"{distribution} {done.stdout.split()[-1]}"
        else:
            print(
                f"loader: {distribution} is left out: {(done.stderr.strip().splitlines() or ['?'])[-1]}",
                file=sys.stderr,
            )
    return names


def _environment(key: str, peer_paths: Sequence[str]) -> dict[str, str]:
    roots = [str(Path(path).resolve()) for path in peer_paths] if key in PEERS else [str(Path(__file__).parents[1])]
    roots += filter(None, [os.environ.get("PYTHONPATH")])
    return os.environ | {"PYTHONPATH": os.pathsep.join(roots), "HF_HUB_OFFLINE": "1"}


def _run(
    key: str, action: str, place: Path, library: str, batch_size: int, peer_paths: Sequence[str]
) -> dict[str, float]:
    command = [sys.executable, __file__, "--worker", key, action, str(place), library, str(batch_size)]
    environment = _environment(key, peer_paths) | {"MX8_MANIFEST_STORE_ROOT": str(place / "mx8-store")}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise LoaderBenchError(f"{key}, {action}: " + (done.stderr.strip() or "?").splitlines()[-1])
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


# --- what runs in the measured processes ---------------------------------------------------------------------------


def _work(key: str, action: str, place: str, library: str, batch_size: str) -> int:
    build, batches, single = WORKERS[key]
    folder = Path(place)
    if action == "build":
        records = np.load(folder / "records.npy", mmap_mode="r")
        with contextlib.redirect_stdout(sys.stderr):
            build(records, folder)
        print("{}")
        return 0
    baseline = Baseline(library)
    found: dict[str, float] = {}
    samples = len(np.load(folder / "records.npy", mmap_mode="r"))
    if batches is not None:
        with contextlib.redirect_stdout(sys.stderr):
            epoch = batches(folder, int(batch_size), baseline)
        seconds, total = [], 0
        for number in range(EPOCHS):
            begun = time.perf_counter()
            for values in epoch(number):
                total += baseline.sum(values)
            seconds.append(time.perf_counter() - begun)
        found |= {"first": samples / seconds[0], "later": samples / statistics.median(seconds[1:]), "sum": total}
    if single is not None:
        with contextlib.redirect_stdout(sys.stderr):
            get = single(folder)
        rows = np.random.default_rng(SEED).integers(0, samples, SINGLES).tolist()
        begun = time.perf_counter()
        for row in rows:
            get(row)
        found["single"] = SINGLES / (time.perf_counter() - begun)
    print(json.dumps(found))
    return 0


Batches = Iterable[bytes | NDArray[np.uint8] | Sequence[bytes]]
Records = NDArray[np.uint8]


def _nothing(records: Records, place: Path) -> None:
    pass


def _toolkit_build(records: Records, place: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from toolkit.pack.job import PackJob
    from toolkit.pack.run import pack

    pq.write_table(pa.table({"data": pa.array([row.tobytes() for row in records], pa.binary())}), place / "in.parquet")
    pack(PackJob(source=str(place / "in.parquet"), dataset=str(place / "toolkit")))
    (place / "in.parquet").unlink()


def _toolkit_batches(place: Path, batch_size: int, baseline: Baseline) -> Callable[[int], Batches]:
    import toolkit

    loader = toolkit.open(place / "toolkit").loader(batch_size=batch_size, shuffle="full", seed=SEED, threads=1)
    return lambda epoch: (batch["data"].data for batch in loader)


def _toolkit_single(place: Path) -> Callable[[int], Any]:
    import toolkit

    return toolkit.open(place / "toolkit").__getitem__


def _gather_build(records: Records, place: Path) -> None:
    records.tofile(place / "records.bin")


def _gather(checked: bool) -> Callable[[Path, int, Baseline], Callable[[int], Batches]]:
    def batches(place: Path, batch_size: int, baseline: Baseline) -> Callable[[int], Batches]:
        with open(place / "records.bin", "rb") as file:
            data = np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)
        starts = np.arange(0, len(data) + 1, RECORD_BYTES, dtype=np.int64)
        out = np.empty(batch_size * RECORD_BYTES, np.uint8)
        copy = baseline.gather_crc if checked else baseline.gather

        def epoch(number: int) -> Iterator[NDArray[np.uint8]]:
            order = np.random.default_rng((SEED, number)).permutation(len(starts) - 1)
            for start in range(0, len(order), batch_size):
                yield out[: copy(data, starts, order[start : start + batch_size], out)]

        return epoch

    return batches


def _mx8_build(records: Records, place: Path) -> None:
    import mx8

    source = place / "mx8-in"
    for number, row in enumerate(records):
        path = source / f"{number // 1000:05d}" / f"{number:08d}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(row.tobytes())
    mx8.pack_dir(str(source), out=str(place / "mx8"))
    shutil.rmtree(source)


def _mx8_batches(place: Path, batch_size: int, baseline: Baseline) -> Callable[[int], Batches]:
    import mx8

    # It has no shuffle on one machine: the stored order is the easier work.
    return lambda epoch: (batch.payload for batch in mx8.load(str(place / "mx8"), batch=batch_size))


def _webdataset_build(records: Records, place: Path) -> None:
    from webdataset import ShardWriter

    with ShardWriter(str(place / "records-%06d.tar"), verbose=0) as writer:
        for number, row in enumerate(records):
            writer.write({"__key__": f"{number:09d}", "bin": row.tobytes()})


def _webdataset_batches(place: Path, batch_size: int, baseline: Baseline) -> Callable[[int], Batches]:
    import webdataset

    urls = sorted(str(path) for path in place.glob("records-*.tar"))

    def epoch(number: int) -> Iterator[list[bytes]]:
        samples = webdataset.WebDataset(urls, shardshuffle=False).shuffle(1000).to_tuple("bin")
        yield from samples.batched(batch_size, collation_fn=lambda rows: [data for (data,) in rows])

    return epoch


def _mds_build(records: Records, place: Path) -> None:
    from streaming import MDSWriter

    with MDSWriter(out=str(place / "mds"), columns={"data": "bytes"}) as writer:
        for row in records:
            writer.write({"data": row.tobytes()})


def _mds_batches(place: Path, batch_size: int, baseline: Baseline) -> Callable[[int], Batches]:
    from streaming import StreamingDataset

    dataset = StreamingDataset(local=str(place / "mds"), shuffle=True, shuffle_seed=SEED, batch_size=batch_size)

    def epoch(number: int) -> Iterator[list[bytes]]:
        batch: list[bytes] = []
        for sample in dataset:
            batch.append(sample["data"])
            if len(batch) == batch_size:
                yield batch
                batch = []
        if batch:
            yield batch

    return epoch


def _arrayrecord_build(records: Records, place: Path) -> None:
    from array_record.python.array_record_module import ArrayRecordWriter

    writer = ArrayRecordWriter(str(place / "records.array_record"), "group_size:1,uncompressed")
    for row in records:
        writer.write(row.tobytes())
    writer.close()


def _arrayrecord_single(place: Path) -> Callable[[int], Any]:
    from array_record.python.array_record_module import ArrayRecordReader

    reader = ArrayRecordReader(
        str(place / "records.array_record"), "readahead_buffer_size:0", file_reader_buffer_size=32768
    )
    return lambda row: reader.read([row])


def _hf_build(records: Records, place: Path) -> None:
    import datasets
    import pyarrow as pa

    rows = pa.table({"data": pa.array([row.tobytes() for row in records], pa.binary())})
    datasets.Dataset(rows, fingerprint="records").save_to_disk(str(place / "hf"))


def _hf_single(place: Path) -> Callable[[int], Any]:
    import datasets

    return datasets.load_from_disk(str(place / "hf")).__getitem__


Build = Callable[[Records, Path], None]
MakeBatches = Callable[[Path, int, Baseline], Callable[[int], Batches]]
MakeSingle = Callable[[Path], Callable[[int], Any]]
WORKERS: dict[str, tuple[Build, MakeBatches | None, MakeSingle | None]] = {
    "toolkit": (_toolkit_build, _toolkit_batches, _toolkit_single),
    "gather": (_gather_build, _gather(False), None),
    "gather_crc": (_nothing, _gather(True), None),
    "mx8": (_mx8_build, _mx8_batches, None),
    "webdataset": (_webdataset_build, _webdataset_batches, None),
    "mds": (_mds_build, _mds_batches, None),
    "arrayrecord": (_arrayrecord_build, None, _arrayrecord_single),
    "hf": (_hf_build, None, _hf_single),
}


def _pointer(values: NDArray[Any]) -> c_void_p:
    return c_void_p(values.ctypes.data)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return 0, or 1 when a side failed."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["--worker"]:
        return _work(*arguments[1:])
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="files to cut records from")
    parser.add_argument("--records", type=int, default=30_000)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--work", type=Path, metavar="DIR", help="for the datasets; the system's temporary folder")
    parser.add_argument(
        "--peer-path", action="append", default=[], metavar="DIR", help="a site directory with other loaders"
    )
    given = parser.parse_args(arguments)
    try:
        sides = measure(
            given.folder,
            records=given.records,
            batch_size=given.batch_size,
            repeats=given.repeats,
            peer_paths=given.peer_path,
            work=given.work,
        )
    except (LoaderBenchError, OSError) as error:
        print(f"loader: {error}", file=sys.stderr)
        return 1
    print(
        f"{given.records:,} records of {RECORD_BYTES:,} bytes, shuffled batches of {given.batch_size}, one thread, warm"
    )
    print(*table(sides), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Damage datasets in every way a disk, a copy or a colleague does, read them, and print what each loader made of it.

    python benchmarks/reliability.py --peer-path DIR

Each cell is one process: it opens a dataset with the loader's default settings, reads one epoch and compares every
sample with what was packed. The dataset is damaged before it is opened, or (the last rows) after the first batch. Good
are "all samples" and "error", best "error, named": the message names the damaged file. An answer after more than 5 s
says so. Bad are "WRONG samples" (some, or some twice), "SHORT epoch" (it ends as if it were complete), "HANGS" (no
answer within 25 s) and "DIES" (the process is killed).
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RECORDS = 400
RECORD_BYTES = 20_000
BATCH = 16
PROMPT_SECONDS = 5.0  # from the damage, or from the imports, to an answer; a later one is shown with its seconds
LIMIT_SECONDS = 25.0  # then it hangs
START_SECONDS = 60.0  # imports of the slowest loader

SIDES = {
    "toolkit": "toolkit",
    "webdataset": "webdataset",
    "mds": "mosaicml-streaming",
    "litdata": "litdata",
    "arrayrecord": "array-record",
}


class ReliabilityError(Exception):
    """The table can't be made; the text says why."""


@dataclass(frozen=True)
class Damage:
    """One way to damage a dataset: what happens to which file."""

    name: str
    running: bool
    apply: Callable[[str, Path], None]  # (side, dataset); raises LookupError where the side has no such thing


# --- the records: what is packed, and what must come back ------------------------------------------------------------


def record(number: int) -> tuple[bytes, int]:
    """Return the payload and the label of record `number`."""
    seed = hashlib.sha256(str(number).encode()).digest()
    return (seed * (RECORD_BYTES // len(seed) + 1))[:RECORD_BYTES], number % 7


def expected() -> list[tuple[str, int]]:
    """Return a hash of each payload with its label, sorted: the samples, in whatever order they come."""
    return sorted((hashlib.sha256(data).hexdigest(), label) for data, label in map(record, range(RECORDS)))


# --- the damage ------------------------------------------------------------------------------------------------------


def _flip(path: Path, offset: int, bit: int = 0x10) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        byte = file.read(1)
        file.seek(offset)
        file.write(bytes([byte[0] ^ bit]))


def _shard(side: str, dataset: Path) -> Path:
    """Return a file that holds samples, not the first one."""
    patterns = {
        "toolkit": "shards/*.arrow",
        "webdataset": "*.tar",
        "mds": "shard.*.mds",
        "litdata": "chunk-*.bin",
        "arrayrecord": "*.array_record",
    }
    return sorted(dataset.glob(patterns[side]))[-1]


def _index(side: str, dataset: Path) -> Path:
    names = {"toolkit": "manifest.json", "mds": "index.json", "litdata": "index.json"}
    return dataset / names[side]


def _payload(side: str, path: Path) -> int:
    """Return where, in a file of samples, some record's payload lies."""
    content = path.read_bytes()
    for number in range(RECORDS):
        seed = hashlib.sha256(str(number).encode()).digest()
        place = content.find(seed * 4)
        if place >= 0:
            return place + RECORD_BYTES // 2
    raise LookupError("no payload as it was written: the file is compressed")


def _inside(what: str) -> Callable[[str, Path], None]:
    """Return a damage that flips one bit of a part that only an Arrow shard has by that name."""

    def apply(side: str, dataset: Path) -> None:
        path = _shard(side, dataset)
        if what == "payload":
            _flip(path, _payload(side, path))
        elif what == "header":
            _flip(path, 2)
        elif what == "footer":
            _flip(path, path.stat().st_size - 20)
        elif side == "toolkit":
            _flip_arrow(sorted(path.parent.iterdir()), what)
        elif what == "labels" and side == "webdataset":
            name = path.read_bytes().index(b".cls\0")  # behind nine digits, at the beginning of a header
            _flip(path, name - 9 + 512, bit=0x01)
        elif what == "keys" and side == "webdataset":
            _flip(path, path.read_bytes().index(b".bin\0") - 1)
        elif what == "offsets" and side in ("mds", "litdata"):
            _flip(path, 4 * 9 + 1)  # both begin with a table of uint32 offsets
        else:
            raise LookupError

    return apply


def _flip_arrow(shards: Sequence[Path], what: str) -> None:
    """Flip a bit in the first shard that has such a part: a bitmap is only there where a value is missing."""
    import pyarrow as pa

    for path in shards:
        whole = pa.memory_map(str(path)).read_buffer()
        if what == "batch metadata":
            after_schema = 16 + int.from_bytes(whole[12:16].to_pybytes(), "little")
            _flip(path, after_schema + 40)
            return
        batch = pa.ipc.open_file(whole).get_batch(0)
        buffer = {
            "validity": batch.column("data").buffers()[0],
            "offsets": batch.column("data").buffers()[1],
            "labels": batch.column("label").buffers()[1],
            "keys": batch.column("__key__").buffers()[2],
        }[what]
        if buffer is not None:
            _flip(path, int(buffer.address - whole.address))
            return
    raise LookupError


def _flip_index(side: str, dataset: Path) -> None:
    if side not in ("toolkit", "mds", "litdata"):
        raise LookupError
    path = _index(side, dataset)
    content = path.read_bytes()
    digits = [i for i, byte in enumerate(content) if chr(byte) in "2345678"]
    place = digits[len(digits) // 2]
    path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])


def _flip_table(side: str, dataset: Path) -> None:
    if side != "toolkit":
        raise LookupError
    path = max((dataset / "tables").iterdir(), key=lambda path: path.stat().st_size)
    _flip(path, path.stat().st_size // 2)


def _truncate(side: str, dataset: Path) -> None:
    path = _shard(side, dataset)
    os.truncate(path, path.stat().st_size * 6 // 10)


def _truncate_all(side: str, dataset: Path) -> None:
    for path in _shard(side, dataset).parent.glob("*" + _shard(side, dataset).suffix):
        os.truncate(path, 4096)


def _remove(side: str, dataset: Path) -> None:
    _shard(side, dataset).unlink()


def _replace(side: str, dataset: Path) -> None:
    """Put another shard's bytes under a shard's name."""
    path = _shard(side, dataset)
    others = sorted(path.parent.glob("*" + path.suffix))
    if len(others) < 2:
        raise LookupError
    shutil.copy(others[0], path.with_suffix(".new"))
    os.replace(path.with_suffix(".new"), path)


def _rewrite(side: str, dataset: Path) -> None:
    """Write other bytes of the same length into every file of samples, in place."""
    for path in _shard(side, dataset).parent.glob("*" + _shard(side, dataset).suffix):
        content = bytearray(path.read_bytes())
        with contextlib.suppress(LookupError):
            place = _payload(side, path)
            content[place] ^= 0x10
        for number in range(RECORDS):
            seed = hashlib.sha256(str(number).encode()).digest()
            place = content.find(seed * 4)
            if place >= 0:
                content[place + 100] ^= 0x10
        with path.open("r+b") as file:
            file.write(content)


DAMAGES = (
    Damage("nothing", False, lambda side, dataset: None),
    Damage("shard: header flipped", False, _inside("header")),
    Damage("shard: batch metadata flipped", False, _inside("batch metadata")),
    Damage("shard: offsets flipped", False, _inside("offsets")),
    Damage("shard: validity flipped", False, _inside("validity")),
    Damage("shard: labels flipped", False, _inside("labels")),
    Damage("shard: keys flipped", False, _inside("keys")),
    Damage("shard: payload flipped", False, _inside("payload")),
    Damage("shard: footer flipped", False, _inside("footer")),
    Damage("table flipped", False, _flip_table),
    Damage("manifest or index flipped", False, _flip_index),
    Damage("shard truncated", False, _truncate),
    Damage("shard removed", False, _remove),
    Damage("shard replaced by another", False, _replace),
    Damage("running: shards truncated", True, _truncate_all),
    Damage("running: shard removed", True, _remove),
    Damage("running: shard replaced", True, _replace),
    Damage("running: shards rewritten", True, _rewrite),
)


# --- one cell --------------------------------------------------------------------------------------------------------


def outcome(side: str, threads: int, damage: Damage, pristine: Path, peer_paths: Sequence[str]) -> str:
    """Return what a fresh process made of a damaged copy of the dataset `pristine`."""
    with tempfile.TemporaryDirectory(prefix="cell.", dir=pristine.parent) as made:
        dataset = Path(made, "dataset")
        shutil.copytree(pristine, dataset)
        if not damage.running:
            try:
                damage.apply(side, dataset)
            except LookupError:
                return "-"
        with _worker(side, threads, damage.running, dataset, peer_paths) as process:
            if damage.running:
                if _line(process, START_SECONDS) != "open":
                    return _ended(process)
                try:
                    damage.apply(side, dataset)
                except LookupError:
                    return "-"
            else:
                _line(process, START_SECONDS)  # "imported"
            with contextlib.suppress(OSError, ValueError):
                process.stdin.write("go\n")
                process.stdin.flush()
            begun = time.monotonic()
            try:
                out, _ = process.communicate(timeout=LIMIT_SECONDS)
            except subprocess.TimeoutExpired:
                return "HANGS"
            seconds = time.monotonic() - begun
            late = f" after {seconds:.0f} s" if seconds > PROMPT_SECONDS else ""
            return _read(process.returncode, out, dataset, side) + late


@contextlib.contextmanager
def _worker(
    side: str, threads: int, running: bool, dataset: Path, peer_paths: Sequence[str]
) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, __file__, "--worker", side, str(threads), str(int(running)), str(dataset)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=_environment(side, peer_paths),
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):
                pipe.close()


def _line(process: subprocess.Popen[str], seconds: float) -> str:
    import select

    ready, _, _ = select.select([process.stdout], [], [], seconds)
    return process.stdout.readline().strip() if ready else ""


def _ended(process: subprocess.Popen[str]) -> str:
    out, _ = process.communicate(timeout=LIMIT_SECONDS)
    raise ReliabilityError(f"a loader did not get as far as its first batch: {out[-500:]}")


def _read(code: int, out: str, dataset: Path, side: str) -> str:
    lines = out.strip().splitlines()
    if not lines or not lines[-1].startswith("{"):
        return f"DIES ({signal.Signals(-code).name})" if code < 0 else f"DIES (exit {code})"
    said = json.loads(lines[-1])
    got = sorted((digest, label) for digest, label in said["samples"])
    planned = expected()
    wrong = set(got) - set(planned)
    if wrong:
        return f"WRONG samples ({len(wrong)})"
    if said["error"] is not None:
        files = [path.name for path in dataset.parent.rglob("*") if path.is_file()] + [_shard_name(side, dataset)]
        return "error, named" if any(name and name in said["error"] for name in files) else "error"
    if len(got) > len(set(got)):
        return f"WRONG samples ({len(got) - len(set(got))} twice)"
    if got != planned:
        return f"SHORT epoch ({len(got)}/{RECORDS})"
    return "all samples"


def _shard_name(side: str, dataset: Path) -> str:
    """The name of the file that may have been removed: the message should say it all the same."""
    pristine = {"toolkit": ".arrow", "webdataset": ".tar", "mds": ".mds", "litdata": ".bin"}
    return pristine.get(side, ".array_record")


def _environment(side: str, peer_paths: Sequence[str]) -> dict[str, str]:
    roots = (
        [str(Path(__file__).parents[1])] if side == "toolkit" else [str(Path(path).resolve()) for path in peer_paths]
    )
    roots += filter(None, [os.environ.get("PYTHONPATH")])
    return os.environ | {"PYTHONPATH": os.pathsep.join(roots), "LITDATA_DISABLE_VERSION_CHECK": "1"}


# --- what runs in the worker processes -------------------------------------------------------------------------------


def _work(side: str, threads: str, running: str, dataset: str) -> int:
    build, epoch = WORKERS[side]
    if running == "build":
        build(Path(dataset))
        return 0
    IMPORTS[side]()
    samples: list[tuple[str, int]] = []
    error = None
    if running == "0":
        print("imported", flush=True)
        sys.stdin.readline()
    try:
        for number, (data, label) in enumerate(epoch(Path(dataset), int(threads))):
            samples.append((hashlib.sha256(data).hexdigest(), int(label)))
            if number == BATCH - 1 and running == "1":
                print("open", flush=True)
                sys.stdin.readline()
    except Exception as caught:
        error = f"{type(caught).__name__}: {caught}"
    print(json.dumps({"samples": samples, "error": error}), flush=True)
    os._exit(0)  # a loader whose threads hang at exit has given its answer all the same


Samples = Iterator[tuple[bytes, Any]]


def _toolkit_build(dataset: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from toolkit.pack.job import PackJob
    from toolkit.pack.run import pack

    rows = [record(number) for number in range(RECORDS)]
    source = dataset.with_suffix(".parquet")
    columns = {
        "data": pa.array([data for data, _ in rows], pa.binary()),
        "label": pa.array([label for _, label in rows]),
    }
    # One value is missing, so that a validity bitmap is there; it is read as no record at all.
    columns["data"] = pa.concat_arrays([columns["data"], pa.nulls(1, pa.binary())])
    columns["label"] = pa.concat_arrays([columns["label"], pa.array([0])])
    pq.write_table(pa.table(columns), source)
    pack(PackJob(source=str(source), dataset=str(dataset), shard_size=2 << 20))
    source.unlink()


def _toolkit_epoch(dataset: Path, threads: int) -> Samples:
    import toolkit

    for batch in toolkit.open(dataset).loader(batch_size=BATCH, threads=threads):
        keys = batch.sample_keys
        assert len(set(keys)) == len(keys)
        for data, label in zip(batch["data"], batch["label"].tolist(), strict=True):
            if data is not None:
                yield data, label


def _webdataset_build(dataset: Path) -> None:
    from webdataset import ShardWriter

    dataset.mkdir()
    with ShardWriter(str(dataset / "records-%06d.tar"), maxsize=2 << 20, verbose=0) as writer:
        for number in range(RECORDS):
            data, label = record(number)
            writer.write({"__key__": f"{number:09d}", "bin": data, "cls": label})


def _webdataset_epoch(dataset: Path, threads: int) -> Samples:
    import torch.utils.data
    import webdataset

    urls = _planned(dataset, "webdataset", "*.tar")
    samples = webdataset.WebDataset(urls, shardshuffle=False).to_tuple("bin", "cls")
    loader = torch.utils.data.DataLoader(samples, batch_size=None, num_workers=threads - 1)
    for data, label in loader:
        yield data, label if isinstance(label, int) else int(label.decode())


def _planned(dataset: Path, side: str, pattern: str) -> list[str]:
    """List the files that were packed, by the undamaged dataset: the way a training script has them written down."""
    return sorted(str(dataset / path.name) for path in (dataset.parent.parent / side).glob(pattern))


def _mds_build(dataset: Path) -> None:
    from streaming import MDSWriter

    columns = {"data": "bytes", "label": "int"}
    with MDSWriter(out=str(dataset), columns=columns, hashes=["sha256"], size_limit=2 << 20) as writer:
        for number in range(RECORDS):
            data, label = record(number)
            writer.write({"data": data, "label": label})


def _mds_epoch(dataset: Path, threads: int) -> Samples:
    import torch.utils.data
    from streaming import StreamingDataset

    samples = StreamingDataset(local=str(dataset), batch_size=BATCH)
    for sample in torch.utils.data.DataLoader(samples, batch_size=None, num_workers=threads - 1):
        yield sample["data"], sample["label"]


def _litdata_record(number: int) -> dict[str, Any]:
    data, label = record(number)
    return {"data": data, "label": label}


def _litdata_build(dataset: Path) -> None:
    from litdata import optimize

    optimize(_litdata_record, list(range(RECORDS)), str(dataset), chunk_bytes=2 << 20, num_workers=1, verbose=False)


def _litdata_epoch(dataset: Path, threads: int) -> Samples:
    from litdata import StreamingDataLoader, StreamingDataset

    for batch in StreamingDataLoader(StreamingDataset(str(dataset)), batch_size=BATCH, num_workers=threads - 1):
        yield from zip(batch["data"], batch["label"].tolist(), strict=True)


def _arrayrecord_build(dataset: Path) -> None:
    from array_record.python.array_record_module import ArrayRecordWriter

    dataset.mkdir()
    for part in range(4):
        writer = ArrayRecordWriter(str(dataset / f"records-{part}.array_record"), "group_size:1,uncompressed")
        for number in range(part * RECORDS // 4, (part + 1) * RECORDS // 4):
            data, label = record(number)
            writer.write(bytes([label]) + data)
        writer.close()


def _arrayrecord_epoch(dataset: Path, threads: int) -> Samples:
    from array_record.python.array_record_data_source import ArrayRecordDataSource

    source = ArrayRecordDataSource(_planned(dataset, "arrayrecord", "*.array_record"))
    for start in range(0, len(source), BATCH):
        for value in source.__getitems__(range(start, min(start + BATCH, len(source)))):
            yield value[1:], value[0]


WORKERS: dict[str, tuple[Callable[[Path], None], Callable[[Path, int], Samples]]] = {
    "toolkit": (_toolkit_build, _toolkit_epoch),
    "webdataset": (_webdataset_build, _webdataset_epoch),
    "mds": (_mds_build, _mds_epoch),
    "litdata": (_litdata_build, _litdata_epoch),
    "arrayrecord": (_arrayrecord_build, _arrayrecord_epoch),
}


def _imports(*modules: str) -> Callable[[], None]:
    def load() -> None:
        for module in modules:
            __import__(module)

    return load


IMPORTS = {
    "toolkit": _imports("toolkit.loader.loader"),
    "webdataset": _imports("torch.utils.data", "webdataset"),
    "mds": _imports("torch.utils.data", "streaming"),
    "litdata": _imports("litdata"),
    "arrayrecord": _imports("array_record.python.array_record_data_source"),
}


# --- the table -------------------------------------------------------------------------------------------------------


def table(peer_paths: Sequence[str], work: Path | None, sides: Sequence[str] = tuple(SIDES)) -> Iterator[str]:
    """Yield the table as Markdown, a line a damage. Raises ReliabilityError."""
    with tempfile.TemporaryDirectory(prefix="reliability.", dir=work) as made:
        columns: list[tuple[str, str, int, Path]] = []
        for side in sides:
            pristine = Path(made, side)
            command = [sys.executable, __file__, "--worker", side, "1", "build", str(pristine)]
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, env=_environment(side, peer_paths)
            )
            if done.returncode:
                if side == "toolkit":
                    raise ReliabilityError(done.stderr[-1000:])
                why = (done.stderr.strip() or "?").splitlines()[-1]
                print(f"reliability: {SIDES[side]} is left out: {why}", file=sys.stderr)
                continue
            # The others run in processes of torch's loader; ArrayRecord has threads of its own.
            for workers in (1, 3) if side in ("toolkit", "webdataset", "mds", "litdata") else (1,):
                count = workers if side == "toolkit" else workers - 1
                unit = ("thread" if side == "toolkit" else "worker") + ("" if count == 1 else "s")
                title = f"{side}" if side == "arrayrecord" else f"{side}, {count} {unit}"
                columns.append((title, side, workers, pristine))
        yield "| damage | " + " | ".join(title for title, *_ in columns) + " |"
        yield "|---" * (len(columns) + 1) + "|"
        for damage in DAMAGES:
            cells = [outcome(side, threads, damage, place, peer_paths) for _, side, threads, place in columns]
            yield f"| {damage.name} | " + " | ".join(cells) + " |"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return 0, or 1 when toolkit did anything but deliver all samples or name the place."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["--worker"]:
        return _work(*arguments[1:])
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--work", type=Path, metavar="DIR", help="for the datasets; the system's temporary folder")
    parser.add_argument(
        "--peer-path", action="append", default=[], metavar="DIR", help="a site directory with other loaders"
    )
    parser.add_argument("--only", action="append", choices=list(SIDES), help="this side; may be given more than once")
    given = parser.parse_args(arguments)
    bad = False
    try:
        for line in table(given.peer_path, given.work, given.only or tuple(SIDES)):
            print(line, flush=True)
            ours = line.split(" | ")[1:3]
            bad |= not line.startswith("|---") and any(
                cell.split()[0] in ("WRONG", "SHORT", "HANGS", "DIES") for cell in ours
            )
    except (ReliabilityError, OSError) as error:
        print(f"reliability: {error}", file=sys.stderr)
        return 1
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())

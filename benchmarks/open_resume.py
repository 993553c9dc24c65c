"""Measure how long opening a dataset of many shards takes, and the first batch of a run that goes on anywhere.

    python benchmarks/open_resume.py [--shards 1000 400000] [--orders 1e6 1e9 1e12] [--repeats 9] [--work DIR]

The datasets: up to 1,000 shards are written, of 1,000 small samples each. For more, these are taken as often as needed,
by hard links under names of their own: a dataset whose keys come more than once, which `toolkit verify --full` says and
nothing else minds. `open` is toolkit.open in a process of its own, imports left out, page cache warm; `own memory` is
what it added.

A first batch is measured on a dataset opened anew, from making the loader to the batch: 256 samples in full shuffle, on
one thread, nearly every one in another shard that has to be opened. `resumed` loads a state first, which stands at the
beginning, in the middle and at the end of an epoch; longer orders are the same dataset repeated. All in turns, in one
process.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from toolkit.format.shard import ShardRecord
    from toolkit.storage.store import NewObject

WRITTEN_SHARDS = 1000
SHARD_SAMPLES = 1000
BATCH_SIZE = 256
PLACES = {"begin": 0.0, "middle": 0.5, "end": 1.0}


class OpenBenchError(Exception):
    """A measurement failed; the text says which."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Opening:
    """Figures of opening one dataset, each repeat's."""

    shards: int
    samples: int
    seconds: tuple[float, ...]
    own_bytes: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Resuming:
    """Seconds to the first batch of an order of `samples`: of a fresh run, and of one resumed at each of PLACES."""

    shards: int
    samples: int
    fresh: tuple[float, ...]
    resumed: dict[str, tuple[float, ...]]


def build(target: Path, shards: int, written: int = WRITTEN_SHARDS) -> None:
    """Make a dataset of so many shards at `target`; those beyond `written` are hard links to these."""
    from toolkit.format.commit import Transaction
    from toolkit.format.manifest import Manifest, Split, TableRef
    from toolkit.format.pin import SHARDS
    from toolkit.format.schema import FORMAT_VERSION, Column, Kind, arrow_schema
    from toolkit.format.tables import encode_schema_table, encode_shard_table
    from toolkit.storage.local import LocalStore

    columns = (Column(name="data", kind=Kind.BYTES, arrow_type="binary"),)
    schema = arrow_schema(columns, {"data": pa.binary()}, {})
    with Transaction(LocalStore(str(target))) as transaction:
        records: list[ShardRecord] = []
        for number in range(shards):
            if number < written:
                shard = transaction.new_shard(str(number))
                record = _write_shard(shard, schema, number)
                path = transaction.publish_shard(shard, _shard_name(number, record))
            else:
                record = records[number % written]
                path = f"{SHARDS}/{_shard_name(number, record)}"
                os.link(target / record.path, target / path)
            records.append(dataclasses.replace(record, path=path))
        rows = sum(record.rows for record in records)
        digest = transaction.add_table(encode_shard_table(records))
        split = Split(
            rows=rows,
            bytes=sum(record.file_bytes for record in records),
            labels={},
            tables=(TableRef(sha256=digest, shards=shards, rows=rows),),
        )
        manifest = Manifest(
            format=FORMAT_VERSION,
            requires=(),
            columns=columns,
            schema=transaction.add_table(encode_schema_table(schema)),
            splits={"train": split},
            options={},
            parent=None,
            user={},
        )
        transaction.commit(manifest, {})


def measure_open(dataset: Path, repeats: int) -> Opening:
    """Open the dataset in `repeats` processes. Raises OpenBenchError."""
    found = [_run("open", str(dataset)) for _ in range(repeats)]
    return Opening(
        shards=found[0]["shards"],
        samples=found[0]["samples"],
        seconds=tuple(each["seconds"] for each in found),
        own_bytes=max(each["own_bytes"] for each in found),
    )


def measure_resume(dataset: Path, order: int, repeats: int) -> Resuming:
    """Time first batches of an order of at least `order` samples. Raises OpenBenchError."""
    found = _run("resume", str(dataset), str(order), str(repeats))
    return Resuming(
        shards=found["shards"],
        samples=found["samples"],
        fresh=tuple(found["fresh"]),
        resumed={place: tuple(found[place]) for place in PLACES},
    )


def table(openings: Sequence[Opening], resumings: Sequence[Resuming]) -> Iterator[str]:
    """Yield the lines of the report."""
    yield f"{'shards':>9}{'samples':>14}{'open, ms':>26}{'own memory, MiB':>18}"
    for each in openings:
        yield f"{each.shards:9,}{each.samples:14,}{_spread(each.seconds):>26}{each.own_bytes / (1 << 20):18.0f}"
    yield ""
    heads = "".join(f"{f'resumed at its {place}':>34}" for place in PLACES)
    yield f"{'shards':>9}{'order':>20}{'first batch, ms: fresh':>28}{heads}"
    for run in resumings:
        cells = [
            f"{_spread(seconds)} {statistics.median(seconds) / statistics.median(run.fresh):5.2f}x"
            for seconds in run.resumed.values()
        ]
        yield f"{run.shards:9,}{run.samples:20,}{_spread(run.fresh):>28}" + "".join(f"{cell:>34}" for cell in cells)


def _spread(seconds: Sequence[float]) -> str:
    return f"{1e3 * statistics.median(seconds):.1f} [{1e3 * min(seconds):.1f}..{1e3 * max(seconds):.1f}]"


def _shard_name(number: int, record: ShardRecord) -> str:
    return f"train-{number:06d}-{record.sha256.hex()[:16]}.arrow"


def _write_shard(shard: NewObject, schema: pa.Schema, number: int) -> ShardRecord:
    from toolkit.format.schema import KEY
    from toolkit.format.shard import ShardWriter

    keys = [f"{number:06d}/{i:03d}" for i in range(SHARD_SAMPLES)]
    fields = [pa.field(KEY, pa.string(), nullable=False), schema.field("data")]
    values = [pa.array(keys), pa.array([key.encode() for key in keys], pa.binary())]
    writer = ShardWriter(shard, schema)
    writer.write(pa.RecordBatch.from_arrays(values, schema=pa.schema(fields)))
    return writer.close()


# --- what runs in the measured processes ---------------------------------------------------------------------------


def _run(*arguments: str) -> dict[str, Any]:
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    command = [sys.executable, __file__, "--worker", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise OpenBenchError(f"{arguments[0]}: {(done.stderr.strip().splitlines() or ['?'])[-1]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _open(dataset: str) -> dict[str, Any]:
    import toolkit.loader.api
    from toolkit.checks.bench.memory import AnonymousPeak

    with AnonymousPeak() as anonymous:
        begun = time.perf_counter()
        ds = toolkit.open(dataset)
        seconds = time.perf_counter() - begun
    return {
        "seconds": seconds,
        "own_bytes": anonymous.growth_bytes or 0,
        "shards": ds.index.shards,
        "samples": len(ds),
    }


def _resume(dataset: str, order: str, repeats: str) -> dict[str, Any]:
    found: dict[str, Any] = {place: [] for place in ("fresh", *PLACES)}
    for repeat in range(int(repeats) + 1):  # the first pays for imports and is left out
        for turn in range(len(found)):
            place = list(found)[(repeat + turn) % len(found)]
            seconds, shards, samples = _first_batch(dataset, int(float(order)), PLACES.get(place))
            if repeat:
                found[place].append(seconds)
    return found | {"shards": shards, "samples": samples}


def _first_batch(dataset: str, order: int, place: float | None) -> tuple[float, int, int]:
    """Return the seconds from a new loader to its first batch, and the dataset's shards and samples."""
    import toolkit

    ds = toolkit.open(dataset)
    ds = ds.repeat(max(1, order // len(ds)))
    options: dict[str, Any] = {"batch_size": BATCH_SIZE, "shuffle": "full", "threads": 1, "prefetch": 0, "epochs": 2}
    state = ds.loader(**options).state_dict()
    begun = time.perf_counter()
    with ds.loader(**options) as loader:
        if place is not None:
            position = int(place * (len(ds) - BATCH_SIZE)) // BATCH_SIZE * BATCH_SIZE
            loader.load_state_dict(state | {"position": position})
        batch = next(iter(loader))
    seconds = time.perf_counter() - begun
    if len(batch["data"]) != BATCH_SIZE or (place and batch.positions[0] != position):
        raise OpenBenchError(f"the first batch is not the one at {place}")
    return seconds, ds.index.shards, len(ds)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return 0, or 1 when a measurement failed."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["--worker"]:
        print(json.dumps({"open": _open, "resume": _resume}[arguments[1]](*arguments[2:])))
        return 0
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--shards", type=int, nargs="+", default=[1000, 400_000])
    parser.add_argument("--orders", type=float, nargs="+", default=[1e6, 1e9, 1e12], metavar="SAMPLES")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--work", type=Path, metavar="DIR", help="for the datasets; the system's temporary folder")
    given = parser.parse_args(arguments)
    openings, resumings = [], []
    try:
        with tempfile.TemporaryDirectory(prefix="open_resume.", dir=given.work) as made:
            for shards in given.shards:
                dataset = Path(made, f"shards{shards}")
                build(dataset, shards)
                openings.append(measure_open(dataset, given.repeats))
                orders = given.orders if shards == given.shards[0] else given.orders[-1:]
                resumings += [measure_resume(dataset, order, given.repeats) for order in orders]
                print(f"open_resume: {shards} shards done", file=sys.stderr)
    except (OpenBenchError, OSError) as error:
        print(f"open_resume: {error}", file=sys.stderr)
        return 1
    print(*table(openings, resumings), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

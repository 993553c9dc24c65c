"""Datasets of many shards, for benchmarks: packed by the toolkit that is imported, and repeated without any.

Packing goes through toolkit.pack alone. Repeating a dataset's shards looks at nothing but its files, as docs/format.md
has them: so checkouts whose formats differ get the same samples in as many shards.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from turns import BenchmarkError

__all__ = [
    "SHARD_SAMPLES",
    "pack_pictures",
    "pack_small",
    "repeat_shards",
    "shard_starts",
    "shard_tables",
    "write_pictures",
]

SHARD_SAMPLES = 1000  # of a small shard
SMALL_SHARD_BYTES = 100_000  # a shard takes one row group of the source, and not two
TABLE_SHARDS = 4096  # the most in a shard table
PICTURE_BYTES = (20_000, 100_000)
CLASSES = 1000
GROUP_PICTURES = 100
# A JPEG's beginning, as far as anybody looks who doesn't decode it: frame and scan headers, of 500 x 375 pixels.
JPEG_HEAD = b"".join(
    (
        bytes.fromhex("ffd8 ffc0 0011 08"),
        struct.pack(">HH", 375, 500),
        bytes.fromhex("03 012200 021101 031101 ffda 000c 03 0100 0211 0311 003f00"),
    )
)


def pack_small(target: Path, shards: int) -> None:
    """Pack shards of one record batch of 1,000 samples of 40 bytes."""
    import toolkit

    schema = pa.schema([("key", pa.string()), ("data", pa.binary())])
    with tempfile.TemporaryDirectory(dir=target.parent) as made:
        source = Path(made, "small.parquet")
        with _writer(source, schema) as writer:
            for number in range(shards):
                keys = [f"{number:06d}/{i:03d}" for i in range(SHARD_SAMPLES)]
                writer.write_table(pa.table([keys, [key.encode() * 4 for key in keys]], schema=schema))
        toolkit.pack(source, target, key="key", shard_size=SMALL_SHARD_BYTES)


def write_pictures(source: Path, size: int) -> None:
    """Write `size` bytes of what pass for pictures, 60 kB each in the mean: a JPEG's head, and random bytes."""
    random = np.random.default_rng(14)
    schema = pa.schema([("key", pa.string()), ("image", pa.binary()), ("label", pa.string())])
    with _writer(source, schema) as writer:
        written = count = 0
        while written < size:
            sizes = random.integers(*PICTURE_BYTES, GROUP_PICTURES)
            labels = [f"class{number % CLASSES:04d}" for number in range(count, count + GROUP_PICTURES)]
            keys = [f"{label}/{count + i:08d}.jpg" for i, label in enumerate(labels)]
            writer.write_table(pa.table([keys, [JPEG_HEAD + random.bytes(n) for n in sizes], labels], schema=schema))
            written += int(sizes.sum())
            count += GROUP_PICTURES


def pack_pictures(source: Path, target: Path) -> None:
    """Pack what write_pictures() wrote into shards of 256 MiB, with labels."""
    import toolkit

    toolkit.pack(source, target, key="key", kind={"image": "image", "label": "label"})


def repeat_shards(dataset: Path, target: Path, shards: int, *, files: bool = True) -> None:
    """Make a dataset of the shards of another one, taken as often as needed, under names of their own.

    They are hard links to the other's, or with `files=False` names alone: enough to open it, and no more. Its keys
    come more than once, which `toolkit verify --full` says and nothing else minds.

    Raises:
        BenchmarkError: There are several splits, or `shards` is no multiple of what there is.
    """
    manifest = _manifest(dataset)
    (split,) = manifest["splits"].values()
    table = next(shard_tables(dataset))
    times, rest = divmod(shards, len(table))
    if rest or len(split["tables"]) > 1:
        raise BenchmarkError(f"{dataset} has {len(table)} shards in {len(split['tables'])} tables: not {shards}")
    for folder in ("shards", "tables", "manifests"):
        (target / folder).mkdir(parents=True)
    for path in (dataset / "tables").iterdir():
        os.link(path, target / "tables" / path.name)
    olds = table.column("path").to_pylist() * times
    names = [f"shards/train-{number:06d}-{old[-22:]}" for number, old in enumerate(olds)]
    if files:
        for old, name in zip(olds, names, strict=True):
            os.link(dataset / old, target / name)
    table = pa.concat_tables([table] * times)
    table = table.set_column(0, table.schema.field("path"), pa.array(names))
    # A format without derived columns has shard tables of any size.
    step = TABLE_SHARDS if "derived" in manifest else shards
    known = split["tables"][0]
    split["tables"] = [_add_table(target, table[first : first + step], known) for first in range(0, shards, step)]
    split["rows"] *= times
    split["bytes"] *= times
    for label in split["labels"].values():
        label["counts"] = [count * times for count in label["counts"]]
        label["missing"] *= times
    data = json.dumps(manifest, ensure_ascii=False, sort_keys=True, indent=1).encode() + b"\n"
    (target / "manifests" / f"{hashlib.sha256(data).hexdigest()}.json").write_bytes(data)
    (target / "manifest.json").write_bytes(data)


def shard_tables(dataset: Path) -> Iterator[pa.Table]:
    """Yield the shard tables of every split."""
    for split in _manifest(dataset)["splits"].values():
        for ref in split["tables"]:
            yield pa.ipc.open_file(dataset / "tables" / f"{ref['sha256']}.arrow").read_all()


def shard_starts(dataset: Path) -> NDArray[np.int64]:
    """Return the first row of each shard of a dataset with one split, and the number of rows."""
    rows = np.concatenate([table.column("rows").to_numpy() for table in shard_tables(dataset)])
    return np.concatenate(([0], np.cumsum(rows)))


def _writer(path: Path, schema: pa.Schema) -> pq.ParquetWriter:
    return pq.ParquetWriter(path, schema, compression="none", use_dictionary=False, write_statistics=False)


def _manifest(dataset: Path) -> Any:
    return json.loads((dataset / "manifest.json").read_bytes())


def _add_table(target: Path, table: pa.Table, known: dict[str, Any]) -> dict[str, Any]:
    """Write a shard table; return its reference, with the sums that the reference `known` has."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_batch(table.combine_chunks().to_batches()[0])
    data = sink.getvalue()
    digest = hashlib.sha256(data).hexdigest()
    (target / "tables" / f"{digest}.arrow").write_bytes(data)
    sums = {name: int(table.column(name).to_numpy().sum()) for name in ("rows", "bytes", "tokens")}
    sums |= {"shards": len(table), "batches": sum(len(lists.flatten()) for lists in table.column("batches").chunks)}
    return {name: digest if name == "sha256" else sums[name] for name in known}

"""Write MDS datasets by hand, without streaming, and pack them."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import toolkit
from toolkit.pack.job import OnExisting, PackJob, PackResult
from toolkit.pack.run import pack
from toolkit.sources.kinds.mds.encodings import fixed_size

Sample = Mapping[str, bytes]


def encoded(sample: Sample, columns: Mapping[str, str]) -> bytes:
    """A sample, its values being encoded already."""
    sizes = [len(sample[name]) for name, encoding in columns.items() if fixed_size(encoding) is None]
    return struct.pack(f"<{len(sizes)}I", *sizes) + b"".join(sample[name] for name in columns)


def shard(samples: Sequence[bytes], columns: Mapping[str, str]) -> bytes:
    config = json.dumps({"column_encodings": list(columns.values()), "column_names": list(columns)}).encode()
    offsets = [4 * (len(samples) + 2) + len(config)]
    for sample in samples:
        offsets.append(offsets[-1] + len(sample))
    return struct.pack(f"<{len(offsets) + 1}I", len(samples), *offsets) + config + b"".join(samples)


def entry(name: str, content: bytes, count: int, columns: Mapping[str, str]) -> dict[str, Any]:
    return {
        "column_encodings": list(columns.values()),
        "column_names": list(columns),
        "column_sizes": [fixed_size(encoding) for encoding in columns.values()],
        "compression": None,
        "format": "mds",
        "hashes": ["sha1"],
        "raw_data": {"basename": name, "bytes": len(content), "hashes": {"sha1": hashlib.sha1(content).hexdigest()}},
        "samples": count,
        "size_limit": None,
        "version": 2,
        "zip_data": None,
    }


def write_index(folder: Path, entries: Sequence[object]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "index.json").write_text(json.dumps({"shards": entries, "version": 2}))
    return folder


def write(folder: Path, shards: Sequence[Sequence[Sample]], columns: Mapping[str, str]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    entries = []
    for number, samples in enumerate(shards):
        content = shard([encoded(sample, columns) for sample in samples], columns)
        name = f"shard.{number:05}.mds"
        (folder / name).write_bytes(content)
        entries.append(entry(name, content, len(samples), columns))
    return write_index(folder, entries)


def numbers(folder: Path, *counts: int) -> Path:
    """Shards of a column n, counted through, and a text."""
    columns, shards, n = {"n": "int", "text": "str"}, [], 0
    for count in counts:
        shards.append([{"n": struct.pack("<q", i), "text": f"text {i}".encode()} for i in range(n, n + count)])
        n += count
    return write(folder, shards, columns)


def changed(folder: Path, number: int = 0, **values: Any) -> Path:
    """Change what the index says of a shard."""
    index = json.loads((folder / "index.json").read_text())
    index["shards"][number] |= values
    return write_index(folder, index["shards"])


def packed(source: Path, dataset: Path, **options: Any) -> PackResult:
    return pack(PackJob(source=str(source), dataset=str(dataset), on_existing=OnExisting.OVERWRITE, **options))


def samples(dataset: Path, split: str | None = None) -> list[dict[str, Any]]:
    opened = toolkit.open(dataset, split=split) if split else toolkit.open(dataset)
    return [opened[i] for i in range(len(opened))]

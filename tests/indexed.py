"""What an index stored, read from its files alone: rows in order, and the values that references lead to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from toolkit._native.shards.sums import ChunkSums
from toolkit.format.contents import read_index
from toolkit.format.pin import resolve


def rows(dataset: Path, split: str | None = None) -> list[dict[str, Any]]:
    """The stored rows of a version, of all splits in order or of one; `stat` is what lies beside the shard."""
    version = resolve(str(dataset))
    found = []
    for name in version.manifest.splits if split is None else [split]:
        index = read_index(version, name)
        for number in range(index.shards):
            path = Path(version.root) / index.shard(number).path
            table = pa.ipc.open_file(path).read_all().to_pylist()
            stats = path.with_suffix(".stat")
            if stats.exists():
                pairs = np.fromfile(stats, "<i8").reshape(len(table), -1).tolist()
                table = [{**row, "stat": tuple(pair)} for row, pair in zip(table, pairs, strict=True)]
            found += table
    return found


def value(row: dict[str, Any], roots: dict[str, str], column: str = "image") -> dict[str, Any] | None:
    """The value that a reference leads to, as a pack stores it."""
    place = row[column]
    if place is None:
        return None
    with open(Path(roots[place["root"]]) / place["path"], "rb") as file:
        file.seek(place["offset"])
        data = file.read(place["length"])
    if place["crc32c"] is not None:
        sums = ChunkSums()
        sums.update(data)
        assert place["crc32c"] == sums.digest()
    return {"bytes": data, "path": place["name"]}


def packed(dataset: Path, column: str = "image") -> list[dict[str, Any]]:
    """The rows of an index as a pack stores them."""
    roots = roots_of(dataset)
    return [{**row, column: value(row, roots, column)} for row in rows(dataset)]


def roots_of(dataset: Path) -> dict[str, str]:
    """What roots.json says, whoever wrote it."""
    roots: dict[str, str] = json.loads((dataset / "roots.json").read_text())["roots"]
    return roots

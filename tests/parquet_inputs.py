"""Parquet inputs for tests: write files, pack them, read them back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import toolkit
from toolkit.pack.job import PackJob, PackResult
from toolkit.pack.run import pack
from toolkit.sources.base import Rows, Survey
from toolkit.sources.kinds.parquet.source import ParquetSource
from toolkit.sources.options import SourceOptions
from toolkit.sources.reject import Reject


def packed(source: Path, dataset: Path, **options: Any) -> PackResult:
    return pack(PackJob(source=str(source), dataset=str(dataset), source_kind="parquet", **options))


def samples(dataset: Path, split: str | None = None) -> list[dict[str, Any]]:
    opened = toolkit.open(dataset, split=split)
    return [opened[i] for i in range(len(opened))]


def values(dataset: Path, column: str, split: str | None = None) -> list[Any]:
    return [sample[column] for sample in samples(dataset, split)]


def write(path: Path, columns: dict[str, Any], **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path, **options)
    return path


def source_of(path: Path, **options: Any) -> ParquetSource:
    return ParquetSource(SourceOptions(**{"paths": (str(path),), "slice_bytes": 1 << 20, **options}))


def read_all(source: ParquetSource, survey: Survey) -> list[Rows]:
    return [rows for part in survey.slices for rows in source.read(survey, part)]


def number_files(folder: Path) -> Path:
    """Write three files in name order, row groups of 4 rows, n from 0 to 29; return the folder."""
    for i, name in enumerate(("a/2", "a/10", "b")):
        numbers = list(range(i * 10, i * 10 + 10))
        write(folder / f"{name}.parquet", {"n": numbers, "s": [f"s{n}" for n in numbers]}, row_group_size=4)
    return folder


def rejected(source: Path, dataset: Path, **options: Any) -> list[Reject]:
    return packed(source, dataset, max_rejects=1000, **options).rejects

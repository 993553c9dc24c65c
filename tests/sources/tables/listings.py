"""A kind of source for tests: files called *.rows, each a JSON object of columns, read into memory."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from toolkit.sources import registry
from toolkit.sources.base import Source
from toolkit.sources.files import ends_with, find_files, group_by_split
from toolkit.sources.options import SourceOptions
from toolkit.sources.skips import Skips
from toolkit.sources.spec import COMMON, TABLES, SourceSpec
from toolkit.sources.tables.memory import MemoryTable
from toolkit.sources.tables.source import TableSource
from toolkit.sources.tables.table import Table, TableFacts

NAME = "listing"


class ListingSource(TableSource):
    kind = NAME

    def __init__(self, options: SourceOptions, facts: TableFacts) -> None:
        super().__init__(options)
        self._facts = facts

    def tables(self, skips: Skips) -> Mapping[str, Sequence[Table]]:
        files = find_files(self.options, ends_with((".rows",)), None, skips)
        splits: dict[str, list[Table]] = {}
        for split, members in group_by_split(files, self.options.split).items():
            splits[split] = []
            for file in members:
                columns = json.loads(Path(file.path).read_text())
                table = pa.table(columns)
                lines = np.arange(2, table.num_rows + 2)
                folder = os.path.dirname(os.path.abspath(file.path))
                files = {name: folder for name in self._facts.files if name in columns}
                splits[split].append(MemoryTable(file, table, replace(self._facts, files=files), lines=lines))
        return splits


class ListingSpec(SourceSpec):
    name = NAME
    title = "listings"
    sign = "listings by name (.rows)"
    survey_text = "listings are read"
    accepts = COMMON | TABLES | {"image_column", "root"}
    facts: ClassVar[TableFacts] = TableFacts()

    def looks_like(self, path: str) -> bool:
        return path.endswith(".rows")

    def takes_folder(self, path: str) -> bool:
        return any(name.endswith(".rows") for name in os.listdir(path))

    def make(self, options: SourceOptions) -> Source:
        return ListingSource(options, self.facts)


@contextmanager
def listings(facts: TableFacts | None = None) -> Iterator[None]:
    """Have the kind, whose tables say `facts`."""

    class Spec(ListingSpec):
        pass

    Spec.facts = facts or TableFacts()
    registry.register(Spec())
    try:
        yield
    finally:
        registry.forget(NAME)


def write(path: Path, columns: Mapping[str, Sequence[Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(columns))
    return path

"""A dataset in memory as a source: its samples are packed as they are stored."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pyarrow as pa

from toolkit.format.contents import read_classes, read_index, read_schema
from toolkit.format.pin import resolve
from toolkit.sources.base import Rows, Slice, Source, Survey, rows_schema
from toolkit.storage.mapped import map_file
from toolkit.storage.memory import MemoryStore
from toolkit.storage.store import local_path_of

__all__ = ["StoredSource"]

_ROWS_AT_A_TIME = 4096


class StoredSource(Source):
    """The samples of a store's one version; a slice is a shard."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._version = resolve(store.location)

    def survey(self) -> Survey:
        """Say what the manifest says."""
        manifest = self._version.manifest
        schema = read_schema(self._version)
        slices = []
        for split in manifest.splits:
            index = read_index(self._version, split)
            for number, path in enumerate(index.paths()):
                shard = index.shard(number)
                rows = sum(index.batch(batch).rows for batch in shard.batches)
                slices.append(Slice(split, number, rows, shard.file_bytes, path, path))
        return Survey(
            columns=tuple(msgspec.structs.replace(column, label_table=None) for column in manifest.columns),
            types={column.name: schema.field(column.name).type for column in manifest.columns},
            classes=read_classes(self._version),
            splits=tuple(manifest.splits),
            slices=tuple(slices),
            options={name: value for name, value in manifest.options.items() if name != "shard_bytes"},
        )

    def read(self, survey: Survey, part: Slice) -> Iterator[Rows]:
        """Yield a shard's rows. They were checked when they were packed, and nobody can change them since."""
        schema = rows_schema(survey)
        assert isinstance(part.payload, str)
        reader = pa.ipc.open_file(pa.py_buffer(map_file(local_path_of(self._store, part.payload))))
        for number in range(reader.num_record_batches):
            batch = reader.get_batch(number)
            rows = pa.RecordBatch.from_arrays([batch.column(name) for name in schema.names], schema=schema)
            for start in range(0, rows.num_rows, _ROWS_AT_A_TIME):
                yield Rows(rows.slice(start, _ROWS_AT_A_TIME), (), part.bytes if not number and not start else 0)

    def place(self, part: Slice, key: str) -> str:
        """Return the shard's place."""
        return self._store.place(str(part.payload))

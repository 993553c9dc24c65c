"""DataFrames and Arrow tables as a source: their rows are packed as those of a file of rows are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa

from toolkit.errors import UsageError
from toolkit.sources.files import InputFile
from toolkit.sources.options import SourceOptions
from toolkit.sources.skips import Skips
from toolkit.sources.splits import DEFAULT_SPLIT
from toolkit.sources.tables.memory import MemoryTable
from toolkit.sources.tables.source import TableSource
from toolkit.sources.tables.table import Table, TableFacts

__all__ = ["FrameSource", "arrow_of"]

_NAME = "frame"  # in keys and messages


class FrameSource(TableSource):
    """Rows of tables in memory, one for each split."""

    kind: ClassVar[str] = _NAME
    reasons: ClassVar[tuple[str, ...]] = ()

    def __init__(self, options: SourceOptions, frames: Mapping[str | None, pa.Table]) -> None:
        """`frames`: split -> table; None: the split that the options name."""
        super().__init__(options)
        self._frames = frames

    def tables(self, skips: Skips) -> Mapping[str, Sequence[Table]]:
        """Return each split's table."""
        found = {}
        for split, frame in self._frames.items():
            name = _NAME if split is None else split
            file = InputFile(name, name, frame.nbytes)
            found[split or self.options.split or DEFAULT_SPLIT] = [MemoryTable(file, frame, TableFacts())]
        return found


def arrow_of(source: Any) -> pa.Table | None:
    """Return the Arrow table of a DataFrame of polars or pandas, or of Arrow's own; None for anything else."""
    module, name = type(source).__module__.partition(".")[0], type(source).__name__
    if isinstance(source, pa.Table):
        return source
    if isinstance(source, pa.RecordBatch):
        return pa.Table.from_batches([source])
    if isinstance(source, pa.RecordBatchReader):
        return source.read_all()
    if module == "polars" and name == "LazyFrame":
        return _of_polars(source.collect())
    if module == "polars" and name == "DataFrame":
        return _of_polars(source)
    if module == "pandas" and name == "DataFrame":
        named = [one for one in source.index.names if one is not None]
        try:
            return pa.Table.from_pandas(source, preserve_index=bool(named)).replace_schema_metadata()
        except (pa.ArrowException, TypeError, ValueError) as error:
            said = " ".join(str(error).split())
            raise UsageError(f"the DataFrame has values that Arrow doesn't take: {said}") from error
    return None


def _of_polars(frame: Any) -> pa.Table:
    for name, dtype in frame.schema.items():
        if "Object" in repr(dtype) and _has_objects(dtype):  # Arrow would get where they lie in memory
            raise UsageError(f"column {name!r} of the DataFrame holds Python objects, which can't be stored")
    try:
        return frame.to_arrow()
    except pa.ArrowException as error:
        for name, dtype in frame.schema.items():
            try:
                frame.select(name).to_arrow()
            except pa.ArrowException:
                raise UsageError(f"column {name!r} of the DataFrame is {dtype}, which Arrow doesn't take") from error
        raise


def _has_objects(dtype: Any) -> bool:
    inner = [getattr(dtype, "inner", None), *(field.dtype for field in getattr(dtype, "fields", ()))]
    return str(dtype) == "Object" or any(_has_objects(one) for one in inner if one is not None)

"""What Parquet files are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from toolkit.sources.spec import COMMON, PATHS, TABLES, TOKENS, SourceSpec

if TYPE_CHECKING:
    from toolkit.sources.base import Source
    from toolkit.sources.options import SourceOptions

__all__ = ["SPEC", "ParquetSpec"]


class ParquetSpec(SourceSpec):
    """Parquet files, in folders of splits and partitions or not."""

    name = "parquet"
    title = "Parquet files"
    sign = "Parquet by content"
    survey_text = "footers are read, and values only where they tell a kind or classes"
    accepts = COMMON | TABLES | TOKENS | PATHS
    skips: ClassVar[Mapping[str, tuple[str, str]]] = {
        "pandas_index": ("index column of pandas", "index columns of pandas")
    }

    def looks_like(self, path: str) -> bool:
        """Tell whether the file begins and ends as Parquet files do."""
        from toolkit.sources.kinds.parquet.files import looks_like_parquet

        return looks_like_parquet(path)

    def is_named(self, name: str) -> bool:
        """Tell whether a file is called *.parquet or the like."""
        from toolkit.sources.kinds.parquet.files import SUFFIXES

        return name.lower().endswith(SUFFIXES)

    def make(self, options: SourceOptions) -> Source:
        """Return what reads them."""
        from toolkit.sources.kinds.parquet.source import ParquetSource

        return ParquetSource(options)


SPEC = ParquetSpec()

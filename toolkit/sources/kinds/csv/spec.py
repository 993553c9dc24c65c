"""What CSV and TSV files are."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from toolkit.sources.file_names import is_delimited
from toolkit.sources.spec import COMMON, PATHS, TABLES, TOKENS, SourceSpec

if TYPE_CHECKING:
    from toolkit.sources.base import Source
    from toolkit.sources.options import SourceOptions

__all__ = ["SPEC", "CsvSpec"]


class CsvSpec(SourceSpec):
    """Files of delimited text; folders of pictures with such a file, as those of Kaggle competitions."""

    name = "csv"
    title = "CSV and TSV files"
    sign = "CSV by name (.csv .tsv)"
    survey_text = "files are read once, for the types of their values"
    accepts = COMMON | TABLES | TOKENS | PATHS | {"delimiter", "quote", "encoding", "field_names"}
    skips: ClassVar[Mapping[str, tuple[str, str]]] = {
        "blank_lines": ("blank line", "blank lines"),
        "pandas_index": ("column without a name that pandas wrote", "columns without a name that pandas wrote"),
        "submissions": ("table to submit, which is not read", "tables to submit, which are not read"),
        "other_tables": ("table that names no picture", "tables that name no picture"),
    }
    is_faint = 1
    in_place = True

    def looks_like(self, path: str) -> bool:
        """Tell whether the file is called as CSV and TSV files are."""
        return is_delimited(path)

    def takes_folder(self, path: str) -> bool:
        """Tell whether a CSV file directly in the folder names pictures that lie in it."""
        with os.scandir(path) as entries:
            if not any(is_delimited(entry.name) for entry in entries):
                return False
        from toolkit.sources.kinds.csv.pictures import names_pictures

        return names_pictures(path)

    def make(self, options: SourceOptions) -> Source:
        """Return what reads them."""
        from toolkit.sources.kinds.csv.source import CsvSource

        return CsvSource(options)


SPEC = CsvSpec()

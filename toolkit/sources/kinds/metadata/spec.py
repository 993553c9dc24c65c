"""What image folders with metadata files are."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from toolkit.sources.file_names import METADATA
from toolkit.sources.spec import COMMON, TABLES, SourceSpec

if TYPE_CHECKING:
    from toolkit.sources.base import Source
    from toolkit.sources.options import SourceOptions

__all__ = ["SPEC", "MetadataSpec"]


class MetadataSpec(SourceSpec):
    """A folder of pictures with metadata files, in each split's folder or at the top."""

    name = "metadata"
    title = "image folders with metadata.csv, .jsonl or .parquet"
    sign = f"image folders of Hugging Face by {', '.join(METADATA)} with file_name"
    survey_text = "metadata files are read once, and files are listed"
    accepts = COMMON | TABLES | {"encoding"}
    skips: ClassVar[Mapping[str, tuple[str, str]]] = {
        "blank_lines": ("blank line", "blank lines"),
        "pandas_index": ("column without a name that pandas wrote", "columns without a name that pandas wrote"),
    }
    is_folder = True
    in_place = True

    def looks_like(self, path: str) -> bool:
        """Tell nothing of a file: a folder says it by its metadata files."""
        return False

    def takes_folder(self, path: str) -> bool:
        """Tell whether a metadata file in the folder, or in a folder in it, names files."""
        places = [path, *_folders(path)]
        found = [os.path.join(place, name) for place in places for name in METADATA]
        found = [file for file in found if os.path.isfile(file)]
        if not found:
            return False
        from toolkit.sources.kinds.metadata.source import has_paths

        return any(map(has_paths, found))

    def make(self, options: SourceOptions) -> Source:
        """Return what reads it."""
        from toolkit.sources.kinds.metadata.source import MetadataSource

        return MetadataSource(options)


def _folders(path: str) -> list[str]:
    with os.scandir(path) as entries:
        return sorted(entry.path for entry in entries if not entry.name.startswith(".") and entry.is_dir())[:100]


SPEC = MetadataSpec()

"""What MDS datasets are."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from toolkit.sources.spec import COMMON, TABLES, TOKENS, SourceSpec

if TYPE_CHECKING:
    from toolkit.sources.base import Source
    from toolkit.sources.options import SourceOptions

__all__ = ["SPEC", "MDSSpec"]


class MDSSpec(SourceSpec):
    """A dataset of MosaicML Streaming: index.json beside its shards, in folders of splits or not."""

    name = "mds"
    title = "MDS datasets (index.json beside shards)"
    sign = "MDS by its index.json"
    survey_text = "index.json is read, and samples only where they tell a kind or classes"
    accepts = COMMON | (TABLES - {"missing"}) | TOKENS
    skips: ClassVar[Mapping[str, tuple[str, str]]] = {
        "unlisted_shards": ("shard that the index doesn't list", "shards that the index doesn't list")
    }
    is_folder = True

    def looks_like(self, path: str) -> bool:
        """Tell whether the file is called index.json and begins as the index of a dataset does, or is a shard."""
        from toolkit.sources.kinds.mds.index import INDEX_NAME, looks_like_index, looks_like_shard

        return looks_like_index(path) if os.path.basename(path) == INDEX_NAME else looks_like_shard(path)

    def takes_folder(self, path: str) -> bool:
        """Tell whether the folder, or a folder in it, holds the index of a dataset."""
        from toolkit.sources.kinds.mds.index import find_indexes

        return bool(find_indexes(path))

    def make(self, options: SourceOptions) -> Source:
        """Return what reads it."""
        from toolkit.sources.kinds.mds.source import MDSSource

        return MDSSource(options)


SPEC = MDSSpec()

"""What HDF5 files are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from toolkit.sources.spec import COMMON, PATHS, TABLES, TOKENS, SourceSpec

if TYPE_CHECKING:
    from toolkit.sources.base import Source
    from toolkit.sources.options import SourceOptions

__all__ = ["SPEC", "Hdf5Spec"]


class Hdf5Spec(SourceSpec):
    """HDF5 files whose datasets share their first length."""

    name = "hdf5"
    title = "HDF5 files"
    sign = "HDF5 by content"
    survey_text = "datasets are listed, and values are read only where they tell a kind or classes"
    accepts = COMMON | TABLES | TOKENS | PATHS
    skips: ClassVar[Mapping[str, tuple[str, str]]] = {
        "attributes": ("attribute", "attributes"),
        "links": ("link to a group", "links to groups"),
        "scalars": ("dataset without rows", "datasets without rows"),
    }

    def looks_like(self, path: str) -> bool:
        """Tell whether the file has the signature of HDF5."""
        from toolkit.sources.kinds.hdf5.looks import looks_like_hdf5

        return looks_like_hdf5(path)

    def is_named(self, name: str) -> bool:
        """Tell whether a file is called *.h5 or the like."""
        from toolkit.sources.kinds.hdf5.looks import SUFFIXES

        return name.lower().endswith(SUFFIXES)

    def make(self, options: SourceOptions) -> Source:
        """Return what reads them."""
        from toolkit.sources.kinds.hdf5.source import Hdf5Source

        return Hdf5Source(options)


SPEC = Hdf5Spec()

"""What NumPy files are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from toolkit.sources.spec import COMMON, PATHS, TABLES, TOKENS, SourceSpec

if TYPE_CHECKING:
    from toolkit.sources.base import Source
    from toolkit.sources.options import SourceOptions

__all__ = ["SPEC", "NumpySpec"]


class NumpySpec(SourceSpec):
    """NumPy files whose arrays share their first length: archives (.npz), and .npy files side by side."""

    name = "numpy"
    title = "NumPy files"
    sign = "NumPy files (.npy .npz) by content"
    survey_text = "headers of arrays are read, and values only where they tell a kind or classes"
    accepts = COMMON | TABLES | TOKENS | PATHS
    skips: ClassVar[Mapping[str, tuple[str, str]]] = {
        "other_members": ("member that is no array", "members that are no arrays"),
        "scalars": ("array without rows", "arrays without rows"),
    }
    is_faint = True  # features and statistics lie beside photographs

    def looks_like(self, path: str) -> bool:
        """Tell whether the file begins as a NumPy file or an archive of such, or is a pickle of CIFAR's."""
        from toolkit.sources.kinds.numpy.looks import looks_like_arrays

        return looks_like_arrays(path)

    def takes_folder(self, path: str) -> bool:
        """Tell whether there are files of arrays in it and documents beside them, a README say, and nothing else."""
        from toolkit.sources.kinds.numpy.looks import holds_arrays_alone

        return holds_arrays_alone(path)

    def is_named(self, name: str) -> bool:
        """Tell whether a file is called *.npy or *.npz."""
        return name.lower().endswith((".npy", ".npz"))

    def make(self, options: SourceOptions) -> Source:
        """Return what reads them."""
        from toolkit.sources.kinds.numpy.source import NumpySource

        return NumpySource(options)


SPEC = NumpySpec()

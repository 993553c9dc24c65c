"""What folders of TensorFlow Datasets are."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from toolkit.sources.spec import COMMON, TABLES, TOKENS, SourceSpec

if TYPE_CHECKING:
    from toolkit.sources.base import Source
    from toolkit.sources.options import SourceOptions

__all__ = ["SPEC", "TFDSSpec"]


class TFDSSpec(SourceSpec):
    """A folder that tensorflow-datasets prepared: features.json and dataset_info.json beside TFRecord files."""

    name = "tfds"
    title = "TFDS folders (features.json beside TFRecord files)"
    sign = "TFDS by its features.json and dataset_info.json"
    survey_text = "descriptions are read, and records only where they tell text from bytes"
    accepts = COMMON | (TABLES - {"missing"}) | TOKENS
    skips: ClassVar[Mapping[str, tuple[str, str]]] = {
        "unlisted_files": ("file of records that is in no split", "files of records that are in no split")
    }
    is_folder = True

    def looks_like(self, path: str) -> bool:
        """Tell whether the file is the features.json of such a folder."""
        from toolkit.sources.kinds.tfds.files import DESCRIPTIONS, version_folders

        folder = os.path.dirname(path)
        return os.path.basename(path) == DESCRIPTIONS[0] and version_folders(folder) == [folder]

    def takes_folder(self, path: str) -> bool:
        """Tell whether both descriptions lie in the folder, or in a version's folder in it."""
        from toolkit.sources.kinds.tfds.files import version_folders

        return bool(version_folders(path))

    def make(self, options: SourceOptions) -> Source:
        """Return what reads it."""
        from toolkit.sources.kinds.tfds.source import TFDSSource

        return TFDSSource(options)


SPEC = TFDSSpec()

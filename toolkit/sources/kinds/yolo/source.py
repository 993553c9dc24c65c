"""A YOLO dataset as a source: a table for each folder or list of pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from toolkit.errors import UsageError
from toolkit.sources.base import Survey
from toolkit.sources.files import expand
from toolkit.sources.kinds.yolo.places import find_config
from toolkit.sources.kinds.yolo.tables import YoloFolder
from toolkit.sources.options import SourceOptions
from toolkit.sources.skips import Skips
from toolkit.sources.tables.source import TableSource
from toolkit.sources.tables.table import Table

__all__ = ["YoloSource"]


class YoloSource(TableSource):
    """A folder with images/ and labels/, or the YAML file that names them."""

    kind = "yolo"
    reasons: ClassVar[tuple[str, ...]] = (*TableSource.reasons, "backgrounds", "no_image")

    def __init__(self, options: SourceOptions) -> None:
        if len(options.paths) > 1:
            raise UsageError(
                f"a YOLO dataset is one SOURCE, and there are {len(options.paths)}: pack the first, then the others "
                "with --on-existing append"
            )
        super().__init__(options)
        self._warnings: tuple[str, ...] = ()

    def tables(self, skips: Skips) -> Mapping[str, Sequence[Table]]:
        """Read the YAML file and the label files."""
        (path,) = expand(self.options.paths[0])[:1]
        given = replace(self.options, paths=(path,))
        folder = YoloFolder(find_config(given), given, skips)
        self._warnings = folder.warnings()
        return folder.splits

    def survey(self) -> Survey:
        """Read the YAML file and the label files; look at what pictures there are."""
        survey = super().survey()
        return replace(survey, warnings=(*survey.warnings, *self._warnings))

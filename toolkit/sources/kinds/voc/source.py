"""Pascal VOC as a source: a table for each list of pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from toolkit.errors import SourceError, UsageError
from toolkit.sources.base import Survey
from toolkit.sources.kinds.voc.devkit import find_splits, find_years
from toolkit.sources.kinds.voc.tables import VocFolder
from toolkit.sources.options import SourceOptions
from toolkit.sources.places import source_folder
from toolkit.sources.skips import Skips
from toolkit.sources.tables.plan import Plan
from toolkit.sources.tables.source import TableSource
from toolkit.sources.tables.table import Table

__all__ = ["VocSource"]


class VocSource(TableSource):
    """A VOCdevkit folder, or the folder of one year in it."""

    kind = "voc"
    reasons: ClassVar[tuple[str, ...]] = (*TableSource.reasons, "no_picture", "unlisted")

    def __init__(self, options: SourceOptions) -> None:
        if len(options.paths) > 1:
            raise UsageError(
                f"Pascal VOC is one SOURCE, and there are {len(options.paths)}: pack the first, then the others "
                "with --on-existing append"
            )
        super().__init__(options)
        self._warnings: tuple[str, ...] = ()

    def tables(self, skips: Skips) -> Mapping[str, Sequence[Table]]:
        """Read the annotations and lists."""
        root = source_folder(self.options.paths[0])
        years = find_years(root)
        if not years:
            raise SourceError(
                f"{root!r} has no folder JPEGImages beside Annotations or SegmentationClass, nor has a folder VOC… in "
                "it: give the VOCdevkit folder, or one year's"
            )
        splits = find_splits(root, years, self.options)
        folder = VocFolder(root, years, self.options, skips)
        made = {split: [folder.table(one) for one in lists] for split, lists in splits.items()}
        if self.options.split is None:
            folder.note_unnamed([one for lists in splits.values() for one in lists])
        self._warnings = folder.warnings()
        return made

    def survey(self) -> Survey:
        """Read the annotations and lists; look at what files there are."""
        survey = super().survey()
        return replace(survey, warnings=(*survey.warnings, *self._warnings))

    def shaping_options(self, plan: Plan) -> dict[str, object]:
        """Return the options that are given."""
        splits = {split: list(lists) for split, lists in self.options.splits.items()}
        return {**super().shaping_options(plan), **({"splits": splits} if splits else {})}

"""COCO annotations as a source: a table for each split, whose rows are images with their annotations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from toolkit.errors import SourceError
from toolkit.format.kinds import Kind
from toolkit.pipelines.image.facts import facts_of
from toolkit.sources.files import InputFile
from toolkit.sources.kinds.coco.document import Document
from toolkit.sources.kinds.coco.layout import Layout, find_annotations
from toolkit.sources.kinds.coco.samples import Doubts, SplitSamples
from toolkit.sources.names import printable
from toolkit.sources.options import SourceOptions, VerifyImages
from toolkit.sources.regular import open_file
from toolkit.sources.skips import FILE_REASONS, Skips
from toolkit.sources.tables.memory import MemoryTable
from toolkit.sources.tables.paths import GOOD, Root, UnsafePathError, relative
from toolkit.sources.tables.source import TableSource
from toolkit.sources.tables.table import Table, TableFacts
from toolkit.storage.files import storage_errors

__all__ = ["CocoSource"]

_MEASURED = 100  # pictures of a split whose headers are compared with the file
_HEADER_BYTES = 1 << 20


class CocoSource(TableSource):
    """Images with boxes, masks, keypoints and captions."""

    kind = "coco"
    reasons: ClassVar[tuple[str, ...]] = ("no_picture", "left_out_fields", "panoptic", *FILE_REASONS)

    def __init__(self, options: SourceOptions) -> None:
        super().__init__(options)
        self._doubts = Doubts()

    def tables(self, skips: Skips) -> Mapping[str, Sequence[Table]]:
        """Read the annotation files of the splits to pack; of others, the categories."""
        chosen, every = find_annotations(self.options, skips)
        layout = Layout(self.options, every[0])
        made: dict[str, SplitSamples] = {}
        for split, files in chosen.items():
            made[split] = samples = SplitSamples(skips, self._doubts)
            for file in files:
                self._add(samples, Document(file), layout, split, skips)
        self.takes_all = len(every) == sum(map(len, chosen.values()))
        classes = self._classes(chosen, every, made)
        fields = {name for samples in made.values() for name in samples.fields}
        facts = self._facts(layout, classes, fields, list(made.values()))
        tables: dict[str, list[Table]] = {}
        for split, samples in made.items():
            table, rejects = samples.table({name: i for i, name in enumerate(classes)}, fields)
            tables[split] = [MemoryTable(chosen[split][0], table, facts, rejects)]
            if self.options.verify_images is not VerifyImages.OFF:
                self._measure(layout, samples)
        if not any(table.rows or table.rejects for members in tables.values() for table in members):
            raise SourceError(f"{printable(every[0].path)!r} has no images: nothing would be packed")
        return tables

    def doubts(self) -> tuple[str, ...]:
        """Return what is odd about boxes, masks and sizes."""
        return self._doubts.told()

    def _add(self, samples: SplitSamples, document: Document, layout: Layout, split: str, skips: Skips) -> None:
        file = document.file
        samples.add(document, lambda pictures: layout.placed(file, split, [one.file_name for one in pictures]))
        for name in sorted(document.left_out):
            skips.add("left_out_fields", f"{file.name}: {name}")

    def _classes(
        self, chosen: Mapping[str, Sequence[InputFile]], every: Sequence[InputFile], made: Mapping[str, SplitSamples]
    ) -> tuple[str, ...]:
        """Return the classes of all files, in their order, whichever splits are packed: so no id depends on these."""
        splits = {file.path: split for split, files in chosen.items() for file in files}
        names: dict[str, None] = {}
        for file in every:
            split = splits.get(file.path)
            known = [one.name for one in Document(file).categories] if split is None else list(made[split].names)
            names |= dict.fromkeys(known)
        return tuple(names)

    def _facts(
        self, layout: Layout, classes: tuple[str, ...], fields: set[str], made: Sequence[SplitSamples]
    ) -> TableFacts:
        ids = {name: one.category_ids[place] for one in reversed(made) for name, place in one.names.items()}
        skeletons = {name: known for one in reversed(made) for name, known in one.skeletons.items()}
        options: dict[str, object] = {"boxes": "xywh"} if "boxes" in fields else {}
        if "labels" in fields:
            options["category_ids"] = [ids.get(name) for name in self.options.classes or classes]
        if skeletons:
            options["keypoints"] = skeletons
        return TableFacts(
            kinds={"segmentation": Kind.JSON} if "segmentation" in fields else {},
            classes={"labels": classes} if "labels" in fields else {},
            files={"image": layout.root},
            key="image",
            counts_unlisted=self.takes_all,
            options=options,
        )

    def _measure(self, layout: Layout, samples: SplitSamples) -> None:
        """Compare the sizes of some pictures with those that the file says: boxes and masks are in its pixels."""
        sizes = samples.sizes()
        root = Root(layout.root, follow_links=self.options.follow_links)
        for i in np.unique(np.linspace(0, len(sizes) - 1, min(len(sizes), _MEASURED)).astype(int)).tolist():
            text, width, height = sizes[i]
            try:
                path = relative(text.encode())
            except (UnsafePathError, UnicodeEncodeError):
                continue
            code, _ = root.look(path)
            if code != GOOD:
                continue
            full = f"{root.folder}/{path}"
            with storage_errors("read", full), open_file(full) as file:
                facts = facts_of(file.read(_HEADER_BYTES))
            if facts is not None and (facts.width, facts.height) != (width, height):
                looked_at = min(len(sizes), _MEASURED)
                self._doubts.add(
                    f"pictures of another size than their annotations say, of {looked_at:,} that were looked at",
                    f"{printable(text)!r} ({facts.width} x {facts.height}, not {width} x {height})",
                )

"""Make tables of a Pascal VOC folder: a row for each picture of a split, with what is known of it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from toolkit.format.arrays import to_array
from toolkit.format.kinds import Kind
from toolkit.sources.files import InputFile
from toolkit.sources.images import IMAGE_EXTENSIONS
from toolkit.sources.kinds.voc.annotations import FIELDS, Annotations
from toolkit.sources.kinds.voc.devkit import ANNOTATIONS, MASKS, OBJECT_MASKS, PICTURES, PictureList
from toolkit.sources.names import is_utf8, printable
from toolkit.sources.options import Missing, SourceOptions
from toolkit.sources.patterns import Patterns
from toolkit.sources.reject import Reject
from toolkit.sources.skips import Skips
from toolkit.sources.tables.listing import files_below
from toolkit.sources.tables.memory import MemoryTable
from toolkit.sources.tables.paths import UnsafePathError, relative
from toolkit.sources.tables.table import TableFacts

__all__ = ["VocFolder"]

_ENDING = ".xml"


@dataclass(slots=True)
class _Year:
    """Files of a year by the names of their pictures without ending: paths below the source."""

    pictures: dict[str, list[str]] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    masks: dict[str, str] = field(default_factory=dict)
    object_masks: dict[str, str] = field(default_factory=dict)
    excluded: set[str] = field(default_factory=set)  # pictures, with their endings and without


class VocFolder:
    """A folder of Pascal VOC, listed, with all its annotations read."""

    def __init__(self, root: str, years: Iterable[str], options: SourceOptions, skips: Skips) -> None:
        """List the folders of `years` below `root`, and read the annotations."""
        self._root = root
        self._options = options
        self._skips = skips
        self._patterns = Patterns(options.include, options.exclude)
        self._annotations = Annotations(root)
        self._years = {year: self._list(year) for year in years}
        for year in self._years.values():
            for name in year.annotations.values():
                stem = os.path.splitext(name.rpartition("/")[2])[0]
                self._annotations.read(name, stem, skips)
        self._table = self._annotations.table()
        self._has_annotations = any(year.annotations for year in self._years.values())
        self._facts = self._known()
        self._without: list[str] = []
        self._unlisted: list[str] = []

    def table(self, of: PictureList) -> MemoryTable:
        """Return the rows of a list of pictures, and what can't be one."""
        year = self._years[of.year]
        ids = of.ids if of.name is not None else tuple(enumerate(sorted(year.pictures), 1))
        shown = os.path.join(self._root, of.name or os.path.join(of.year, PICTURES))
        rows: list[tuple[str, int | None, str | None, str | None]] = []
        lines: list[int] = []
        rejects: list[Reject] = []
        for line, name in ids:
            pictures = year.pictures.get(name) or self._with_ending(year, name)
            if not pictures and name in year.excluded:
                continue
            key = pictures[0] if pictures else _joined(of.year, PICTURES, f"{name}.jpg")
            try:
                if not pictures:
                    relative(key.encode())
            except UnsafePathError as fault:  # the text isn't told: it may be a URL with a password
                rejects.append(Reject(f"{printable(shown)}, line {line}", f"{of.name}#{line}", str(fault)))
                continue
            stem = os.path.splitext(_below(key, of.year, PICTURES))[0] if pictures else name
            annotation = year.annotations.get(stem)
            reason = self._unusable(pictures, annotation, stem)
            if reason is not None:
                listed = f"{shown}, line {line}" if of.name is not None else os.path.join(self._root, key)
                place = listed if annotation is None else os.path.join(self._root, annotation)
                if reason:
                    rejects.append(Reject(printable(place), printable(key), reason))
                continue
            row = self._annotations.rows[annotation] if annotation is not None else None
            rows.append((key, row, year.masks.get(stem), year.object_masks.get(stem)))
            lines.append(line)
        size = os.path.getsize(shown) if of.name is not None else 0
        file = InputFile(shown, of.name or _joined(of.year, PICTURES), size)
        numbers = np.array(lines, np.int64) if of.name is not None else None
        return MemoryTable(file, self._rows(rows), self._facts, rejects, numbers)

    def note_unnamed(self, lists: Sequence[PictureList]) -> None:
        """Note pictures that are in none of the lists, and annotations and masks of pictures that aren't there."""
        listed = {(one.year, name) for one in lists for _, name in one.ids}
        whole = {one.year for one in lists if one.name is None}
        for folder, year in self._years.items():
            for stem, pictures in year.pictures.items():
                endings = {os.path.splitext(name)[1] for name in pictures}
                if folder not in whole and not listed & {(folder, stem + one) for one in ("", *endings)}:
                    self._unlisted.append(printable(pictures[0]))
                    self._skips.add("unlisted", pictures[0])
            for names in (year.annotations, year.masks, year.object_masks):
                for stem, name in names.items():
                    if stem not in year.pictures and stem not in year.excluded and (folder, stem) not in listed:
                        self._skips.add("no_picture", name)

    def warnings(self) -> tuple[str, ...]:
        """Return what is odd, once all tables are made."""
        told = list(self._annotations.warnings())
        if self._without:
            told.append(
                f"pictures without an annotation: {len(self._without)}, as {self._without[0]!r}; their boxes and "
                "labels are null"
            )
        if self._unlisted and not self._options.splits:
            told.append(
                f"pictures that are in no list of a split, and so left out: {len(self._unlisted)}, as "
                f"{self._unlisted[0]!r}. --splits names other lists, as in --splits train=Segmentation/train"
            )
        return tuple(told)

    def _known(self) -> TableFacts:
        """Return what is known of the fields, which all tables have."""
        fields = self._files()
        annotated = self._has_annotations
        return TableFacts(
            kinds=dict.fromkeys(fields, Kind.IMAGE),
            classes={"labels": self._annotations.classes()} if annotated else {},
            files=dict.fromkeys(fields, self._root),
            optional=frozenset(fields) - {"image"},
            key="image",
            options={"boxes": "xyxy 1-based"} if annotated else {},
        )

    def _files(self) -> list[str]:
        there = self._years.values()
        fields = {"mask": any(one.masks for one in there), "object_mask": any(one.object_masks for one in there)}
        return ["image", *(name for name, has in fields.items() if has)]

    def _list(self, year: str) -> _Year:
        found = _Year()
        for name in self._below(year, PICTURES, IMAGE_EXTENSIONS):
            whole = _below(name, year, PICTURES)
            stem = os.path.splitext(whole)[0]
            if self._patterns.takes(name):
                found.pictures.setdefault(stem, []).append(name)
            else:
                found.excluded |= {stem, whole}
                self._skips.add("excluded", name)
        for folder, endings, names in (
            (ANNOTATIONS, (_ENDING,), found.annotations),
            (MASKS, IMAGE_EXTENSIONS, found.masks),
            (OBJECT_MASKS, IMAGE_EXTENSIONS, found.object_masks),
        ):
            for name in self._below(year, folder, endings):
                stem = os.path.splitext(_below(name, year, folder))[0]
                if stem in names:  # a.xml and a.XML: the first is as good as any
                    self._skips.add("other_kinds", name)
                names.setdefault(stem, name)
        return found

    def _below(self, year: str, folder: str, endings: tuple[str, ...]) -> Iterable[str]:
        path = _joined(year, folder)
        if not os.path.isdir(os.path.join(self._root, path)):
            return
        for name in files_below(self._root, path, follow_links=self._options.follow_links, skips=self._skips):
            if name.lower().endswith(endings):
                yield name
            else:
                self._skips.add("other_kinds", name)

    def _with_ending(self, year: _Year, name: str) -> list[str]:
        """Return the picture that a list names with its ending."""
        stem, ending = os.path.splitext(name)
        return [one for one in year.pictures.get(stem, ()) if ending and one.endswith(ending)]

    def _unusable(self, pictures: list[str], annotation: str | None, stem: str) -> str | None:
        """Return why a picture can't be a row; "" when it is passed over."""
        names = ", ".join(repr(printable(one.rpartition("/")[2])) for one in pictures)
        if len(pictures) > 1:
            return f"{len(pictures)} pictures have its name: {names}"
        if not all(map(is_utf8, (*pictures, stem))):
            return "the file's name is not valid UTF-8"
        if annotation is not None:
            return self._annotations.faults.get(annotation)
        if not self._has_annotations:
            return None
        match self._options.missing:
            case Missing.NULL:
                self._without.append(printable(stem))
                return None
            case Missing.SKIP:
                self._skips.add("no_annotation", stem)
                return ""
        return f"no annotation {printable(stem)}{_ENDING}; --missing null keeps such pictures, without boxes"

    def _rows(self, rows: list[tuple[str, int | None, str | None, str | None]]) -> pa.Table:
        images, places, masks, object_masks = zip(*rows, strict=True) if rows else ((), (), (), ())
        columns = {"image": to_array(images, pa.string())}
        if self._has_annotations:
            taken = self._table.take(to_array(places, pa.int64()))
            columns |= {name: taken[name] for name in FIELDS.names}
        for name, values in (("mask", masks), ("object_mask", object_masks)):
            if name in self._files():
                columns[name] = to_array(values, pa.string())
        return pa.table(columns)


def _below(name: str, year: str, folder: str) -> str:
    return name.removeprefix(_joined(year, folder) + "/")


def _joined(*parts: str) -> str:
    return "/".join(part for part in parts if part)

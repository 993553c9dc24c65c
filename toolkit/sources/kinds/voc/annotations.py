"""Read the annotations of a whole set: one row for each file, ids for the names, and what is odd about them."""

from __future__ import annotations

import os

import numpy as np
import pyarrow as pa

from toolkit.format.arrays import numbers, value_offsets
from toolkit.sources.classes import check_class_names
from toolkit.sources.contents import UnfitError
from toolkit.sources.kinds.voc.annotation import MOST_BYTES, Annotation, Thing, read_annotation
from toolkit.sources.names import printable
from toolkit.sources.skips import Skips
from toolkit.sources.tables.gather import Gathered
from toolkit.sources.tables.listing import read_small

__all__ = ["FIELDS", "VOC_CLASSES", "Annotations"]

VOC_CLASSES = (
    *("aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow", "diningtable", "dog"),
    *("horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor"),
)

FIELDS = pa.schema(
    [
        pa.field("boxes", pa.list_(pa.list_(pa.float64(), 4))),
        pa.field("labels", pa.list_(pa.int64())),
        pa.field("difficult", pa.list_(pa.int64())),
        pa.field("truncated", pa.list_(pa.int64())),
        pa.field("occluded", pa.list_(pa.int64())),
        pa.field("pose", pa.list_(pa.string())),
    ]
)


class Annotations:
    """Annotation files, read one after the other.

    Attributes:
        faults: Why a file can't be used, by its path below the source.
        rows: Its row in table(), by its path below the source.
    """

    def __init__(self, root: str) -> None:
        """Take files below `root`."""
        self.faults: dict[str, str] = {}
        self.rows: dict[str, int] = {}
        self._root = root
        self._ids: dict[str, int] = {}  # in the order in which names were met
        self._gathered = Gathered(FIELDS)
        self._odd = {"beyond": 0, "zero": 0}
        self._renamed: list[str] = []

    def read(self, name: str, stem: str, skips: Skips) -> None:
        """Read a file: `name` below the source, of the picture whose name ends with `stem`."""
        try:
            said = read_annotation(read_small(os.path.join(self._root, name), MOST_BYTES))
        except UnfitError as fault:
            self.faults[name] = str(fault)
            return
        things = said.things
        self.rows[name] = len(self._gathered)
        self._gathered.add(
            (
                [thing.box for thing in things],
                [self._ids.setdefault(thing.name, len(self._ids)) for thing in things],
                [thing.difficult for thing in things],
                [thing.truncated for thing in things],
                [thing.occluded for thing in things],
                [thing.pose for thing in things],
            )
        )
        if said.parts:
            skips.count("parts", said.parts)
        self._note(name, stem, said)

    def classes(self) -> tuple[str, ...]:
        """Return the class names: VOC's twenty when all that were met are of them, or else these, sorted."""
        if self._ids.keys() <= set(VOC_CLASSES):
            return VOC_CLASSES
        names = sorted(self._ids)
        check_class_names(names, where="names of objects", unit="class", first=0)
        return tuple(names)

    def table(self) -> pa.Table:
        """Return the rows, their labels being ids of classes()."""
        table = self._gathered.table()
        place = {name: i for i, name in enumerate(self.classes())}
        ids = np.array([place[name] for name in self._ids], np.int64)
        lists = table["labels"].combine_chunks()
        found = numbers(lists.values)
        values = ids[found] if len(found) else found
        buffers = [None, pa.py_buffer(value_offsets(lists))]
        child = pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(values)])
        labels = pa.Array.from_buffers(lists.type, len(lists), buffers, children=[child])
        return table.set_column(table.schema.get_field_index("labels"), FIELDS.field("labels"), labels)

    def warnings(self) -> tuple[str, ...]:
        """Return what is odd, a sentence or two each."""
        told = []
        if self._odd["beyond"]:
            told.append(
                f"boxes that reach beyond the <size> of their picture: {self._odd['beyond']}. They are kept as they are"
            )
        if self._odd["zero"]:
            told.append(
                f"boxes that begin at 0: {self._odd['zero']}. VOC counts pixels from 1, and what wrote these may count "
                "from 0; they are kept as they are"
            )
        if self._renamed:
            told.append(
                f"annotations whose <filename> is of another picture: {len(self._renamed)}, as in "
                f"{', '.join(map(repr, self._renamed[:3]))}. An annotation belongs to the picture that is called as it "
                "is, whatever it says"
            )
        return tuple(told)

    def _note(self, name: str, stem: str, said: Annotation) -> None:
        self._odd["zero"] += sum(min(thing.box[:2]) == 0 for thing in said.things)
        self._odd["beyond"] += sum(_is_beyond(thing, said.size) for thing in said.things)
        if said.filename is not None and said.filename != stem and os.path.splitext(said.filename)[0] != stem:
            self._renamed.append(printable(name))


def _is_beyond(thing: Thing, size: tuple[float, float] | None) -> bool:
    if min(thing.box) < 0:
        return True
    return size is not None and (thing.box[2] > size[0] or thing.box[3] > size[1])

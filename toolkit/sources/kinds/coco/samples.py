"""The annotation files of one split as one table: an image a row, its annotations as lists beside each other."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import UNSET, Raw
from numpy.typing import NDArray

from toolkit.errors import SourceError
from toolkit.format.arrays import to_array
from toolkit.sources.files import InputFile
from toolkit.sources.kinds.coco.document import Annotation, Category, Document, Picture, shown_name
from toolkit.sources.kinds.coco.rle import MaskError, check_segmentation
from toolkit.sources.names import printable
from toolkit.sources.reject import Reject
from toolkit.sources.skips import Skips

__all__ = ["BOX", "Doubts", "SplitSamples"]

BOX = pa.list_(pa.float64(), 4)
_TYPES = {
    "boxes": BOX,
    "labels": pa.int64(),
    "areas": pa.float64(),
    "iscrowd": pa.int64(),
    "annotation_ids": pa.int64(),
    "segmentation": pa.string(),
    "keypoints": pa.list_(pa.float64()),
    "num_keypoints": pa.int64(),
    "captions": pa.string(),
}
_FIELDS = {
    "bbox": "boxes",
    "category_id": "labels",
    "area": "areas",
    "iscrowd": "iscrowd",
    "id": "annotation_ids",
    "segmentation": "segmentation",
    "keypoints": "keypoints",
    "num_keypoints": "num_keypoints",
}
_JSON_BYTES = 1 << 24  # of a chunk of texts, which are Python objects until it is made
_BEYOND = 1.0  # pixels that a box may reach out of its picture before that is told: files round


class Doubts:
    """What is packed as it is, and the user should look at: how often, and the first place."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[int, str]] = {}

    def add(self, what: str, place: str) -> None:
        """Count one."""
        count, first = self._found.get(what, (0, place))
        self._found[what] = count + 1, first

    def told(self) -> tuple[str, ...]:
        """Return a line for each."""
        return tuple(f"{what}: {count:,}, {first} for one" for what, (count, first) in self._found.items())


class SplitSamples:
    """What the files of a split say, gathered column by column.

    Attributes:
        fields: Names of the lists that any annotation has something for.
        names: Names of the classes that were met, in order of the files' categories; labels count in it.
        category_ids: The id of each class in the first file that has it.
        skeletons: Names and joints of keypoints, by class.
    """

    def __init__(self, skips: Skips, doubts: Doubts) -> None:
        self.fields: set[str] = set()
        self.names: dict[str, int] = {}
        self.category_ids: list[int] = []
        self.skeletons: dict[str, dict[str, object]] = {}
        self._skips = skips
        self._doubts = doubts
        self._pictures: list[Picture] = []
        self._paths: list[str] = []
        self._files: list[InputFile] = []
        self._rows: dict[int, int] = {}
        self._faults: dict[int, str] = {}
        self._boxes_of, self._captions_of = array("q"), array("q")  # the row of each annotation
        self._values: dict[str, list[Any]] = {name: [] for name in _TYPES if name != "captions"}
        self._captions: list[str] = []
        self._known = {"captions": False, "boxes": False}

    def add(self, document: Document, place: Callable[[Sequence[Picture]], Sequence[str]]) -> None:
        """Take a file in.

        Args:
            document: The file.
            place: Returns the paths of pictures below the root.

        Raises:
            SourceError: It can't be understood, or contradicts a file before.
        """
        self._add_pictures(document, place)
        labels = self._labels(document.categories)
        points = {one.id: len(one.keypoints) for one in document.categories if one.keypoints is not None}
        places = self._annotations()
        captions = boxes = 0
        for number, image_id, found in document.annotations():
            row = self._rows.get(image_id)
            if row is None:
                name = number if isinstance(found, str) or found.id in (UNSET, None) else found.id
                self._skips.add("no_picture", f"{document.file.name}: annotation {name} of image {image_id}")
            elif isinstance(found, str):
                self._fault(row, f"annotations[{number}]: {found}")
            elif found.caption not in (UNSET, None):
                self._captions_of.append(row)
                self._captions.append(str(found.caption))
                captions += 1
            else:
                boxes += 1
                fault = self._add_annotation(row, found, labels, points, places)
                if fault is not None:
                    self._fault(row, f"annotation {number if found.id in (UNSET, None) else found.id}: {fault}")
        if captions:
            self.fields.add("captions")
        self._known["captions"] |= bool(captions) or (document.has_annotations and not document.categories)
        self._known["boxes"] |= bool(boxes) or (document.has_annotations and bool(document.categories))
        if document.categories and document.has_annotations:
            self.fields |= {"labels", "boxes"}

    def table(self, ids: Mapping[str, int], fields: Iterable[str]) -> tuple[pa.Table, tuple[Reject, ...]]:
        """Return a row for each image that is whole, in order of their paths, and the others. To be called once.

        Args:
            ids: The id of each class.
            fields: The lists to make; those that the split knows nothing of are null.
        """
        good = sorted((row for row in range(len(self._pictures)) if row not in self._faults), key=self._key)
        rows = np.array(good, np.int64)
        columns: dict[str, pa.Array | pa.ChunkedArray] = {
            "image": to_array([self._paths[row] for row in good], pa.string()),
            "image_id": to_array([self._pictures[row].id for row in good], pa.int64()),
        }
        order, starts = _grouped(self._boxes_of, len(self._pictures))
        for name in (name for name in _TYPES if name in fields and name != "captions"):
            known = self._known["boxes"]
            columns[name] = self._listed(name, ids, rows, order, starts) if known else _nulls(name, len(rows))
        if "captions" in fields:
            order, starts = _grouped(self._captions_of, len(self._pictures))
            picked, offsets = _picked(order, starts, rows)
            listed = to_array([self._captions[i] for i in picked.tolist()], pa.string())
            made = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), listed)
            columns["captions"] = made if self._known["captions"] else _nulls("captions", len(rows))
        rejects = tuple(
            Reject(printable(self._files[row].path), self._key_of(row), self._faults[row])
            for row in sorted(self._faults, key=self._key)
        )
        return pa.table(columns), rejects

    def sizes(self) -> list[tuple[str, int, int]]:
        """Return path, width and height of the pictures whose size a file says, in order of paths."""
        whole = [
            (path, picture.width, picture.height)
            for path, picture in zip(self._paths, self._pictures, strict=True)
            if picture.width is not None and picture.height is not None
        ]
        return sorted(whole)

    def _key(self, row: int) -> tuple[list[str], int]:
        return self._paths[row].split("/"), row

    def _key_of(self, row: int) -> str:
        """Return the key that a sample would have had: its path, if that is one."""
        path = self._paths[row]
        name = f"{printable(self._files[row].name)}#{self._pictures[row].id}"
        return path if shown_name(path) == repr(path) else name

    def _fault(self, row: int, what: str) -> None:
        self._faults.setdefault(row, what)

    def _add_pictures(self, document: Document, place: Callable[[Sequence[Picture]], Sequence[str]]) -> None:
        pictures = list(document.pictures())
        for picture, path in zip(pictures, place(pictures), strict=True):
            row = self._rows.setdefault(picture.id, len(self._pictures))
            if row == len(self._pictures):
                self._pictures.append(picture)
                self._paths.append(path)
                self._files.append(document.file)
            elif self._pictures[row].file_name != picture.file_name:
                other = f"in {printable(self._files[row].path)!r} {shown_name(self._pictures[row].file_name)}"
                raise SourceError(
                    f"{document.shown}: image {picture.id} is {shown_name(picture.file_name)}, and {other}: files of "
                    "one split must mean the same images by their ids. Give them splits of their own by their "
                    "names, or leave one out with --exclude"
                )

    def _labels(self, categories: Sequence[Category]) -> dict[int, int]:
        labels = {}
        for one in categories:
            if one.name not in self.names:
                self.names[one.name] = len(self.names)
                self.category_ids.append(one.id)
            if one.keypoints is not None:
                self.skeletons[one.name] = {"names": one.keypoints, "skeleton": one.skeleton or []}
            labels[one.id] = self.names[one.name]
        return labels

    def _annotations(self) -> dict[int, int]:
        """Return the place of each annotation by its id."""
        return {one: place for place, one in enumerate(self._values["annotation_ids"]) if one is not None}

    def _add_annotation(
        self, row: int, found: Annotation, labels: Mapping[int, int], points: Mapping[int, int], places: dict[int, int]
    ) -> str | None:
        """Add an annotation to the lists, or what it says besides to its like of a file before.

        Returns what is wrong with it, or None.
        """
        values = {name: _value(getattr(found, field)) for field, name in _FIELDS.items()}
        self.fields |= {name for name, value in values.items() if value is not None}
        category = values["labels"]
        if category is None:
            return "it has no category_id"
        if category not in labels:
            return f"there is no category {category}"
        values["labels"] = labels[category]
        if values["iscrowd"] is not None:
            values["iscrowd"] = int(values["iscrowd"])
        picture = self._pictures[row]
        fault = self._box_fault(values["boxes"], picture, row)
        fault = fault or self._mask_fault(values["segmentation"], picture, row)
        fault = fault or _points_fault(values["keypoints"], points.get(category))
        if values["areas"] is not None and not math.isfinite(values["areas"]):
            fault = "its area is not finite"
        if fault is not None:
            return fault
        place = places.get(values["annotation_ids"])
        if place is not None and self._boxes_of[place] == row and self._is_like(place, values):
            for name, value in values.items():
                if self._values[name][place] is None:
                    self._values[name][place] = value
            return None
        self._boxes_of.append(row)
        for name, value in values.items():
            self._values[name].append(value)
        return None

    def _is_like(self, place: int, values: Mapping[str, Any]) -> bool:
        """Tell whether an annotation of another file is the same one: of one class, with one box."""
        return all(self._values[name][place] == values[name] for name in ("labels", "boxes"))

    def _box_fault(self, box: list[float] | None, picture: Picture, row: int) -> str | None:
        if box is None:
            return None
        if len(box) != 4:
            return f"its box has {len(box)} numbers, not 4"
        if not all(map(math.isfinite, box)):
            return "its box has a number that is not finite"
        x, y, width, height = box
        if width < 0 or height < 0:
            return f"its box has the size {width:g} x {height:g}"
        if not width or not height:
            self._doubts.add("boxes without area", shown_name(self._paths[row]))
        right, bottom = picture.width, picture.height
        beyond = right is not None and x + width > right + _BEYOND
        beyond |= bottom is not None and y + height > bottom + _BEYOND
        if beyond or min(x, y) < -_BEYOND:
            self._doubts.add("boxes that reach beyond their pictures", shown_name(self._paths[row]))
        return None

    def _mask_fault(self, mask: Raw | None, picture: Picture, row: int) -> str | None:
        if mask is None:
            return None
        size = None if picture.height is None or picture.width is None else (picture.height, picture.width)
        try:
            if not check_segmentation(mask, size):
                self._doubts.add("segmentations with polygons of fewer than three points", shown_name(self._paths[row]))
        except MaskError as fault:
            return str(fault)
        return None

    def _listed(
        self, name: str, ids: Mapping[str, int], rows: NDArray[np.int64], order: NDArray[Any], starts: NDArray[Any]
    ) -> pa.Array | pa.ChunkedArray:
        picked, offsets = _picked(order, starts, rows)
        values = self._values.pop(name)
        if name == "segmentation":
            return _texts(values, picked, offsets)
        taken = [values[i] for i in picked.tolist()]
        if name == "labels":
            here = np.array([ids[one] for one in self.names] or [0], np.int64)
            items = pa.array(here[np.array(taken, np.int64)], pa.int64())
        else:
            items = pa.array(taken, _TYPES[name])
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), items)


def _value(given: Any) -> Any:
    return None if given is UNSET else given


def _points_fault(points: list[float] | None, count: int | None) -> str | None:
    if points is None:
        return None
    if not all(map(math.isfinite, points)):
        return "a keypoint has a number that is not finite"
    if len(points) % 3:
        return f"its keypoints are {len(points)} numbers, which are no triples"
    if count is not None and len(points) != 3 * count:
        return f"it has {len(points) // 3} keypoints, its category {count}"
    return None


def _grouped(rows: array[int], count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the places of annotations in order of their rows, and where each row's begin."""
    of = np.frombuffer(rows, np.int64) if rows else np.zeros(0, np.int64)
    starts = np.concatenate((np.zeros(1, np.int64), np.cumsum(np.bincount(of, minlength=count))))
    return np.argsort(of, kind="stable"), starts


def _picked(
    order: NDArray[np.int64], starts: NDArray[np.int64], rows: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the places of the annotations of some rows, in their order, and the offsets of lists of them."""
    lengths = starts[rows + 1] - starts[rows]
    offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
    if offsets[-1] >= 1 << 31:
        raise SourceError(f"a split has {offsets[-1]:,} annotations, and a table of them {1 << 31:,} at the most")
    return order[np.repeat(starts[rows] - offsets[:-1], lengths) + np.arange(offsets[-1])], offsets


def _texts(masks: Sequence[Raw | None], picked: NDArray[np.int64], offsets: NDArray[np.int64]) -> pa.ChunkedArray:
    """Return a JSON list of the masks of each row, as they stand in the file."""
    chunks: list[pa.Array] = []
    pending: list[bytes] = []
    waiting = 0
    for start, stop in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        of_row = (masks[i] for i in picked[start:stop].tolist())
        text = b"[" + b",".join(b"null" if one is None else bytes(one) for one in of_row) + b"]"
        if pending and waiting + len(text) > _JSON_BYTES:
            chunks.append(pa.array(pending, pa.string()))
            pending, waiting = [], 0
        pending.append(text)
        waiting += len(text)
    return pa.chunked_array([*chunks, pa.array(pending, pa.string())], pa.string())


def _nulls(name: str, rows: int) -> pa.Array:
    return pa.nulls(rows, pa.string() if name == "segmentation" else pa.list_(_TYPES[name]))

"""Make tables of a YOLO dataset: a row for each picture of a split, with what its label file says."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from toolkit.errors import SourceError, UsageError
from toolkit.format.arrays import bool_array
from toolkit.format.kinds import Kind
from toolkit.sources.contents import UnfitError
from toolkit.sources.files import InputFile
from toolkit.sources.kinds.yolo.config import Config
from toolkit.sources.kinds.yolo.labels import MOST_BYTES, Form, Labels, read_labels
from toolkit.sources.kinds.yolo.places import label_of, pictures
from toolkit.sources.names import is_utf8, printable
from toolkit.sources.options import SourceOptions
from toolkit.sources.patterns import Patterns
from toolkit.sources.reject import Reject
from toolkit.sources.skips import Skips
from toolkit.sources.tables.gather import Gathered
from toolkit.sources.tables.listing import read_small
from toolkit.sources.tables.memory import MemoryTable
from toolkit.sources.tables.paths import GOOD, MISSING, Root, UnsafePathError, relative, why
from toolkit.sources.tables.table import TableFacts

__all__ = ["YoloFolder"]

_FIELDS = {Form.BOX: ("boxes",), Form.POLYGON: ("polygons",), Form.POSE: ("boxes", "keypoints")}
_NO_LABEL_FILES = frozenset({"classes.txt", "notes.txt"})  # what annotation tools put beside label files
_TOLERANCE = 1e-3  # of a picture's side, for what is rounded in a file
_NO_LINE = 0


@dataclass(slots=True)
class _Read:
    """What was read of a folder or list, before it is known which form the dataset has."""

    place: str
    rows: Gathered
    lines: list[int]
    forms: list[tuple[Form | None, str, str]]  # with the key and the label file of each row
    rejects: list[Reject]


class YoloFolder:
    """A YOLO dataset, with all label files read of the splits that are asked for.

    Attributes:
        splits: The tables of each: one for each folder or list of pictures.
    """

    def __init__(self, config: Config, options: SourceOptions, skips: Skips) -> None:
        """Read the label files. Raises UsageError: there are no class names."""
        self._config = config
        self._options = options
        self._skips = skips
        self._patterns = Patterns(options.include, options.exclude)
        self._links = Root(config.root, follow_links=options.follow_links)
        self._classes = self._names()
        self._seen: dict[str, set[str]] = {}  # label files that belong to pictures, by their folders
        self._found = self._repeated = self._beyond = 0
        self._schema = _schema(config.keypoints)
        read = {split: [self._read(place) for place in places] for split, places in config.splits.items()}
        if not self._found and any(len(one.rows) for parts in read.values() for one in parts):
            raise SourceError(
                f"no label file for any picture in {printable(config.root)!r}: they are looked for where images/ in a "
                "picture's path reads labels/, with .txt for its ending"
            )
        forms = Counter(form for parts in read.values() for one in parts for form, _, _ in one.forms if form)
        order = list(Form)
        self._form = max(forms, key=lambda form: (forms[form], -order.index(form))) if forms else self._default()
        facts = self._facts()
        self.splits = {split: [self._table(one, facts) for one in parts] for split, parts in read.items()}
        self._note_others()

    def warnings(self) -> tuple[str, ...]:
        """Return what is odd, a sentence or two each."""
        told = []
        if self._config.absent:
            told.append(
                f"{printable(self._config.path or '')!r} names pictures of the split {', '.join(self._config.absent)} "
                "that aren't there: the split is left out"
            )
        if self._beyond:
            told.append(f"boxes that reach beyond their picture: {self._beyond}. They are kept as they are")
        return tuple(told)

    def _names(self) -> tuple[str, ...]:
        names = self._config.classes or self._options.classes
        if names is None:
            raise UsageError(
                f"{printable(self._config.root)!r} doesn't say what its classes are called: give --classes FILE, a "
                "name a line in the order of the ids"
            )
        return names

    def _facts(self) -> TableFacts:
        """Return what is known of the fields, which all tables have."""
        boxes = {"boxes": "cxcywh normalised"} if self._form is not Form.POLYGON else {"polygons": "xy normalised"}
        keypoints = {"kpt_shape": list(self._config.keypoints)} if self._config.keypoints else {}
        return TableFacts(
            kinds={"image": Kind.IMAGE},
            classes={"labels": self._classes},
            files={"image": self._config.root},
            key="image",
            counts_unlisted=self._options.split is None and not self._config.absent,
            options={**boxes, **keypoints},
        )

    def _default(self) -> Form:
        return Form.POSE if self._config.keypoints else Form.BOX

    def _read(self, place: str) -> _Read:
        read = _Read(place, Gathered(self._schema), [], [], [])
        for line, picture, key in self._pictures(place, read):
            label = label_of(key)
            folder, _, name = label.rpartition("/")
            self._seen.setdefault(folder, set()).add(name)
            try:
                labels = self._labels(key, label)
            except UnfitError as fault:
                path = os.path.join(self._config.root, label)
                read.rejects.append(Reject(printable(path), printable(key), str(fault)))
                continue
            read.rows.add((picture, *_values(labels)))
            read.lines.append(line)
            read.forms.append((labels.form, key, label))
            self._repeated += labels.repeated
            if labels.repeated:
                self._skips.count("repeated_lines", labels.repeated)
            if labels.form in (Form.BOX, Form.POSE):
                self._beyond += sum(map(_is_beyond, labels.values))
        return read

    def _pictures(self, place: str, read: _Read) -> Iterator[tuple[int, str, str]]:
        """Yield the line, the path as it is written, and the key of each picture to take."""
        config, options = self._config, self._options
        for line, name in pictures(config, place, options.follow_links, self._skips):
            if line is None and not is_utf8(name):
                path = os.path.join(config.root, name)
                read.rejects.append(Reject(printable(path), printable(name), "the file's name is not valid UTF-8"))
                continue
            try:
                key = relative(name.encode())
            except UnsafePathError as fault:
                read.rejects.append(
                    Reject(f"{printable(self._shown(place))}, line {line}", f"{place}#{line}", str(fault))
                )
                continue
            if not self._patterns.takes(key):
                self._skips.add("excluded", key)
                continue
            yield line or _NO_LINE, name if line is None else key, key

    def _labels(self, key: str, label: str) -> Labels:
        code, _ = self._links.look(label)
        if code == MISSING:
            self._skips.add("backgrounds", key)
            return Labels(None, [], [], 0)
        if code != GOOD:
            raise UnfitError(why(code, label.encode()))
        self._found += 1
        data = read_small(os.path.join(self._config.root, label), MOST_BYTES)
        return read_labels(data, len(self._classes), self._config.keypoints)

    def _table(self, read: _Read, facts: TableFacts) -> MemoryTable:
        """Return the rows whose objects are as most are; the others are rejects."""
        keep = np.array([form in (None, self._form) for form, _, _ in read.forms], np.bool_)
        for form, key, label in read.forms:
            if form not in (None, self._form):
                reason = f"its lines are each a {form.value}, and most files of the dataset have a {self._form.value}"
                read.rejects.append(
                    Reject(printable(os.path.join(self._config.root, label)), key, f"{reason}: write all alike")
                )
        table = read.rows.table().select(["image", *_FIELDS[self._form], "labels"])
        lines = np.array(read.lines, np.int64)[keep]
        if not keep.all():
            table = table.filter(bool_array(keep))
        shown = self._shown(read.place)
        size = os.path.getsize(shown) if os.path.isfile(shown) else 0
        has_lines = len(lines) > 0 and lines[0] != _NO_LINE
        return MemoryTable(InputFile(shown, read.place, size), table, facts, read.rejects, lines if has_lines else None)

    def _shown(self, place: str) -> str:
        return os.path.normpath(os.path.join(self._config.root, place))

    def _note_others(self) -> None:
        """Note label files without a picture, in the folders that have some of pictures."""
        for folder, names in sorted(self._seen.items()):
            path = os.path.join(self._config.root, folder)
            if os.path.isdir(path):
                for name in sorted(os.listdir(path)):
                    if name.endswith(".txt") and name not in names and name not in _NO_LABEL_FILES:
                        self._skips.add("no_image", f"{folder}/{name}" if folder else name)


def _schema(keypoints: tuple[int, int] | None) -> pa.Schema:
    numbers = pa.list_(pa.float64())
    points = pa.list_(pa.list_(pa.float64(), keypoints[0] * keypoints[1])) if keypoints else pa.list_(numbers)
    return pa.schema(
        [
            pa.field("image", pa.string()),
            pa.field("labels", pa.list_(pa.int64())),
            pa.field("boxes", pa.list_(pa.list_(pa.float64(), 4))),
            pa.field("polygons", pa.list_(numbers)),
            pa.field("keypoints", points),
        ]
    )


def _values(labels: Labels) -> tuple[list[int], list[list[float]], list[list[float]], list[list[float]]]:
    """Return labels, boxes, polygons and keypoints."""
    match labels.form:
        case Form.POLYGON:
            return labels.ids, [], labels.values, []
        case Form.POSE:
            return labels.ids, [one[:4] for one in labels.values], [], [one[4:] for one in labels.values]
    return labels.ids, labels.values, [], []


def _is_beyond(values: list[float]) -> bool:
    x, y, width, height = values[:4]
    low, high = -_TOLERANCE, 1 + _TOLERANCE
    return x - width / 2 < low or x + width / 2 > high or y - height / 2 < low or y + height / 2 > high

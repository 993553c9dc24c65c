"""One file of COCO annotations: its images, annotations and categories, typed, with what is wrong by its place.

Decoded a piece at a time: half a gigabyte of JSON never becomes Python objects as a whole.
"""

from __future__ import annotations

import codecs
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, TypeVar

import msgspec
import numpy as np
from msgspec import UNSET, Raw, UnsetType

from toolkit.errors import SourceError
from toolkit.sources.files import InputFile
from toolkit.sources.names import printable
from toolkit.sources.regular import open_file
from toolkit.sources.tables.paths import UnsafePathError, relative
from toolkit.storage.files import storage_errors

__all__ = ["Annotation", "Category", "Document", "Picture", "shown_name"]

_BOM = b"\xef\xbb\xbf"
_PIECE_BYTES = 1 << 20
_Id = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
_Size = Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)]
_T = TypeVar("_T")


class Category(msgspec.Struct):
    """A class: its id in this file, and how its keypoints are called and joined."""

    id: _Id
    name: str
    keypoints: list[str] | None = None
    skeleton: list[list[int]] | None = None


class Picture(msgspec.Struct):
    """An image of the file, and how large the file says it is."""

    id: _Id
    file_name: str
    width: _Size | None = None
    height: _Size | None = None


class Annotation(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """An annotation; what it doesn't say is UNSET or None."""

    image_id: _Id
    id: _Id | UnsetType | None = UNSET
    category_id: _Id | UnsetType | None = UNSET
    bbox: list[float] | UnsetType | None = UNSET
    area: float | UnsetType | None = UNSET
    iscrowd: Annotated[int, msgspec.Meta(ge=0, le=1)] | bool | UnsetType | None = UNSET
    segmentation: Raw | UnsetType = UNSET
    keypoints: list[float] | UnsetType | None = UNSET
    num_keypoints: _Id | UnsetType | None = UNSET
    caption: str | UnsetType | None = UNSET


class _Loose(Annotation, gc=False, forbid_unknown_fields=False):
    pass


class _OfPicture(msgspec.Struct):
    image_id: _Id


class _Document(msgspec.Struct):
    images: Raw | UnsetType = UNSET
    annotations: Raw | UnsetType = UNSET
    categories: Raw | UnsetType = UNSET


_DOCUMENT = msgspec.json.Decoder(_Document)
_PIECES = msgspec.json.Decoder(list[Raw])
_CATEGORY = msgspec.json.Decoder(Category)
_PICTURE = msgspec.json.Decoder(Picture)
_ANNOTATION = msgspec.json.Decoder(Annotation)
_LOOSE = msgspec.json.Decoder(_Loose)
_OF_PICTURE = msgspec.json.Decoder(_OfPicture)
_FIELDS = msgspec.json.Decoder(dict[str, Raw])
_FAULTS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class Document:
    """A file that was read, while its pictures and annotations are taken out of it.

    Attributes:
        file: Where it is.
        categories: Its classes, in order.
        has_annotations: It has a list of them, which may be empty.
        left_out: Names of fields that were met and mean nothing here, as in "images.license".
    """

    def __init__(self, file: InputFile) -> None:
        """Read it.

        Raises:
            SourceError: It isn't JSON, or isn't of COCO's form; a category comes twice.
            StorageError: It can't be read.
        """
        self.file = file
        with storage_errors("read", file.path), open_file(file.path) as opened:
            data = opened.readall()
        self._data = data[len(_BOM) :] if data.startswith(_BOM) else data
        try:
            _check_text(self._data)  # also what isn't looked at
            self._parts = _DOCUMENT.decode(self._data)
        except _FAULTS as error:
            raise self.error(f"it is not the JSON of COCO annotations: {_told(error)}") from None
        if self._parts.images is UNSET:
            raise self.error('it has no "images", so it is no file of COCO annotations')
        self.left_out: set[str] = set()
        self.has_annotations = self._parts.annotations is not UNSET
        self.categories = self._categories()

    @property
    def shown(self) -> str:
        """The path, for messages."""
        return repr(printable(self.file.path))

    def error(self, what: str) -> SourceError:
        """Return the error that says what is wrong with the file."""
        return SourceError(f"{self.shown}: {what}. Mend the file, or leave it out with --exclude")

    def pictures(self) -> Iterator[Picture]:
        """Yield the images. Raises SourceError: one has no usable id or name, or an id comes twice."""
        seen: dict[int, str] = {}
        for number, raw in enumerate(self._pieces("images")):
            picture = self._decoded(_PICTURE, raw, f"images[{number}]")
            self.left_out |= {f"images.{name}" for name in _FIELDS.decode(raw) if name not in Picture.__struct_fields__}
            if picture.id in seen:
                names = f"{shown_name(seen[picture.id])} and {shown_name(picture.file_name)}"
                raise self.error(f"the image id {picture.id} comes twice, for {names}")
            seen[picture.id] = picture.file_name
            yield picture
        self._refuse_repeated("images", Counter(dict.fromkeys(("id", "file_name"), len(seen))))

    def annotations(self) -> Iterator[tuple[int, int, Annotation | str]]:
        """Yield number and image id of each annotation, and the annotation, or what is wrong with it in words.

        Raises:
            SourceError: It isn't even known of which image one is, or it is a panoptic one.
        """
        counts: Counter[str] = Counter()
        fields = Annotation.__struct_fields__
        for number, raw in enumerate(self._pieces("annotations")):
            try:
                found = _ANNOTATION.decode(raw)
            except _FAULTS:
                self._note_fields(raw, number)
                try:
                    found = _LOOSE.decode(raw)
                except _FAULTS as error:
                    of = self._decoded(_OF_PICTURE, raw, f"annotations[{number}]")
                    yield number, of.image_id, _told(error)
                    continue
            for name in fields:
                if getattr(found, name) is not UNSET:
                    counts[name] += 1
            yield number, found.image_id, found
        self._refuse_repeated("annotations", counts)

    def _categories(self) -> tuple[Category, ...]:
        raws = self._pieces("categories")
        made = tuple(self._decoded(_CATEGORY, raw, f"categories[{i}]") for i, raw in enumerate(raws))
        ids: dict[int, Category] = {}
        names: dict[str, Category] = {}
        for one in made:
            if one.id in ids:
                raise self.error(f"the category id {one.id} comes twice, for {ids[one.id].name!r} and {one.name!r}")
            if one.name in names:
                raise self.error(f"the categories {names[one.name].id} and {one.id} are both called {one.name!r}")
            ids[one.id] = names[one.name] = one
        return made

    def _pieces(self, part: str) -> Sequence[Raw]:
        """Return the JSON of each item of a list of the file. Raises SourceError: it is no list, or comes twice."""
        raw = getattr(self._parts, part)
        if self._data.count(f'"{part}"'.encode()) > 1:
            self._refuse_any_repeated(self._data)
        try:
            return [] if raw is UNSET or bytes(memoryview(raw)[:4]) == b"null" else _PIECES.decode(raw)
        except _FAULTS as error:
            raise self.error(f"its {part} are no list: {_told(error)}") from None

    def _decoded(self, decoder: msgspec.json.Decoder[_T], raw: Raw, place: str) -> _T:
        try:
            return decoder.decode(raw)
        except _FAULTS as error:
            raise self.error(f"{place}: {_told(error)}") from None

    def _note_fields(self, raw: Raw, number: int) -> None:
        """Note what an annotation has that isn't known here."""
        try:
            names = set(_FIELDS.decode(raw)).difference(Annotation.__struct_fields__)
        except _FAULTS as error:
            raise self.error(f"annotations[{number}]: {_told(error)}") from None
        if "segments_info" in names:
            raise self.error("its annotations are panoptic ones, which are not packed")
        self.left_out |= {f"annotations.{name}" for name in names}

    def _refuse_repeated(self, part: str, counts: Counter[str]) -> None:
        """Raise SourceError when a field comes twice in one object: which one is meant, nobody knows.

        Readers of JSON take the last one in silence. Names are counted first, which costs nearly nothing.
        """
        raw = getattr(self._parts, part)
        if raw is UNSET:
            return
        start = _address(raw) - _address(self._data)  # a piece is a view of the file's bytes
        stop = start + len(memoryview(raw))
        if any(self._data.count(f'"{name}"'.encode(), start, stop) > number for name, number in counts.items()):
            self._refuse_any_repeated(self._data[start:stop])

    def _refuse_any_repeated(self, text: bytes) -> None:
        def look(pairs: list[tuple[str, Any]]) -> None:
            names = Counter(name for name, _ in pairs)
            for name, number in names.items():
                if number > 1:
                    raise self.error(f"an object has {number} fields called {printable(name)!r}")

        try:
            json.loads(text, object_pairs_hook=look, parse_float=len, parse_int=len)
        except (ValueError, RecursionError) as error:
            raise self.error(f"it is not the JSON of COCO annotations: {_told(error)}") from None


def shown_name(name: str) -> str:
    """Return a picture's name for people: of a URL, which may hold a secret, only that it is none."""
    try:
        relative(name.encode())
    except (UnsafePathError, UnicodeEncodeError):
        return "a name that is no path here"
    return repr(printable(name))


def _address(data: Raw | bytes) -> int:
    return int(np.frombuffer(data, np.uint8).ctypes.data)


def _check_text(data: bytes) -> None:
    """Raise UnicodeDecodeError unless it is UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    for start in range(0, 0 if data.isascii() else len(data), _PIECE_BYTES):
        decoder.decode(data[start : start + _PIECE_BYTES])
    decoder.decode(b"", final=True)


def _told(error: Exception) -> str:
    return "it is nested too deeply" if isinstance(error, RecursionError) else printable(str(error))

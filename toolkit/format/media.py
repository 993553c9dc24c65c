"""Media: kinds whose values are files, or what was decoded of them. How each is stored, and nothing else.

toolkit.pipelines.medium says what a medium can do; here stands what a reader of shards must know, without decoding: the
Arrow types, and which children of their structs hold what. The table is keyed by the kind. A kind is a word that
manifests hold, so a medium's word stands in toolkit.format.kinds, its stored forms here, and the rest in its folder.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa

from toolkit.format.encodings import Encoding, ImageEncoding
from toolkit.format.kinds import Kind
from toolkit.format.references import REFERENCE_TYPE, is_reference

__all__ = [
    "IMAGE",
    "IMAGE_TYPE",
    "RAW_IMAGE_TYPE",
    "Fact",
    "StoredForm",
    "StoredMedium",
    "add_medium",
    "forget_medium",
    "stored_medium",
]

IMAGE_TYPE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
RAW_IMAGE_TYPE = pa.struct(
    [("pixels", pa.large_binary()), ("height", pa.int32()), ("width", pa.int32()), ("channels", pa.int8())]
)


@dataclass(frozen=True, slots=True)
class StoredForm:
    """A way to store a medium's values: a struct with a payload.

    Attributes:
        type: Its Arrow type.
        payload: The child that holds the payload: a file, or with `sizes` the numbers of an array.
        path: The child that holds the base name of the file it was; None without one.
        sizes: The children that hold the array's shape, outermost axis first; () where the payload is a file.
        dtype: numpy's name of the array's numbers; None where the payload is a file.
        feature: The type of the Hugging Face feature that decodes it; None: it is a plain struct there.
    """

    type: pa.DataType
    payload: str
    path: str | None = None
    sizes: tuple[str, ...] = ()
    dtype: str | None = None
    feature: str | None = None

    @property
    def is_decoded(self) -> bool:
        """Whether the payload is an array and no file."""
        return bool(self.sizes)


@dataclass(frozen=True, slots=True)
class Fact:
    """What is known of a value without decoding it, and is stored in a derived column.

    Attributes:
        what: Its name: the column is called __<column>.<what>__.
        version: Of the way it is found, from 1: another one may mean something else by it.
        type: Its Arrow type.
    """

    what: str
    version: int
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class StoredMedium:
    """How a medium is stored.

    Attributes:
        kind: The kind of its columns.
        plural: What its values are called in messages.
        forms: Every form. The first one takes the source's own bytes, and is that of the encoding "keep".
        form_in: Returns the form of values in an encoding, or raises UsageError: no such encoding.
        facts: What is stored of each value beside it.
    """

    kind: Kind
    plural: str
    forms: tuple[StoredForm, ...]
    form_in: Callable[[str], StoredForm]
    facts: tuple[Fact, ...] = ()

    @property
    def source_form(self) -> StoredForm:
        """The form of the source's own bytes."""
        return self.forms[0]

    def form_of(self, dtype: pa.DataType) -> StoredForm | None:
        """Return the form with that Arrow type, or None; of references that of what they lead to.

        The payload of references is none of the type's children: whoever reads it asks where the files lie.
        """
        if is_reference(dtype):
            source = self.source_form
            return None if source.is_decoded else replace(source, type=REFERENCE_TYPE, path="name", feature=None)
        return next((form for form in self.forms if form.type == dtype), None)


_MEDIA: dict[Kind, StoredMedium] = {}


def stored_medium(kind: Kind) -> StoredMedium | None:
    """Return how a medium is stored; None for a kind that is none."""
    return _MEDIA.get(kind)


def add_medium(medium: StoredMedium) -> StoredMedium:
    """Add a medium to the table, and return it. Raises ValueError when there is one of that kind."""
    if medium.kind in _MEDIA:
        raise ValueError(f"there is a medium of kind {medium.kind.value} already")
    _MEDIA[medium.kind] = medium
    return medium


def forget_medium(kind: Kind) -> None:
    """Take a medium out of the table again. Raises KeyError."""
    del _MEDIA[kind]


# --- images -------------------------------------------------------------------------------------------------------

_FILE = StoredForm(IMAGE_TYPE, "bytes", path="path", feature="Image")
_PIXELS = StoredForm(RAW_IMAGE_TYPE, "pixels", sizes=("height", "width", "channels"), dtype="uint8")


def _image_form(encoding: str) -> StoredForm:
    return _PIXELS if ImageEncoding.parse(encoding).encoding is Encoding.RAW else _FILE


_FACTS = (
    Fact("height", 1, pa.int32()),
    Fact("width", 1, pa.int32()),
    Fact("orientation", 1, pa.int8()),
    Fact("format", 1, pa.string()),
)
IMAGE = add_medium(StoredMedium(Kind.IMAGE, "images", (_FILE, _PIXELS), _image_form, _FACTS))

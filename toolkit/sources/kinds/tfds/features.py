"""What features.json says: the features of a dataset, flattened as their names in examples are ("objects/bbox")."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolkit.sources.kinds.tfds.files import NotUnderstoodError

__all__ = ["Axes", "Content", "Feature", "features_of"]

# Lengths of axes, outermost first; None where each example has its own.
Axes = tuple[int | None, ...]

_NUMBERS = (
    "bool",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    *("float16", "float32", "float64"),
)
_MOST_SIDE = (1 << 31) - 1
_MOST_DEPTH = 50


class Content(enum.Enum):
    """What the values of a feature are."""

    NUMBERS = "numbers"
    ENCODED = "encoded numbers"
    STRINGS = "strings"
    TEXT = "text"
    IMAGE = "images"


@dataclass(frozen=True, slots=True)
class Feature:
    """A feature of examples.

    Attributes:
        name: Its name in examples and the name of its column.
        content: What its values are.
        dtype: NumPy's name of its numbers.
        axes: Its axes; of a feature in a sequence, the sequence's come first. Where sequences are in sequences, only
            those of an item.
        ragged: How many sequences in each other it lies in; 0 where there are none or one.
        as_lists: It is lists, however many axes it has.
        is_zlib: Encoded numbers are compressed.
        class_count: How many classes a label has; 0 where it is none, or nobody knows.
    """

    name: str
    content: Content
    dtype: str = ""
    axes: Axes = ()
    ragged: int = 0
    as_lists: bool = False
    is_zlib: bool = False
    class_count: int = 0

    @property
    def has_own_shape(self) -> bool:
        """Whether each example says the shape beside the values."""
        return self.content is Content.ENCODED and self.axes.count(None) > 1


def features_of(document: object) -> tuple[list[Feature], dict[str, str]]:
    """Return the features that can be read, and why others can't be, by name.

    Raises NotUnderstoodError: it is no description of features.
    """
    root = _field(document, "featuresDict")
    if not isinstance(root, dict):
        raise NotUnderstoodError("no featuresDict in it, as tensorflow-datasets writes since 2021")
    found: list[Feature] = []
    refused: dict[str, str] = {}
    for name, each in _leaves(root, "", (), 0):
        if name in refused or any(name == one.name for one in found):
            raise NotUnderstoodError(f"two features called {name!r}")
        if isinstance(each, str):
            refused[name] = each
        else:
            found.append(each)
    return found, refused


def _leaves(features_dict: object, prefix: str, sequences: Axes, depth: int) -> Iterator[tuple[str, Feature | str]]:
    features = _field(features_dict, "features")
    if not isinstance(features, dict):
        raise NotUnderstoodError(f"{prefix or 'featuresDict'!r} has no features")
    for name, feature in features.items():
        yield from _of(feature, f"{prefix}{name}", sequences, depth + 1)


def _of(feature: object, name: str, sequences: Axes, depth: int) -> Iterator[tuple[str, Feature | str]]:
    if not isinstance(feature, dict):
        raise NotUnderstoodError(f"feature {name!r} is described by no object")
    if depth > _MOST_DEPTH:
        raise NotUnderstoodError(f"feature {name!r} is nested too deep")
    if "featuresDict" in feature:
        yield from _leaves(feature["featuresDict"], f"{name}/", sequences, depth)
    elif "sequence" in feature:
        (length,) = _axes({"dimensions": [_field(feature["sequence"], "length") or -1]}, name)
        yield from _of(_field(feature["sequence"], "feature"), name, (*sequences, length), depth + 1)
    elif "translation" in feature:
        for language in _field(feature["translation"], "languages") or ():
            yield f"{name}/{language}", _placed(f"{name}/{language}", Content.TEXT, (), sequences)
    elif "translationVariableLanguages" in feature:
        for part in ("language", "translation"):
            yield f"{name}/{part}", _placed(f"{name}/{part}", Content.TEXT, (), (*sequences, None))
    else:
        yield name, _leaf(feature, name, sequences)


def _leaf(feature: Mapping[str, Any], name: str, sequences: Axes) -> Feature | str:
    """Return a feature that has no others in it, or why it can't be read."""
    if "text" in feature:
        return _placed(name, Content.TEXT, (), sequences)
    if "image" in feature:
        return _placed(name, Content.IMAGE, (), sequences)
    if "video" in feature:  # a sequence of images
        return _placed(name, Content.IMAGE, (), (*sequences, None))
    if "classLabel" in feature:
        count = _whole(_field(feature["classLabel"], "numClasses") or 0, name)
        return _placed(name, Content.NUMBERS, (), sequences, dtype="int64", class_count=max(0, count))
    if "boundingBox" in feature:
        dtype = _dtype(feature["boundingBox"]) or "float32"
        return _placed(name, Content.NUMBERS, (4,), sequences, dtype=dtype, as_lists=True)
    if "audio" in feature and (_field(feature["audio"], "encoding") or "NONE") == "NONE":
        return _tensor({**feature["audio"], "encoding": "none"}, name, sequences)
    if "tensor" in feature:
        return _tensor(feature["tensor"], name, sequences)
    told = str(feature.get("pythonClassName", "")).rpartition(".")[2] or "no class"
    return f"it is of {told}, which isn't read here"


def _tensor(tensor: object, name: str, sequences: Axes) -> Feature | str:
    dtype, shape = _dtype(tensor), _axes(_field(tensor, "shape"), name)
    encoding = str(_field(tensor, "encoding") or "none").lower()
    if dtype in ("string", "object"):
        return _placed(name, Content.STRINGS, shape, sequences)
    if dtype not in _NUMBERS:
        return f"its values are {dtype!r}, which has no equal here"
    if encoding == "none":
        return _placed(name, Content.NUMBERS, shape, sequences, dtype=dtype)
    if encoding not in ("bytes", "zlib"):
        return f"its encoding {encoding!r} is none that is known"
    if sequences:
        return "it is a sequence of encoded tensors, which isn't read here"
    return Feature(name, Content.ENCODED, dtype, shape, is_zlib=encoding == "zlib")


def _placed(name: str, content: Content, shape: Axes, sequences: Axes, **more: Any) -> Feature | str:
    """Return a feature that lies in some sequences, or why it can't be read."""
    ragged = len(sequences) if len(sequences) > 1 else 0
    axes = shape if ragged else (*sequences, *shape)
    if axes.count(None) > (0 if ragged else 1):
        return "more than one of its axes are unknown, which examples don't tell"
    return Feature(name, content, axes=axes, ragged=ragged, **more)


def _axes(shape: object, name: str) -> Axes:
    sides = [_whole(side, name) for side in _field(shape, "dimensions") or ()]
    if any(side > _MOST_SIDE for side in sides):
        raise NotUnderstoodError(f"feature {name!r} has an axis of {max(sides)}")
    return tuple(None if side < 0 else side for side in sides)


def _dtype(tensor: object) -> str:
    return str(_field(tensor, "dtype") or "")


def _whole(value: object, name: str) -> int:
    """Return an integer, which JSON of protocol buffers has as text."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and len(value) < 20 and value.removeprefix("-").isascii() and value.lstrip("-").isdigit():
        return int(value)
    raise NotUnderstoodError(f"{value!r} of feature {name!r} is no whole number")


def _field(value: object, name: str) -> Any:
    """Return a member of an object; None where it has none, or is none."""
    if not isinstance(value, dict):
        return None
    found = value.get(name)
    if name in ("dimensions", "languages") and found is not None:
        if not isinstance(found, Sequence) or isinstance(found, str):
            raise NotUnderstoodError(f"{name} that are no list")
        if name == "languages" and not all(isinstance(one, str) for one in found):
            raise NotUnderstoodError("languages that are no texts")
    return found

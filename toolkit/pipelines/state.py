"""What a value is between two steps of a slot: the types that are checked before a byte is read."""

from __future__ import annotations

import enum
from dataclasses import dataclass

__all__ = ["Layout", "MisfitError", "Shape", "State", "ValueKind"]

_AXES = {"h": "height", "w": "width", "c": "channels", "t": "tokens", "v": "values"}
Shape = tuple[int | None, ...]


class ValueKind(enum.Enum):
    """What a value is, in the words of messages.

    STORED: a column of a dataset that isn't known yet. IDS: pixels that are numbers without an order, as in a mask.
    VIEWS: pixels or ids of several pictures that were made of one.
    """

    STORED = "a stored value"
    IMAGE = "an image file"
    RAW_IMAGE = "an image of pixels"
    BYTES = "bytes"
    TEXT = "text"
    NUMBER = "a stored number"
    LIST = "a list"
    OBJECT = "a Python object"
    PIXELS = "pixels"
    IDS = "ids"
    VIEWS = "several pictures"
    TENSOR = "a tensor"
    SCALAR = "a number"


class Layout(enum.Enum):
    """The order of an image's axes; several pictures have one more in front."""

    HWC = "hwc"
    CHW = "chw"
    HW = "hw"  # of ids, which have no channels
    TV = "tv"  # of patches: tokens and their values


@dataclass(frozen=True, slots=True)
class State:
    """A value's type. None is unknown until the data is seen.

    Attributes:
        kind: What it is.
        dtype: numpy's name, or "bfloat16"; None for what is no array.
        shape: Its sizes, without the batch; () for a number.
        layout: The order of an image's axes.
        column: The kind of the dataset's column, for messages about a stored value.
    """

    kind: ValueKind
    dtype: str | None = None
    shape: Shape | None = None
    layout: Layout | None = None
    column: str | None = None

    @property
    def fixed_shape(self) -> tuple[int, ...] | None:
        """The shape when every sample has it, else None: then samples come as a list."""
        if self.dtype is None or self.shape is None:
            return None
        known = tuple(size for size in self.shape if size is not None)
        return known if len(known) == len(self.shape) else None

    @property
    def channels(self) -> int | None:
        """An image's channels."""
        if self.layout is None or self.shape is None or "c" not in self.layout.value:
            return None
        return self.shape[self.layout.value.index("c") - len(self.layout.value)]

    @property
    def leading(self) -> Shape:
        """What stands in front of an image's own axes: the number of pictures, where there are several."""
        return () if self.layout is None or self.shape is None else self.shape[: -len(self.layout.value)]

    def with_size(self, height: int | None, width: int | None) -> State:
        """Return the pixels, or ids, with another height and width."""
        rest = () if self.kind is ValueKind.IDS else (self.channels,)
        return State(self.kind, self.dtype, (height, width, *rest), self.layout)

    @property
    def is_picture(self) -> bool:
        """Whether steps may move what it is: pixels or ids."""
        return self.kind in (ValueKind.PIXELS, ValueKind.IDS)

    def __str__(self) -> str:
        if self.is_picture and self.dtype is not None:
            return f"{self.dtype} {self.sizes()} {self.kind.value}"
        if self.column is not None:
            return f"{'an' if self.column[0] in 'aeiou' else 'a'} {self.column} column"
        if self.dtype is None:
            return str(self.kind.value)
        if self.kind is ValueKind.TENSOR:
            return f"a {self.dtype} tensor {self.sizes()}"
        return f"{self.kind.value}, {self.dtype}"

    def sizes(self) -> str:
        """Return the shape in words: height x width x 3."""
        if self.shape is None:
            return "of any shape"
        if not self.shape:
            return "()"
        names: tuple[str, ...] = ("?",) * len(self.shape)
        if self.layout is not None:
            names = (*["pictures" for _ in self.leading], *[_AXES[axis] for axis in self.layout.value])
        return " x ".join(name if size is None else str(size) for name, size in zip(names, self.shape, strict=True))


class MisfitError(Exception):
    """A step that doesn't fit what comes before it. Whoever knows slot and step says where."""

    def __init__(self, expected: str, got: object, fix: str) -> None:
        super().__init__(f"expected {expected}, got {got}: {fix}")

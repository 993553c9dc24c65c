"""Read one label file of YOLO: a class id and numbers from 0 to 1 on each line, kept as they are written."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass

from toolkit.sources.contents import UnfitError, text_of

__all__ = ["MOST_BYTES", "Form", "Labels", "read_labels"]

MOST_BYTES = 4 * 1024 * 1024  # of a file; most have less than a KiB
_SHOWN = 20  # characters of a value in a message
_SHORTEST_POLYGON = 6  # numbers: three points

# float() takes more than this: nan, inf, 1_0, digits of other scripts.
_NUMBERS = re.compile(r"[0-9eE+.\-\s]*", re.ASCII)


class Form(enum.Enum):
    """What a line says of an object."""

    BOX = "box"
    POLYGON = "polygon"
    POSE = "box with keypoints"


@dataclass(frozen=True, slots=True)
class Labels:
    """What a file says.

    Attributes:
        form: What its lines are, or None when there is none.
        ids: The class of each object.
        values: The numbers behind it.
        repeated: Lines that were there before, which are left out.
    """

    form: Form | None
    ids: list[int]
    values: list[list[float]]
    repeated: int


def read_labels(data: bytes, classes: int, keypoints: tuple[int, int] | None) -> Labels:
    """Return what a label file of these bytes says.

    Args:
        data: The file.
        classes: How many there are.
        keypoints: How many keypoints an object has, and how many numbers each; None for boxes and polygons.

    Raises:
        UnfitError: It isn't one, or a line says what can't be; with the line.
    """
    text = text_of(data).removeprefix("\ufeff")
    plain = _NUMBERS.fullmatch(text) is not None
    form = None
    first = 0
    lines: dict[tuple[float, ...], None] = {}
    count = 0
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words:
            continue
        values = _values(words, number, plain=plain)
        found = _form(len(values), number, keypoints)
        if form is None:
            form, first = found, number
        elif found is not form:
            raise UnfitError(f"line {number} is a {found.value} and line {first} a {form.value}")
        _check(words, values, number, classes, keypoints)
        lines[tuple(values)] = None
        count += 1
    return Labels(form, [int(one[0]) for one in lines], [list(one[1:]) for one in lines], count - len(lines))


def _values(words: list[str], number: int, *, plain: bool) -> list[float]:
    try:
        if plain:
            return [float(word) for word in words]
    except ValueError:
        pass
    for word in words:
        try:
            if not _NUMBERS.fullmatch(word):
                raise ValueError
            float(word)
        except ValueError as error:
            raise UnfitError(f"line {number}: {_shown(word)} is no number") from error
    return [float(word) for word in words]


def _form(count: int, number: int, keypoints: tuple[int, int] | None) -> Form:
    if keypoints is not None:
        wanted = 5 + keypoints[0] * keypoints[1]
        if count == wanted:
            return Form.POSE
        raise UnfitError(f"line {number}: {count} values, and a class, a box and {keypoints[0]} keypoints are {wanted}")
    if count == 5:
        return Form.BOX
    if count > _SHORTEST_POLYGON and count % 2:
        return Form.POLYGON
    raise UnfitError(
        f"line {number}: {count} values; a class and a box are 5, and a class and a polygon 7, 9, 11 and so on. "
        "Keypoints need kpt_shape in the YAML file"
    )


def _check(words: list[str], values: list[float], number: int, classes: int, keypoints: tuple[int, int] | None) -> None:
    if not values[0].is_integer():
        raise UnfitError(f"line {number}: the class {_shown(words[0])} is no whole number")
    if not 0 <= values[0] < classes:
        raise UnfitError(f"line {number}: the class {_shown(words[0])} is none of the ids 0 to {classes - 1}")
    visible = range(7, len(values), 3) if keypoints is not None and keypoints[1] == 3 else range(0)
    if not visible and min(values[1:]) >= 0 and max(values[1:]) <= 1:
        return
    for i, value in enumerate(values[1:], 1):
        if i in visible:
            if value not in (0, 1, 2):
                raise UnfitError(f"line {number}: {_shown(words[i])} says whether a keypoint is seen: 0, 1 or 2")
        elif not 0 <= value <= 1:
            raise UnfitError(
                f"line {number}: {_shown(words[i])} isn't from 0 to 1; values are shares of the picture's sides"
            )


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "…")

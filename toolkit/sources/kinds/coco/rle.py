"""Check the masks of annotations: polygons, run lengths, and run lengths that are compressed to text.

Nothing of a mask's size is ever allocated: sums of lengths are compared with the size that a mask says.
"""

from __future__ import annotations

import math
from typing import Annotated

import msgspec

from toolkit.pipelines.image.formats import DEFAULT_MAX_PIXELS

__all__ = ["MaskError", "check_segmentation", "run_lengths"]

_FIRST = 48  # the character "0", and six bits a character from there
_MOST_CHARACTERS = 7  # of a number: 35 bits, of which a length takes 32
_LARGEST = (1 << 32) - 1
_LEAST_NUMBERS = 6  # of a polygon: three points


class MaskError(ValueError):
    """Why a mask can't be read; it can be shown."""


class _Runs(msgspec.Struct, gc=False):
    size: tuple[int, int]
    counts: str | list[Annotated[int, msgspec.Meta(ge=0, le=_LARGEST)]]


_SEGMENTATION = msgspec.json.Decoder(list[list[float]] | _Runs | None)


def check_segmentation(text: bytes | msgspec.Raw, size: tuple[int, int] | None) -> bool:
    """Check one segmentation of a file, which is JSON; tell whether it has only polygons of three points or more.

    Args:
        text: The JSON; it is UTF-8.
        size: Height and width of the picture, where the file says them.

    Raises:
        MaskError: It can't be a mask of that picture.
    """
    try:
        mask = _SEGMENTATION.decode(text)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise MaskError(f"its segmentation is neither polygons nor run lengths: {error}") from None
    if isinstance(mask, _Runs):
        _check_runs(mask, size)
        return True
    for polygon in mask or ():
        if len(polygon) % 2:
            raise MaskError(f"its segmentation has a polygon of {len(polygon)} numbers, which are no pairs")
        if not all(map(math.isfinite, polygon)):
            raise MaskError("its segmentation has a number that is not finite")
    return all(len(polygon) >= _LEAST_NUMBERS for polygon in mask or ())


def run_lengths(text: str) -> list[int]:
    """Return the lengths that compressed run lengths stand for, as pycocotools gives them.

    A number is written in groups of five bits, the lowest first; the sixth bit of a character says that another one
    follows. From the fourth number on they are differences to the last but one.

    Raises:
        MaskError: It is no such text, or a length is below 0 or takes more than 32 bits.
    """
    lengths: list[int] = []
    number = shift = 0
    for character in text:
        bits = ord(character) - _FIRST
        if not 0 <= bits < 64:
            raise MaskError(f"its run lengths hold the character {character!r}, which they can't")
        number |= (bits & 31) << shift
        shift += 5
        if bits & 32:
            if shift == 5 * _MOST_CHARACTERS:
                raise MaskError("its run lengths hold a number of too many characters")
            continue
        if bits & 16:
            number -= 1 << shift
        if len(lengths) > 2:
            number += lengths[-2]
        if not 0 <= number <= _LARGEST:
            raise MaskError(f"its run lengths hold the length {number}")
        lengths.append(number)
        number = shift = 0
    if shift:
        raise MaskError("its run lengths end within a number")
    return lengths


def _check_runs(runs: _Runs, size: tuple[int, int] | None) -> None:
    height, width = runs.size
    if height < 0 or width < 0 or height * width > DEFAULT_MAX_PIXELS:
        raise MaskError(f"its run lengths are of {height} x {width} pixels, which no picture here has")
    if size is not None and runs.size != size:
        raise MaskError(f"its run lengths are of {height} x {width} pixels, the picture has {size[0]} x {size[1]}")
    total = sum(run_lengths(runs.counts) if isinstance(runs.counts, str) else runs.counts)
    if total != height * width:
        raise MaskError(f"its run lengths add up to {total} pixels of {height} x {width}")

"""The media that there are, by kind."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

from toolkit.format import media as stored
from toolkit.format.kinds import Kind
from toolkit.format.media import StoredForm
from toolkit.format.references import is_reference
from toolkit.pipelines.image.medium import ImageMedium
from toolkit.pipelines.medium import Medium

__all__ = ["Held", "add_medium", "forget_medium", "held_medium", "media", "medium_of"]

_MEDIA: dict[Kind, Medium] = {medium.stored.kind: medium for medium in (ImageMedium(),)}


class Held(NamedTuple):
    """A medium that a column holds, and the form it is stored in."""

    medium: Medium
    form: StoredForm


def media() -> tuple[Medium, ...]:
    """Return every medium."""
    return tuple(_MEDIA.values())


def medium_of(kind: Kind) -> Medium | None:
    """Return the medium of a kind; None for a kind that is none."""
    return _MEDIA.get(kind)


def held_medium(kind: Kind, dtype: pa.DataType, *, by_type: bool = False) -> Held | None:
    """Return the medium that a column of that kind and type holds, or None.

    A column of kind value says nothing but its type: with `by_type` it is taken for the first medium that has it.
    """
    if kind is Kind.VALUE and is_reference(dtype):
        return None  # structs: nobody says where such files would lie
    media = _MEDIA.values() if by_type and kind is Kind.VALUE else filter(None, [_MEDIA.get(kind)])
    for medium in media:
        form = medium.stored.form_of(dtype)
        if form is not None:
            return Held(medium, form)
    return None


def add_medium(medium: Medium) -> None:
    """Add a medium, and how it is stored. Raises ValueError when there is one of that kind."""
    stored.add_medium(medium.stored)
    _MEDIA[medium.stored.kind] = medium


def forget_medium(kind: Kind) -> None:
    """Take a medium out again. Raises KeyError."""
    stored.forget_medium(kind)
    del _MEDIA[kind]

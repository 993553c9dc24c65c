"""The kind that options ask for of a field, before its values are looked at."""

from __future__ import annotations

from collections.abc import Mapping

from toolkit.format.kinds import Kind
from toolkit.sources.options import SourceOptions

__all__ = ["asked_kinds"]

_IMAGE = "image"  # what the one field of --image-column is called


def asked_kinds(options: SourceOptions) -> Mapping[str, Kind]:
    """Return the kinds that --kind and --image-column give fields, by the fields' names."""
    fields = options.map or {new: old for old, new in options.rename.items()}
    asked = {fields.get(column, column): kind for column, kind in options.kind.items()}
    return {**asked, **dict.fromkeys(options.image_column or (), Kind.IMAGE)}

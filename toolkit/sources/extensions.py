"""What a file or a tar member is by the last part of its name: text, JSON, a number, an array, or a medium."""

from __future__ import annotations

from toolkit.format.kinds import Kind
from toolkit.sources.payloads import named_as

__all__ = ["kind_named"]

_KINDS = {
    "cls": Kind.SCALAR,
    **dict.fromkeys(("txt", "text", "transcript"), Kind.TEXT),
    **dict.fromkeys(("json", "jsn"), Kind.JSON),
    "npy": Kind.TENSOR,
}


def kind_named(extension: str) -> Kind | None:
    """Return the kind of what has that extension, in lower case and without a dot, or None."""
    return _KINDS.get(extension) or named_as(extension)

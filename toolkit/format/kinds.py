"""What a column means to a loader. Apart from the schema, so that the command line can name kinds without pyarrow."""

from __future__ import annotations

import enum

__all__ = ["Kind"]


class Kind(enum.Enum):
    """What a column means to a loader; the Arrow type says how it is stored.

    UNKNOWN is never written: it is what any other word of a manifest is read as.
    """

    IMAGE = "image"
    LABEL = "label"
    TEXT = "text"
    SCALAR = "scalar"
    TENSOR = "tensor"
    TOKENS = "tokens"
    JSON = "json"
    BYTES = "bytes"
    VALUE = "value"
    UNKNOWN = "unknown"

    @classmethod
    def _missing_(cls, value: object) -> Kind | None:
        return cls.UNKNOWN if isinstance(value, str) else None

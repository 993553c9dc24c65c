"""What a column means to a loader. Apart from the schema, so that the command line can name kinds without pyarrow."""

from __future__ import annotations

import enum

__all__ = ["Kind"]


class Kind(enum.Enum):
    """What a column means to a loader; the Arrow type says how it is stored."""

    IMAGE = "image"
    LABEL = "label"
    TEXT = "text"
    SCALAR = "scalar"
    TENSOR = "tensor"
    TOKENS = "tokens"
    JSON = "json"
    BYTES = "bytes"
    VALUE = "value"

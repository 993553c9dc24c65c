"""Steps that read text: text and json."""

from __future__ import annotations

import codecs
import json
from typing import Any

from toolkit.escapes import short
from toolkit.pipelines import fields
from toolkit.pipelines.check import BadArgumentError
from toolkit.pipelines.registry import register
from toolkit.pipelines.state import MisfitError, State, ValueKind
from toolkit.pipelines.value_step import EachValue, check_stored

__all__ = ["Json", "Text"]


def _encoding(name: str, value: Any) -> str:
    try:
        " ".encode(value)  # more than a look-up: "hex" is a codec, and none of text
    except (LookupError, TypeError, ValueError):  # ValueError: a zero byte or a lone surrogate in its name
        raise BadArgumentError(
            f"Python knows no encoding {short(value, 80, quoted=True)}: utf-8, latin-1, utf-16 …"
        ) from None
    return str(value)


@register
class Text(EachValue):
    """Give a list of `str`; bytes that are not in `encoding` are an error."""

    word = "text"
    takes_bytes = True
    encoding: str = fields.argument(_encoding, "str", "utf-8")

    def after(self, state: State) -> State:
        """Make text of stored bytes or text."""
        stored = state.kind is ValueKind.TEXT and state.column is not None
        if stored and codecs.lookup(self.encoding).name != "utf-8":
            raise MisfitError("bytes", state, "stored text is UTF-8: leave the encoding out")
        fix = "leave .text() out to get the stored value"
        check_stored(state, "text or bytes", fix, ValueKind.TEXT, ValueKind.BYTES)
        return State(ValueKind.TEXT)

    def convert(self, value: bytes) -> str:
        """Decode one value."""
        return value.decode(self.encoding)

    @property
    def runs(self) -> str:
        """What runs it, for explain()."""
        return "str.decode"


@register
class Json(EachValue):
    """Give a list of the Python objects that the stored JSON describes."""

    word = "json"
    takes_bytes = True

    def after(self, state: State) -> State:
        """Make an object of stored bytes or text."""
        fix = "leave .json() out to get the stored value"
        check_stored(state, "text or bytes that hold JSON", fix, ValueKind.TEXT, ValueKind.BYTES)
        return State(ValueKind.OBJECT)

    def convert(self, value: bytes) -> Any:
        """Parse one value."""
        return json.loads(value)

    @property
    def runs(self) -> str:
        """What runs it, for explain()."""
        return "json"

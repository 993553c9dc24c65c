"""Steps that leave what is stored as it is: passthrough and bytes."""

from __future__ import annotations

from toolkit.pipelines.registry import register
from toolkit.pipelines.state import State, ValueKind
from toolkit.pipelines.value_step import Call, Values, ValueStep, check_stored

__all__ = ["Bytes", "Passthrough"]


@register
class Passthrough(ValueStep):
    """Give the value as it is stored: numbers as arrays, anything else as a list."""

    word = "passthrough"

    def after(self, state: State) -> State:
        """Leave a stored value alone."""
        check_stored(state, "a column", "")
        return state

    def run(self, values: Values, call: Call) -> Values:
        """Do nothing."""
        return values

    @property
    def runs(self) -> str:
        """What runs it, for explain()."""
        return "copy"


@register
class Bytes(ValueStep):
    """Give the stored bytes of an image, text or bytes column, as a list of `bytes`."""

    word = "bytes"
    takes_bytes = True

    def after(self, state: State) -> State:
        """Make bytes of a stored file, text or bytes."""
        fix = "leave the step out to get the value as it is stored"
        kinds = (ValueKind.IMAGE, ValueKind.BYTES, ValueKind.TEXT)
        check_stored(state, "bytes, text or an image column", fix, *kinds)
        return State(ValueKind.BYTES)

    def run(self, values: Values, call: Call) -> Values:
        """Do nothing: the column's reader gives bytes."""
        return values

    @property
    def runs(self) -> str:
        """What runs it, for explain()."""
        return "copy"

"""A step: slot("x").array("float32", (3,)).noise(0.1)."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.pipelines import fields
from toolkit.pipelines.randomness import generator
from toolkit.pipelines.state import MisfitError, State, ValueKind
from toolkit.pipelines.value_step import Call, Values, ValueStep, joined

__all__ = ["Noise"]


@dataclass(frozen=True, slots=True)
class Noise(ValueStep):
    """Add normal noise to floats.

    Args:
        sigma: Its standard deviation.
        name: What it draws by, in place of its number among those that have no name.
    """

    word = "noise"
    sigma: float = fields.number(0.1, least=0)
    name: str | None = fields.draw_name()

    def after(self, state: State) -> State:
        """Leave dtype and shape. No pixels come of it: it runs in Python, and those steps run before it."""
        if state.kind is not ValueKind.TENSOR or state.dtype not in ("float32", "float64"):
            raise MisfitError("a tensor of floats", state, "put .normalize() or .cast('float32') before it")
        return State(ValueKind.TENSOR, state.dtype, state.shape)

    @property
    def draws(self) -> bool:
        """The noise of each sample."""
        return True

    def run(self, values: Values, call: Call) -> Values:
        """Add to each sample what its own generator draws: whatever the batch size, threads and ranks."""
        keys = [] if call.keys is None else call.keys.tolist()
        return joined(
            [
                value + generator(key).normal(0, self.sigma, value.shape).astype(value.dtype)
                for value, key in zip(values, keys, strict=True)
            ]
        )

"""What a token stream delivers: a mapping of arrays (rows, seq_len), and where in the epoch they come from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Self

from toolkit.loader.outputs.batch import MovableBatch
from toolkit.loader.tokens.schedule import Place

__all__ = ["TokenBatch"]


class TokenBatch(MovableBatch):
    """Arrays of a step by name; the consumer's own: writable, and valid as long as they are held.

    "tokens" (rows, seq_len) of the stream's dtype; with targets "targets", -100 where there is none; with documents
    "segments" and "positions", int32: the document's number in its row, from 1 (0 is padding), and the token's place
    in it.

    To JAX it is a pytree with the arrays as leaves; what comes out of jax.tree.map or jit has those and nothing else.
    """

    __slots__ = ("_mask", "_place")

    def __init__(
        self, arrays: Mapping[str, Any], place: Place | None = None, mask: Callable[[], Any] | None = None
    ) -> None:
        super().__init__(arrays)
        self._mask = mask
        self._place = place

    def __repr__(self) -> str:
        shape = tuple(self["tokens"].shape)
        of = f"step {self.step}, epoch {self.epoch}, " if self._place else ""
        return f"<toolkit.TokenBatch {of}{shape}, {', '.join(self)}>"

    @property
    def place(self) -> Place:
        """Step, epoch, and units of the epoch (tokens; rows of packed documents) that came before."""
        if self._place is None:
            raise self._lacks("place")
        return self._place

    @property
    def step(self) -> int:
        """Number of the step, over all epochs and phases."""
        return self.place.step

    @property
    def epoch(self) -> int:
        """The epoch it belongs to."""
        return self.place.epoch

    @property
    def mask(self) -> Any:
        """Bool (rows, seq_len): True where a token was delivered; False only where the end of an epoch is padded."""
        if self._mask is None:
            raise self._lacks("mask")
        return self._mask()

    def __copy__(self) -> Self:
        """Return another batch of the same arrays."""
        return self._with(dict(self))

    def __reduce__(self) -> tuple[Any, ...]:
        """The mask is made now: what makes it knows the stream."""
        return type(self), (dict(self), self._place, self._mask and partial(_same, self._mask()))

    def _with(self, columns: dict[str, Any]) -> Self:
        return type(self)(columns, self._place, self._mask)


def _same(mask: Any) -> Any:
    return mask

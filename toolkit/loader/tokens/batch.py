"""What a token stream delivers: a mapping of arrays (rows, seq_len), and where in the epoch they come from."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from toolkit.loader.outputs.batch import MovableBatch
from toolkit.loader.tokens.schedule import Place

__all__ = ["TokenBatch"]


# Where a batch's rows come from: their place, and what makes the mask. A plain tuple: batches may come by the 100,000.
TokenOrigin = tuple[Place, Callable[[], Any]]


class TokenBatch(MovableBatch[TokenOrigin]):
    """Arrays of a step by name; the consumer's own: writable, and valid as long as they are held.

    "tokens" (rows, seq_len) of the stream's dtype; with targets "targets", -100 where there is none; with documents
    "segments" and "positions", int32: the document's number in its row, from 1 (0 is padding), and the token's place
    in it.

    To JAX it is a pytree with the arrays as leaves; what comes out of jax.tree.map or jit has those and nothing else.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        of = f"step {self.step}, epoch {self.epoch}, " if self._origin else ""
        return f"<toolkit.TokenBatch {of}{tuple(np.shape(self['tokens']))}, {', '.join(self)}>"

    @property
    def place(self) -> Place:
        """Step, epoch, and units of the epoch (tokens; rows of packed documents) that came before."""
        return self._known("place")[0]

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
        return self._known("mask")[1]()

    def _portable(self, origin: TokenOrigin) -> TokenOrigin:
        """Make the mask now: what makes it knows the stream."""
        place, mask = origin
        return place, partial(_same, mask())


def _same(mask: Any) -> Any:
    return mask

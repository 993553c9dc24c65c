"""What a token stream delivers: a mapping of arrays (rows, seq_len), and where in the epoch they come from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from toolkit.tokens.schedule import Place

__all__ = ["TokenBatch"]


class TokenBatch(Mapping[str, Any]):
    """Arrays of a step by name; the consumer's own: writable, and valid as long as they are held.

    "tokens" (rows, seq_len) of the stream's dtype; with targets "targets", -100 where there is none; with documents
    "segments" and "positions", int32: the document's number in its row, from 1 (0 is padding), and the token's place
    in it.

    Attributes:
        place: Step, epoch, and units of the epoch (tokens; rows of packed documents) that came before.
    """

    __slots__ = ("_arrays", "_mask", "place")

    def __init__(self, arrays: dict[str, Any], place: Place, mask: Callable[[], Any]) -> None:
        self._arrays = arrays
        self._mask = mask
        self.place = place

    def __getitem__(self, name: str) -> Any:
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def __repr__(self) -> str:
        shape = tuple(self._arrays["tokens"].shape)
        return f"<toolkit.TokenBatch step {self.step}, epoch {self.epoch}, {shape}, {', '.join(self._arrays)}>"

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
        return self._mask()

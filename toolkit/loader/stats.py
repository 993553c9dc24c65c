"""Counters of a loader: true, cheap, and readable while it runs."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

__all__ = ["LoaderStats"]


@dataclass(slots=True)
class LoaderStats:
    """What a loader did so far. Times are summed over threads.

    Attributes:
        batches, samples: Delivered to the consumer.
        skipped: Samples that were left out with on_error="skip".
        fetched_bytes: Encoded bytes copied out of shards.
        fetch_seconds: Workers' time in checked copies.
        decode_seconds: Workers' time in decoding and transforming.
        consumer_wait_seconds: The consumer's time waiting for a batch: near zero when the loader keeps up.
    """

    batches: int = 0
    samples: int = 0
    skipped: int = 0
    fetched_bytes: int = 0
    fetch_seconds: float = 0.0
    decode_seconds: float = 0.0
    consumer_wait_seconds: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def add(self, **amounts: float) -> None:
        """Add to counters by name."""
        with self._lock:
            for name, amount in amounts.items():
                setattr(self, name, getattr(self, name) + amount)

    def snapshot(self) -> dict[str, float]:
        """Return the counters at one instant."""
        with self._lock:
            values = {name: getattr(self, name) for name in self.__slots__ if not name.startswith("_")}
        return values

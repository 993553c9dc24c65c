"""Counters of a loader: true, cheap, and readable while it runs."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Any

from toolkit.memory.budget import Budget
from toolkit.memory.sizes import size_text

__all__ = ["LoaderStats", "report_text"]

_KEEPS_UP = 0.05  # of the time in the loop that the consumer waits: less is noise


@dataclass(slots=True)
class LoaderStats:
    """What a loader did so far. Times are in seconds; those of workers are summed over threads.

    Attributes:
        batches, samples: Delivered to the consumer.
        skipped: Samples that were left out with on_error="skip".
        fetched_bytes: Encoded bytes copied out of shards.
        fetch_seconds: Workers' time in checked copies.
        decode_seconds: Workers' time in decoding and transforming.
        worker_wait_seconds: Workers' time without work: nothing was planned, or the budget was used up.
        consumer_wait_seconds: The consumer's time waiting for a batch: near zero when the loader keeps up.
        budget_wait_seconds: The part of it in which no batch was in flight, because those held left no room for one.
        running_seconds: From the first batch that was asked for to the last that was given, summed over iterations.
        in_flight, in_flight_peak: Batches submitted and not yet given to the consumer: now, and the most at once.
    """

    batches: int = 0
    samples: int = 0
    skipped: int = 0
    fetched_bytes: int = 0
    fetch_seconds: float = 0.0
    decode_seconds: float = 0.0
    worker_wait_seconds: float = 0.0
    consumer_wait_seconds: float = 0.0
    budget_wait_seconds: float = 0.0
    running_seconds: float = 0.0
    in_flight: int = 0
    in_flight_peak: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)
    _asked: float | None = field(default=None, repr=False, compare=False)

    def add(self, **amounts: float) -> None:
        """Add to counters by name."""
        with self._lock:
            for name, amount in amounts.items():
                setattr(self, name, getattr(self, name) + amount)

    def deliver(self, samples: int) -> None:
        """Count a batch for the consumer. Takes no lock: nobody else counts these."""
        self.batches += 1
        self.samples += samples

    def set_in_flight(self, batches: int) -> None:
        """Note how many batches are in flight now. Takes no lock: finalizers call it, and else only the consumer."""
        self.in_flight = batches
        self.in_flight_peak = max(self.in_flight_peak, batches)

    def begin(self) -> None:
        """Note that an iteration begins: what the consumer does until its first batch counts for nothing."""
        self._asked = None

    def ask(self) -> None:
        """Note that the consumer asks for a batch. As take(), it takes no lock: nobody else counts these."""
        now = time.perf_counter()
        if self._asked is not None:
            self.running_seconds += now - self._asked
        self._asked = now

    def take(self, in_flight: int) -> None:
        """Note that the consumer is given what it asked for, and how many batches are in flight now."""
        now = time.perf_counter()
        if self._asked is not None:
            self.running_seconds += now - self._asked
            self.consumer_wait_seconds += now - self._asked
        self._asked = now
        self.in_flight = in_flight

    def tick(self) -> None:
        """Note that the consumer asks for a batch that is there already, and is given it."""
        now = time.perf_counter()
        if self._asked is not None:
            self.running_seconds += now - self._asked
        self._asked = now

    def snapshot(self, budget: Budget) -> dict[str, Any]:
        """Return the counters at one instant, and what they say.

        Besides the attributes: `budget_bytes` and `budget_peak_bytes` that the loader owned now and at the most,
        `max_bytes` (None: unlimited), and `bottleneck`, in words.
        """
        with self._lock:
            values: dict[str, Any] = {name: getattr(self, name) for name in self.__slots__ if not name.startswith("_")}
        values |= {"budget_bytes": budget.used, "budget_peak_bytes": budget.peak, "max_bytes": budget.limit}
        return values | {"bottleneck": _bottleneck(values)}


def report_text(stats: dict[str, Any]) -> str:
    """Return a snapshot in a few lines for people."""
    seconds = stats["running_seconds"]
    rate = f", {stats['samples'] / seconds:.0f} a second" if seconds else ""
    limit = "no limit" if stats["max_bytes"] is None else f"max_bytes {size_text(stats['max_bytes'])}"
    return "\n".join(
        [
            f"{stats['batches']} batches, {stats['samples']} samples delivered, {stats['skipped']} skipped, "
            f"in {seconds:.1f} s{rate}",
            f"read {size_text(stats['fetched_bytes'])}; workers: {stats['fetch_seconds']:.1f} s reading, "
            f"{stats['decode_seconds']:.1f} s decoding, {stats['worker_wait_seconds']:.1f} s without work",
            f"memory now {size_text(stats['budget_bytes'])}, most {size_text(stats['budget_peak_bytes'])}, {limit}; "
            f"in flight now {stats['in_flight']}, most {stats['in_flight_peak']}",
            f"the consumer waited {stats['consumer_wait_seconds']:.1f} s, "
            f"{stats['budget_wait_seconds']:.1f} s of them for memory",
            f"bottleneck: {stats['bottleneck']}",
        ]
    )


def _bottleneck(stats: dict[str, Any]) -> str:
    waited = stats["consumer_wait_seconds"]
    if not stats["batches"]:
        return "nothing delivered yet"
    if waited <= _KEEPS_UP * stats["running_seconds"]:
        return "the consumer: batches are ready when it asks"
    if stats["budget_wait_seconds"] > waited / 2:
        return "memory: held batches leave no room for the next one"
    if stats["worker_wait_seconds"] > stats["fetch_seconds"] + stats["decode_seconds"]:
        return "planning ahead: workers lack work; a larger prefetch, batch or max_bytes gives them some"
    if stats["decode_seconds"] > stats["fetch_seconds"]:
        return "decoding and transforming: more threads, or fewer steps"
    return "reading: storage, or copying and checking"

"""What follows from options that fronts share: numbers for the engine, the output, this process's rank."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from toolkit.errors import UsageError
from toolkit.loader.options.keywords import SharedKeywords
from toolkit.loader.outputs.registry import DEFAULT, named, placed
from toolkit.loader.outputs.spec import OutputSpec
from toolkit.memory.sizes import parse_bytes
from toolkit.processors import processors

__all__ = ["adapter", "check_batch_size", "check_no_ranks", "most_bytes", "output_spec", "thread_count"]


def most_bytes(given: SharedKeywords) -> int | None:
    """Return `max_bytes`, as a number."""
    return None if given["max_bytes"] is None else parse_bytes(given["max_bytes"])


def thread_count(given: SharedKeywords) -> int:
    """Return `threads`, as a number."""
    return processors() if given["threads"] == "auto" else given["threads"]


def output_spec(output: str | Callable[[Any], Any], *, device: Any = None, sharding: Any = None) -> OutputSpec:
    """Return what arrays come as; a function is given numpy's. Raises UsageError: it doesn't take the placement."""
    asked = named(DEFAULT if callable(output) else output)
    return placed(asked, output, device=device, sharding=sharding)


def adapter(output: str | Callable[[Any], Any]) -> Callable[[Any], Any] | None:
    """Return `output`, where it is a function."""
    return output if callable(output) else None


def check_batch_size(given: SharedKeywords) -> None:
    """Raise UsageError when a batch's size is said twice."""
    if given["batch_size"] is not None and given["global_batch_size"] is not None:
        raise UsageError("batch_size is per rank and global_batch_size of all ranks together: give one of them")


def check_no_ranks(given: SharedKeywords) -> None:
    """Raise UsageError when ranks are given beside a sharding."""
    if given["rank"] is not None or given["world_size"] is not None:
        raise UsageError("a sharding says which samples each process reads: leave rank and world_size out")

"""How filled rows become what the consumer gets: numpy, torch or JAX, placed by a sharding or not."""

from __future__ import annotations

from typing import Any

from toolkit.errors import UsageError
from toolkit.loader.outputs.output import Output
from toolkit.loader.outputs.registry import named
from toolkit.loader.outputs.spec import RowPlacement
from toolkit.loader.tokens.steps import Delivery

__all__ = ["delivery", "jax_placement"]


def delivery(output: Output) -> Delivery:
    """Return what turns an array into the output's, over the same memory."""
    return named(output.value).rows().place


def jax_placement(sharding: Any, rank: int, world_size: int) -> tuple[RowPlacement, int]:
    """Return how a sharding places rows, and how many processes share a batch.

    Raises:
        UsageError: JAX is missing, `sharding` is none, or ranks are given as well.
    """
    if (rank, world_size) != (0, 1):
        raise UsageError("a sharding says which rows each process reads: leave rank and world_size out")
    rows = named("jax").rows(sharding)
    return rows, rows.processes or world_size

"""How filled rows become what the consumer gets: numpy, torch or JAX, placed by a sharding or not."""

from __future__ import annotations

import importlib
from typing import Any

from toolkit.errors import UsageError
from toolkit.loader.outputs.output import Output, converter
from toolkit.loader.tokens.steps import Delivery

__all__ = ["delivery", "jax_placement"]


def delivery(output: Output) -> Delivery:
    """Return what turns an array into the output's, over the same memory."""
    if output is Output.NUMPY:
        return _as_it_is
    convert = converter(output)
    return lambda array, shape: convert(array)


def jax_placement(sharding: Any, rank: int, world_size: int) -> tuple[Any, int]:
    """Return the toolkit.loader.outputs.jax_placement.Placement of a sharding, and how many processes share a batch.

    Raises:
        UsageError: JAX is missing, `sharding` is none, or ranks are given as well.
    """
    if (rank, world_size) != (0, 1):
        raise UsageError("a sharding says which rows each process reads: leave rank and world_size out")
    converter(Output.JAX)
    module = importlib.import_module("toolkit.loader.outputs.jax_placement")
    return module.Placement(sharding), module.process_count()


def _as_it_is(array: Any, shape: tuple[int, int]) -> Any:
    return array

"""How filled rows become what the consumer gets: arrays of an output, placed by a sharding or not."""

from __future__ import annotations

from typing import Any

from toolkit.errors import UsageError
from toolkit.loader.outputs.registry import named, placed
from toolkit.loader.outputs.spec import RowPlacement

__all__ = ["row_placement"]


def row_placement(output: str, sharding: Any, rank: int, world_size: int) -> tuple[str, RowPlacement, int]:
    """Return the output's name, how it places rows, and how many processes share a batch.

    Raises:
        UsageError: There is no such output, it doesn't take a sharding, its framework is missing, or ranks are given
            beside a sharding.
    """
    spec = placed(named(output), output, sharding=sharding)
    if sharding is not None and (rank, world_size) != (0, 1):
        raise UsageError("a sharding says which rows each process reads: leave rank and world_size out")
    rows = spec.rows(sharding)
    return spec.name, rows, rows.processes or world_size

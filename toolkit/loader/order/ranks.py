"""Which rank this process is, of how many: from arguments, torchrun, JAX or SLURM. Imports neither torch nor JAX."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from toolkit.errors import UsageError
from toolkit.escapes import short

__all__ = ["find_ranks"]

_DIGITS = 18


def find_ranks(
    rank: int | None, world_size: int | None, environment: Mapping[str, str] = os.environ
) -> tuple[int, int]:
    """Return (rank, world_size).

    The first that says it: the arguments; RANK and WORLD_SIZE (torchrun); jax.distributed, when JAX is imported and it
    is initialised; SLURM_PROCID and SLURM_NTASKS (srun). Else this is rank 0 of 1.

    Raises:
        UsageError: One of a pair is given without the other, is no number, or they don't fit each other; or a batch
            script's own process would take one part of the data while nobody takes the others.
    """
    if (rank is None) != (world_size is None):
        raise UsageError(
            f"rank={rank} and world_size={world_size}: give both, or none to take them from the environment"
        )
    if rank is not None and world_size is not None:
        if rank >= world_size:
            raise UsageError(f"rank {rank} of a world of {world_size}: ranks count from 0")
        return rank, world_size
    if "RANK" in environment or "WORLD_SIZE" in environment:
        return _pair(environment, "RANK", "WORLD_SIZE")
    in_jax = _jax_ranks()
    if in_jax is not None:
        return in_jax
    if "SLURM_PROCID" in environment and "SLURM_NTASKS" in environment:
        found = _pair(environment, "SLURM_PROCID", "SLURM_NTASKS")
        # sbatch sets both for the script itself, which is one process. srun sets the step's own variables as well.
        if found[0] == 0 and found[1] > 1 and "SLURM_STEP_ID" not in environment and "SLURM_JOB_ID" in environment:
            raise UsageError(
                f"SLURM_NTASKS is {found[1]}, but srun didn't start this process: start it with srun, or say rank=0, "
                "world_size=1"
            )
        return found
    return 0, 1


def _pair(environment: Mapping[str, str], rank_name: str, size_name: str) -> tuple[int, int]:
    texts = environment.get(rank_name), environment.get(size_name)
    if not all(text is not None and text.isdecimal() and len(text) <= _DIGITS for text in texts):
        said = " and ".join(f"{name}={short(environment.get(name), quoted=True)}" for name in (rank_name, size_name))
        raise UsageError(f"the environment has {said}: set both to whole numbers, or say rank= and world_size=")
    rank, world_size = int(texts[0] or 0), int(texts[1] or 0)
    if rank >= world_size:
        raise UsageError(f"the environment has {rank_name}={rank} and {size_name}={world_size}: ranks count from 0")
    return rank, world_size


def _jax_ranks() -> tuple[int, int] | None:
    jax = sys.modules.get("jax")
    if jax is None or not hasattr(jax, "distributed"):
        return None
    initialized = getattr(jax.distributed, "is_initialized", None)
    if initialized is None or not initialized():
        return None
    return int(jax.process_index()), int(jax.process_count())

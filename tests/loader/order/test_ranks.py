from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest
from waiting import PATIENCE

from toolkit.errors import UsageError
from toolkit.loader.order.ranks import find_ranks

SRUN = {"SLURM_JOB_ID": "1", "SLURM_PROCID": "2", "SLURM_NTASKS": "4", "SLURM_STEP_ID": "0"}
SBATCH = {"SLURM_JOB_ID": "1", "SLURM_PROCID": "0", "SLURM_NTASKS": "4"}


@pytest.mark.parametrize(
    ("arguments", "environment", "expected"),
    [
        ((None, None), {}, (0, 1)),
        ((1, 3), {"RANK": "0", "WORLD_SIZE": "2"}, (1, 3)),
        ((None, None), {"RANK": "1", "WORLD_SIZE": "2"}, (1, 2)),
        ((None, None), {"RANK": "1", "WORLD_SIZE": "2", **SRUN}, (1, 2)),
        ((None, None), SRUN, (2, 4)),
        ((None, None), {"SLURM_PROCID": "1", "SLURM_NTASKS": "2"}, (1, 2)),
        ((None, None), {**SBATCH, "SLURM_NTASKS": "1"}, (0, 1)),
        ((0, 1), SBATCH, (0, 1)),
        ((None, None), {"SLURM_NTASKS": "4"}, (0, 1)),  # the shell of an allocation
    ],
)
def test_arguments_win_then_the_launcher(
    arguments: tuple[int | None, int | None], environment: dict[str, str], expected: tuple[int, int]
) -> None:
    assert find_ranks(*arguments, environment) == expected


@pytest.mark.parametrize(
    ("arguments", "environment", "says"),
    [
        ((1, None), {}, "give both, or none"),
        ((None, 2), {}, "give both, or none"),
        ((None, None), {"RANK": "1"}, "WORLD_SIZE=None"),
        ((None, None), {"RANK": "one", "WORLD_SIZE": "2"}, "RANK='one'"),
        ((None, None), {"RANK": "2", "WORLD_SIZE": "2"}, "ranks count from 0"),
        # One process of a batch script would read a quarter of the data, and nobody the rest.
        ((None, None), SBATCH, "srun didn't start this process"),
    ],
)
def test_half_said_ranks_are_refused(
    arguments: tuple[int | None, int | None], environment: dict[str, str], says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        find_ranks(*arguments, environment)


def test_neither_torch_nor_jax_is_imported_to_learn_two_integers() -> None:
    code = """
        import sys
        from toolkit.loader.order.ranks import find_ranks
        assert find_ranks(None, None) == (3, 8)
        assert not {"torch", "jax"} & set(sys.modules)
    """
    subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], env={"RANK": "3", "WORLD_SIZE": "8", **_path()}, check=True
    )


def test_jax_says_it_once_it_is_distributed() -> None:
    code = """
        import socket, jax
        from toolkit.loader.order.ranks import find_ranks
        assert find_ranks(None, None, {}) == (0, 1)
        kept = socket.socket()  # so that nobody else gets its port
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        kept.bind(("127.0.0.1", 0))
        jax.distributed.initialize(f"127.0.0.1:{kept.getsockname()[1]}", num_processes=1, process_id=0)
        batch_script = {"SLURM_JOB_ID": "1", "SLURM_PROCID": "0", "SLURM_NTASKS": "4"}
        assert find_ranks(None, None, batch_script) == (0, 1)
    """
    subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={"JAX_PLATFORMS": "cpu", **_path()},
        check=True,
        timeout=PATIENCE,
    )


def _path() -> dict[str, str]:
    return {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}

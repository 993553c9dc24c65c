"""toolkit.jax: a loader's state as an array, as JAX's checkpointers save it."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ports import reserved_port
from waiting import PATIENCE

import toolkit

pytest.importorskip("jax")
import toolkit.jax


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory, commit_samples: Any) -> str:
    work = tmp_path_factory.mktemp("jax")
    samples = [{"__key__": f"k{i:02d}", "image": None, "label": i % 2} for i in range(30)]
    commit_samples(work / "ds", {"train": [samples]})
    return str(work / "ds")


def test_a_state_through_a_file_of_arrays(root: str, tmp_path: Path) -> None:
    ds = toolkit.open(root, columns=["label"])
    loader = ds.loader(batch_size=4, shuffle="full", output="jax")
    rest = []
    for number, batch in enumerate(loader):
        if number == 2:
            state = toolkit.jax.agreed_state(loader)
        elif number > 2:
            rest.append(batch.rows.tolist())
    assert state["json"].shape == (1024,)
    np.savez(tmp_path / "state.npz", **state)
    again = ds.loader(batch_size=4, shuffle="full")
    assert toolkit.jax.agreed_state(again)["json"].shape == (1024,)
    with np.load(tmp_path / "state.npz") as saved:
        toolkit.jax.load_state(again, dict(saved))
    assert [batch.rows.tolist() for batch in again] == rest


def test_its_shape_is_the_same_for_any_run(root: str) -> None:
    joined = toolkit.concat([toolkit.open(root, columns=["label"])] * 20)
    loader = joined.loader(batch_size=4, weights=[1.0] * len(joined), seed=2**70)
    loader.set_epoch(10**12)
    assert toolkit.jax.agreed_state(loader)["json"].shape == (1024,)


PROCESSES = """
    import sys, jax, toolkit
    from toolkit.errors import LoaderError
    jax.distributed.initialize(sys.argv[2], num_processes=2, process_id=int(sys.argv[3]))
    import toolkit.jax
    ds = toolkit.open(sys.argv[1], columns=["label"])
    loader = ds.loader(global_batch_size=8, shuffle="full", remainder="drop", output="jax")
    assert (loader.cut.rank, loader.cut.world_size) == (int(sys.argv[3]), 2)
    batches = iter(loader)
    next(batches)
    toolkit.jax.agreed_state(loader)
    if jax.process_index() == 1:
        next(batches)
    try:
        toolkit.jax.agreed_state(loader)
        sys.exit(3)
    except LoaderError as error:
        assert "position 8 and 16" in str(error), error
"""


def test_processes_compare_where_they_stand(root: str) -> None:
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "JAX_CPU_COLLECTIVES_IMPLEMENTATION": "gloo"}
    with reserved_port() as port:
        processes = [
            subprocess.Popen(
                [sys.executable, "-c", textwrap.dedent(PROCESSES), root, f"127.0.0.1:{port}", str(rank)],
                stderr=subprocess.PIPE, text=True, env=environment,
            )
            for rank in range(2)
        ]  # fmt: skip
        for process in processes:
            _, errors = process.communicate(timeout=PATIENCE)
            assert process.returncode == 0, errors

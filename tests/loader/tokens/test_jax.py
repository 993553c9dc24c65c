"""JAX: batches placed by a sharding on eight simulated devices, and two processes that each read their own rows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from typing import Any

import numpy as np
import pytest
from ports import reserved_port
from token_oracle import Packed
from waiting import PATIENCE

pytest.importorskip("jax")

DEVICES = """
    import json, sys
    import jax, numpy as np
    import toolkit
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
    from toolkit.errors import UsageError

    assert len(jax.devices()) == 8
    ds = toolkit.open(sys.argv[1])
    options = {"seq_len": 64, "batch_size": 16, "shuffle": "block", "targets": True, "documents": True}
    options["start_step"] = ds.tokens(**options).steps_per_epoch() - 5
    plain = list(ds.tokens(**options))
    grid = np.array(jax.devices()).reshape(4, 2)
    for spec in (P("data", None), P("data", "model"), P(("data", "model"), None), P(None, "model"), P()):
        sharding = NamedSharding(Mesh(grid, ("data", "model")), spec)
        stream = ds.tokens(sharding=sharding, **options)
        count = 0
        for batch, wanted in zip(stream, plain, strict=True):
            for name in ("tokens", "targets", "segments", "positions"):
                assert batch[name].sharding == sharding
                assert batch[name].shape == (16, 64)
                assert (np.asarray(batch[name]) == wanted[name]).all(), (spec, name)
            if count in (0, len(plain) - 1):
                assert batch.mask.sharding == sharding
                assert (np.asarray(batch.mask) == wanted.mask).all()
            count += 1
    sharding = NamedSharding(Mesh(grid, ("data", "model")), P("data", None))
    refused = {"can't be placed": {"batch_size": 6}, "leave rank": {"batch_size": 8, "rank": 1, "world_size": 2}}
    for said, options in refused.items():
        try:
            ds.tokens(seq_len=64, sharding=sharding, **options)
        except UsageError as error:
            assert said in str(error), error
        else:
            raise AssertionError(options)
    # One stretch of host memory serves all devices: nothing was copied on its way.
    batch = next(iter(ds.tokens(seq_len=64, batch_size=16, sharding=sharding)))
    pointers = sorted(shard.data.unsafe_buffer_pointer() for shard in batch["tokens"].addressable_shards)
    print(json.dumps({"span": pointers[-1] - pointers[0]}))
"""

PROCESS = """
    import json, sys
    import jax
    jax.distributed.initialize(sys.argv[2], num_processes=2, process_id=int(sys.argv[3]))
    import numpy as np
    import toolkit
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

    sharding = NamedSharding(Mesh(np.array(jax.devices()), ("data",)), P("data", None))
    stream = toolkit.open(sys.argv[1]).tokens(
        seq_len=64, batch_size=4, shuffle="block", sharding=sharding, total_steps=5, epochs=None
    )
    found = []
    for batch in stream:
        assert batch["tokens"].shape == (8, 64)
        shards = batch["tokens"].addressable_shards
        found.append([[shard.index[0].start or 0, np.asarray(shard.data).tolist()] for shard in shards])
    print(json.dumps({"batches": found, "state": stream.state_dict()}))
"""


def run(program: str, *args: object, devices: int) -> subprocess.Popen[str]:
    environment = {
        **os.environ,
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}",
        "JAX_PLATFORMS": "cpu",
    }
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program), *map(str, args)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def answer(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, complaints = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, complaints
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    return found


def test_batches_arrive_with_the_sharding_that_was_asked_for(packed: Packed) -> None:
    found = answer(run(DEVICES, packed.path, devices=8))
    assert found["span"] < 16 * 64 * 4


def test_two_processes_get_different_rows_of_the_same_batches(packed: Packed) -> None:
    with reserved_port() as port:
        both = [run(PROCESS, packed.path, f"127.0.0.1:{port}", number, devices=2) for number in range(2)]
        answers = [answer(process) for process in both]
    assert answers[0]["state"] == answers[1]["state"]
    stream = packed.open().tokens(seq_len=64, batch_size=8, shuffle="block", total_steps=5)
    for step, batch in enumerate(stream):
        rows: dict[int, Any] = {}
        for one in answers:
            for start, values in one["batches"][step]:
                assert start not in rows
                rows[start] = values
        np.testing.assert_array_equal(np.concatenate([rows[start] for start in sorted(rows)]), batch["tokens"])


def test_a_batch_is_a_pytree_of_its_arrays(packed: Packed) -> None:
    import jax

    batch = next(iter(packed.open().tokens(seq_len=64, batch_size=4, targets=True)))
    doubled = jax.jit(lambda batch: jax.tree.map(lambda ids: ids * 2, batch))(batch)
    assert type(doubled) is type(batch)
    assert list(doubled) == ["tokens", "targets"]
    np.testing.assert_array_equal(doubled["targets"], batch["targets"] * 2)
    moved = batch.to("cpu")
    assert (moved.place, moved.mask.all()) == (batch.place, True)


def test_ids_beyond_int32_are_an_error_and_int64_becomes_int32(packed: Packed) -> None:
    import jax

    stream = packed.open().tokens(seq_len=64, batch_size=4, dtype="int64", output="jax", targets=True)
    batch = next(iter(stream))
    assert batch["tokens"].dtype == jax.numpy.int32
    assert (np.asarray(batch["tokens"])[0, 1:] == np.asarray(batch["targets"])[0, :-1]).all()
    stream.close()

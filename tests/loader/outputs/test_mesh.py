"""Loaders with a sharding: global JAX batches on eight simulated devices, and processes that read only their part."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ports import reserved_port
from waiting import PATIENCE

import toolkit
from toolkit.loader.order.cut import Cut, Remainder

pytest.importorskip("jax")

DEVICES = """
    import sys
    import jax, numpy as np
    import toolkit
    from jax.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec as P
    from toolkit import slot
    from toolkit.errors import LoaderError, UsageError

    assert len(jax.devices()) == 8
    ds = toolkit.open(sys.argv[1], split="train")
    grid = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))
    steps = toolkit.pipeline(slot("image").decode_image().resize((16, 16)).normalize("half"))
    options = {"batch_size": 16, "shuffle": "full", "seed": 3, "remainder": "pad"}
    plain = list(ds.loader(steps, **options))
    data = NamedSharding(grid, P("data"))
    whole = NamedSharding(grid, P("data", None, None, "model"))
    both = NamedSharding(grid, P(("data", "model")))
    for sharding, image, label in (
        (data, data, data),
        (NamedSharding(grid, P("data", None)), data, data),
        (both, both, both),
        (NamedSharding(grid, P()), NamedSharding(grid, P()), NamedSharding(grid, P())),
        ({"image": whole, "label": data}, whole, data),
        ({"image": data, "label": NamedSharding(grid, P())}, data, NamedSharding(grid, P())),
    ):
        for batch, wanted in zip(ds.loader(steps, sharding=sharding, **options), plain, strict=True):
            assert batch["image"].shape == (16, 3, 16, 16)
            assert batch["image"].sharding.is_equivalent_to(image, 4), batch["image"].sharding
            assert batch["label"].sharding.is_equivalent_to(label, 1)
            assert batch.mask.sharding.is_equivalent_to(NamedSharding(grid, P(*image.spec[:1])), 1)
            for name in wanted:
                assert (np.asarray(batch[name]) == wanted[name]).all()
            assert (np.asarray(batch.mask) == wanted.mask).all()
            assert (batch.positions == wanted.positions).all() and batch.sample_keys == wanted.sample_keys
    assert not plain[-1].mask.all()

    # A cap of two batches and a thread is kept, though JAX lets go late; other kinds of memory are filled too.
    host = NamedSharding(grid, P("data"), memory_kind="pinned_host")
    cap = 2 * 16 * (16 * 16 * 3 * 4 + 8) + (256 << 10)
    loader = ds.loader(steps, sharding=data, max_bytes=cap, hold_timeout=300, epochs=5, **options)
    assert sum(int(batch.mask.sum()) for batch in loader) == 5 * len(ds)
    batch = next(iter(ds.loader(steps, sharding=host, **options)))
    assert batch["image"].sharding.memory_kind == "pinned_host"
    assert (np.asarray(batch["image"]) == plain[0]["image"]).all()

    # Half precision and optional slots come as they are meant.
    half = toolkit.pipeline(
        slot("image").decode_image().resize((8, 8)).normalize("half").cast("bfloat16"),
        slot("label", optional=True).scalar("int64"),
    )
    batch = next(iter(ds.loader(half, sharding=data, **options)))
    assert batch["image"].dtype == jax.numpy.bfloat16
    assert batch.present["label"].sharding.is_equivalent_to(data, 1) and bool(batch.present["label"].all())

    # One stretch of host memory serves all devices: nothing was copied on its way.
    batch = next(iter(ds.loader(steps, sharding=data, **options)))
    pointers = sorted(shard.data.unsafe_buffer_pointer() for shard in batch["image"].addressable_shards)
    assert pointers[-1] - pointers[0] < batch["image"].nbytes

    # Batch maps may add arrays.
    def added(columns, rng):
        return {**columns, "twice": columns["label"] * 2}
    def listed(columns, rng):
        return {**columns, "twice": columns["label"].tolist()}
    def mapping(function):
        return toolkit.pipeline(slot("image").decode_image().resize((8, 8)), batch_maps=[
            toolkit.batch_map(function, adds=("twice",))])
    mapped = mapping(added)
    batch = next(iter(ds.loader(mapped, sharding=data, **options)))
    assert (np.asarray(batch["twice"]) == np.asarray(batch["label"]) * 2).all()

    def refused(said, pipeline=steps, error=UsageError, dataset=ds, sharding=data, **other):
        try:
            loader = dataset.loader(pipeline, sharding=sharding, **{**options, **other})
            if error is LoaderError:
                next(iter(loader))
        except error as raised:
            assert said in str(raised), raised
        else:
            raise AssertionError(said)

    refused("take a multiple of 4", batch_size=6)
    refused("take a multiple of 8", sharding=both, batch_size=12)
    refused("can't be placed by", sharding={"image": NamedSharding(grid, P(None, "model")), "label": data})
    refused("sharding= has none for column 'label'", sharding={"image": data})
    refused("Did you mean 'label'", sharding={"image": data, "label": data, "labl": data})
    refused("names no column", sharding={})
    refused("give a mapping", sharding=whole)
    refused("column 'image' comes as a list", pipeline=None)
    refused("must be a jax.sharding.NamedSharding, got str", sharding="data")
    refused("sharding['label'] must be a jax.sharding.NamedSharding", sharding={"image": data, "label": None})
    refused("must say where everything lies", sharding=NamedSharding(AbstractMesh((4,), ("data",)), P("data")))
    refused("must say where everything lies", sharding=NamedSharding(grid, P(P.UNCONSTRAINED)))
    refused("say remainder='drop' or 'pad'", remainder="keep")
    refused("leave rank and world_size out", rank=0, world_size=2)
    refused("say output='jax'", output="torch")
    refused("column 'twice' comes as a list", error=LoaderError, pipeline=mapping(listed))
    refused("sharding= has none for column 'twice'", mapped, sharding={"image": data, "label": data})
"""

PROCESS = """
    import json, sys
    import jax
    jax.distributed.initialize(sys.argv[2], num_processes=2, process_id=int(sys.argv[3]))
    import numpy as np
    import toolkit
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
    from toolkit.errors import UsageError
    from toolkit import slot

    state, order = json.loads(sys.argv[4]), json.loads(sys.argv[5])
    devices = [jax.devices()[number] for number in order]
    data = NamedSharding(Mesh(np.array(devices), ("data",)), P("data"))
    ds = toolkit.open(sys.argv[1], split="train")
    steps = toolkit.pipeline(slot("image").decode_image().resize((4, 4)))
    options = {"shuffle": "full", "seed": 3, "epochs": 2, "remainder": "pad"}
    loader = ds.loader(steps, global_batch_size=32, sharding=data, **options)
    assert (loader.cut.rank, loader.cut.world_size) == (jax.process_index(), 2)
    if state:
        loader.load_state_dict(state)
    total = jax.jit(lambda labels, mask: (labels * mask).sum())  # over the devices of both processes
    found, states = [], []
    for batch in loader:
        assert batch["image"].shape == (32, 4, 4, 3) and batch.mask.shape == (32,)
        shards = [
            [shard.index[0].start or 0, np.asarray(shard.data).tolist()] for shard in batch["label"].addressable_shards
        ]
        found.append({
            "epoch": batch.epoch, "positions": batch.positions.tolist(), "labels": shards,
            "total": int(total(batch["label"], batch.mask)), "keys": batch.sample_keys,
        })
        states.append(loader.state_dict())
    read = loader.stats()["samples"]

    # What one process would refuse, the other refuses as well: neither is left waiting.
    said = []
    for wrong in (
        {"image": data, "label": NamedSharding(data.mesh, P())},
        NamedSharding(Mesh(np.array(jax.devices()[:2]), ("data",)), P("data")),
    ):
        try:
            ds.loader(steps, global_batch_size=32, sharding=wrong, **options)
            said.append("")
        except UsageError as error:
            said.append(str(error))
    print(json.dumps({"batches": found, "states": states, "read": read, "said": said}))
"""


def run(program: str, *args: object, devices: int) -> subprocess.Popen[str]:
    flags = f"--xla_force_host_platform_device_count={devices}"
    known = {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu", "JAX_CPU_COLLECTIVES_IMPLEMENTATION": "gloo"}
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program), *map(str, args)],
        env={**os.environ, **known}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def output(process: subprocess.Popen[str]) -> str:
    out, complaints = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, complaints
    return out


def run_processes(root: Path, state: Any, order: list[int]) -> list[dict[str, Any]]:
    with reserved_port() as port:
        arguments = json.dumps(state), json.dumps(order)
        both = [run(PROCESS, root, f"127.0.0.1:{port}", i, *arguments, devices=2) for i in range(2)]
        return [json.loads(output(process).splitlines()[-1]) for process in both]


def test_batches_are_those_of_a_loader_without(packed: Path) -> None:
    output(run(DEVICES, packed, devices=8))


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [2, 0, 3, 1]], ids=["in order", "interleaved"])
def test_processes_read_their_part_and_together_all(packed: Path, order: list[int]) -> None:
    answers = run_processes(packed, None, order)
    assert answers[0]["states"] == answers[1]["states"]
    ds = toolkit.open(packed, split="train", columns=["label"])
    options = {"shuffle": "full", "seed": 3, "epochs": 2, "remainder": "pad"}
    plain = list(ds.loader(batch_size=32, **options))
    assert len(plain) == len(answers[0]["batches"]) == len(answers[1]["batches"])
    for step, wanted in enumerate(plain):
        rows: dict[int, Any] = {}
        for answer in answers:
            batch = answer["batches"][step]
            assert len(batch["positions"]) == 16
            held = []
            for start, labels in batch["labels"]:
                assert start not in rows
                rows[start] = labels
                held += range(start, start + len(labels))
            assert batch["positions"] == wanted.positions[sorted(held)].tolist()
            assert batch["keys"] == [wanted.sample_keys[place] for place in sorted(held)]
            assert batch["total"] == int((wanted["label"] * wanted.mask).sum())
            assert batch["epoch"] == wanted.epoch
        assert np.concatenate([rows[start] for start in sorted(rows)]).tolist() == wanted["label"].tolist()
    assert sum(answer["read"] for answer in answers) == 2 * len(ds)  # each sample by one process alone
    if order == [0, 1, 2, 3]:
        resumed = run_processes(packed, answers[0]["states"][6], order)
        for answer, whole in zip(resumed, answers, strict=True):
            assert answer["batches"] == whole["batches"][7:]
        alone = ds.loader(batch_size=50, **{**options, "remainder": "keep"})
        whole_state = {**answers[0]["states"][6], "pipeline": alone.state_dict()["pipeline"]}
        alone.load_state_dict(whole_state)
        rest = [position for batch in plain[7:] for position in batch.positions[batch.mask].tolist()]
        assert [position for batch in alone for position in batch.positions.tolist()] == rest
    for answer in answers:
        assert "cut their first axis alike" in answer["said"][0]
    assert [answer["said"][1] == "" for answer in answers] == [True, False]
    assert "no device of process 1" in answers[1]["said"][1]


@given(data=st.data(), samples=st.integers(0, 60), parts=st.integers(1, 6), each=st.integers(1, 4))
def test_any_ranges_give_every_position_once(data: st.DataObject, samples: int, parts: int, each: int) -> None:
    """Parts of the global batch, dealt to processes in any way."""
    owners = data.draw(st.lists(st.integers(0, 2), min_size=parts, max_size=parts))
    remainder = data.draw(st.sampled_from([Remainder.DROP, Remainder.PAD]))
    start = data.draw(st.integers(0, samples))
    found: dict[int, list[int]] = {}
    for owner in set(owners):
        ranges = [(place * each, (place + 1) * each) for place, one in enumerate(owners) if one == owner]
        cut = Cut(samples=samples, batch_size=parts * each, rank=0, world_size=1, remainder=remainder, ranges=ranges)
        planned = 0
        for batch in range(cut.batches(start)):
            positions = cut.positions(start, batch).tolist()
            assert len(positions) == cut.local_batch
            real = [position for position in positions if position >= 0]
            assert positions == real + [-1] * (len(positions) - len(real))  # padding comes last
            planned += len(real)
            found.setdefault(batch, []).extend(real)
        assert planned == cut.planned(start)
    every = list(range(start, samples))
    if remainder is Remainder.DROP:
        every = every[: len(every) // (parts * each) * parts * each]
    assert [position for batch in sorted(found) for position in sorted(found[batch])] == every

"""The loader's contract: whatever the ranks, cuts and kills, together they deliver what one uninterrupted rank does."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import toolkit

SAMPLES = 41
BAD = {3, 17, 40}  # rows without a label, which a loader can't deliver
Sample = tuple[int, int, int, bool]  # epoch, position, row, delivered


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory, commit_samples: Callable[..., str]) -> toolkit.Dataset:
    root = tmp_path_factory.mktemp("contract")
    samples = [{"__key__": f"k{i}", "image": None, "label": None if i in BAD else i % 2} for i in range(SAMPLES)]
    commit_samples(root / "ds", {"train": [samples[:20], samples[20:]]}, batch_body_bytes=200)
    return toolkit.open(root / "ds", columns=["label"])


VIEWS: dict[str, Callable[[toolkit.Dataset], toolkit.Dataset]] = {
    "whole": lambda ds: ds,
    "filter": lambda ds: ds.filter((pc.field("label") == 1) | pc.field("label").is_null()),
    "slice": lambda ds: ds[30:2:-1],
    "take": lambda ds: ds.take([5, 3, 5, 9, 40, 0, 17]),
    "repeat": lambda ds: ds[:19].repeat(3),
    "concat": lambda ds: toolkit.concat([ds[:13], ds.filter(pc.field("label") == 0)]),
    "one": lambda ds: ds[7:8],
}


@st.composite
def runs(draw: st.DrawFn) -> dict[str, Any]:
    """How one life of a job is cut: until `steps` are done, or to the end."""
    world_size = draw(st.integers(1, 8))
    return {
        "world_size": world_size,
        "batch_size": draw(st.integers(1, 12)),
        "remainder": draw(st.sampled_from(["drop", "pad"] if world_size > 1 else ["keep", "drop", "pad"])),
        "threads": draw(st.integers(1, 3)),
        "prefetch": draw(st.integers(0, 5)),
        "steps": draw(st.integers(0, 9)),
    }


def live(view: toolkit.Dataset, run: dict[str, Any], state: dict[str, Any] | None, last: bool, **options: Any) -> Any:
    """Run every rank for its steps, or to the end; return the samples they got and the state they all have then."""
    samples: list[Sample] = []
    states = []
    counts = []
    for rank in range(run["world_size"]):
        given = {name: value for name, value in run.items() if name != "steps"}
        with view.loader(rank=rank, on_error="skip", **given, **options) as loader:
            if state is not None:
                loader.load_state_dict(state)
            count = 0
            batches = iter(loader)
            while last or count < run["steps"]:
                batch = next(batches, None)
                if batch is None:
                    break
                count += 1
                assert len(batch.mask) == len(batch["label"]) == len(batch.positions) == len(batch.rows)
                assert not batch["label"][~batch.mask].any()
                for i in np.flatnonzero(batch.positions >= 0).tolist():
                    place = int(batch.positions[i]), int(batch.rows[i])
                    samples.append((batch.epoch, *place, bool(batch.mask[i])))
            states.append(loader.state_dict())
            counts.append(count)
    assert all(state == states[0] for state in states), "the ranks' states differ"
    assert len(set(counts)) == 1, "the ranks got different numbers of batches"
    return samples, states[-1]


def planned(samples: int, epochs: int, cuts: list[dict[str, Any]]) -> list[tuple[int, int]]:
    """What should come, written as loops over steps: (epoch, position), each once."""
    out: list[tuple[int, int]] = []
    epoch = position = 0
    for number, run in enumerate(cuts, start=1):
        step = run["world_size"] * run["batch_size"]
        steps = run["steps"] if number < len(cuts) else 10**9
        while steps and epoch < epochs:
            left = samples - position
            if left == 0 or (left < step and run["remainder"] == "drop"):
                epoch, position = epoch + 1, 0
                continue
            steps -= 1
            out += [(epoch, p) for p in range(position, min(position + step, samples))]
            position = min(position + step, samples)
            left = samples - position
            if left == 0 or (left < step and run["remainder"] == "drop"):
                epoch, position = epoch + 1, 0
    return out


@settings(max_examples=80, deadline=None)
@given(
    view=st.sampled_from(list(VIEWS)),
    order=st.sampled_from(["full", "block", "none", "weighted"]),
    seed=st.integers(0, 5),
    epochs=st.integers(1, 3),
    cuts=st.lists(runs(), min_size=1, max_size=3),
)
def test_union_of_ranks_over_kills_is_the_uninterrupted_run(
    source: toolkit.Dataset, view: str, order: str, seed: int, epochs: int, cuts: list[dict[str, Any]]
) -> None:
    chosen = VIEWS[view](source)
    options: dict[str, Any] = {"shuffle": order, "seed": seed, "epochs": epochs}
    if order == "weighted":
        options |= {"shuffle": "none", "weights": np.arange(1, len(chosen) + 1), "epoch_samples": len(chosen) + 3}
    samples = len(chosen) + 3 if order == "weighted" else len(chosen)
    for run in cuts:
        if run["remainder"] == "drop" and run["world_size"] * run["batch_size"] > samples:
            run["remainder"] = "pad"  # nothing would be left: refused, and tested elsewhere

    uninterrupted, _ = live(chosen, {"world_size": 1, "batch_size": 5, "steps": 0}, None, True, **options)
    expected = planned(samples, epochs, cuts)
    got: list[Sample] = []
    state = None
    for number, run in enumerate(cuts, start=1):
        if state is not None and state["epoch"] >= epochs:
            break  # the job was done
        part, state = live(chosen, run, state, number == len(cuts), **options)
        got += part
    assert sorted(place[:2] for place in got) == expected  # nothing twice, nothing missing
    rows = {place[:2]: place for place in uninterrupted}
    assert all(rows[place[:2]] == place for place in got)  # the same rows, and the same ones skipped
    assert all(delivered == (row not in BAD) for _, _, row, delivered in got)


WORKER = """
    import json, os, sys, toolkit
    root, rank, work = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    ds = toolkit.open(root, columns=["label"])
    loader = ds.loader(batch_size=2, shuffle="full", seed=9, epochs=4, rank=rank, world_size=3, remainder="pad",
                       on_error="skip", threads=2, prefetch=6)
    for step, batch in enumerate(loader, start=1):
        with open(f"{work}/log-{rank}", "a") as log:
            log.write(json.dumps([step, batch.epoch, batch.positions.tolist(), batch.rows.tolist()]) + "\\n")
        if step % 3 == 0:
            with open(f"{work}/new-{rank}", "w") as file:
                json.dump({"step": step, "loader": loader.state_dict()}, file)
            os.replace(f"{work}/new-{rank}", f"{work}/checkpoint-{rank}")
        print(step, flush=True)
        sys.stdin.readline()
"""


@pytest.mark.parametrize(("stop", "world_size", "batch_size"), [(8, 3, 2), (13, 2, 5)])
def test_kill_9_of_a_rank_and_resume_from_its_last_checkpoint(
    source: toolkit.Dataset, tmp_path: Path, stop: int, world_size: int, batch_size: int
) -> None:
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(WORKER), source.root, str(rank), str(tmp_path)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for rank in range(3)
    ]  # fmt: skip
    for _ in range(stop):  # in step, as training is
        for process in ranks:
            assert process.stdout is not None
            assert process.stdout.readline().strip()
        for process in ranks:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
    ranks[1].kill()  # in the middle of a step, with batches prefetched
    for process in (ranks[0], ranks[2]):  # have done that step, which rank 1 may have checkpointed
        assert process.stdout is not None
        assert process.stdout.readline().strip()
    for process in ranks:
        process.kill()
        process.communicate()

    checkpoint = json.loads((tmp_path / "checkpoint-1").read_text())
    assert stop - 3 < checkpoint["step"] <= stop + 1
    # What training keeps: the steps that the checkpoint covers. The steps after it are done again.
    kept = [
        (epoch, position, row)
        for rank in range(3)
        for step, epoch, positions, rows in map(json.loads, (tmp_path / f"log-{rank}").read_text().splitlines())
        if step <= checkpoint["step"]
        for position, row in zip(positions, rows, strict=True)
        if position >= 0
    ]
    run = {"world_size": world_size, "batch_size": batch_size, "remainder": "pad", "steps": 0}
    options: dict[str, Any] = {"shuffle": "full", "seed": 9, "epochs": 4}
    resumed, _ = live(source, run, checkpoint["loader"], True, **options)
    whole, _ = live(source, {"world_size": 1, "batch_size": 8, "steps": 0}, None, True, **options)
    assert sorted(kept + [place[:3] for place in resumed]) == sorted(place[:3] for place in whole)

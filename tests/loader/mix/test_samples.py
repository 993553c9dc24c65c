"""Mixes of samples: shares, ends, resume, ranks, mixes in mixes; what each source gives is what it holds."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import toolkit
from toolkit import slot
from toolkit.errors import UsageError

SIZES = {"a": 500, "b": 90, "c": 7}
WEIGHTS = {"a": 7, "b": 2, "c": 0.5}
FIRSTS = {"a": 0, "b": 10_000, "c": 20_000}


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, toolkit.Dataset]:
    folder = tmp_path_factory.mktemp("mix")
    opened = {}
    for name, size in SIZES.items():
        with toolkit.writer(folder / name, columns={"id": "int64"}) as writer:
            for i in range(size):
                writer.add({"id": FIRSTS[name] + i}, key=f"{name}{i}")
        opened[name] = toolkit.open(folder / name)
    return opened


def read(loader: toolkit.Loader) -> Iterator[tuple[str | None, int, int]]:
    """Yield source, id and position of each sample."""
    with loader:
        for batch in loader:
            for source, number, position, there in zip(
                batch.source, batch["id"].tolist(), batch.positions.tolist(), batch.mask.tolist(), strict=True
            ):
                if there:
                    yield source, number, position


@pytest.mark.parametrize("shuffle", ["none", "full", "block"])
def test_every_sample_comes_once_and_says_its_source(datasets: dict[str, toolkit.Dataset], shuffle: Any) -> None:
    mix = toolkit.mix(datasets, WEIGHTS, exhausted="continue")
    assert len(mix) == sum(SIZES.values())
    seen = list(read(mix.loader(batch_size=16, shuffle=shuffle)))
    assert [position for _, _, position in seen] == list(range(len(mix)))
    for source, number, _ in seen:
        assert source is not None
        assert 0 <= number - FIRSTS[source] < SIZES[source]
    assert len({number for _, number, _ in seen}) == len(mix)
    if shuffle == "none":
        for name in SIZES:
            mine = [number for source, number, _ in seen if source == name]
            assert mine == sorted(mine)


def test_shares_are_met_to_two_samples_anywhere_and_exactly_at_a_block_s_end(
    datasets: dict[str, toolkit.Dataset],
) -> None:
    mix = toolkit.mix(datasets, WEIGHTS)
    sources = [source for source, _, _ in read(mix.loader(batch_size=256, epoch_samples=4096, shuffle="full"))]
    total = sum(WEIGHTS.values())
    for name, weight in WEIGHTS.items():
        given_so_far = np.cumsum([source == name for source in sources])
        share = given_so_far[-1] / 4096
        assert abs(share - weight / total) < 1 / 4096
        assert np.abs(given_so_far - share * np.arange(1, 4097)).max() <= 2
    assert mix.counts(4096) == Counter(sources)
    assert mix.counts(1000) == Counter(sources[:1000])


def test_sources_that_begin_anew_give_each_sample_as_often_and_in_another_order(
    datasets: dict[str, toolkit.Dataset],
) -> None:
    loader = toolkit.mix(datasets, WEIGHTS).loader(batch_size=64, epoch_samples=2000, epochs=2, shuffle="full")
    ids = [number for source, number, _ in read(loader) if source == "c"]
    whole = [ids[start : start + 7] for start in range(0, len(ids) - 6, 7)]  # over the end of an epoch of the mix
    assert len(whole) > 20
    assert all(sorted(one) == list(range(20_000, 20_007)) for one in whole)
    assert len({tuple(one) for one in whole}) > 10


def test_one_that_stops_ends_with_the_first_source_that_ends(datasets: dict[str, toolkit.Dataset]) -> None:
    mix = toolkit.mix(datasets, {"a": 1, "b": 1, "c": 0.01}, exhausted="stop")
    seen = list(read(mix.loader(batch_size=16, shuffle="full")))
    assert len(seen) == len(mix) == sum(row.rows for row in mix.plan())
    assert Counter(source for source, _, _ in seen)["b"] == 90
    assert seen[-1][0] == "b"


@settings(max_examples=15)
@given(st.data())
def test_a_state_resumes_anywhere_on_any_ranks(datasets: dict[str, toolkit.Dataset], data: st.DataObject) -> None:
    exhausted = data.draw(st.sampled_from(["repeat", "continue", "stop"]))
    weights = {name: data.draw(st.sampled_from([0.1, 1, 3])) for name in SIZES}
    mix = toolkit.mix(datasets, weights, exhausted=exhausted)
    options: dict[str, Any] = {
        "shuffle": data.draw(st.sampled_from(["none", "full", "block"])),
        "seed": 5,
        "until_epoch": 2,
        "epochs": None,
    }
    if mix.repeats:
        options["epoch_samples"] = data.draw(st.integers(1, 700))
    whole = list(read(mix.loader(batch_size=8, **options)))
    stop = data.draw(st.integers(0, 60))
    first = mix.loader(batch_size=8, **options)
    kept = 0
    with first:
        for number, batch in enumerate(first, start=1):
            kept += len(batch.positions)
            if number > stop:
                break
        state = json.loads(json.dumps(first.state_dict()))
        counts = first.counts()
    world = data.draw(st.sampled_from([1, 2, 3]))
    size = data.draw(st.integers(1, 9))
    seen: list[tuple[int, tuple[str | None, int, int]]] = []
    for rank in range(world):
        backwards = toolkit.mix(dict(reversed(datasets.items())), weights, exhausted=exhausted)  # names say who is who
        loader = backwards.loader(batch_size=size, rank=rank, world_size=world, remainder="pad", **options)
        loader.load_state_dict(state)
        with loader:
            for batch in loader:
                rows = zip(batch.source, batch["id"].tolist(), batch.positions.tolist(), strict=True)
                seen += [(batch.epoch, row) for row in rows if row[2] >= 0]
    rest = [row for _, row in sorted(seen, key=lambda one: (one[0], one[1][2]))]
    assert rest == whole[kept:]
    if not mix.repeats and kept < len(mix):
        assert counts == {name: sum(source == name for source, _, _ in whole[:kept]) for name in SIZES}


def test_a_mix_in_a_mix_has_its_share_and_its_own_shares(datasets: dict[str, toolkit.Dataset]) -> None:
    inner = toolkit.mix({"b": datasets["b"], "c": datasets["c"]}, {"b": 1, "c": 3})
    mix = toolkit.mix({"a": datasets["a"], "small": inner}, {"a": 1, "small": 1})
    seen = Counter(source for source, _, _ in read(mix.loader(batch_size=64, epoch_samples=4096, shuffle="full")))
    assert seen == {"a": 2048, "small/b": 512, "small/c": 1536}
    assert {row.name: row.rows for row in mix.plan(4096)} == seen
    once = toolkit.mix({"a": datasets["a"], "rest": toolkit.mix(datasets, exhausted="stop")}, exhausted="continue")
    ids = Counter(number for _, number, _ in read(once.loader(batch_size=64, shuffle="full")))
    assert sum(ids.values()) == len(once)
    assert set(ids) >= set(range(500))


def test_a_mix_without_end_in_one_that_ends_goes_on_in_the_next_epoch(datasets: dict[str, toolkit.Dataset]) -> None:
    endless = toolkit.mix({"b": datasets["b"], "c": datasets["c"]}, {"b": 1, "c": 1})
    mix = toolkit.mix({"a": datasets["a"][:30], "rest": endless}, {"a": 1, "rest": 1}, exhausted="stop")
    given_by_b: list[int] = []
    with mix.loader(batch_size=10, shuffle="full") as loader:
        for _ in range(36):  # far beyond 16 epochs, where 64 bits of 2**60 samples an epoch end
            for batch in loader:
                there = zip(batch.source, batch["id"].tolist(), batch.mask.tolist(), strict=True)
                given_by_b += [number for source, number, is_there in there if is_there and source == "rest/b"]
    laps = [given_by_b[start : start + 90] for start in range(0, len(given_by_b) - 89, 90)]
    assert len(laps) > 4
    assert all(len(set(lap)) == 90 for lap in laps)
    assert len({tuple(lap) for lap in laps}) == len(laps)


def test_an_epoch_that_would_never_end_is_refused(datasets: dict[str, toolkit.Dataset]) -> None:
    endless = toolkit.mix({"b": datasets["b"], "c": datasets["c"]})
    with pytest.raises(UsageError, match="never comes to an end here: the sources of rest begin anew"):
        toolkit.mix({"a": datasets["a"], "rest": endless}, exhausted="continue")
    with pytest.raises(UsageError, match="never comes to an end here"):
        toolkit.mix({"rest": endless}, exhausted="stop")


def test_the_same_dataset_twice_views_and_pipelines(datasets: dict[str, toolkit.Dataset]) -> None:
    head = datasets["a"][:10]
    mix = toolkit.mix({"head": head, "all": datasets["a"], "tail": datasets["a"][490:]}, exhausted="continue")
    seen = list(read(mix.loader(toolkit.pipeline(slot("id").scalar("int64")), batch_size=8)))
    assert Counter(source for source, _, _ in seen) == {"head": 10, "all": 500, "tail": 10}
    assert sorted(number for source, number, _ in seen if source == "tail") == list(range(490, 500))


def test_temperature_and_no_weights(datasets: dict[str, toolkit.Dataset]) -> None:
    by_size = toolkit.mix(datasets)
    assert by_size.weights == SIZES
    hot = toolkit.mix(datasets, temperature=2.0).counts(4096)
    roots = {name: size**0.5 for name, size in SIZES.items()}
    for name, root in roots.items():
        assert abs(hot[name] - root / sum(roots.values()) * 4096) < 1


def test_it_pickles_with_its_place(datasets: dict[str, toolkit.Dataset]) -> None:
    mix = pickle.loads(pickle.dumps(toolkit.mix(datasets, WEIGHTS, exhausted="continue")))
    loader = mix.loader(batch_size=50, shuffle="full")
    iterator = iter(loader)
    first = next(iterator)["id"].tolist()
    other = pickle.loads(pickle.dumps(loader))
    rest = [number for batch in iterator for number in batch["id"].tolist()]
    assert [number for batch in other for number in batch["id"].tolist()] == rest
    assert len(first) + len(rest) == len(mix)
    batch = pickle.loads(pickle.dumps(next(iter(loader))))
    assert set(batch.source) <= set(SIZES)


def test_batches_without_a_mix_have_no_source(datasets: dict[str, toolkit.Dataset]) -> None:
    with datasets["c"].loader(batch_size=7) as loader:
        assert next(iter(loader)).source == [None] * 7


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"weights": {"a": 1, "b": 1}}, "dataset 'c' has no weight"),
        ({"weights": {**WEIGHTS, "cc": 1}}, "weights name 'cc', which is no dataset. Did you mean 'c'"),
        ({"weights": {**WEIGHTS, "c": 0}}, "weight of 'c' must be a positive number, got 0.0"),
        ({"weights": {**WEIGHTS, "c": -1}}, "weight of 'c' must be a positive number"),
        ({"weights": {**WEIGHTS, "c": float("nan")}}, "weight of 'c' must be a positive number, got nan"),
        ({"weights": {**WEIGHTS, "c": float("inf")}}, "weight of 'c' must be a positive number, got inf"),
        ({"weights": {**WEIGHTS, "c": "1"}}, "weight of 'c' must be a number, got '1'"),
        ({"weights": {**WEIGHTS, "c": 10**500}}, "beyond float64"),
        ({"weights": {**WEIGHTS, "c": 1e-5}}, r"weight 1e-05 is 1 row in 900001 of this mix of 3"),
        ({"weights": [1, 2, 3]}, "weights must be a number for each name"),
        ({"temperature": 0}, "temperature must be a positive number"),
        ({"exhausted": "stopp"}, "exhausted must be one of repeat, continue, stop, got 'stopp'. Did you mean 'stop'"),
    ],
)
def test_mixes_that_cannot_be(datasets: dict[str, toolkit.Dataset], change: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        toolkit.mix(datasets, **{"weights": WEIGHTS, **change})


def test_sources_that_cannot_be(datasets: dict[str, toolkit.Dataset], tmp_path: Path) -> None:
    for given_sources, said in (
        ({}, "at least one dataset"),
        ([datasets["a"]], "at least one dataset, by its name"),
        ({"a/b": datasets["a"]}, "no name of a source"),
        ({"a": "path"}, "a mix takes datasets, and 'a' is path"),
        ({"a": datasets["a"], "none": datasets["b"][:0]}, "the dataset 'none' has no samples"),
    ):
        with pytest.raises(UsageError, match=said):
            toolkit.mix(given_sources)  # type: ignore[arg-type]
    with toolkit.writer(tmp_path / "other", columns={"id": "float64"}) as writer:
        writer.add({"id": 1.0})
    with pytest.raises(UsageError, match="store the types"):
        toolkit.mix({"a": datasets["a"], "other": toolkit.open(tmp_path / "other")})


def test_loaders_that_cannot_be(datasets: dict[str, toolkit.Dataset]) -> None:
    endless, once = toolkit.mix(datasets), toolkit.mix(datasets, exhausted="continue")
    with pytest.raises(UsageError, match="has no end: say epoch_samples=, or steps="):
        endless.loader(batch_size=4)
    with pytest.raises(UsageError, match=r"an epoch has 597 samples. Leave it out"):
        once.loader(batch_size=4, epoch_samples=3)
    with pytest.raises(UsageError, match=r"takes no weights=: toolkit.mix\(\) takes those of its sources"):
        once.loader(batch_size=4, weights=[1])  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="has no length"):
        len(endless)
    with pytest.raises(UsageError, match="say how many samples"):
        endless.plan()
    assert len(list(endless.loader(batch_size=4, steps=9))) == 9


def test_a_state_of_another_mix_is_named(datasets: dict[str, toolkit.Dataset]) -> None:
    loader = toolkit.mix(datasets, WEIGHTS, exhausted="continue").loader(batch_size=4, shuffle="full")
    state = loader.state_dict()
    other = {**WEIGHTS, "c": 1}
    with pytest.raises(UsageError, match=r"mix .*\['c', 0\.5, None\].* there, .*\['c', 1\.0, None\].* here"):
        toolkit.mix(datasets, other, exhausted="continue").loader(batch_size=4, shuffle="full").load_state_dict(state)
    less = {name: datasets[name] for name in ("a", "b")}
    with pytest.raises(UsageError, match=r"pin .*sources"):
        toolkit.mix(less, exhausted="continue").loader(batch_size=4, shuffle="full").load_state_dict(state)

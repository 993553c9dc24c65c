from __future__ import annotations

import numpy as np
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from toolkit import chain
from toolkit.pipelines.conditions import OneOf
from toolkit.pipelines.draw_names import draw_names
from toolkit.pipelines.randomness import (
    RANDOM_VERSION,
    batch_key,
    draw,
    first_draws,
    fold,
    fold_all,
    generator,
    sample_keys,
    step_id,
    step_keys,
)


def test_the_second_generator_version_never_changes() -> None:
    # Golden: a change here silently changes everybody's augmentations. Make a new generator version instead.
    assert RANDOM_VERSION == 2
    assert fold(0, 0) == 0xE220A8397B1DCDAF  # splitmix64's first output from state 0
    keys = sample_keys(7, 3, "", np.array([0, 1, 10**12], np.int64))
    assert keys.tolist() == [10281569674677012885, 9815598820982517909, 3471268474178329154]
    assert step_keys(keys, step_id("HFlip#0")).tolist()[0] == 7147028945788258087
    assert draw(int(keys[0]), 0) == first_draws(keys)[0] == 0.3826660680460784
    assert int(generator(5).integers(1 << 63)) == 6767611927603349064
    assert batch_key(7, 3, 0, 64) == 7408891566268545566


def test_draw_names_never_change() -> None:
    inner = chain().hflip().one_of(chain().vflip(), chain().vflip(name='"é"').vflip()).hflip()
    made = chain().hflip().crop(0, 0, 2, 2).maybe(inner).maybe(inner, name="a/b").hflip(name="left").hflip().hflip()
    made = made.random_crop(4).random_resized_crop(4).color_jitter(hue=0.1).python(max, "int64", random=True)
    assert draw_names(made.steps) == [
        "HFlip#0",
        "Crop#0",
        "Maybe#0",
        'Maybe="a/b"',
        'HFlip="left"',
        "HFlip#1",
        "HFlip#2",
        "RandomCrop#0",
        "RandomResizedCrop#0",
        "ColorJitter#0",
        "Python#0",
    ]
    assert step_id(draw_names(made.steps)[0]) == 16443188868134533718
    assert draw_names(inner.steps, "Maybe#0/") == ["Maybe#0/HFlip#0", "Maybe#0/OneOf#0", "Maybe#0/HFlip#1"]
    (one_of,) = (step for step in inner.steps if isinstance(step, OneOf))
    path = f"OneOf#0/{one_of.path(1)}"
    assert draw_names(one_of.ways[1], path) == [r'OneOf#0/1/VFlip="\"é\""', "OneOf#0/1/VFlip#0"]


def test_a_named_step_draws_alike_whatever_comes_before_it() -> None:
    before = chain().hflip().hflip(name="mine").maybe(chain().vflip(), name="tilt").vflip()
    after = chain().hflip().hflip(name="new").hflip(name="mine").maybe(chain().vflip(), name="tilt").vflip()
    assert [name for name in draw_names(after.steps) if "new" not in name] == draw_names(before.steps)


@settings(deadline=None)
@given(st.integers(-(2**70), 2**70), st.integers(0, 2**40), st.text(max_size=5), st.lists(st.integers(0, 2**62)))
def test_arrays_of_keys_are_the_scalars(seed: int, epoch: int, group: str, positions: list[int]) -> None:
    keys = sample_keys(seed, epoch, group, np.array(positions, np.int64))
    text = xxhash.xxh3_64_intdigest(group.encode())
    assert keys.tolist() == [fold_all(RANDOM_VERSION, seed, epoch, text, position) for position in positions]
    step = step_id("RandomCrop#2")
    assert step_keys(keys, step).tolist() == [fold(int(key), step) for key in keys]


@settings(deadline=None)
@given(st.integers(0, 2**64 - 1))
def test_draws_are_in_the_unit_interval(key: int) -> None:
    assert all(0 <= draw(key, number) < 1 for number in range(20))


def test_draws_are_even_and_steps_independent() -> None:
    keys = sample_keys(0, 0, "", np.arange(4000, dtype=np.int64))
    one, other = (np.array([draw(int(key), 0) for key in step_keys(keys, step_id(f"HFlip#{n}"))]) for n in (0, 1))
    for draws in (one, other):
        counts = np.histogram(draws, 20, (0, 1))[0]
        assert ((counts - 200) ** 2 / 200).sum() < 19 + 5 * np.sqrt(38) + 5
    assert abs(np.corrcoef(one, other)[0, 1]) < 5 / np.sqrt(4000)

"""What every registered step keeps, and what a new one takes: one class in one file."""

from __future__ import annotations

import dataclasses
import inspect
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from keyed_rows import keyed
from numpy.typing import NDArray

import toolkit
from toolkit import chain, slot
from toolkit.errors import PipelineError
from toolkit.pipelines import fields
from toolkit.pipelines.families import FAMILIES
from toolkit.pipelines.fields import Argument
from toolkit.pipelines.registry import STEPS, forget, register
from toolkit.pipelines.state import MisfitError, State, ValueKind
from toolkit.pipelines.step import Step
from toolkit.pipelines.value_step import WholeArray, check_stored

ROOT = Path(__file__).parents[2]
# Arguments of each word, all of them but at their defaults, and the words that come before it in a slot.
EXAMPLES: dict[str, tuple[str, str]] = {
    "decode_image": ('mode="gray", exif=False, truncated="warn", accuracy="fast"', ""),
    "resize": ('(4, 5), filter="nearest"', ".decode_image()"),
    "resize_short": ('4, filter="lanczos"', ".decode_image()"),
    "resize_long": ('4, filter="bicubic"', ".decode_image()"),
    "crop": ("0, 1, 2, 3", ".decode_image()"),
    "center_crop": ("(4, 5)", ".decode_image()"),
    "random_crop": ('4, name="x"', ".decode_image()"),
    "random_resized_crop": ('4, scale=(0.5, 1.0), ratio=(1.0, 2.0), name="x"', ".decode_image()"),
    "pad": ("top=1, left=2, bottom=3, right=4, fill=5", ".decode_image()"),
    "hflip": ('p=0.25, name="x"', ".decode_image()"),
    "vflip": ('p=0.25, name="x"', ".decode_image()"),
    "color_jitter": ('brightness=(0.5, 1.5), hue=(-0.25, 0.25), name="x"', ".decode_image()"),
    "grayscale": ("channels=3", ".decode_image()"),
    "normalize": ("(0.5, 0.25, 0.75), (0.5, 0.5, 1.0)", ".decode_image()"),
    "to_chw": ("", ".decode_image()"),
    "to_hwc": ("", ".decode_image()"),
    "cast": ('"float16"', ".decode_image()"),
    "passthrough": ("", ""),
    "bytes": ("", ""),
    "text": ('encoding="latin-1"', ""),
    "json": ("", ""),
    "array": ('"int16", (2, None)', ""),
    "npy": ('dtype="int16", shape=(2, None)', ""),
    "scalar": ('"int16"', ""),
    "one_hot": ("7", '.scalar("int64")'),
    "maybe": ('chain().hflip().maybe(chain().pad(2)), p=0.25, name="x"', ".decode_image()"),
    "one_of": ('chain().hflip(), chain(), weights=(1.0, 3.0), name="x"', ".decode_image()"),
    "python": ('len, "int64", random=True, timeout=None, version=2, name="x"', ""),
}
NAMES = {"slot": slot, "chain": chain, "len": len}


def made(word: str) -> toolkit.Slot:
    arguments, before = EXAMPLES[word]
    return eval(f'slot("x"){before}.{word}({arguments})', NAMES)  # type: ignore[no-any-return]


def test_every_word_has_an_example() -> None:
    assert set(EXAMPLES) == set(STEPS)


@pytest.mark.parametrize("word", EXAMPLES)
def test_a_step_is_documented_frozen_data_in_a_family(word: str) -> None:
    step = STEPS[word]
    assert step.word == word
    assert step.__module__ in {family.__name__ for family in FAMILIES}
    assert (step.__doc__ or "").splitlines()[0].endswith((".", ":")), "the docstring documents the word"
    assert not (step.__doc__ or "").startswith(f"{step.__name__}("), "this is what dataclass writes where there is none"
    assert step.__dataclass_params__.frozen  # type: ignore[attr-defined]
    assert not hasattr(made(word).steps[-1], "__dict__"), "slots=True is missing"
    method = getattr(toolkit.Slot, word)
    assert (method.__name__, method.__doc__) == (word, step.__doc__)
    assert inspect.signature(getattr(chain(), word)).parameters == step.signature().parameters
    assert step.limits <= {field.name for field in dataclasses.fields(step)}


@pytest.mark.parametrize("word", EXAMPLES)
def test_a_step_reads_as_it_is_written(word: str) -> None:
    arguments, before = EXAMPLES[word]
    whole = made(word)
    assert repr(whole) == f'slot("x"){before}.{word}({arguments})'
    assert eval(f"chain().{whole.steps[-1].text()}", NAMES).steps == whole.steps[-1:]


@pytest.mark.parametrize("word", EXAMPLES)
def test_describe_follows_every_field_but_limits(word: str) -> None:
    whole = made(word)
    step = whole.steps[-1]

    def describe(last: Step) -> str:
        return toolkit.pipeline(dataclasses.replace(whole, steps=(*whole.steps[:-1], last))).describe()

    assert describe(step) == describe(made(word).steps[-1])
    for field in dataclasses.fields(step):
        other: Any = {"fn": max, "steps": (), "branches": (), "weights": (3.0, 1.0)}.get(field.name, "other")
        changed = describe(dataclasses.replace(step, **{field.name: other})) != describe(step)
        assert changed == (field.name not in step.limits), field.name


@pytest.mark.parametrize("word", EXAMPLES)
def test_bounds_refuse(word: str) -> None:
    step = STEPS[word]
    for field in dataclasses.fields(step):
        argument = Argument.of(field)
        if argument is None:
            continue
        if field.default is not dataclasses.MISSING and field.name in step.signature().parameters:
            given = step.signature().parameters[field.name].default
            assert argument.check(field.name, given) == field.default
        least, most = argument.least, argument.most
        for value in (None if least is None else least - 1, None if most is None else most + 1, object()):
            if value is not None and value not in (float("inf"), float("-inf")):
                with pytest.raises(PipelineError, match=rf"^chain, step {word}: "):
                    # By way of the word where the argument is a field, else as the word's own method does.
                    _say(word, step, field.name, value)


def _say(word: str, step: type[Step], name: str, value: object) -> None:
    parameters = step.signature().parameters
    if name in parameters:
        required = [
            each for each in parameters.values() if each.default is each.empty and each.kind is not each.VAR_POSITIONAL
        ]
        needed = {each.name: chain().hflip() if each.name == "chain" else 1 for each in required}
        ways = [chain(), chain()] if word == "one_of" else []
        getattr(chain(), word)(*ways, **{**needed, name: value})
    else:
        getattr(chain(), word)((value, value))


@pytest.mark.parametrize("word", EXAMPLES)
def test_a_rule_refuses_with_a_way_out(word: str) -> None:
    step = made(word).steps[-1]
    if word == "python":
        return  # any value will do
    said = []
    for state in (State(kind) for kind in ValueKind):
        try:
            assert isinstance(step.after(state), State)
        except MisfitError as error:
            said.append(str(error))
    assert said
    assert all("expected " in each for each in said)


def test_the_stub_is_current() -> None:
    done = subprocess.run([sys.executable, ROOT / "scripts/make_words.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def clip() -> Iterator[type[Step]]:
    """A step of a third party's: all there is of it stands here."""

    @register
    @dataclass(frozen=True, slots=True)
    class Clip(WholeArray):
        """Refuse numbers above `most`."""

        word = "clip"
        most: int = fields.whole(9, least=0)

        def after(self, state: State) -> State:
            """Take stored numbers."""
            check_stored(state, "a column of numbers", "only numbers are clipped", ValueKind.NUMBER)
            return State(ValueKind.SCALAR, "int64", ())

        def convert_all(self, values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.bool_], str]:
            """Halve, and say which are too large."""
            return values // 2, values > self.most, f"is more than {self.most}"

    yield Clip
    forget("clip")
    assert not hasattr(toolkit.Slot, "clip")


def test_a_new_step_is_one_class(clip: type[Step], tmp_path: Path, commit_rows: Callable[..., str]) -> None:
    word: Any = slot("x")
    assert repr(word.clip()) == 'slot("x").clip()'
    assert repr(word.clip(3)) == 'slot("x").clip(most=3)'
    with pytest.raises(PipelineError, match="slot 'x', step clip: most must be an int of 0 or more, got -1"):
        word.clip(-1)
    with pytest.raises(TypeError, match=r"clip\(\) got an unexpected keyword argument 'least'"):
        word.clip(least=1)
    with pytest.raises(ValueError, match=r"the word 'clip' is taken: give .*Clip another"):
        register(clip)
    commit_rows(tmp_path / "ds", {"train": [[keyed({"x": pa.array(range(8), pa.int64())})]]})
    ds = toolkit.open(tmp_path / "ds")
    (batch,) = ds.loader(toolkit.pipeline(word.clip()), batch_size=8)
    assert batch["x"].tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    with pytest.raises(toolkit.errors.SampleError, match="7 is more than 6"):
        list(ds.loader(toolkit.pipeline(word.clip(6)), batch_size=8))

"""Words of steps that other packages add."""

from __future__ import annotations

import copy
import pickle
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from keyed_rows import keyed
from made_plugins import STEP, install

import toolkit
from toolkit import chain, slot
from toolkit.errors import PipelineError, PluginError
from toolkit.pipelines.registry import STEPS, forget

HEAD = STEP.partition("@dataclass")[0]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of packages; what they register is forgotten afterwards."""
    known = set(STEPS)
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    yield folder
    for word in set(STEPS) - known:
        forget(word)
    for module in [name for name in sys.modules if name in ("made_steps", "made_output")]:
        del sys.modules[module]


def word(begun: Any) -> Any:
    """A slot or chain, to which mypy lets any word be said."""
    return begun


def test_a_word_is_said_like_any_other(site: Path, tmp_path: Path, commit_rows: Callable[..., str]) -> None:
    install(site, "made-steps", {"toolkit.steps": {"clip": "made_steps:Clip"}}, module=STEP)
    assert "clip" in dir(slot("x"))
    assert "clip" in dir(chain())
    assert "made_steps" not in sys.modules
    assert repr(word(slot("x")).clip(most=3)) == 'slot("x").clip(most=3)'
    assert repr(word(chain()).clip()) == "chain().clip()"
    assert "Refuse numbers above" in word(slot("x")).clip.__doc__
    with pytest.raises(PipelineError, match=r"slot 'x', step clip: most must be an int of 0 or more, got -1"):
        word(slot("x")).clip(-1)
    commit_rows(tmp_path / "ds", {"train": [[keyed({"x": pa.array(range(8), pa.int64())})]]})
    ds = toolkit.open(tmp_path / "ds")
    pipeline = toolkit.pipeline(word(slot("x")).clip())
    for made in (pipeline, pickle.loads(pickle.dumps(pipeline)), copy.deepcopy(pipeline)):
        (batch,) = ds.loader(made, batch_size=8)
        assert batch["x"].tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
        assert made.describe() == pipeline.describe()


def test_a_step_is_taken_without_its_word(site: Path) -> None:
    install(site, "made-steps", {"toolkit.steps": {"clip": "made_steps:Clip"}}, module=STEP)
    clip = __import__("made_steps").Clip
    assert slot("x").with_step(clip.of(most=3)) == word(slot("x")).clip(most=3)


BROKEN = {
    "no module": (None, "ModuleNotFoundError: No module named 'made_steps'"),
    "an error": ("import nowhere", "ModuleNotFoundError: No module named 'nowhere'"),
    "a function": ("def Clip(value): pass", "it is of type function, and must be a class of steps"),
    "another class": ("class Clip: pass", "it is the class Clip, and must be a class of steps"),
    "another word": (STEP.replace('"clip"', '"cut"'), "its word is 'cut': the entry point must be called like it"),
    "no word": (STEP.replace('    word = "clip"\n', ""), "its word is None"),
    "no dataclass": (STEP.replace("@dataclass(frozen=True, slots=True)", ""), r"must be decorated with @dataclass"),
    "not frozen": (STEP.replace("frozen=True, ", ""), "cannot inherit non-frozen dataclass from a frozen one"),
    "no rule": (STEP.replace("def after", "def before"), "Clip lacks the methods after"),
    "no run": (STEP.replace("def convert_all", "def convert"), "Clip lacks the methods convert_all"),
    "no docstring": (STEP.replace('    """Refuse numbers above `most`."""\n', ""), "Clip has no docstring"),
    "a bare field": (STEP.replace("fields.whole(9, least=0)", "9"), "the field most is declared without an argument"),
    "a strange limit": (
        STEP.replace("    most:", '    limits = frozenset({"least"})\n    most:'),
        "least, which are no",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_one_is_named_and_breaks_no_other(site: Path, case: str) -> None:
    text, says = BROKEN[case]
    install(site, "made-steps", {"toolkit.steps": {"clip": "made_steps:Clip"}}, module=text)
    for begun in (slot("x"), chain()):
        with pytest.raises(PluginError) as caught:
            word(begun).clip()
        assert str(caught.value).startswith("the step 'clip' of made-steps 1.0 (entry point made_steps:Clip): ")
        assert says in str(caught.value)
        assert not hasattr(begun, "clip")
    assert "clip" not in STEPS
    assert repr(slot("x").scalar("int64")) == 'slot("x").scalar("int64")'


def test_words_of_toolkit_win(site: Path) -> None:
    install(site, "made-steps", {"toolkit.steps": {"hflip": "made_steps:Clip", "steps": "x:y"}}, module=STEP)
    assert repr(chain().hflip()) == "chain().hflip()"
    assert slot("x").steps == ()
    assert "made_steps" not in sys.modules


def test_a_word_that_nobody_has_is_an_attribute_error() -> None:
    for begun in (slot("x"), chain()):
        with pytest.raises(AttributeError, match=f"'{type(begun).__name__}' object has no attribute 'hfilp'") as caught:
            word(begun).hfilp()
        assert (caught.value.name, caught.value.obj) == ("hfilp", begun)
        assert not isinstance(caught.value, PluginError)


def test_dir_shows_words_and_fields_alone() -> None:
    shown = {"column", "fill", "name", "optional", "steps", "sync", "then", "with_step"}
    assert set(dir(slot("x"))) - STEPS.keys() == shown
    assert set(dir(chain())) - STEPS.keys() == {"steps", "then", "with_step"}

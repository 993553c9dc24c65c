"""Outputs that other packages add."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from contracts.output import ListsContract
from made_plugins import OUTPUT, install

import toolkit
from toolkit.errors import PluginError, UsageError
from toolkit.loader.outputs import batch, registry


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of packages; what was loaded of them is forgotten afterwards."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr(registry, "_loaded", {})
    yield folder
    for module in [name for name in sys.modules if name in ("made_steps", "made_output")]:
        del sys.modules[module]


def with_lists(site: Path, text: str | None = OUTPUT, name: str = "lists") -> None:
    install(site, "made-output", {"toolkit.outputs": {name: "made_output:SPEC"}}, module=text)


@pytest.fixture
def lists(site: Path) -> None:
    """An output of another package."""
    with_lists(site)


@pytest.mark.usefixtures("lists")
class TestLists(ListsContract):
    """One that another package adds."""


def test_it_is_found_behind_the_others(site: Path) -> None:
    with_lists(site)
    assert registry.names() == ["numpy", "torch", "jax"]
    assert registry.known_names() == ["numpy", "torch", "jax", "lists"]
    assert [spec.name for spec in registry.every()] == ["numpy", "torch", "jax"]
    assert "made_output" not in sys.modules
    with pytest.raises(UsageError, match=r"one of numpy, torch, jax, lists, got 'list'\. Did you mean 'lists'\?"):
        registry.named("list")
    assert "made_output" not in sys.modules
    assert registry.named("lists") is registry.named("lists")
    assert [spec.name for spec in registry.every()] == ["numpy", "torch", "jax", "lists"]


BROKEN = {
    "an error": ("import nowhere", "ModuleNotFoundError: No module named 'nowhere'"),
    "no output": ("SPEC = 3", "it is of type int, and must be an output"),
    "the class": (OUTPUT.replace("SPEC = Lists()", "SPEC = Lists"), "it is of type ABCMeta, and must be an output"),
    "no converter": (OUTPUT.replace("_converter", "converter"), "TypeError: Can't instantiate abstract class Lists"),
    "another name": (OUTPUT.replace('"lists"', '"list"'), "its name is 'list': the entry point must be called like it"),
    "no name": (OUTPUT.replace('    name = "lists"\n', ""), "its name is None"),
    "an option": (OUTPUT.replace('"lists"', '"lists"\n    options = {"place": None}'), "placement options place;"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_one_is_named_and_breaks_no_other(site: Path, packed: Path, case: str) -> None:
    text, says = BROKEN[case]
    with_lists(site, text)
    ds = toolkit.open(packed, split="val", columns=["label"])
    for make in (lambda: ds.loader(batch_size=4, output="lists"), lambda: registry.named("lists")):
        with pytest.raises(PluginError) as caught:
            make()
        assert str(caught.value).startswith("the output 'lists' of made-output 1.0 (entry point made_output:SPEC): ")
        assert says in str(caught.value)
    assert len(list(ds.loader(batch_size=4))) == 5
    assert [spec.name for spec in registry.every()] == ["numpy", "torch", "jax"]


def test_an_output_of_toolkit_wins(site: Path) -> None:
    with_lists(site, OUTPUT.replace('"lists"', '"torch"'), "torch")
    assert registry.named("torch").package == "torch"
    assert registry.known_names() == ["numpy", "torch", "jax"]
    assert "made_output" not in sys.modules
    (plugin,) = [one for one in registry_plugins() if one.distribution == "made-output"]
    with pytest.raises(PluginError, match="toolkit has an output of that name, which is the one that is used"):
        registry.load_output(plugin)


def registry_plugins() -> list[Any]:
    from toolkit.plugins import PluginKind, plugins

    return plugins(PluginKind.OUTPUT)


REGISTRAR = OUTPUT.replace(
    "    def _converter",
    """    package, install = "made_framework", "pip install made-framework"

    def registrar(self):
        return known.append

    def _converter""",
).replace("class Lists", "known = []\n\n\nclass Lists")


def test_its_framework_is_let_know_batches(
    site: Path, packed: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with_lists(site, REGISTRAR)
    ds = toolkit.open(packed, split="val", columns=["label"])
    monkeypatch.setattr(batch, "_unmet", {toolkit.Batch: {}})  # as if batches were made, and frameworks let know
    loader = ds.loader(batch_size=4, output="lists")
    known = sys.modules["made_output"].known
    next(iter(loader))
    assert known == []  # nobody imported the framework
    monkeypatch.setitem(sys.modules, "made_framework", ModuleType("made_framework"))
    for output in ("lists", "numpy", "lists"):
        next(iter(ds.loader(batch_size=4, output=output)))
    assert known == [toolkit.Batch]


def test_a_loader_takes_its_output_along(site: Path, packed: Path) -> None:
    with_lists(site)
    ds = toolkit.open(packed, split="val", columns=["label"])
    text = pickle.dumps(ds.loader(batch_size=4, output="lists"))
    registry._loaded.clear()
    assert next(iter(pickle.loads(text)))["label"] == [0, 0, 0, 0]

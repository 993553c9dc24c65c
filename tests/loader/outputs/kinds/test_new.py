"""What an output costs: a module of one class in outputs/kinds, and its tests."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from contracts.output import ListsContract

import toolkit
from toolkit.errors import UsageError
from toolkit.loader.outputs import kinds, registry

LISTS = '''
"""Arrays as lists of lists of Python's own numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from toolkit.loader.outputs.spec import OutputSpec
from toolkit.loader.outputs.values import Converter, each_inside


class ListsOutput(OutputSpec):
    """Lists, which share no memory."""

    name = "lists"

    def _converter(self) -> Converter:
        return convert


def convert(values: Any, dtype: str | None = None) -> Any:
    """Return an array as nested lists."""
    return values.tolist() if isinstance(values, np.ndarray) else each_inside(values, lambda one: convert(one, dtype))


SPEC = ListsOutput()
'''


@contextlib.contextmanager
def one_more_file(folder: Path) -> Iterator[None]:
    (folder / "lists.py").write_text(LISTS)
    kinds.__path__.append(str(folder))
    try:
        yield
    finally:
        kinds.__path__.remove(str(folder))
        sys.modules.pop(f"{kinds.__name__}.lists", None)
        vars(kinds).pop("lists", None)


@pytest.fixture
def lists(tmp_path: Path) -> Iterator[None]:
    """An output in one more file, while a test runs."""
    with one_more_file(tmp_path):
        yield


@pytest.mark.usefixtures("lists")
class TestLists(ListsContract):
    def test_it_is_one_of_the_known(self, packed: Path) -> None:
        assert registry.names() == ["numpy", "torch", "jax", "lists"]
        ds = toolkit.open(packed, split="val", columns=["label"])
        with pytest.raises(UsageError, match=r"one of numpy, torch, jax, lists, got 'list'\. Did you mean 'lists'\?"):
            ds.loader(batch_size=4, output="list")
        with pytest.raises(UsageError, match=r"got 'list'\. Did you mean 'lists'\?"):
            ds.tokens(seq_len=8, batch_size=2, output="list")


def test_it_is_gone_with_its_file(packed: Path, tmp_path: Path) -> None:
    ds = toolkit.open(packed, split="val", columns=["label"])
    with one_more_file(tmp_path):
        assert next(iter(ds.loader(batch_size=4, output="lists")))["label"] == [0, 0, 0, 0]
    with pytest.raises(UsageError, match="one of numpy, torch, jax, got 'lists'"):
        ds.loader(batch_size=4, output="lists")
    assert registry.names() == ["numpy", "torch", "jax"]

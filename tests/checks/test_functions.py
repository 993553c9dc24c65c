"""Each command that asks something of a dataset or machine is a function of the same name, for programs."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

import pytest

from toolkit.checks.head import head
from toolkit.checks.inspect import inspect as inspect_dataset
from toolkit.checks.verify import verify
from toolkit.errors import UsageError

PLACES = {"bench": "toolkit.checks.bench.bench"}


@pytest.mark.parametrize("name", ["bench", "doctor", "gc", "head", "inspect", "verify"])
def test_a_command_is_a_function(name: str) -> None:
    assert importlib.import_module(f"toolkit.cli.cmd_{name}").__all__ == [name]
    module = importlib.import_module(PLACES.get(name, f"toolkit.checks.{name}"))
    assert name in module.__all__
    signature = inspect.signature(getattr(module, name))
    assert signature.return_annotation not in (inspect.Signature.empty, "dict[str, object]")
    if name != "doctor":
        assert next(iter(signature.parameters)) == "dataset"


def test_results_are_objects(dataset: Path) -> None:
    assert verify(dataset, full=True).ok
    held = inspect_dataset(dataset, samples=1)
    assert held.samples == sum(one.rows for one in held.splits.values())
    assert held.tokens == {}
    first = list(head(dataset, split="val", samples=2))
    assert [one.row for one in first] == [0, 1]
    assert first[0].class_names["label"]
    assert list(head(dataset, split="val", samples=0)) == []
    with pytest.raises(UsageError, match=r"^samples: expected"):
        head(dataset, split="val", samples=-1)

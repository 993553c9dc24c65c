"""Outputs are found by name, and imported no sooner than they are needed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from toolkit.errors import UsageError
from toolkit.loader.outputs import registry


def test_the_names_begin_with_the_default() -> None:
    assert registry.names() == ["numpy", "torch", "jax"]
    assert [spec.name for spec in registry.every()] == registry.names()
    assert registry.names()[0] == registry.DEFAULT


@pytest.mark.parametrize("wrong", ["troch", "", None, 3, "registry", "torch.spec"])
def test_a_name_that_there_is_not(wrong: object) -> None:
    hint = r" Did you mean 'torch'\?" if wrong in ("troch", "torch.spec") else ""
    with pytest.raises(UsageError, match=rf"^output must be one of numpy, torch, jax, got {wrong!r}\.{hint}$"):
        registry.named(wrong)


def test_placement_asks_for_its_output_where_none_was_said() -> None:
    numpy = registry.named("numpy")
    assert registry.placed(numpy, "numpy") is numpy
    assert registry.placed(numpy, "numpy", sharding=object()).name == "jax"
    assert registry.placed(registry.named("torch"), "torch", device="cuda").name == "torch"
    with pytest.raises(UsageError, match=r"^device='cuda' is of torch: say output='torch', or leave it out$"):
        registry.placed(numpy, "numpy", device="cuda")
    for output in ("torch", len):  # a function is given numpy's arrays
        with pytest.raises(UsageError, match=r"^sharding= gives JAX arrays: say output='jax', got "):
            registry.placed(numpy, output, sharding=object())


def test_what_outputs_need_is_known_without_their_frameworks() -> None:
    program = """
        import sys
        from toolkit.loader.outputs import registry
        assert [spec.package for spec in registry.every()] == ["", "torch", "jax"]
        assert not {"numpy", "torch", "jax", "pyarrow"} & sys.modules.keys()
    """
    subprocess.run([sys.executable, "-c", "\n".join(map(str.strip, program.splitlines()))], check=True, timeout=60)

"""What arrays become in JAX: no value may change in silence."""

from __future__ import annotations

import numpy as np
import pytest

from toolkit.errors import LoaderError
from toolkit.loader.outputs.registry import named


@pytest.mark.parametrize("values", [np.array([1, 2**40]), np.array([2**64 - 1], np.uint64), np.array([-(2**31) - 1])])
def test_whole_numbers_that_jax_would_wrap_are_refused(values: np.ndarray) -> None:
    pytest.importorskip("jax")
    with pytest.raises(LoaderError, match="jax_enable_x64"):
        named("jax").converter()(values)


def test_whole_numbers_that_fit_are_narrowed() -> None:
    pytest.importorskip("jax")
    narrowed = named("jax").converter()(np.array([-(2**31), 2**31 - 1]))
    assert narrowed.dtype == np.int32
    assert narrowed.tolist() == [-(2**31), 2**31 - 1]

"""Deliver a batch's memory to numpy, torch or JAX without copying it. Each framework is imported in its own file."""

from __future__ import annotations

import enum
import importlib
from collections.abc import Callable
from typing import Any, Protocol

from toolkit.errors import UsageError

__all__ = ["Converter", "Output", "collector", "converter"]


class Output(enum.Enum):
    """What the arrays of a batch are."""

    NUMPY = "numpy"
    TORCH = "torch"
    JAX = "jax"


class Converter(Protocol):
    """Turns a column into the output's arrays; lists stay lists, of arrays where they were.

    `dtype` "bfloat16" says that the uint16 of a column mean that; numpy, which has no such type, keeps them.
    """

    def __call__(self, values: Any, dtype: str | None = None) -> Any:
        """Return the arrays."""


def converter(output: Output) -> Converter:
    """Return what turns columns into the output's arrays.

    Raises:
        UsageError: The framework isn't installed.
    """
    if output is Output.NUMPY:
        return _same
    try:
        module = importlib.import_module(f"toolkit.loader.device.{output.value}_arrays")
    except ImportError as error:
        name = output.value
        raise UsageError(f"output={name!r} needs {name}, which is missing: pip install 'toolkit[{name}]'") from error
    convert: Converter = module.convert
    return convert


def collector(output: Output) -> Callable[[], None]:
    """Return what makes the output's framework let go of the memory of dead arrays now. Raises as converter()."""
    if output is not Output.JAX:
        return _nothing
    converter(output)
    collect: Callable[[], None] = importlib.import_module("toolkit.loader.device.jax_arrays").free_dead_arrays
    return collect


def _nothing() -> None:
    pass


def _same(values: Any, dtype: str | None = None) -> Any:
    return values

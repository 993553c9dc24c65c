"""Deliver a batch's memory to numpy, torch or JAX without copying it. Each framework is imported in its own file."""

from __future__ import annotations

import enum
import importlib
from collections.abc import Callable
from typing import Any

from toolkit.errors import UsageError

__all__ = ["Output", "converter"]


class Output(enum.Enum):
    """What the arrays of a batch are."""

    NUMPY = "numpy"
    TORCH = "torch"
    JAX = "jax"


def converter(output: Output) -> Callable[[Any], Any]:
    """Return the function that turns a column into the output's arrays; lists stay lists, of arrays where they were.

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
    convert: Callable[[Any], Any] = module.convert
    return convert


def _same(values: Any) -> Any:
    return values

"""Find outputs: the modules of toolkit.loader.outputs.kinds, or spec.py in a folder there. Imports one when asked."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

from toolkit.errors import UsageError, did_you_mean
from toolkit.loader.outputs import kinds
from toolkit.loader.outputs.spec import OutputSpec

__all__ = ["DEFAULT", "every", "named", "names", "placed"]

DEFAULT = "numpy"
_FIRST = (DEFAULT, "torch", "jax")  # of those that there are; others follow by name


def names() -> list[str]:
    """Return the names of all outputs, without importing any."""
    return sorted(_modules(), key=lambda name: (_FIRST.index(name) if name in _FIRST else len(_FIRST), name))


def named(name: object) -> OutputSpec:
    """Return an output; its framework needn't be there. Raises UsageError with the nearest name: there is none."""
    modules = _modules()
    if not isinstance(name, str) or name not in modules:
        known = names()
        raise UsageError(f"output must be one of {', '.join(known)}, got {name!r}.{did_you_mean(str(name), known)}")
    spec: OutputSpec = importlib.import_module(modules[name]).SPEC
    return spec


def every() -> list[OutputSpec]:
    """Return all outputs, whether their frameworks are there or not."""
    return [named(name) for name in names()]


def placed(spec: OutputSpec, output: object, *, device: Any = None, sharding: Any = None) -> OutputSpec:
    """Return the output that takes the placement options: `spec`, or where `output` is the default, what they imply.

    Raises:
        UsageError: An option is given that `spec`, which was asked for as `output`, doesn't take.
    """
    for option, value in (("device", device), ("sharding", sharding)):
        if value is None or option in spec.options:
            continue
        taker = next(one for one in every() if option in one.options)
        if not (taker.options[option].implies and isinstance(output, str) and output == DEFAULT):
            raise UsageError(taker.options[option].refusal.format(value=str(value), output=output))
        spec = taker
    return spec


def _modules() -> dict[str, str]:
    """Return the module that each output's SPEC is in. Looked up anew: `kinds.__path__` may have grown."""
    return {
        found.name: f"{kinds.__name__}.{found.name}{'.spec' if found.ispkg else ''}"
        for found in pkgutil.iter_modules(kinds.__path__)
    }

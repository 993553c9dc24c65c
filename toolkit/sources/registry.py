"""Find kinds of sources: the folders of toolkit.sources.kinds, and what was registered. Imports one when asked."""

from __future__ import annotations

import importlib
import pkgutil

from toolkit.errors import UsageError, did_you_mean
from toolkit.sources import kinds
from toolkit.sources.spec import SourceSpec

__all__ = ["every", "forget", "named", "names", "register"]

_registered: dict[str, SourceSpec] = {}


def names() -> list[str]:
    """Return the names of all kinds, sorted, without importing any."""
    return sorted({*_folders(), *_registered})


def named(name: str) -> SourceSpec:
    """Return a kind. Raises UsageError with the nearest name: there is none."""
    known = names()
    if name not in known:
        raise UsageError(f"source kind must be one of {', '.join(known)}, got {name!r}.{did_you_mean(name, known)}")
    return _spec(name)


def every() -> list[SourceSpec]:
    """Return all kinds, by name."""
    return [_spec(name) for name in names()]


def register(spec: SourceSpec) -> SourceSpec:
    """Add a kind until the program ends, and return it. Raises ValueError: its name is taken."""
    if spec.name in names():
        raise ValueError(f"there is a source of kind {spec.name!r} already: give yours another name")
    _registered[spec.name] = spec
    return spec


def forget(name: str) -> None:
    """Take a registered kind back. Raises KeyError: there is none."""
    del _registered[name]


def _spec(name: str) -> SourceSpec:
    if name in _registered:
        return _registered[name]
    spec: SourceSpec = importlib.import_module(f"{kinds.__name__}.{name}.spec").SPEC
    return spec


def _folders() -> list[str]:
    """Return the folders of kinds. Looked up anew: `kinds.__path__` may have grown."""
    return [found.name for found in pkgutil.iter_modules(kinds.__path__) if found.ispkg]

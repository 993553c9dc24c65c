"""Find kinds of sources: the folders of toolkit.sources.kinds, and what was registered. Imports one when asked.

Behind them come those that other packages add; they are looked for when a name, or an input, is of no other kind.
"""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import fields

from toolkit.errors import PluginError, UsageError, did_you_mean
from toolkit.plugins import Plugin, PluginKind, find_plugin, plugin_names
from toolkit.sources import kinds
from toolkit.sources.options import InputOptions
from toolkit.sources.spec import SourceSpec

__all__ = ["every", "forget", "known_names", "load_source", "named", "names", "of_plugins", "register"]

_registered: dict[str, SourceSpec] = {}
_OF_SPEC = ("name", "title", "sign", "survey_text")


def names() -> list[str]:
    """Return the names of toolkit's own kinds and of those that were registered, sorted, without importing any."""
    return sorted({*_folders(), *_registered})


def known_names() -> list[str]:
    """Return the names of all kinds, those of plugins too, without importing any. Takes milliseconds."""
    return sorted({*names(), *plugin_names(PluginKind.SOURCE)})


def named(name: str) -> SourceSpec:
    """Return a kind.

    Raises:
        UsageError: There is none; with the nearest name.
        PluginError: A plugin has it, and can't be used.
    """
    if name in names():
        return _spec(name)
    plugin = find_plugin(PluginKind.SOURCE, name)
    if plugin is None:
        known = known_names()
        raise UsageError(f"source kind must be one of {', '.join(known)}, got {name!r}.{did_you_mean(name, known)}")
    return load_source(plugin)


def load_source(plugin: Plugin) -> SourceSpec:
    """Import a plugin's kind of source.

    Raises:
        PluginError: It can't be imported, or is no kind that a plugin can add.
    """
    spec = plugin.load()
    if not isinstance(spec, SourceSpec):
        raise plugin.error(
            f"it is of type {type(spec).__qualname__}, and must be a kind of source: an instance of a subclass of "
            "toolkit.sources.spec.SourceSpec"
        )
    missing = [each for each in _OF_SPEC if not isinstance(getattr(spec, each, None), str)]
    if missing:
        raise plugin.error(f"{type(spec).__name__} has no {', '.join(missing)}, which must be texts")
    unknown = frozenset(spec.accepts) - {field.name for field in fields(InputOptions)}
    if unknown:
        raise plugin.error(f"it accepts {', '.join(sorted(unknown))}, which are no options of sources")
    if spec.name != plugin.name:
        raise plugin.error(f"its name is {spec.name!r}: the entry point must be called like it")
    if spec.name in names():
        raise plugin.error("toolkit has a kind of source of that name, which is the one that is used")
    return spec


def of_plugins() -> tuple[list[SourceSpec], list[PluginError]]:
    """Return the kinds that plugins add, by name, and what is wrong with those that can't be used."""
    found, faults = [], []
    for name in plugin_names(PluginKind.SOURCE):
        try:
            if name not in names():
                found.append(named(name))
        except PluginError as error:
            faults.append(error)
    return found, faults


def every() -> list[SourceSpec]:
    """Return toolkit's own kinds and those that were registered, by name."""
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

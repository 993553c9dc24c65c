"""Find outputs: the modules of toolkit.loader.outputs.kinds, or spec.py in a folder there. Imports one when asked.

Behind them come those that other packages add; they are looked for when a name is none of toolkit's own.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from typing import Any

from toolkit.errors import UsageError, did_you_mean
from toolkit.escapes import short
from toolkit.loader.outputs import kinds
from toolkit.loader.outputs.spec import OutputSpec
from toolkit.plugins import Plugin, PluginKind, find_plugin, plugin_names

__all__ = ["DEFAULT", "every", "known_names", "load_output", "named", "names", "placed", "watch"]

DEFAULT = "numpy"
_FIRST = (DEFAULT, "torch", "jax")  # of those that there are; others follow by name
_loaded: dict[str, OutputSpec] = {}  # of plugins, those that were asked for
_watching: list[Callable[[OutputSpec], None]] = []


def names() -> list[str]:
    """Return the names of toolkit's own outputs, without importing any."""
    return sorted(_modules(), key=lambda name: (_FIRST.index(name) if name in _FIRST else len(_FIRST), name))


def known_names() -> list[str]:
    """Return the names of all outputs, those of plugins too, without importing any. Takes milliseconds."""
    own = names()
    return own + [name for name in plugin_names(PluginKind.OUTPUT) if name not in own]


def named(name: object) -> OutputSpec:
    """Return an output; its framework needn't be there.

    Raises:
        UsageError: There is none; with the nearest name.
        PluginError: A plugin has it, and can't be used.
    """
    modules = _modules()
    if isinstance(name, str) and name in modules:
        spec: OutputSpec = importlib.import_module(modules[name]).SPEC
        return spec
    if isinstance(name, str) and name in _loaded:
        return _loaded[name]
    plugin = find_plugin(PluginKind.OUTPUT, name) if isinstance(name, str) else None
    if plugin is None:
        known = known_names()
        hint = did_you_mean(name, known) if isinstance(name, str) else ""
        raise UsageError(f"output must be one of {', '.join(known)}, got {short(name, 80, quoted=True)}.{hint}")
    return load_output(plugin)


def load_output(plugin: Plugin) -> OutputSpec:
    """Import a plugin's output.

    Raises:
        PluginError: It can't be imported, or is no output that a plugin can add.
    """
    spec = plugin.load()
    if not isinstance(spec, OutputSpec):
        raise plugin.error(
            f"it is of type {type(spec).__qualname__}, and must be an output: an instance of a subclass of "
            "toolkit.loader.outputs.spec.OutputSpec"
        )
    if getattr(spec, "name", None) != plugin.name:
        raise plugin.error(f"its name is {getattr(spec, 'name', None)!r}: the entry point must be called like it")
    if plugin.name in _modules():
        raise plugin.error("toolkit has an output of that name, which is the one that is used")
    others = spec.options.keys() - {"device", "sharding"}
    if others:
        raise plugin.error(f"it takes the placement options {', '.join(sorted(others))}; there are device and sharding")
    if plugin.name not in _loaded:
        _loaded[plugin.name] = spec
        for told in _watching:
            told(spec)
    return spec


def every() -> list[OutputSpec]:
    """Return toolkit's own outputs, whether their frameworks are there or not, and those of plugins that are in use."""
    return [*map(named, names()), *_loaded.values()]


def watch(told: Callable[[OutputSpec], None]) -> None:
    """Let `told` know of each output of a plugin when it is first asked for."""
    _watching.append(told)


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
            raise UsageError(taker.options[option].refusal.format(value=short(value, 80), output=output))
        spec = taker
    return spec


def _modules() -> dict[str, str]:
    """Return the module that each output's SPEC is in. Looked up anew: `kinds.__path__` may have grown."""
    return {
        found.name: f"{kinds.__name__}.{found.name}{'.spec' if found.ispkg else ''}"
        for found in pkgutil.iter_modules(kinds.__path__)
    }

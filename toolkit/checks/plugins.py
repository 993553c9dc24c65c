"""Which plugins are installed, and whether each can be used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from toolkit.errors import PluginError
from toolkit.loader.outputs.registry import load_output
from toolkit.pipelines import families  # noqa: F401 - whose words are taken
from toolkit.pipelines.plugin_words import load_step
from toolkit.plugins import Plugin, PluginKind, find_plugin, plugins
from toolkit.sources.registry import load_source

__all__ = ["PluginFacts", "plugin_facts"]

_LOADS: dict[PluginKind, Callable[[Plugin], object]] = {
    PluginKind.STEP: load_step,
    PluginKind.SOURCE: load_source,
    PluginKind.OUTPUT: load_output,
}


@dataclass(frozen=True, kw_only=True)
class PluginFacts:
    """A plugin.

    Attributes:
        kind: "step", "source" or "output".
        name: What that is asked for by.
        package: The package with its version.
        target: Where it is: module:object.
        ok: It can be used.
        fault: Why not.
    """

    kind: str
    name: str
    package: str
    target: str
    ok: bool
    fault: str = ""


def plugin_facts() -> tuple[PluginFacts, ...]:
    """Return every plugin that is installed. Imports each, so that a broken one is found."""
    return tuple(map(_facts, plugins()))


def _facts(plugin: Plugin) -> PluginFacts:
    fault = ""
    try:
        _LOADS[plugin.kind](plugin)
        find_plugin(plugin.kind, plugin.name)  # another package may add the same
    except PluginError as error:
        fault = str(error)
    return PluginFacts(
        kind=plugin.kind.noun,
        name=plugin.name,
        package=plugin.package,
        target=plugin.target,
        ok=not fault,
        fault=fault,
    )

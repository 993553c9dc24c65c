"""Find what other packages add: steps, sources and outputs, by their entry points. Imports one when it is asked for.

Nothing is looked up for a name that toolkit itself has: reading what is installed takes milliseconds, and a package
that is broken must not break those who don't use it.
"""

from __future__ import annotations

import contextlib
import enum
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolkit.errors import PluginError
from toolkit.escapes import short

if TYPE_CHECKING:
    from importlib.metadata import Distribution

__all__ = ["Plugin", "PluginKind", "find_plugin", "plugin_names", "plugins"]

_FILE = "entry_points.txt"
_SHOWN = 240  # characters of what a stranger's error says


class PluginKind(enum.Enum):
    """What a plugin adds; the value is the group of its entry point."""

    STEP = "toolkit.steps"
    SOURCE = "toolkit.sources"
    OUTPUT = "toolkit.outputs"

    @property
    def noun(self) -> str:
        """What one is called in messages."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Plugin:
    """An entry point of an installed package.

    Attributes:
        kind: What it adds.
        name: What that is asked for by: a step's word, the name of a kind of source or of an output.
        target: Where it is: module:object.
        distribution, version: The package.
    """

    kind: PluginKind
    name: str
    target: str
    distribution: str
    version: str

    def load(self) -> object:
        """Import the object; what its module prints goes to stderr. Raises PluginError: it can't be imported."""
        from importlib.metadata import EntryPoint

        try:
            with contextlib.redirect_stdout(sys.stderr):  # stdout is for results, with --json for one document
                return EntryPoint(self.name, self.target, self.kind.value).load()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a stranger's module may fail in any way
            first_line = next(iter(short(error, _SHOWN).splitlines()), "")
            said = f"{type(error).__name__}{': ' if first_line else ''}{first_line}"
            raise self.error(f"it can't be imported: {said}") from error

    def error(self, what: str) -> PluginError:
        """Return the error of a plugin that can't be used; `what` says why."""
        return PluginError(
            f"the {self.kind.noun} {self.name!r} of {self.package} (entry point {self.target}): {what}. "
            f"Update {self.distribution}, or uninstall it"
        )

    @property
    def package(self) -> str:
        """The package with its version."""
        return f"{self.distribution} {self.version}"


def plugins(kind: PluginKind | None = None) -> list[Plugin]:
    """Return the plugins that are installed, of a kind or of all, by kind, name and package. Imports none."""
    kinds = list(PluginKind)
    found = [one for one in _installed() if kind in (None, one.kind)]
    return sorted(found, key=lambda one: (kinds.index(one.kind), one.name, one.distribution))


def plugin_names(kind: PluginKind) -> list[str]:
    """Return the names of what plugins add, in order, each once. Imports none."""
    return sorted({one.name for one in plugins(kind)})


def find_plugin(kind: PluginKind, name: str) -> Plugin | None:
    """Return the plugin that adds `name`, or None. Imports nothing.

    Raises:
        PluginError: Several add it.
    """
    found = [one for one in plugins(kind) if one.name == name]
    if len(found) > 1:
        packages = " and ".join(f"{one.package} (entry point {one.target})" for one in found)
        raise PluginError(f"the {kind.noun} {name!r} is added by {packages}: uninstall all but one of them")
    return found[0] if found else None


def _installed() -> Iterator[Plugin]:
    from importlib.metadata import distributions

    groups = {kind.value: kind for kind in PluginKind}
    seen = set()
    for distribution in distributions():
        # Of hundreds of packages hardly one has anything for toolkit: names and versions of the others aren't read.
        if not any(group in _text(distribution) for group in groups):
            continue
        try:
            package, version, points = distribution.name, distribution.version, list(distribution.entry_points)
        except Exception:  # what its installer left can't be read: there is nothing to ask for by name
            continue
        identity = re.sub(r"[-_.]+", "-", str(package)).lower()
        if package is None or identity in seen:  # the path has another one in front of it
            continue
        seen.add(identity)
        for point in points:
            if point.group in groups:
                yield Plugin(groups[point.group], point.name, point.value, str(package), str(version))


def _text(distribution: Distribution) -> str:
    try:
        return distribution.read_text(_FILE) or ""
    except Exception:
        return ""

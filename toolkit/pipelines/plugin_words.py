"""Words of steps that other packages add: such a step is imported when its word is first said."""

from __future__ import annotations

import dataclasses
import keyword
from typing import TYPE_CHECKING, Any

from toolkit.errors import PluginError
from toolkit.pipelines.registry import STEPS, register
from toolkit.pipelines.step import Step
from toolkit.pipelines.value_step import ValueStep
from toolkit.pipelines.words import Words
from toolkit.plugins import Plugin, PluginKind, find_plugin, plugin_names

__all__ = ["PluginWordError", "PluginWords", "load_step"]

_OF_WORDS = ("then", "with_step")


class PluginWordError(PluginError, AttributeError):
    """A plugin's word that can't be said: to hasattr() there is none."""


class PluginWords(Words):
    """Words, and behind them those that plugins add."""

    __slots__ = ()

    if not TYPE_CHECKING:  # to mypy and editors every word would be one

        def __getattr__(self, name: str) -> Any:
            """Return the method of a plugin's word. Raises AttributeError, with what is wrong with the plugin."""
            plugin = None
            if not name.startswith("_"):  # Python, numpy and notebooks ask for many of these
                try:
                    plugin = find_plugin(PluginKind.STEP, name)
                    if plugin is not None:
                        load_step(plugin)
                except PluginError as error:
                    raise PluginWordError(*error.args) from error.__cause__
            if plugin is None:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
            return getattr(self, name)

    def __dir__(self) -> list[str]:
        """List what is public: the fields, the words, and those of plugins, of which none is imported."""
        own = [name for name in getattr(type(self), "__slots__", ()) if not name.startswith("_")]
        return sorted({*own, *_OF_WORDS, *STEPS, *plugin_names(PluginKind.STEP)})


def load_step(plugin: Plugin) -> type[Step]:
    """Import a plugin's step, and make its word known.

    Raises:
        PluginError: It can't be imported, or is no step that a plugin can add.
    """
    step = plugin.load()
    if not (isinstance(step, type) and issubclass(step, ValueStep)):
        raise plugin.error(
            f"it is {_what(step)}, and must be a class of steps: a subclass of ValueStep, EachValue or WholeArray in "
            "toolkit.pipelines.value_step"
        )
    fault = _fault(step, plugin.name)
    if fault is not None:
        raise plugin.error(fault)
    if STEPS.get(plugin.name) is step:
        return step
    try:
        return register(step)
    except ValueError as error:
        raise plugin.error(str(error)) from None


def _fault(step: type[Step], name: str) -> str | None:
    """Return what a step lacks, or None."""
    word = getattr(step, "word", None)
    if word != name:
        return f"its word is {word!r}: the entry point must be called like it"
    if not name.isidentifier() or name.startswith("_") or keyword.iskeyword(name):
        return f"a word is a name in Python, and {name!r} can't be one"
    if "__dataclass_fields__" not in vars(step) or not step.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        return f"{step.__name__} must be decorated with @dataclass(frozen=True, slots=True)"
    missing = [each for each in dir(step) if getattr(getattr(step, each, None), "__isabstractmethod__", False)]
    if missing:
        return f"{step.__name__} lacks the methods {', '.join(missing)}"
    if (step.__doc__ or "").startswith(f"{step.__name__}("):  # what dataclass writes where there is none
        return f"{step.__name__} has no docstring, which documents the word"
    wrong = frozenset(step.limits) - {field.name for field in dataclasses.fields(step)}
    if wrong:
        return f"{step.__name__}.limits names {', '.join(sorted(wrong))}, which are no fields"
    try:
        step.signature()
    except TypeError as error:
        return str(error)
    return None


def _what(value: object) -> str:
    return f"the class {value.__qualname__}" if isinstance(value, type) else f"of type {type(value).__qualname__}"

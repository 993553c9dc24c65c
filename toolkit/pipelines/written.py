"""Pipelines as YAML: every word with its arguments by name, as a slot says them. Functions can't be written.

A step is written as it prints itself, so what text() says is all that a step has to know of this.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from toolkit.errors import PipelineError, ToolkitError, UsageError, did_you_mean
from toolkit.escapes import short
from toolkit.options.load import text_of
from toolkit.options.tree import Tree, read_tree
from toolkit.pipelines.batch.every import BATCH_STEPS
from toolkit.pipelines.batch.step import BatchStep
from toolkit.pipelines.batch_maps import BatchMap
from toolkit.pipelines.check import BadArgumentError
from toolkit.pipelines.registry import STEPS
from toolkit.pipelines.slots import Chain, Slot, chain, slot
from toolkit.pipelines.step import Declared
from toolkit.plugins import PluginKind, plugin_names

__all__ = ["read_pipeline", "write_pipeline"]

_BREAKS = set("\r\n\x85\u2028\u2029")
_VERSION = 1
_CHAIN = "Steps"  # how an argument that is a chain is annotated
_KEYS = ("version", "slots", "batch_maps")
_SLOT_KEYS = ("column", "name", "optional", "fill", "sync", "steps")
_Path = tuple[Any, ...]
_Words = TypeVar("_Words", Slot, Chain)


def write_pipeline(slots: Iterable[Slot], batch_maps: Sequence[BatchStep | BatchMap]) -> str:
    """Return slots and what runs on batches as YAML, which read_pipeline takes. Raises PipelineError: a function."""
    import yaml

    tree: dict[str, Any] = {"version": _VERSION, "slots": [_slot_tree(each) for each in slots]}
    if batch_maps:
        tree["batch_maps"] = [_batch_tree(each) for each in batch_maps]

    class Dumper(yaml.SafeDumper):  # type: ignore[misc]  # PyYAML has no types
        def ignore_aliases(self, data: Any) -> bool:
            return True  # equal lists are written out: read_tree takes no aliases

        def represent_str(self, data: str) -> Any:
            # Single quotes would fold line breaks: PyYAML takes some for printable, and reads them as others.
            style = '"' if _BREAKS & set(data) else None
            return self.represent_scalar("tag:yaml.org,2002:str", data, style=style)

    Dumper.add_representer(str, Dumper.represent_str)
    written = yaml.dump(tree, Dumper=Dumper, sort_keys=False, allow_unicode=True, default_flow_style=None, width=100)
    assert isinstance(written, str)
    return written


def read_pipeline(source: str | os.PathLike[str]) -> tuple[list[Slot], list[BatchStep]]:
    """Return the slots and batch steps of a YAML text, or of a file, which a path names.

    Raises:
        PipelineError: It isn't YAML, has an unknown key or word, or a step that can't be: with the line.
        NotFoundError, StorageError: There is no such file, or it can't be read.
    """
    try:
        name, text = ("the YAML", source) if isinstance(source, str) else _named_text(os.fspath(source))
        tree = read_tree(text, name)
    except UsageError as error:
        raise PipelineError(str(error)) from error
    reader = _Reader(tree, name)
    if not isinstance(tree.value, dict):
        hint = ""
        if isinstance(source, str) and "\n" not in source and source.endswith((".yaml", ".yml")):
            hint = f": to read the file, give pathlib.Path({source!r})"
        raise PipelineError(f"{name} holds no pipeline{hint}, which begins with version: {_VERSION} and slots:")
    reader.check_keys((), tree.value, _KEYS, required=_KEYS[:2])
    if tree.value["version"] != _VERSION or isinstance(tree.value["version"], bool):
        version = short(tree.value["version"])
        raise reader.error(("version",), f"version {version} isn't known: this toolkit reads {_VERSION}")
    slots = enumerate(reader.items(("slots",), tree.value["slots"]))
    batch_maps = enumerate(reader.items(("batch_maps",), tree.value.get("batch_maps", [])))
    return (
        [reader.slot(("slots", i), each) for i, each in slots],
        [reader.batch_step(("batch_maps", i), each) for i, each in batch_maps],
    )


def _named_text(path: str) -> tuple[str, str]:
    return path, text_of(path, "pipeline")


# --- writing -----------------------------------------------------------------------------------------------------


def _slot_tree(made: Slot) -> dict[str, Any]:
    fresh = slot(made.column)
    options = {name: getattr(made, name) for name in _SLOT_KEYS[1:-1] if getattr(made, name) != getattr(fresh, name)}
    return {"column": made.column, **options, "steps": [_step_tree(made.place, step) for step in made.steps]}


def _batch_tree(step: BatchStep | BatchMap) -> Any:
    if isinstance(step, BatchMap):
        raise PipelineError(f"batch map {step!r}: a function can't be written as YAML")
    return _step_tree("the pipeline", step)


def _step_tree(place: str, step: Declared) -> Any:
    call = ast.parse(step.text(), mode="eval").body
    assert isinstance(call, ast.Call)
    return _call_tree(f"{place}, step {step.text()}", type(step), call)


def _call_tree(place: str, step: type[Declared], call: ast.Call) -> Any:
    """Return a call as its word, {word: its one argument} or {word: {argument: value}}."""
    word, parameters = step.word, step.signature().parameters
    given: dict[str, Any] = {}
    for name, value in _arguments(parameters.values(), call):
        given[name] = [_value(place, each) for each in value] if isinstance(value, list) else _value(place, value)
    if not given:
        return word
    (first, *more) = given.items()
    if not more and first[0] == next(iter(parameters)) and not isinstance(first[1], list):
        return {word: first[1]}
    return {word: given}


def _arguments(
    parameters: Iterable[inspect.Parameter], call: ast.Call
) -> Iterator[tuple[str, ast.expr | list[ast.expr]]]:
    left = list(call.args)
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            yield parameter.name, left
            break
        if not left:
            break
        yield parameter.name, left.pop(0)
    for keyword in call.keywords:
        assert keyword.arg is not None
        yield keyword.arg, keyword.value


def _value(place: str, node: ast.expr) -> Any:
    """Return what an argument is in YAML: a chain a list of steps, and a tuple a list."""
    calls = _calls(node)
    if calls and calls[0][0] == "chain":
        return [_call_tree(place, STEPS[word], call) for word, call in calls[1:]]
    if calls and calls[0][0] == "float":  # float("nan"), which is no literal
        return float(ast.literal_eval(calls[0][1].args[0]))
    try:
        return _as_lists(ast.literal_eval(node))
    except ValueError:
        what = ast.unparse(node)
        raise PipelineError(f"{place}: {what} is no number, text or list, and can't be written as YAML") from None


def _calls(node: ast.expr) -> list[tuple[str, ast.Call]]:
    """Return the words and calls of a().b(1).c(2), or nothing."""
    calls: list[tuple[str, ast.Call]] = []
    while isinstance(node, ast.Call):
        if isinstance(node.func, ast.Name):
            return [(node.func.id, node), *reversed(calls)]
        if not isinstance(node.func, ast.Attribute):
            break
        calls.append((node.func.attr, node))
        node = node.func.value
    return []


def _as_lists(value: Any) -> Any:
    return [_as_lists(each) for each in value] if isinstance(value, tuple | list) else value


# --- reading -----------------------------------------------------------------------------------------------------


class _Reader:
    """Makes slots of a document; what can't be is an error with its line."""

    def __init__(self, tree: Tree, name: str) -> None:
        self._tree = tree
        self._name = name

    def error(self, path: _Path, problem: str) -> PipelineError:
        line = next((self._tree.lines[path[:n]] for n in range(len(path), 0, -1) if path[:n] in self._tree.lines), 1)
        return PipelineError(f"{self._name}:{line}: {problem}")

    def items(self, path: _Path, value: object) -> list[Any]:
        if not isinstance(value, list):
            raise self.error(path, f"{path[-1]} must be a list, got {short(value, 80, quoted=True)}")
        return value

    def check_keys(
        self, path: _Path, given: Mapping[Any, Any], known: Sequence[str], *, required: Sequence[str]
    ) -> None:
        for key in given:
            if key not in known:
                hint = did_you_mean(str(key), known) or f" Known: {', '.join(known)}"
                raise self.error((*path, key), f"unknown key {short(key, 80, quoted=True)}.{hint}")
        for key in required:
            if key not in given:
                raise self.error(path, f"{key} is missing")

    def slot(self, path: _Path, given: object) -> Slot:
        if not isinstance(given, dict):
            raise self.error(path, f"a slot is column: and steps:, got {short(given, 80, quoted=True)}")
        self.check_keys(path, given, _SLOT_KEYS, required=("column",))
        options = {str(key): value for key, value in given.items() if key != "steps"}
        with self._placed(path):
            made = slot(**options)
        return self._steps((*path, "steps"), made, given.get("steps", []))

    def _steps(self, path: _Path, made: _Words, given: object) -> _Words:
        for i, step in enumerate(self.items(path, given)):
            made = self._step((*path, i), made, step)
        return made

    def _step(self, path: _Path, made: _Words, given: object) -> _Words:
        word, value = self._worded(path, given, [*STEPS, *plugin_names(PluginKind.STEP)], "step")
        with self._placed(path):
            method = getattr(made, word)  # which imports a plugin's
            parameters = STEPS[word].signature().parameters
            arguments = value if isinstance(value, dict) else {next(iter(parameters), ""): value}
            several: tuple[Any, ...] = ()
            named = {}
            for key, each in arguments.items():
                parameter = parameters.get(key)
                if parameter is not None and parameter.kind is parameter.VAR_POSITIONAL:
                    at: _Path = (*path, word, key)
                    items = enumerate(self.items(at, each))
                    several = tuple(self._argument((*at, i), parameter, one) for i, one in items)
                else:
                    named[str(key)] = self._argument((*path, word, key), parameter, each)
            return method(*several, **named)  # type: ignore[no-any-return]

    def batch_step(self, path: _Path, given: object) -> BatchStep:
        word, value = self._worded(path, given, list(BATCH_STEPS), "batch step")
        kind = BATCH_STEPS[word]
        arguments = value if isinstance(value, dict) else {next(iter(kind.signature().parameters)): value}
        with self._placed(path):
            try:
                made = kind.of(**{str(name): _as_tuples(each) for name, each in arguments.items()})
                made.check_together()
            except BadArgumentError as error:
                raise PipelineError(f"batch step {word}: {error}") from None
        return made

    def _worded(self, path: _Path, given: object, known: Sequence[str], what: str) -> tuple[str, Any]:
        """Return a word and its arguments: all by name, or the first alone."""
        if isinstance(given, str):
            given = {given: {}}
        if not isinstance(given, dict) or len(given) != 1:
            example = "a word, or a word with its arguments, as resize_short: {size: 256}"
            raise self.error(path, f"a {what} is {example}; got {short(given, 80, quoted=True)}")
        ((word, value),) = given.items()
        if word not in known:
            hint = did_you_mean(str(word), known) or " docs/pipelines.md and docs/images.md have all of them"
            raise self.error(path, f"no {what} is called {short(word, 80, quoted=True)}.{hint}")
        return word, value

    def _argument(self, path: _Path, parameter: inspect.Parameter | None, value: Any) -> Any:
        if parameter is not None and parameter.annotation == _CHAIN:
            return self._steps(path, chain(), value)
        return _as_tuples(value)

    @contextlib.contextmanager
    def _placed(self, path: _Path) -> Iterator[None]:
        """Say the line of what can't be."""
        try:
            yield
        except (ToolkitError, TypeError) as error:
            if isinstance(error, PipelineError) and str(error).startswith(f"{self._name}:"):
                raise  # of a chain within
            raise self.error(path, str(error)) from error


def _as_tuples(value: Any) -> Any:
    return tuple(map(_as_tuples, value)) if isinstance(value, list) else value

"""Read YAML into plain values that know their lines. Never makes objects: no tags, no aliases, no double keys."""

from __future__ import annotations

import re
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

import yaml

from toolkit.errors import UsageError

__all__ = ["Tree", "read_tree"]

_Path = tuple[Any, ...]
_OCTAL = re.compile(r"[-+]?0[0-7_]+", re.ASCII)


@dataclass(frozen=True)
class Tree:
    """A document, and the line of each key and item, counted from 1: {("map", "image"): 4, ("columns", 0): 7}."""

    value: Any
    lines: dict[_Path, int] = field(default_factory=dict)


class _Loader(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML has no types
    """SafeLoader without tags and aliases. The C one lets no Python see its events."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()
        if isinstance(event, yaml.AliasEvent):
            raise yaml.MarkedYAMLError(
                problem=f"alias *{event.anchor}: a text that begins with * needs quotes", problem_mark=event.start_mark
            )
        if isinstance(event, yaml.ScalarEvent) and event.implicit[0] and _OCTAL.fullmatch(event.value):
            raise yaml.MarkedYAMLError(
                problem=f"{event.value}: YAML reads a number that begins with 0 as an octal one; write it without "
                "the 0, or text in quotes",
                problem_mark=event.start_mark,
            )
        if getattr(event, "tag", None) is not None:
            raise yaml.MarkedYAMLError(problem=f"the tag {event.tag}: tags are not read", problem_mark=event.start_mark)
        return super().compose_node(parent, index)


def read_tree(text: str, name: str) -> Tree:
    """Return the one document in `text`; `name` is the file's, for errors.

    Raises:
        UsageError: It isn't YAML, holds several documents, a tag, an alias, or a key twice in one mapping.
    """
    lines: dict[_Path, int] = {}
    try:
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            value = None if node is None else _value(loader, node, (), lines)
        finally:
            loader.dispose()
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise UsageError(f"{name}:{line}: the character {error.character!r} can't be in YAML") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{name}:{mark.line + 1}" if mark else name
        raise UsageError(f"{where}: {_problem(error)}") from error
    except RecursionError as error:
        raise UsageError(f"{name}: nested too deeply") from error
    except (ValueError, OverflowError) as error:  # "\\U00110000", which PyYAML hands to chr()
        line = loader.get_mark().line + 1
        raise UsageError(f"{name}:{line}: a character in quotes is not one of Unicode's ({error})") from error
    return Tree(value, lines)


def _value(loader: _Loader, node: Any, path: _Path, lines: dict[_Path, int]) -> Any:
    if isinstance(node, yaml.SequenceNode):
        items = []
        for number, item in enumerate(node.value):
            lines[*path, number] = _line(item)
            items.append(_value(loader, item, (*path, number), lines))
        return items
    if not isinstance(node, yaml.MappingNode):
        return _scalar(loader, node)
    entries: dict[Any, Any] = {}
    for key_node, value_node in node.value:
        key = _key(loader, key_node)
        if key in entries:
            first = lines[*path, key]
            raise yaml.MarkedYAMLError(
                problem=f"{key!r} is given twice, first in line {first}", problem_mark=key_node.start_mark
            )
        lines[*path, key] = _line(key_node)
        entries[key] = _value(loader, value_node, (*path, key), lines)
    return entries


def _key(loader: _Loader, node: Any) -> Hashable:
    if node.tag == "tag:yaml.org,2002:merge" or not isinstance(node, yaml.ScalarNode):
        what = "merge key <<" if isinstance(node, yaml.ScalarNode) else "list or mapping as a key"
        raise yaml.MarkedYAMLError(problem=f"a {what} is not read", problem_mark=node.start_mark)
    key: Hashable = _scalar(loader, node)
    return key


def _scalar(loader: _Loader, node: Any) -> Any:
    try:
        return loader.construct_object(node)
    except ValueError as error:  # a date such as 2024-13-45
        raise yaml.MarkedYAMLError(problem=f"{node.value!r}: {error}", problem_mark=node.start_mark) from error


def _line(node: Any) -> int:
    line: int = node.start_mark.line
    return line + 1


def _problem(error: yaml.MarkedYAMLError) -> str:
    problem = " ".join(str(error.problem or error.context).split())
    if "alias" in str(error.context):
        return f"{problem}: a text that begins with * needs quotes"
    if "another document" in problem:
        return "a second document begins here (---): a config is one"
    return f"not YAML: {problem}" if isinstance(error, yaml.scanner.ScannerError | yaml.parser.ParserError) else problem

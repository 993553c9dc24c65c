"""What every step of a slot is: one frozen class with its word, fields, rule and text, in one file.

To add one: a class in a file of its family, that file's line in toolkit.pipelines.families, and tests.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
import json
import math
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, dataclass
from typing import Any, ClassVar, Self

from toolkit.pipelines.fields import Argument
from toolkit.pipelines.state import State

__all__ = ["Declared", "Step", "Steps", "all_steps", "call_text", "chain_text", "literal", "plain"]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Declared:
    """What is written as a call of a word: its fields are the arguments. Steps of slots and of batches are such calls.

    Constructing one checks nothing: `of` does, which is what the word calls.

    Attributes:
        word: Its name in code.
        limits: Fields that refuse samples, or let them pass, and change none: describe() leaves them out.
    """

    word: ClassVar[str]
    limits: ClassVar[frozenset[str]] = frozenset()

    def __eq__(self, other: object) -> bool:
        return (
            self._values() == other._values()
            if isinstance(other, Declared) and type(other) is type(self)
            else NotImplemented
        )

    def __hash__(self) -> int:
        return hash(self._values())

    def __repr__(self) -> str:
        return self.text()

    @classmethod
    def of(cls, *args: Any, **kwargs: Any) -> Self:
        """Return the step that the word makes of its arguments: one for each field, if not overridden.

        Raises:
            BadArgumentError: An argument can't be.
            TypeError: There are too many arguments, too few, or one of another name.
        """
        return cls.checked(**cls.signature().bind(*args, **kwargs).arguments)

    @classmethod
    def checked(cls, **values: Any) -> Self:
        """Return the step with each of the values checked as its field is declared. Raises BadArgumentError."""
        declared = {field.name: Argument.of(field) for field in dataclasses.fields(cls)}
        for name, value in values.items():
            argument = declared[name]
            if argument is not None:
                values[name] = argument.check(name, value)
        return cls(**values)

    @classmethod
    def signature(cls) -> inspect.Signature:
        """Return the arguments of the word, annotated by text."""
        if cls.of.__func__ is not Declared.of.__func__:  # type: ignore[attr-defined]
            return inspect.signature(cls.of)
        return inspect.Signature(sorted(map(_parameter, dataclasses.fields(cls)), key=lambda each: each.kind))

    def text(self) -> str:
        """Return the step as it is written in code, without what is left at its default."""
        fields = dataclasses.fields(self)
        given = [getattr(self, field.name) for field in fields if field.default is MISSING]
        return call_text(self.word, *given, **self.changed(*(f.name for f in fields if f.default is not MISSING)))

    def changed(self, *names: str) -> dict[str, Any]:
        """Return those of the fields that aren't at their default, by name."""
        defaults = {field.name: field.default for field in dataclasses.fields(self)}
        return {name: getattr(self, name) for name in names if getattr(self, name) != defaults[name]}

    def _values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, field.name) for field in dataclasses.fields(self))

    def identity(self) -> list[object]:
        """Return what counts of the step in describe()."""
        names = [field.name for field in dataclasses.fields(self) if field.name not in self.limits]
        return [type(self).__name__, {name: plain(getattr(self, name)) for name in names}]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Step(Declared):
    """Base of every step of a slot. Registering makes a subclass a frozen dataclass; its docstring documents its word.

    Attributes:
        takes_bytes: Whether it decodes, and so wants what is stored as bytes.
        is_slow: Whether a sample takes milliseconds.
    """

    takes_bytes: ClassVar[bool] = False
    is_slow: ClassVar[bool] = False

    @abstractmethod
    def after(self, state: State) -> State:
        """Return what the value is after the step. Raises MisfitError when the step isn't for `state`."""

    @property
    def name(self) -> str | None:
        """What it draws by in place of its ordinal: a field of steps that draw."""
        return None

    @property
    def draws(self) -> bool:
        """Whether it draws."""
        return False

    @property
    def inner(self) -> tuple[Step, ...]:
        """The steps that it runs, or may run."""
        return ()

    @property
    def is_native(self) -> bool:
        """Whether it runs in the native call of a slot that decodes images."""
        return False

    @property
    def native(self) -> str:
        """What runs it there, for explain()."""
        return "native"

    @property
    def runs(self) -> str:
        """What runs it, for explain()."""
        return "numpy"


class Steps:
    """Steps that are bound to no column yet, as conditions take them: toolkit.chain() begins some."""

    __slots__ = ()
    steps: tuple[Step, ...]


def all_steps(steps: Iterable[Step]) -> Iterator[Step]:
    """Yield the steps, and those within them."""
    for step in steps:
        yield step
        yield from all_steps(step.inner)


def chain_text(steps: Iterable[Step]) -> str:
    """Write steps as a chain."""
    return "chain()" + "".join(f".{step.text()}" for step in steps)


def call_text(word: str, *positional: object, **named: object) -> str:
    """Write a call."""
    given: Iterable[str] = [*map(literal, positional), *(f"{name}={literal(value)}" for name, value in named.items())]
    return f"{word}({', '.join(given)})"


def literal(value: object) -> str:
    """Return a value as code: text in double quotes, an Enum as the text that stands for it."""
    value = plain(value)
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def plain(value: object) -> object:
    """Return an Enum's value, and anything else as it is."""
    return value.value if isinstance(value, enum.Enum) else value


def _parameter(field: dataclasses.Field[Any]) -> inspect.Parameter:
    argument = Argument.of(field)
    if argument is None:
        raise TypeError(f"the field {field.name} is declared without an argument: override of()")
    kind = inspect.Parameter.KEYWORD_ONLY if argument.keyword else inspect.Parameter.POSITIONAL_OR_KEYWORD
    default = inspect.Parameter.empty if field.default is MISSING else plain(field.default)
    return inspect.Parameter(field.name, kind, default=default, annotation=argument.annotation)

"""What the words of slots and chains share: a word checks its arguments, and adds a step."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, Protocol, Self, TypeVar, cast

from toolkit.errors import PipelineError
from toolkit.pipelines.check import BadArgumentError
from toolkit.pipelines.spec import Step

__all__ = ["Word", "Words", "word"]

_Arguments = ParamSpec("_Arguments")
_Words = TypeVar("_Words", bound="Words")


class Words(ABC):
    """What steps are added to. Immutable: a word returns a new one."""

    __slots__ = ()

    @property
    @abstractmethod
    def place(self) -> str:
        """Who is speaking, for messages: slot 'image'."""

    @abstractmethod
    def with_step(self, step: Step) -> Self:
        """Return this with one more step. Raises PipelineError when it doesn't fit."""


class Word(Protocol[_Arguments]):
    """A word as a method: of a slot it returns a slot, of a chain a chain."""

    def __get__(self, instance: _Words, owner: type[_Words]) -> Callable[_Arguments, _Words]: ...


def word(method: Callable[Concatenate[Any, _Arguments], Step]) -> Word[_Arguments]:
    """Make a word of a method that returns a step: its arguments' faults get the place, and its step is added."""

    @functools.wraps(method)
    def add(self: Words, *args: _Arguments.args, **kwargs: _Arguments.kwargs) -> Words:
        try:
            step = method(self, *args, **kwargs)
        except BadArgumentError as error:
            raise PipelineError(f"{self.place}, step {method.__name__}: {error}") from None
        return self.with_step(step)

    return cast(Word[_Arguments], add)

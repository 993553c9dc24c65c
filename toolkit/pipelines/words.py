"""What the words of slots and chains are added to. words.pyi, which scripts/make_words.py writes, lists them all."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from toolkit.errors import PipelineError, did_you_mean
from toolkit.pipelines.check import BadArgumentError
from toolkit.pipelines.step import Step

__all__ = ["Words", "word_of"]


class Words(ABC):
    """What steps are added to. Immutable: a word returns a new one. Each registered step is a method."""

    __slots__ = ()

    @property
    @abstractmethod
    def place(self) -> str:
        """Who is speaking, for messages: slot 'image'."""

    @abstractmethod
    def with_step(self, step: Step) -> Self:
        """Return this with one more step. Raises PipelineError when it doesn't fit."""


def word_of(step: type[Step]) -> Callable[..., Words]:
    """Return the method that adds such a step: its arguments' faults get the place."""

    def add(self: Words, *args: Any, **kwargs: Any) -> Words:
        try:
            made = step.of(*args, **kwargs)
        except BadArgumentError as error:
            raise PipelineError(f"{self.place}, step {step.word}: {error}") from None
        except TypeError:
            fault = _call_fault(step.word, step.signature(), args, kwargs)
            if fault is None:
                raise
            raise TypeError(fault) from None
        return self.with_step(made)

    add.__name__, add.__qualname__, add.__doc__ = step.word, f"Words.{step.word}", step.__doc__
    # What notebooks and help() show: they ask the function, and read no stub.
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    add.__signature__ = inspect.Signature([own, *step.signature().parameters.values()])
    return add


def _call_fault(word: str, signature: inspect.Signature, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str | None:
    """Say what is wrong with the arguments' number or names, or None."""
    parameters = signature.parameters.values()
    named = [each.name for each in parameters if each.kind is not each.VAR_POSITIONAL]
    written = signature.replace(parameters=[each.replace(annotation=each.empty) for each in parameters])
    usage = f"it is {word}{written.replace(return_annotation=signature.empty)}"
    for name in kwargs:
        if name not in named:
            return f"{word}() got an unexpected keyword argument {name!r}: {usage}.{did_you_mean(name, named)}"
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        return f"{word}(): {error}; {usage}"
    return None

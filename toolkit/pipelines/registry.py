"""Steps by their words. Registering one makes its word a method of slots and chains."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeVar, cast, dataclass_transform

from toolkit.pipelines.step import Step
from toolkit.pipelines.words import Words, word_of

__all__ = ["STEPS", "forget", "register"]

_StepClass = TypeVar("_StepClass", bound=type[Step])
# What slots and chains are made of, which a word would be hidden by.
_OF_SLOTS = frozenset({"column", "fill", "is_random", "name", "optional", "states", "steps", "sync", "then"})
_steps: dict[str, type[Step]] = {}
STEPS: Mapping[str, type[Step]] = MappingProxyType(_steps)


@dataclass_transform(frozen_default=True)
def register(step: _StepClass) -> _StepClass:
    """Make a step a frozen dataclass, if it is none yet, and its word known. Raises ValueError: the word is taken."""
    if hasattr(Words, step.word) or step.word in _OF_SLOTS:
        raise ValueError(f"the word {step.word!r} is taken: give {step.__qualname__} another")
    if "__dataclass_params__" not in vars(step):
        # The base compares and shows steps: such methods of each class were a tenth of what importing them all takes.
        step = cast("_StepClass", dataclass(frozen=True, slots=True, eq=False, repr=False)(step))
    _steps[step.word] = step
    setattr(Words, step.word, word_of(step))
    return step


def forget(word: str) -> None:
    """Take a registered word back. Raises KeyError: there is none."""
    del _steps[word]
    delattr(Words, word)

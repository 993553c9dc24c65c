"""The names that steps draw by, so that image and mask agree: the slot isn't in them.

A step is named by its class and its ordinal among those of its class in its branch: HFlip#0. With name= that name
stands in place of the ordinal, as a JSON text, HFlip="left", and the step counts in no ordinal: steps may come before
it, and it before others, and nothing is drawn otherwise. Two steps of a class with one name draw alike. Within a branch
the branch's name comes first, and of one_of the number of the way: Maybe#0/HFlip#0, OneOf="tone"/1/ColorJitter#0.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Protocol

__all__ = ["Named", "draw_names"]


class Named(Protocol):
    """A step of slots or of batches."""

    @property
    def name(self) -> str | None:
        """What it draws by in place of its ordinal."""


def draw_names(steps: Iterable[Named], path: str = "") -> list[str]:
    """Return the draw name of each step of a slot, of the way whose path it is, or of batches."""
    seen: Counter[str] = Counter()
    names = []
    for step in steps:
        kind = type(step).__name__
        if step.name is None:
            names.append(f"{path}{kind}#{seen[kind]}")
            seen[kind] += 1
        else:
            names.append(f"{path}{kind}={json.dumps(step.name, ensure_ascii=False)}")
    return names

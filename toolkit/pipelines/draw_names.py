"""The names that steps draw by: class, and ordinal of that class within the slot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from toolkit.pipelines.randomness import step_id
from toolkit.pipelines.step import Step

__all__ = ["draw_ids"]


def draw_ids(steps: Sequence[Step]) -> list[int]:
    """Return what each step draws by; see toolkit.pipelines.randomness."""
    seen: Counter[str] = Counter()
    ids = []
    for step in steps:
        name = type(step).__name__
        ids.append(step_id(name, seen[name]))
        seen[name] += 1
    return ids

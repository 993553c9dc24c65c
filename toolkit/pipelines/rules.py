"""One rule a step: what it makes of the value before it, or why it doesn't fit there.

To add a step: a dataclass, a rule in its kind's file, a word, the function that runs it, a test.
"""

from __future__ import annotations

from toolkit.pipelines import value_rules
from toolkit.pipelines.image import rules as image_rules
from toolkit.pipelines.state import State

__all__ = ["after"]

_RULES = {**image_rules.RULES, **value_rules.RULES}


def after(step: object, state: State) -> State:
    """Return what the value is after `step`. Raises MisfitError when `step` isn't for `state`."""
    return _RULES[type(step)](step, state)

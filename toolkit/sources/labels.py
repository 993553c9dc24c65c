"""Check the options that say where labels come from, and what they are called."""

from __future__ import annotations

from collections.abc import Sequence

from toolkit.errors import UsageError
from toolkit.sources.classes import check_class_names
from toolkit.sources.options import LabelMode

__all__ = ["check_label_options"]


def check_label_options(mode: LabelMode, *, require_labels: bool, classes: Sequence[str] | None) -> None:
    """Raise UsageError when options contradict each other, or `classes` can't be a class map."""
    if mode is LabelMode.NONE and (require_labels or classes is not None):
        asked = "require_labels" if require_labels else "classes"
        raise UsageError(f"{asked} asks for labels and label_mode 'none' for none: leave one of them out.")
    if classes is not None:
        check_class_names(classes, where="classes", unit="id", first=0)

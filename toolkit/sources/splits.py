"""Names of splits: which there may be, and which names people would take for one."""

from __future__ import annotations

import re
from collections.abc import Iterable

from toolkit.errors import UsageError

__all__ = ["DEFAULT_SPLIT", "LIKE_SPLIT", "SPLIT_NAMES", "check_name", "is_train", "like_splits"]

SPLIT_NAMES = ("train", "val", "valid", "validation", "test")
"""What folders and files are called that are splits without being mapped to one."""

DEFAULT_SPLIT = "train"

LIKE_SPLIT = re.compile(
    r"(?P<word>(?P<train>train|training)|val|valid|validation|test|testing|dev|eval)"
    r"[-_ .]?(?:[0-9]*|images?|imgs?|set|data|split)",
    re.IGNORECASE,
)
"""Folders that people mean as splits: Train, TEST, train2017, val_images."""

_SPLIT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")  # files are called by it


def check_name(split: str) -> None:
    """Raise UsageError when the name can't be that of a split."""
    if not _SPLIT_NAME.fullmatch(split):
        raise UsageError(
            f"{split!r} can't name a split: use up to 100 letters, digits, '_', '.' and '-', beginning with a letter "
            "or digit."
        )


def like_splits(folders: Iterable[str]) -> list[str]:
    """Return those that people would take for splits."""
    return [name for name in folders if LIKE_SPLIT.fullmatch(name)]


def is_train(name: str) -> bool:
    """Tell whether people would take a folder or split of that name for the one to train on."""
    match = LIKE_SPLIT.fullmatch(name)
    return match is not None and match["train"] is not None

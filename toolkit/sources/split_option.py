"""The value of --splits: split names, each with the folders that it is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from toolkit.errors import UsageError
from toolkit.options.compound import Pairs
from toolkit.options.texts import parse_names
from toolkit.sources.splits import is_train, like_splits

__all__ = ["FoldersOfSplits"]


class FoldersOfSplits(Pairs):
    """A mapping of split names to a folder or several; train=Train,val=Test,dev in a flag: val is Test and dev."""

    def read(self, given: Any) -> Any:
        """Return {"train": ("Train",), "val": ("Test", "dev")} of a text or a mapping. Raises UsageError."""
        return _of_text(given) if isinstance(given, str) else _of_mapping(given)

    def plain(self, value: Any) -> object:
        """Return the value as JSON has it."""
        return None if value is None else {split: list(folders) for split, folders in value.items()}


def _of_mapping(given: Mapping[str, str | Sequence[str]]) -> dict[str, tuple[str, ...]]:
    lists = {split: [folders] if isinstance(folders, str) else folders for split, folders in given.items()}
    return {split: tuple(map(_folder, folders)) for split, folders in lists.items()}


def _of_text(text: str) -> dict[str, tuple[str, ...]]:
    splits: dict[str, tuple[str, ...]] = {}
    split = ""
    for part in parse_names(text):
        name, equals, folder = map(str.strip, part.partition("="))
        if equals and not (name and folder):
            raise UsageError(f"{part!r} is not SPLIT=FOLDER, as in train=Train,val=Test,dev")
        if not equals and not split:
            raise UsageError(f"{part!r} stands behind no split: give {part}={part}, as in train=Train,val=Test")
        if not equals and like_splits([part]) and is_train(split) and not is_train(part):
            raise UsageError(
                f"{part!r} would be a part of the split {split!r}: give {part.lower()}={part} for a split of its own, "
                f"or {split}={part} if that is what you mean"
            )
        split = name if equals else split
        splits[split] = (*splits.get(split, ()), _folder(folder if equals else part))
    return splits


def _folder(text: str) -> str:
    return text.removeprefix("./").rstrip("/") or text

"""Arrays whose rows belong together become tables of splits, told by their names or by those of their files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from toolkit.errors import SourceError
from toolkit.sources.arrays.columns import TypeWords
from toolkit.sources.arrays.stored import StoredArray
from toolkit.sources.arrays.table import ArrayTable, make_table
from toolkit.sources.files import InputFile, group_by_split
from toolkit.sources.options import SourceOptions

__all__ = ["ArrayGroup", "tables_of"]


@dataclass(frozen=True, slots=True)
class ArrayGroup:
    """Arrays of one file, or of several that lie side by side.

    Attributes:
        where: Where they lie, for messages.
        files: The file of each array by its path.
        splits: The arrays of each split by field, as by_split() gave them.
    """

    where: str
    files: Mapping[str, InputFile]
    splits: Mapping[str | None, Mapping[str, StoredArray]]

    def file_of(self, split: str | None) -> InputFile:
        """Return what keys of a split are made of: its first file, with the split's name if that has others too."""
        paths = {array.path for array in self.splits[split].values()}
        first = min((self.files[path] for path in paths), key=lambda file: file.name)
        return replace(first, name=f"{first.name}/{split}") if split and len(self.files) == 1 else first


def tables_of(groups: Sequence[ArrayGroup], options: SourceOptions, words: TypeWords) -> dict[str, list[ArrayTable]]:
    """Return the tables of each split.

    Raises:
        NotFoundError: The split asked for isn't there.
        SourceError: Only some names tell splits; values can't be stored.
        UsageError: Values can't be of the kind that is asked for.
    """
    inner = [None not in group.splits for group in groups]
    if any(inner) and not all(inner):
        told, silent = (groups[inner.index(has)].where for has in (True, False))
        raise SourceError(
            f"the arrays' names tell splits in {told} and none in {silent}: leave files out with --exclude, or call "
            "everything one split with --split"
        )
    if any(inner):
        names = dict.fromkeys(split for group in groups for split in group.splits)
        wanted = {str(split): [(group, split) for group in groups if split in group.splits] for split in names}
    else:
        by_name = {group.file_of(None).name: group for group in groups}
        split_files = group_by_split([group.file_of(None) for group in groups], options.split)
        wanted = {split: [(by_name[file.name], None) for file in files] for split, files in split_files.items()}
    return {
        split: [make_table(group.file_of(of), group.splits[of], options, words) for group, of in parts]
        for split, parts in wanted.items()
    }

"""Which arrays of a file belong together: the splits that their names tell, and the fields of each.

Names only: x_train and y_test, train/images, and the folder that all of them lie in.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from toolkit.errors import NotFoundError, SourceError, UsageError, did_you_mean
from toolkit.format.kinds import Kind
from toolkit.sources.arrays.stored import StoredArray
from toolkit.sources.options import SourceOptions
from toolkit.sources.skips import Skips

__all__ = ["Names", "asked_kinds", "by_split"]

_WORD = "train|val|valid|validation|test"
_BEFORE = re.compile(rf"({_WORD})[_./-](.+)", re.IGNORECASE | re.DOTALL)
_BEHIND = re.compile(rf"(.+)[_./-]({_WORD})", re.IGNORECASE | re.DOTALL)
_ORDER = _WORD.split("|")
_MOST_SHOWN = 12


def asked_kinds(options: SourceOptions) -> dict[str, Kind]:
    """Return the kinds that --kind gives to columns, by the fields that these are made of.

    Raises:
        UsageError: A field is to be of two kinds.
    """
    if options.map is None:
        fields = {column: field for field, column in options.rename.items()}
        return {fields.get(column, column): kind for column, kind in options.kind.items()}
    asked: dict[str, Kind | None] = {}
    for column, field in options.map.items():
        kind = options.kind.get(column)
        if asked.setdefault(field, kind) is not kind:
            raise UsageError(f"--kind: the columns made of {field!r} must all be of one kind")
    return {field: kind for field, kind in asked.items() if kind is not None}


class Names:
    """The names of all arrays of a file or folder: what each tells, whichever of them are packed."""

    def __init__(self, names: Iterable[str], options: SourceOptions) -> None:
        self._told = {name: _told(name) for name in names}
        self._depth = _depth(self._told)
        splits = {split for split, _ in self._told.values() if split is not None}
        self._depths = {one: _depth(rest for split, rest in self._told.values() if split == one) for one in splits}
        self._options = options

    def split(self, name: str) -> str | None:
        """Return the split that a name tells."""
        return self._told[name][0]

    def field(self, name: str, *, in_split: bool) -> str:
        """Return the name without the groups that all arrays lie in; `in_split`: and without its split."""
        split, rest = self._told[name]
        text, depth = (rest, self._depths[str(split)]) if in_split else (name, self._depth)
        return "/".join(text.split("/")[depth:])

    def is_wanted(self, name: str) -> bool:
        """Tell whether an array is packed: all are, unless --columns or --map name others."""
        options = self._options
        chosen = options.columns if options.map is None else tuple(options.map.values())
        if chosen is None:
            return True
        asked = (*chosen, *(() if options.key is None else (options.key,)))
        known = {name, self.field(name, in_split=False)}
        if self.split(name) is not None:
            known |= {self._told[name][1], self.field(name, in_split=True)}
        return any(one == text or one.startswith(f"{text}.") for one in asked for text in known)


def by_split(
    arrays: Sequence[StoredArray], names: Names, options: SourceOptions, where: str, skips: Skips
) -> dict[str | None, dict[str, StoredArray]]:
    """Return the arrays of each split by field; of the split None where no name tells one.

    Arrays without an axis are passed over as "scalars".

    Args:
        arrays: Those that are wanted.
        names: The names of all.
        options: --split chooses one, or calls everything one.
        where: Where they lie, for messages.
        skips: Where to note what is passed over.

    Raises:
        NotFoundError: The split asked for isn't among those that the names tell.
        SourceError: Only some names tell a split, the arrays of one differ in length, or two have one name.
    """
    for array in arrays:
        if not array.shape:
            skips.add("scalars", array.name)
    arrays = [array for array in arrays if array.shape]
    if not arrays:
        raise SourceError(f"{where} holds no array with rows: nothing to pack")
    told = [names.split(array.name) for array in arrays]
    has_all = all(told)
    if options.split is None and not has_all and any(told):
        one, other = (arrays[[bool(split) for split in told].index(has)].name for has in (True, False))
        raise SourceError(
            f"{where}: {one!r} tells its split ({names.split(one)}) by its name and {other!r} tells none: name the "
            "arrays to pack with --columns, or call everything one split with --split"
        )
    groups: dict[str | None, dict[str, StoredArray]] = {}
    for array, split in zip(arrays, told, strict=True):
        group = groups.setdefault(split if has_all else None, {})
        field = names.field(array.name, in_split=has_all)
        if field in group:
            raise SourceError(
                f"{where}: two arrays would be {field!r}, {group[field].name!r} and {array.name!r}: rename one"
            )
        group[field] = array
    if has_all and options.split is not None and options.split not in groups and len(groups) > 1:
        known = [str(name) for name in groups]
        raise NotFoundError(
            f"{where}: the arrays' names tell the splits {', '.join(known)}, not {options.split!r}."
            f"{did_you_mean(options.split, known)}"
        )
    if has_all and options.split is not None:
        groups = {options.split: groups.get(options.split) or next(iter(groups.values()))}
    for group in groups.values():
        _check_lengths(group.values(), where)
    order = {name: at for at, name in enumerate(_ORDER)}
    named = sorted(groups.items(), key=lambda one: order.get(str(one[0]), len(order)))
    return dict(named)


def _told(name: str) -> tuple[str | None, str]:
    """Return the split that an array's name tells, and what the rest of it is."""
    if match := _BEFORE.fullmatch(name):
        return match[1].lower(), match[2]
    if match := _BEHIND.fullmatch(name):
        return match[2].lower(), match[1]
    return None, name


def _check_lengths(arrays: Iterable[StoredArray], where: str) -> None:
    shapes = {array.name: array.shape for array in arrays}
    if len({shape[0] for shape in shapes.values()}) > 1:
        text = ", ".join(f"{name} {shape}" for name, shape in list(shapes.items())[:_MOST_SHOWN])
        more = f" and {len(shapes) - _MOST_SHOWN} more" if len(shapes) > _MOST_SHOWN else ""
        raise SourceError(
            f"{where}: rows are the first index of every array, and lengths differ: {text}{more}. Name the arrays to "
            "pack with --columns"
        )


def _depth(names: Iterable[str]) -> int:
    """Return in how many groups all arrays lie that lie in the same ones."""
    parts = [name.split("/") for name in names]
    depth = 0
    while parts and all(len(one) > depth + 1 and one[depth] == parts[0][depth] for one in parts):
        depth += 1
    return depth

"""Find what a folder of Pascal VOC holds: its years, and the lists of pictures that are its splits."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from toolkit.errors import NotFoundError, SourceError, did_you_mean
from toolkit.sources.contents import UnfitError, text_of
from toolkit.sources.names import printable
from toolkit.sources.options import SourceOptions
from toolkit.sources.skips import Skips
from toolkit.sources.splits import DEFAULT_SPLIT, check_name
from toolkit.sources.tables.listing import files_below, read_small
from toolkit.storage.files import storage_errors

__all__ = ["ANNOTATIONS", "MASKS", "OBJECT_MASKS", "PICTURES", "PictureList", "find_splits", "find_years"]

PICTURES = "JPEGImages"
ANNOTATIONS = "Annotations"
MASKS = "SegmentationClass"
OBJECT_MASKS = "SegmentationObject"
_LISTS = "ImageSets"
_DEVKIT = "VOCdevkit"
_LIST_FOLDERS = ("Main", "Segmentation")  # a list without a folder is in the first that has it
_SPLITS = ("train", "val", "trainval", "test")
_MOST_LIST_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class PictureList:
    """The pictures of one year in a split.

    Attributes:
        year: The year's folder below the source, "" for the source itself.
        name: The list below the source; None: all pictures there are.
        ids: Names of the pictures without their endings, with their line in the list.
    """

    year: str
    name: str | None
    ids: tuple[tuple[int, str], ...] = ()


def find_years(root: str) -> list[str]:
    """Return the folders below `root` that hold a year of VOC each, "" for `root` itself; none when it isn't VOC.

    Raises:
        StorageError: A folder can't be read.
    """
    if _is_year(root):
        return [""]
    for parent in ("", _DEVKIT):
        folder = os.path.join(root, parent)
        if not os.path.isdir(folder):
            continue
        with storage_errors("read", folder):
            names = sorted(name for name in os.listdir(folder) if name.upper().startswith("VOC"))
        years = [name for name in names if _is_year(os.path.join(folder, name))]
        if years:
            return [f"{parent}/{name}" if parent else name for name in years]
    return []


def find_splits(root: str, years: Sequence[str], options: SourceOptions) -> dict[str, list[PictureList]]:
    """Return the lists of pictures that each split is made of.

    Raises:
        NotFoundError: There is no list of that name.
        SourceError: Lists contradict each other, or can't be read as lists.
        UsageError: An option names what can't be a split.
        StorageError: Something can't be read.
    """
    with_lists = [year for year in years if os.path.isdir(os.path.join(root, year, _LISTS))]
    if not with_lists:
        if options.splits:
            raise NotFoundError(f"--splits names lists below {_LISTS}, and {root!r} has no such folder: leave it out")
        return {options.split or DEFAULT_SPLIT: [PictureList(year, None) for year in years]}
    if len(with_lists) < len(years):
        without = next(year for year in years if year not in with_lists)
        raise SourceError(
            f"{printable(os.path.join(root, without))!r} has no folder {_LISTS}, and {with_lists[0]!r} has one: "
            "pack them one after the other, the second with --on-existing append"
        )
    lists = _Lists(root, years, options)
    wanted = lists.mapped(options.splits) if options.splits else lists.named(options.split)
    if options.split is not None:
        if options.split not in wanted:
            raise NotFoundError(
                f"there is no split {options.split!r}; there are {', '.join(wanted)}."
                f"{did_you_mean(options.split, wanted)}"
            )
        wanted = {options.split: wanted[options.split]}
    return {
        split: [PictureList(year, name, lists.read(name)) for year, name in members]
        for split, members in wanted.items()
    }


def _is_year(path: str) -> bool:
    here = [os.path.isdir(os.path.join(path, name)) for name in (PICTURES, ANNOTATIONS, MASKS)]
    return here[0] and any(here[1:])


class _Lists:
    """The lists of pictures in all years. What is called a list here is its year, and its path below the source."""

    def __init__(self, root: str, years: Sequence[str], options: SourceOptions) -> None:
        self._root = root
        self._years = years
        unsaid = Skips()
        self._there = {
            name
            for year in years
            for name in files_below(root, _joined(year, _LISTS), follow_links=options.follow_links, skips=unsaid)
        }

    def named(self, split: str | None) -> dict[str, list[tuple[str, str]]]:
        """Return those that are called as splits are; without trainval, where it is train and val once more."""
        found = {name: lists for name in _SPLITS if (lists := self._called(name))}
        if not found:
            folder = os.path.join(self._root, self._years[0], _LISTS)
            raise SourceError(
                f"{printable(folder)!r} has none of the lists {', '.join(f'Main/{name}.txt' for name in _SPLITS)}: say "
                "which lists are splits, as in --splits train=Main/mine"
            )
        if split is None and "trainval" in found and found.keys() & {"train", "val"}:
            ids = {
                name: {(year, one) for year, path in lists for _, one in self.read(path)}
                for name, lists in found.items()
            }
            if not ids["trainval"] <= ids.get("train", set()) | ids.get("val", set()):
                raise SourceError(
                    f"the list trainval in {printable(self._root)!r} names pictures that neither train nor val does: "
                    "choose with --split, or say what the splits are, as in --splits train=trainval,test=test"
                )
            del found["trainval"]
        return found

    def mapped(self, splits: Mapping[str, tuple[str, ...]]) -> dict[str, list[tuple[str, str]]]:
        """Return those that --splits names: by their paths below the folder of lists, or by their names alone."""
        found: dict[str, list[tuple[str, str]]] = {}
        for split, names in splits.items():
            check_name(split)
            found[split] = []
            for name in names:
                lists = self._called(name.removesuffix(".txt"))
                if not lists:
                    near = [one.rpartition(f"{_LISTS}/")[2].removesuffix(".txt") for one in sorted(self._there)]
                    raise NotFoundError(
                        f"--splits: there is no list {printable(name)!r} in {_LISTS} of {printable(self._root)!r}."
                        f"{did_you_mean(name, near)}"
                    )
                found[split] += lists
        return found

    def read(self, name: str) -> tuple[tuple[int, str], ...]:
        """Return the lines of a list that name something, with their numbers."""
        path = os.path.join(self._root, name)
        try:
            text = text_of(read_small(path, _MOST_LIST_BYTES)).removeprefix("\ufeff")
        except UnfitError as fault:
            raise SourceError(f"{printable(path)!r}: {fault}. Mend the list, one picture a line") from fault
        lines = enumerate(text.split("\n"), 1)
        return tuple((number, line.strip()) for number, line in lines if line.strip())

    def _called(self, name: str) -> list[tuple[str, str]]:
        """Return the lists of that name, one of each year that has it."""
        paths = []
        for year in self._years:
            folders = [""] if "/" in name else _LIST_FOLDERS
            here = (_joined(year, _LISTS, folder, f"{name}.txt") for folder in folders)
            paths += [(year, path) for path in here if path in self._there][:1]
        return paths


def _joined(*parts: str) -> str:
    return "/".join(part for part in parts if part)

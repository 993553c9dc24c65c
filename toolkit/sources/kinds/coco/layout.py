"""Where annotation files and their pictures lie: the files of each split, and the folder that names are below."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace

from toolkit.errors import SourceError
from toolkit.sources.files import InputFile, find_files, group_by_split
from toolkit.sources.kinds.coco.looks import ROBOFLOW, looks_like_coco
from toolkit.sources.names import printable
from toolkit.sources.options import Missing, SourceOptions
from toolkit.sources.payloads import named_as
from toolkit.sources.skips import Skips
from toolkit.sources.tables.paths import UnsafePathError, relative

__all__ = ["Layout", "find_annotations"]

_ANNOTATIONS = "annotations"
_YEAR = re.compile(r"(train|validation|valid|val|test)[0-9]+")
_LOOKED_AT = 64  # pictures by which their folder is found
_PANOPTIC = "panoptic"


def find_annotations(options: SourceOptions, skips: Skips) -> tuple[dict[str, list[InputFile]], list[InputFile]]:
    """Return the annotation files of each split to pack, and all that there are, in order of their splits.

    Raises:
        NotFoundError, SourceError, StorageError: As find_files() and group_by_split().
    """
    found = find_files(options, lambda _: False, _is_of_interest, skips, ROBOFLOW)
    files = []
    for file in found:
        if _is_picture(file.path):  # told as unlisted where no image is of it
            continue
        if _PANOPTIC in os.path.basename(file.name):
            skips.add("panoptic", file.name)
        else:
            files.append(file)
    if not files:
        paths = ", ".join(map(repr, options.paths))
        raise SourceError(f"no COCO annotations in {paths}: give the folder that holds them, or their JSON file")
    by_path = {file.path: file for file in files}
    plain = [replace(file, name=_YEAR.sub(r"\1", file.name)) for file in files]
    groups = group_by_split(plain, options.split)
    chosen = {split: [by_path[one.path] for one in members] for split, members in groups.items()}
    if sum(map(len, chosen.values())) == len(files):
        return chosen, [file for members in chosen.values() for file in members]
    every = group_by_split(plain, None)
    return chosen, [by_path[one.path] for members in every.values() for one in members]


class Layout:
    """The folder that the pictures of an input are below.

    Attributes:
        root: The folder.
    """

    def __init__(self, options: SourceOptions, file: InputFile) -> None:
        """Find it for the input's files, of which `file` is one: --root, the folder given, or that of the file."""
        self._missing = options.missing
        folder = os.path.dirname(os.path.abspath(file.path))
        if os.path.basename(folder) == _ANNOTATIONS:
            folder = os.path.dirname(folder)
        given = [path for path in options.paths if os.path.isdir(path)]
        self.root = options.root or (given[0] if len(given) == 1 else folder)

    def placed(self, file: InputFile, split: str, names: Sequence[str]) -> list[str]:
        """Return the paths of pictures below the root, by the names that a file has for them.

        A name that leaves its folder stays as it is: it is rejected for what it says.

        Raises:
            SourceError: None of those that were looked for is there.
        """
        safe = [_safe(name) for name in names]
        looked_for = [name for name in safe if name is not None]
        looked_for = looked_for[:: max(1, len(looked_for) // _LOOKED_AT)]
        folders = self._folders(file, split)
        hits = {folder: sum(map(self._is_there, (_joined(folder, name) for name in looked_for))) for folder in folders}
        best = max(folders, key=lambda folder: hits[folder])
        if looked_for and not hits[best] and self._missing is Missing.ERROR:
            where = ", ".join(repr(printable(os.path.join(self.root, folder))) for folder in folders)
            raise SourceError(
                f"{printable(file.path)!r}: none of its images is there, {printable(looked_for[0])!r} for one. Looked "
                f"in {where}: give the folder that they are below with --root, pack one split with --split, or leave "
                "the file out with --exclude"
            )
        return [name if one is None else _joined(best, one) for name, one in zip(names, safe, strict=True)]

    def _folders(self, file: InputFile, split: str) -> list[str]:
        """Return where pictures of a file may lie, below the root: the first one that has the most of them counts."""
        stem = os.path.splitext(os.path.basename(file.path))[0]
        token = stem.rpartition("_")[2]
        beside = os.path.relpath(os.path.dirname(os.path.abspath(file.path)), os.path.abspath(self.root))
        near = [] if beside.split(os.sep)[0] == ".." else [beside.replace(os.sep, "/")]
        near += [f"{one}/{name}" for one in near for name in ("data", "images")]
        words = [token, split, *(match[0] for match in [_YEAR.search(stem)] if match)]
        below = [one for word in words for one in (word, f"images/{word}", f"data/{word}")]
        every = dict.fromkeys(os.path.normpath(one) for one in ("images", "data", *near, *below))
        there = [one for one in every if one != "." and os.path.isdir(os.path.join(self.root, one))]
        return [*sorted(there, key=lambda one: -one.count("/")), ""]

    def _is_there(self, path: str) -> bool:
        try:
            return os.path.lexists(os.path.join(self.root, path))
        except ValueError:  # text that no file name can be
            return False


def _joined(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _safe(name: str) -> str | None:
    try:
        return relative(name.encode())
    except (UnsafePathError, UnicodeEncodeError):
        return None


def _is_of_interest(path: str) -> bool:
    return _is_picture(path) or looks_like_coco(path)


def _is_picture(path: str) -> bool:
    return named_as(os.path.splitext(path)[1][1:].lower()) is not None

"""Read what a YAML file says of a YOLO dataset: where its pictures are, its classes and keypoints. Nothing is run."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import Any

from toolkit.errors import NotFoundError, SourceError, UsageError
from toolkit.options.tree import Tree, read_tree
from toolkit.sources.classes import check_class_names
from toolkit.sources.contents import UnfitError, text_of
from toolkit.sources.names import printable
from toolkit.sources.tables.listing import read_small
from toolkit.sources.urls import origin_in

__all__ = ["SPLITS", "Config", "looks_like_config", "read_config"]

SPLITS = ("train", "val", "test")
_ENDINGS = (".yaml", ".yml")
_MOST_BYTES = 256 * 1024  # PyYAML takes seconds for that
_HEAD_BYTES = 64 * 1024
_MOST_KEYPOINTS = 1000
_TELLING = tuple(
    re.compile(rb"^(?:\xef\xbb\xbf)?" + key + rb"[ \t]*:", re.MULTILINE)
    for key in (rb"names", rb"(?:train|val|validation|test)")
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Config:
    """What is known of a dataset besides its files.

    Attributes:
        path: The YAML file, for messages; None without one.
        root: The folder that all is below.
        splits: Where the pictures of each split are: folders and lists below `root`, "/" between parts.
        classes: The names of the ids, or None when there are none.
        keypoints: How many keypoints an object has, and how many numbers each.
        absent: Splits that the file names and that aren't there.
    """

    path: str | None
    root: str
    splits: dict[str, list[str]]
    classes: tuple[str, ...] | None
    keypoints: tuple[int, int] | None = None
    absent: list[str] = field(default_factory=list)


def looks_like_config(path: str) -> bool:
    """Tell whether a file is called as YAML is, and its beginning names classes and splits."""
    if not path.lower().endswith(_ENDINGS) or not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        head = file.read(_HEAD_BYTES)
    return all(key.search(head) for key in _TELLING)


def read_config(path: str, root: str | None, split: str | None) -> Config:
    """Return what the YAML file at `path` says.

    Args:
        path: The file.
        root: The folder that its paths are below, in place of the one that it names.
        split: The only one to look for.

    Raises:
        NotFoundError: A folder or list isn't there, or the split isn't named.
        SourceError: It isn't such a file, or names something outside.
        StorageError: It can't be read.
    """
    path = os.path.abspath(path)
    tree = _tree(path)
    return _Reader(path, tree).config(root, split)


def _tree(path: str) -> Tree:
    shown = printable(path)
    try:
        text = text_of(read_small(path, _MOST_BYTES)).removeprefix("\ufeff")
        tree = read_tree(text, shown)
    except UnfitError as fault:
        raise SourceError(f"{shown!r}: {fault}") from fault
    except UsageError as error:  # for a config of the user's own; this one is an input
        raise SourceError(str(error)) from error
    if not isinstance(tree.value, dict):
        raise SourceError(f"{shown!r} has no names: and train: at its top, as YAML files of YOLO datasets have")
    return tree


class _Reader:
    def __init__(self, path: str, tree: Tree) -> None:
        self._path = path
        self._tree = tree
        self._said: dict[Any, Any] = tree.value
        if self._said.get("val") is None and "validation" in self._said:  # as Ultralytics does
            self._said["val"] = self._said["validation"]
            self._tree.lines["val",] = self._tree.lines["validation",]

    def config(self, root: str | None, split: str | None) -> Config:
        folder = self._root(root)
        named = [name for name in SPLITS if self._said.get(name) is not None]
        if not named:
            raise SourceError(f"{printable(self._path)!r} names no split: {', '.join(SPLITS)} are looked for")
        if split is not None and split not in named:
            raise NotFoundError(f"{printable(self._path)!r} names the splits {', '.join(named)}, not {split!r}")
        splits: dict[str, list[str]] = {}
        absent = []
        for name in named if split is None else [split]:
            places = [self._place(folder, name, text) for text in self._texts(name)]
            lost = [text for text, found in places if found is None]
            if lost and (name != "test" or split is not None):
                raise NotFoundError(
                    f"{self._where(name)}: there is no {lost[0]!r} in {printable(folder)!r}; "
                    "--root says which folder paths are below"
                )
            if lost:  # many a dataset comes without its test pictures
                absent.append(name)
            else:
                splits[name] = [found for _, found in places if found is not None]
        return Config(
            path=self._path,
            root=folder,
            splits=splits,
            classes=self._classes(),
            keypoints=self._keypoints(),
            absent=absent,
        )

    def _root(self, root: str | None) -> str:
        own = os.path.dirname(self._path)
        if root is not None:
            return os.path.abspath(root)
        text = self._said.get("path")
        if text is None or text == "":
            return own
        if not isinstance(text, str):
            raise self._fault("path", f"{text!r} is no path")
        self._check_local("path", text)
        folder = os.path.normpath(os.path.join(own, text))
        if text.startswith("~") or not _is_below(os.path.realpath(own), os.path.realpath(folder)):
            raise self._fault(
                "path", f"{text!r} leads out of the file's folder: say where the dataset lies with --root FOLDER"
            )
        if not os.path.isdir(folder):
            raise NotFoundError(
                f"{self._where('path')}: there is no folder {text!r} in {printable(own)!r}; say where the dataset "
                "lies with --root FOLDER"
            )
        return folder

    def _texts(self, name: str) -> list[str]:
        given = self._said[name]
        texts = given if isinstance(given, list) else [given]
        for text in texts:
            if not isinstance(text, str) or not text or "\0" in text:
                raise self._fault(name, f"{text!r} is neither a folder nor a list of pictures")
            self._check_local(name, text)
        if not texts:
            raise self._fault(name, "an empty list")
        return texts

    def _place(self, folder: str, name: str, text: str) -> tuple[str, str | None]:
        """Return what the file says, and its place below the dataset's folder, or None when nothing is there."""
        full = os.path.normpath(os.path.join(folder, text))
        if text.startswith("../") and not _is_below(folder, full) and not os.path.exists(full):
            # Roboflow writes ../train/images for what lies beside the file, and Ultralytics takes it for that.
            full = os.path.normpath(os.path.join(folder, text.removeprefix("../")))
        if text.startswith("~") or not _is_below(folder, full):
            raise self._fault(name, f"{text!r} leads out of {printable(folder)!r}; --root says which folder it is")
        there = os.path.relpath(full, folder).replace(os.sep, "/")
        return text, there if os.path.exists(full) else None

    def _classes(self) -> tuple[str, ...] | None:
        names = self._said.get("names")
        if names is None:
            return None
        if isinstance(names, dict):
            if sorted(names, key=repr) != sorted(range(len(names)), key=repr) or any(type(i) is not int for i in names):
                raise self._fault("names", "its keys must be the ids 0, 1, 2 and so on, each once")
            names = [names[i] for i in range(len(names))]
        if not isinstance(names, list):
            raise self._fault("names", "it must be a list of names, or a mapping of ids to names")
        for name in names:
            if not isinstance(name, str) and type(name) is not int:
                raise self._fault("names", f"{name!r} is no text to YAML: put the name in quotes")
        texts = tuple(map(str, names))
        number = self._said.get("nc")
        if number is not None and number != len(texts):
            raise self._fault("nc", f"{number!r}, and there are {len(texts)} names")
        try:
            check_class_names(texts, where="names", unit="id", first=0)
        except UsageError as error:
            raise self._fault("names", str(error)) from error
        return texts

    def _keypoints(self) -> tuple[int, int] | None:
        shape = self._said.get("kpt_shape")
        if shape is None:
            return None
        whole = isinstance(shape, list) and len(shape) == 2 and all(type(one) is int for one in shape)
        if not whole or not 0 < shape[0] <= _MOST_KEYPOINTS or shape[1] not in (2, 3):
            raise self._fault("kpt_shape", f"{shape!r} isn't [keypoints, 2] or [keypoints, 3]")
        return shape[0], shape[1]

    def _check_local(self, key: str, text: str) -> None:
        if origin_in(text) is not None:  # which isn't told: it may hold a password
            raise self._fault(key, "a URL; only files are read: download them, and give their folder")

    def _fault(self, key: str, what: str) -> SourceError:
        return SourceError(f"{self._where(key)}: {printable(what)}")

    def _where(self, key: str) -> str:
        return f"{printable(self._path)}:{self._tree.lines.get((key,), 1)}: {key}"


def _is_below(folder: str, path: str) -> bool:
    return os.path.commonpath([folder, path]) == folder

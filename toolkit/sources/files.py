"""Find the input files of a source: folders, files, glob patterns and brace lists; and the split each belongs to."""

from __future__ import annotations

import fnmatch
import glob
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from toolkit.errors import NotFoundError, SourceError, did_you_mean
from toolkit.sources.imagefolder import DEFAULT_SPLIT
from toolkit.sources.scan import printable
from toolkit.storage.local import storage_errors

__all__ = ["InputFile", "expand", "find_files", "group_by_split", "refuse", "walk"]

_BRACE = re.compile(r"\{([^{}]*)\}")
_RANGE = re.compile(r"(\d+)\.\.(\d+)")
# "train-00000-of-00004.parquet", "data/val_01.tar", "test.tfrecord", "validation/x.parquet"
_SPLIT = re.compile(r"(?:^|[/._-])(train|validation|valid|val|test)(?=$|[/._-])")


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file to read: `path` to open it with, `name` (below what was given, "/" between parts) for keys."""

    path: str
    name: str
    bytes: int


def find_files(
    paths: Sequence[str], suffixes: Sequence[str], *, include: Sequence[str] = (), exclude: Sequence[str] = ()
) -> list[InputFile]:
    """Return the files that `paths` name, sorted by name.

    Args:
        paths: Files, folders (searched below, hidden names left out), glob patterns, brace lists {000..099} {a,b}.
        suffixes: Which files of a folder are taken, by the end of the name.
        include: Glob patterns on names; a file must match one, if there are any.
        exclude: Glob patterns on names; a file must match none.

    Raises:
        NotFoundError: A path, or one of a brace list, isn't there.
        SourceError: Nothing is left.
    """
    found: dict[str, InputFile] = {}
    for given in paths:
        for path in expand(given):
            with storage_errors("read", path):
                for name, file in _below(path, suffixes):
                    found[file] = InputFile(file, name, os.path.getsize(file))
    kept = [
        file
        for file in found.values()
        if (not include or any(fnmatch.fnmatch(file.name, pattern) for pattern in include))
        and not any(fnmatch.fnmatch(file.name, pattern) for pattern in exclude)
    ]
    if not kept:
        named = f" with a name ending in {', '.join(suffixes)}" if any(suffixes) else ""
        what = " after --include and --exclude" if found else named
        raise SourceError(
            f"no input file{what} in {', '.join(map(repr, paths))}: give the folder that holds them, or the files"
        )
    return sorted(kept, key=lambda file: file.name.split("/"))


def group_by_split(files: Sequence[InputFile], split: str | None) -> dict[str, list[InputFile]]:
    """Return the files of each split: by the word train, val, valid, validation or test in every name, or one split.

    Raises:
        NotFoundError: The split asked for isn't among those that the names tell.
        SourceError: Only some of the names tell a split, and none is asked for: one would end in the other.
    """
    words = {file.name: _split_word(file.name) for file in files}
    if split is None and any(words.values()) and not all(words.values()):
        told, silent = (next(name for name in words if bool(words[name]) is has) for has in (True, False))
        raise SourceError(
            f"{printable(told)!r} tells its split ({words[told]}) by its name and {printable(silent)!r} tells none: "
            "rename one, leave files out with --exclude, or call everything one split with --split"
        )
    if not all(words.values()):
        return {split or DEFAULT_SPLIT: list(files)}
    order = [word for word in ("train", "val", "valid", "validation", "test") if word in words.values()]
    groups = {word: [file for file in files if words[file.name] == word] for word in order}
    if split is None:
        return groups
    if split not in groups:
        if len(groups) == 1:
            return {split: list(files)}
        raise NotFoundError(
            f"the files' names tell the splits {', '.join(groups)}, not {split!r}.{did_you_mean(split, groups)}"
        )
    return {split: groups[split]}


def _split_word(name: str) -> str | None:
    match = _SPLIT.search(name)
    return match[1] if match else None


def expand(given: str) -> list[str]:
    """Return the paths that a brace list or glob pattern stands for; a path that is there stands for itself.

    Raises:
        NotFoundError: One of them isn't there.
    """
    if os.path.exists(given):
        return [given]
    paths = []
    for text in _braces(given):
        matches = sorted(glob.glob(text)) if glob.has_magic(text) else [text] if os.path.exists(text) else []
        if not matches:
            folder, name = os.path.split(text)
            siblings = os.listdir(folder or ".") if os.path.isdir(folder or ".") else []
            raise NotFoundError(f"no input at {text!r}.{did_you_mean(name, siblings)}")
        paths += matches
    return paths


def _braces(text: str) -> list[str]:
    match = _BRACE.search(text)
    if match is None:
        return [text]
    span = _RANGE.fullmatch(match[1])
    if span:
        first, last = span[1], span[2]
        parts = [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]
    else:
        parts = match[1].split(",")
    return [path for part in parts for path in _braces(text[: match.start()] + part + text[match.end() :])]


def walk(path: str, onerror: Callable[[OSError], None] | None = None) -> Iterator[tuple[str, list[str]]]:
    """Yield each folder from `path` down, with its files, in the order of names; links followed, hidden folders not.

    A link back to a folder that it was reached through is passed over: its files would come again and again.
    """
    above: dict[str, tuple[str, ...]] = {path: (os.path.realpath(path),)}
    for folder, folders, files in os.walk(path, onerror=onerror, followlinks=True):
        through = above.pop(folder)
        real = {name: os.path.realpath(os.path.join(folder, name)) for name in folders if not name.startswith(".")}
        folders[:] = sorted(name for name in real if real[name] not in through)
        above |= {os.path.join(folder, name): (*through, real[name]) for name in folders}
        yield folder, sorted(files)


def refuse(error: OSError) -> None:
    """Raise StorageError for a folder that walk() can't read: what is in it would be left out unseen."""
    with storage_errors("read", error.filename or "a folder"):
        raise error


def _below(path: str, suffixes: Sequence[str]) -> list[tuple[str, str]]:
    """Return (name, path) of the file itself, or of the files below a folder."""
    if not os.path.isdir(path):
        return [(os.path.basename(path), path)]

    found = []
    for folder, files in walk(path, refuse):
        for file in files:
            if not file.startswith((".", "_")) and file.endswith(tuple(suffixes)):
                full = os.path.join(folder, file)
                found.append((os.path.relpath(full, path).replace(os.sep, "/"), full))
    return found

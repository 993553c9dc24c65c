"""Find the input files of a source: folders, files, glob patterns and brace lists; and the split each belongs to."""

from __future__ import annotations

import glob
import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from toolkit.errors import NotFoundError, SourceError, UsageError, did_you_mean
from toolkit.sources.names import printable
from toolkit.sources.options import SourceOptions
from toolkit.sources.patterns import Patterns
from toolkit.sources.regular import check_regular
from toolkit.sources.skips import Skips
from toolkit.sources.splits import DEFAULT_SPLIT
from toolkit.storage.files import storage_errors

__all__ = ["InputFile", "ends_with", "expand", "find_files", "group_by_split", "refuse", "stays_within", "walk"]

_BRACE = re.compile(r"\{([^{}]*)\}")
_RANGE = re.compile(r"(\d+)\.\.(\d+)")
_MOST_PATHS = 1_000_000  # that a brace list may stand for
_MOST_DIGITS = 18
# "train-00000-of-00004.parquet", "data/val_01.tar", "test.tfrecord", "validation/x.parquet"
_SPLIT = re.compile(r"(?:^|[/._-])(train|validation|valid|val|test)(?=$|[/._-])")


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file to read: `path` to open it with, `name` (below what was given, "/" between parts) for keys."""

    path: str
    name: str
    bytes: int


def find_files(
    options: SourceOptions,
    named: Callable[[str], bool],
    looks: Callable[[str], bool] | None,
    skips: Skips,
    shown: str = "",
) -> list[InputFile]:
    """Return the files that the paths of `options` name, sorted by name.

    A path may be a file, a folder (searched below), a glob pattern, a brace list {000..099} {a,b}. A file that is
    given is taken as it is; one of a folder if its name or its content says that it is of the kind. What is passed
    over is noted.

    Args:
        options: The paths; which of the files count (include, exclude); whether links may lead out of a folder.
        named: Tells by a file's name whether it is of the kind.
        looks: Tells by the content of the file at a path; None where content tells nothing.
        skips: Where to note what is passed over.
        shown: A file's name that counts although it begins as hidden ones do.

    Raises:
        NotFoundError: A path, or one of a brace list, isn't there.
        SourceError: Nothing is left; a given file is no regular file; a link leads out of the folders given.
        StorageError: Something can't be read.
    """
    given = [path for one in options.paths for path in expand(one)]
    roots = [os.path.realpath(path) for path in given if os.path.isdir(path)]
    stays = (lambda _: True) if options.follow_links else stays_within(roots)
    search = _Search(options, named, looks, stays, skips, shown)
    found: dict[str, InputFile] = {}
    for path in given:
        with storage_errors("read", path):
            if os.path.isdir(path):
                found |= {file.path: file for file in search.below(path)}
            elif search.is_asked_for(os.path.basename(path)):
                found[path] = InputFile(path, os.path.basename(path), check_regular(path).st_size)
    search.refuse_outside()
    if not found:
        over = ", ".join(f"{number} {reason.replace('_', ' ')}" for reason, number in skips.counts.items() if number)
        raise SourceError(
            f"no input file in {', '.join(map(repr, options.paths))}; passed over: {over or 'nothing'}. "
            "Give the folder that holds them, or the files"
        )
    return sorted(found.values(), key=lambda file: file.name.split("/"))


class _Search:
    """Decides about each file below folders. `stays` tells whether a link may be followed."""

    def __init__(
        self,
        options: SourceOptions,
        named: Callable[[str], bool],
        looks: Callable[[str], bool] | None,
        stays: Callable[[str], bool],
        skips: Skips,
        shown: str,
    ) -> None:
        self._shown = shown
        self._patterns = Patterns(options.include, options.exclude)
        self._named = named
        self._looks = looks
        self._may_follow = stays
        self._skips = skips
        self._outside: list[tuple[str, str]] = []

    def below(self, top: str) -> Iterator[InputFile]:
        """Yield the files below a folder that are to be read."""

        def name_of(path: str) -> str:
            return os.path.relpath(path, top).replace(os.sep, "/")

        def enter(path: str) -> bool:
            if not self._patterns.may_take_below(name_of(path)):
                self._skips.add("excluded", name_of(path))
                return False
            return not os.path.islink(path) or self._stays(path, name_of(path))

        def passed_over(reason: str, path: str) -> None:
            self._skips.add(reason, name_of(path))

        for folder, files in walk(top, refuse, enter, passed_over):
            for file in files:
                path = os.path.join(folder, file)
                name = name_of(path)
                if file.startswith((".", "_")) and file != self._shown:
                    self._skips.add("hidden", name)
                elif self.is_asked_for(name) and (size := self._size(path, name)) is not None:
                    yield InputFile(path, name, size)

    def is_asked_for(self, name: str) -> bool:
        """Tell whether --include and --exclude leave a file in."""
        if self._patterns.takes(name):
            return True
        self._skips.add("excluded", name)
        return False

    def refuse_outside(self) -> None:
        """Raise SourceError when links led out of the folders."""
        if self._outside:
            name, target = self._outside[0]
            more = f", and so do {len(self._outside) - 1} more links" if len(self._outside) > 1 else ""
            raise SourceError(
                f"{printable(name)!r} is a link that leads out of the source, to {printable(target)!r}{more}: give "
                "--follow-links if that is meant, or leave it out with --exclude"
            )

    def _size(self, path: str, name: str) -> int | None:
        """Return the size of a file to read, or None for one that is passed over."""
        status = os.lstat(path)
        if stat.S_ISLNK(status.st_mode):
            try:
                status = os.stat(path)
            except OSError:
                if self._named(name):  # a file of this kind that can't be had
                    with storage_errors("read", path):
                        raise
                self._skips.add("broken_links", name)
                return None
            if not self._stays(path, name):
                return None
        if not stat.S_ISREG(status.st_mode):
            self._skips.add("not_regular", name)
        elif self._named(name) or (self._looks is not None and self._looks(path)):
            return status.st_size
        else:
            self._skips.add("other_kinds", name)
        return None

    def _stays(self, link: str, name: str) -> bool:
        """Tell whether a link may be followed; take note if not."""
        if self._may_follow(link):
            return True
        self._outside.append((name, os.path.realpath(link)))
        return False


def ends_with(suffixes: tuple[str, ...]) -> Callable[[str], bool]:
    """Return what tells whether a name ends with one of `suffixes`, in capitals or not."""
    return lambda name: name.lower().endswith(suffixes)


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

    In a pattern, ** is any number of folders, and the files below all of them are found.

    Raises:
        NotFoundError: One of them isn't there.
        UsageError: A brace list counts down, or stands for very many paths.
    """
    if os.path.exists(given):
        return [given]
    paths = []
    for text in _braces(given):
        matches = _matches(text) if glob.has_magic(text) else [text] if os.path.exists(text) else []
        if not matches:
            folder, name = os.path.split(text)
            siblings = os.listdir(folder or ".") if os.path.isdir(folder or ".") else []
            raise NotFoundError(f"no input at {text!r}.{did_you_mean(name, siblings)}")
        paths += matches
    return paths


def _matches(pattern: str) -> list[str]:
    """Return the paths that a pattern fits, sorted; where ** may be any folders, files alone."""
    found = sorted(glob.glob(pattern, recursive=True))
    return [path for path in found if not os.path.isdir(path)] if "**" in pattern else found


def _braces(text: str) -> list[str]:
    match = _BRACE.search(text)
    if match is None:
        return [text]
    span = _RANGE.fullmatch(match[1])
    found: list[str] = []
    for part in _counted(text, span[1], span[2]) if span else match[1].split(","):
        found += _braces(text[: match.start()] + part + text[match.end() :])
        if len(found) > _MOST_PATHS:
            raise UsageError(f"{text!r} stands for more than {_MOST_PATHS:,} paths: give a folder or a pattern")
    return found


def _counted(text: str, first: str, last: str) -> Iterator[str]:
    """Yield the numbers from `first` to `last`, as wide as `first` is written."""
    if max(len(first), len(last)) > _MOST_DIGITS or int(last) - int(first) >= _MOST_PATHS:
        raise UsageError(f"{{{first}..{last}}} in {text!r} stands for more than {_MOST_PATHS:,} paths")
    if int(last) < int(first):
        raise UsageError(f"{{{first}..{last}}} in {text!r} counts down, and stands for nothing: {{{last}..{first}}}?")
    yield from (str(number).zfill(len(first)) for number in range(int(first), int(last) + 1))


def walk(
    path: str,
    onerror: Callable[[OSError], None] | None = None,
    enter: Callable[[str], bool] = lambda _: True,
    passed_over: Callable[[str, str], None] = lambda *_: None,
) -> Iterator[tuple[str, list[str]]]:
    """Yield each folder from `path` down, with its files, in the order of names; links followed, hidden folders not.

    A link back to a folder that it was reached through is passed over: its files would come again and again. So is a
    folder that `enter` says no to. `passed_over` gets hidden folders and loops: the reason, and the path.
    """
    above: dict[str, tuple[str, ...]] = {path: (os.path.realpath(path),)}
    for folder, folders, files in os.walk(path, onerror=onerror, followlinks=True):
        through = above.pop(folder)
        kept = {}
        for name in sorted(folders):
            full = os.path.join(folder, name)
            if name.startswith("."):
                passed_over("hidden", full)
            elif (real := os.path.realpath(full)) in through:
                passed_over("loops", full)
            elif enter(full):
                kept[name] = real
        folders[:] = kept
        above |= {os.path.join(folder, name): (*through, real) for name, real in kept.items()}
        yield folder, sorted(files)


def stays_within(roots: Sequence[str]) -> Callable[[str], bool]:
    """Return what tells whether a link leads to one of the folders `roots`, which are real paths, or below."""
    return lambda link: any(os.path.commonpath([root, os.path.realpath(link)]) == root for root in roots)


def refuse(error: OSError) -> None:
    """Raise StorageError for a folder that walk() can't read: what is in it would be left out unseen."""
    with storage_errors("read", error.filename or "a folder"):
        raise error

"""Tell what kind of source an input is: a file by its first bytes, a folder by the files in it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence

from toolkit.errors import PluginError, SourceError, ToolkitError
from toolkit.sources.files import expand, refuse, walk
from toolkit.sources.registry import every, of_plugins
from toolkit.sources.regular import check_regular
from toolkit.sources.spec import SourceSpec
from toolkit.storage.files import storage_errors

__all__ = ["find_kind"]

_MOST_FILES_LOOKED_AT = 200


def find_kind(paths: Sequence[str]) -> str:
    """Return the name of the kind that the input is of.

    A folder is of the kind that takes it as a whole, if there is one; else it is what the first files in it are.
    Files of no known kind don't count, and files of several kinds are not guessed at; a kind that lies beside any
    other counts last. Where no content tells, names do: the source then says what is wrong with its files. What
    plugins know is asked last, and only about files that nothing else is known of.

    Raises:
        NotFoundError: A path isn't there.
        SourceError: It is of no kind that is known, or of several.
    """
    path = expand(paths[0])[0]
    specs = sorted(every(), key=lambda spec: spec.is_faint)
    search = _of_folder if os.path.isdir(path) else _of_file
    kind = search(path, specs)
    if kind is not None and not (kind.is_faint and search is _of_folder and _has_strangers(path, specs)):
        return kind.name
    others, faults = of_plugins()
    told = set()
    for spec in others:
        try:
            if search(path, [spec]) is not None:
                told.add(spec)
        except ToolkitError:
            raise
        except Exception as error:  # a stranger's code; others may know the input
            faults.append(PluginError(f"the source {spec.name!r} failed: {type(error).__name__}: {error}"))
    if told:
        return _only(path, told).name
    if kind is not None:
        return kind.name
    raise _unknown(path, [*specs, *others], faults)


def _of_file(path: str, specs: Sequence[SourceSpec]) -> SourceSpec | None:
    specs = [spec for spec in specs if not spec.is_folder]
    with storage_errors("read", path):
        check_regular(path)
    return _by_content(path, specs) or next((spec for spec in specs if spec.is_named(path)), None)


def _of_folder(path: str, specs: Sequence[SourceSpec]) -> SourceSpec | None:
    with storage_errors("read", path):
        takers = [spec for spec in specs if spec.takes_folder(path)]
        if takers:
            return _only(path, takers)
        found = {kind for kind in (_by_content(file, specs) for file in _some_files(path)) if kind is not None}
    told = {kind for kind in found if not kind.is_faint}
    if told:
        return _only(path, told)
    called = {spec for file in _some_files(path) for spec in specs if spec.is_named(file)}
    if len(called) == 1:
        return called.pop()
    # What tells the kind of a folder may lie further down than was looked.
    everything = _everything(path)
    for spec in specs:
        if spec.is_folder and any(map(spec.looks_like, everything)):
            return spec
    least = min((kind.is_faint for kind in found), default=0)
    return _only(path, {kind for kind in found if kind.is_faint == least}) if found else None


def _has_strangers(path: str, specs: Sequence[SourceSpec]) -> bool:
    """Tell whether there is a file among the first that no kind takes."""
    return any(_by_content(file, specs) is None for file in _some_files(path))


def _everything(path: str) -> list[str]:
    return [os.path.join(base, name) for base, files in walk(path, refuse) for name in files]


def _unknown(path: str, specs: Sequence[SourceSpec], faults: Sequence[PluginError]) -> SourceError:
    """Return the error of an input that is of no kind."""
    told = "".join(f". {fault}" for fault in faults)
    if os.path.isdir(path):
        return SourceError(
            f"nothing to pack in {path!r}: {_files_text(len(_everything(path)))}. Looked for "
            f"{', '.join(spec.sign for spec in specs if spec.told_by is None)}. "
            f"Give the folder that holds them, or say what the files are with --source-kind{told}"
        )
    titles = ", ".join(spec.title for spec in specs if not spec.is_folder)
    return SourceError(
        f"{path!r} is of no kind that is known ({titles}): give --source-kind if it is one all the same{told}"
    )


def _only(path: str, kinds: Iterable[SourceSpec]) -> SourceSpec:
    """Return the one kind there is. Raises SourceError: there are several."""
    one, *others = sorted(kinds, key=lambda kind: kind.name)
    if others:
        names = " and ".join(kind.name for kind in (one, *others))
        raise SourceError(f"{path!r} holds files of several kinds ({names}): say which with --source-kind")
    return one


def _by_content(path: str, specs: Iterable[SourceSpec]) -> SourceSpec | None:
    return next((spec for spec in specs if spec.looks_like(path)), None)


def _files_text(number: int) -> str:
    return "no files" if number == 0 else "1 file" if number == 1 else f"{number} files"


def _some_files(folder: str) -> Iterator[str]:
    """Yield the first files below a folder, in the order of their names, hidden ones left out."""
    left = _MOST_FILES_LOOKED_AT
    for base, files in walk(folder):
        for name in files:
            if left == 0:
                return
            if not name.startswith((".", "_")) and os.path.isfile(os.path.join(base, name)):
                left -= 1
                yield os.path.join(base, name)

"""The tables that NumPy files are: an .npz archive is one for each split, and so are the .npy files of a folder."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from toolkit.errors import SourceError
from toolkit.sources.arrays.columns import TypeWords
from toolkit.sources.arrays.groups import ArrayGroup, tables_of
from toolkit.sources.arrays.naming import Names, by_split
from toolkit.sources.arrays.table import ArrayTable
from toolkit.sources.files import InputFile, ends_with, find_files
from toolkit.sources.kinds.numpy.archive import Region, read_members
from toolkit.sources.kinds.numpy.array import read_array
from toolkit.sources.kinds.numpy.looks import SUFFIXES, is_npz, is_pickle, looks_like_arrays
from toolkit.sources.names import is_utf8, printable
from toolkit.sources.options import SourceOptions
from toolkit.sources.regular import check_regular
from toolkit.sources.skips import Skips
from toolkit.sources.state import FileState
from toolkit.storage.files import storage_errors

__all__ = ["find_tables"]

_MOST_MEMBERS = 1000
_MOST_FILES = 256
_SPARSE = {"data", "format", "shape"}


def find_tables(options: SourceOptions, skips: Skips) -> dict[str, list[ArrayTable]]:
    """Return the tables of each split. Headers are read, and no values.

    Raises:
        NotFoundError, StorageError: As find_files().
        SourceError: A file can't be understood, or isn't safe to read; arrays don't fit together.
    """
    files = find_files(options, ends_with(SUFFIXES), looks_like_arrays, skips)
    for file in files:
        if is_pickle(file.path):
            raise _pickled(file.path)
        if not is_utf8(file.name):
            raise SourceError(
                f"the file name {printable(file.path)!r} is not valid UTF-8, which keys are made of: rename it"
            )
    groups = [*_archives(files, options, skips), *_folders(files, options, skips)]
    return tables_of(groups, options, TypeWords())


def _archives(files: Sequence[InputFile], options: SourceOptions, skips: Skips) -> Iterator[ArrayGroup]:
    for file in files:
        if not is_npz(file.path):
            continue
        where = repr(printable(file.path))
        members = read_members(file.path)
        if len(members) > _MOST_MEMBERS:
            raise SourceError(f"{where} has {len(members)} arrays, and {_MOST_MEMBERS} at the most become columns")
        for name in members:
            if not name.endswith(".npy"):
                skips.add("other_members", f"{file.name}/{name}")
        regions = {name.removesuffix(".npy"): region for name, region in members.items() if name.endswith(".npy")}
        names = Names(regions, options)
        if members.keys() >= {f"{name}.npy" for name in _SPARSE} and {"indices.npy", "row.npy"} & members.keys():
            raise SourceError(
                f"{where} is a sparse matrix of SciPy: save its rows with np.save(file, matrix.toarray())"
            )
        found = [read_array(name, region) for name, region in regions.items() if names.is_wanted(name)]
        if not found:
            raise SourceError(f"{where} holds none of the arrays to pack; it has {', '.join(members) or 'no member'}")
        yield ArrayGroup(where, {file.path: file}, by_split(found, names, options, where, skips))


def _folders(files: Sequence[InputFile], options: SourceOptions, skips: Skips) -> Iterator[ArrayGroup]:
    folders: dict[str, list[InputFile]] = {}
    for file in files:
        if not is_npz(file.path):
            folders.setdefault(os.path.dirname(file.path), []).append(file)
    for folder, members in folders.items():
        where = repr(printable(folder or "."))
        if len(members) > _MOST_FILES:
            raise SourceError(
                f"{where} has {len(members)} .npy files: the files of a folder are columns, {_MOST_FILES} at the most. "
                "Samples that are a file each need a table that names them"
            )
        stems = {file.path: os.path.splitext(os.path.basename(file.path))[0] for file in members}
        names = Names(stems.values(), options)
        found = []
        for path, name in stems.items():
            if len(members) == 1 or names.is_wanted(name):
                with storage_errors("read", path):
                    state = FileState.of(check_regular(path))
                found.append(read_array(name, Region(path, state, 0, state.size, state.size)))
        if not found:
            known = printable(", ".join(stems.values()))
            raise SourceError(f"{where} holds none of the arrays to pack; it has {known}")
        yield ArrayGroup(where, {file.path: file for file in members}, by_split(found, names, options, where, skips))


def _pickled(path: str) -> SourceError:
    return SourceError(
        f"{printable(path)!r} is a Python pickle, as the python version of CIFAR is: to read one is to run code that "
        "it chooses, so none is read. If you know where it comes from, load it yourself and save its arrays: "
        "np.savez('train.npz', x=batch[b'data'].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), y=batch[b'labels'])"
    )

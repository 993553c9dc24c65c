"""The version of a dataset that toolkit.open makes of what is none yet."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from toolkit.errors import NotFoundError, SourceError, UsageError, did_you_mean
from toolkit.escapes import short
from toolkit.format.pin import Version, resolve
from toolkit.loader.dataset.dataset import Dataset
from toolkit.once.kept import kept
from toolkit.once.keywords import SourceKeywords
from toolkit.once.looks import is_folder, names_dataset
from toolkit.once.make import listing_of, memory_limit, of_files, of_objects
from toolkit.once.origin import Files
from toolkit.pack.make import paths_of
from toolkit.pack.writer.objects import is_path
from toolkit.storage.memory import MemoryStore
from toolkit.storage.places import is_there, local_path

__all__ = ["made_version"]


def made_version(
    given: Any,
    columns: Sequence[str] | None,
    pack: str | os.PathLike[str] | None,
    memory: int | str | None,
    options: Mapping[str, Any],
) -> Version:
    """Return the version that paths or samples make, in memory, or packed to the folder `pack`.

    Raises:
        ToolkitError: As toolkit.open().
    """
    for name in options:
        if name not in SourceKeywords.__annotations__:
            near = did_you_mean(name, SourceKeywords.__annotations__)
            raise UsageError(f"toolkit.open() takes no {name!r} for what isn't packed yet.{near}")
    if isinstance(given, bytes | Dataset) or not (
        isinstance(given, os.PathLike) or hasattr(given, "__iter__") or hasattr(given, "__getitem__")
    ):
        raise UsageError(f"a dataset is a path, or PATH@sha256:PIN; got {short(given, 80, quoted=True)}")
    if not is_path(given):
        if pack is not None:
            raise UsageError("pack= is for files: make samples last by toolkit.open(...).pack(DATASET)")
        return _only_version(of_objects(given, _with_columns(options, columns), memory_limit(memory)))
    read = options if pack is not None else _with_columns(options, columns)  # what is packed is for others too
    files = Files(_absolute(given), read, memory_limit(memory), of_files, listing_of)
    try:
        return _only_version(of_files(files)) if pack is None else kept(files, pack)
    except SourceError as error:
        if len(files.paths) > 1 or not is_folder(files.paths[0]):
            raise
        raise NotFoundError(f"{files} is no dataset, having no manifest.json; and {error}") from error


def _only_version(store: MemoryStore) -> Version:
    # Whoever asks must hold the store meanwhile: nobody else does.
    return resolve(store.location)


def _absolute(given: Any) -> tuple[str, ...]:
    paths = paths_of(given, "")[:-1]
    for path in paths:
        if is_there(path) and names_dataset(path):
            raise UsageError(f"{path!r} is a dataset: open each by itself, and toolkit.concat() joins them")
    instead = "download what it names, and give that folder or file"
    return tuple(os.path.abspath(local_path(path, instead)) for path in paths)


def _with_columns(options: Mapping[str, Any], columns: Sequence[str] | None) -> Mapping[str, Any]:
    """Return the options of a pack that reads these columns alone, as far as their names are those of fields."""
    if columns is None or "map" in options or "rename" in options or any(name.startswith("__") for name in columns):
        return options
    return {**options, "columns": list(columns)}

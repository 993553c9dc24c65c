"""Find which column of a CSV file names the pictures of a folder, and where they lie: by trying its first rows.

Kaggle's folders are such: `train.csv` beside `train/`, with names of files, or ids that are names but for ".jpg".
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from toolkit.errors import SourceError, UsageError
from toolkit.sources.file_names import METADATA_CSV, is_delimited, names_file
from toolkit.sources.files import InputFile
from toolkit.sources.images import IMAGE_EXTENSIONS
from toolkit.sources.names import printable
from toolkit.sources.options import SourceOptions
from toolkit.sources.tables.delimited.head import read_head
from toolkit.sources.tables.path_rule import PathRule
from toolkit.sources.tables.paths import UnsafePathError, relative
from toolkit.storage.files import storage_errors

__all__ = ["Way", "find_extension", "find_rule", "find_ways", "names_pictures", "top_tables"]

_MOST_FOLDERS = 100
_MOST_COLUMNS = 30
_MOST_TABLES = 20
_EXTENSIONS = ("", *IMAGE_EXTENSIONS, *(extension.upper() for extension in IMAGE_EXTENSIONS))
_IMAGE = "image"


@dataclass(frozen=True, slots=True, order=True)
class Way:
    """A way from a column to pictures: the folder below the top that they lie in, and what is added to the names."""

    column: str
    folder: str
    extension: str

    def __str__(self) -> str:
        where = f"in {printable(self.folder)!r}" if self.folder else "in the folder itself"
        return f"{printable(self.column)!r} {where}" + (f" with {self.extension!r}" if self.extension else "")


def top_tables(folder: str) -> list[InputFile]:
    """Return the CSV and TSV files directly in a folder, by name. Raises StorageError."""
    with storage_errors("read", folder), os.scandir(folder) as entries:
        found = [
            InputFile(entry.path, entry.name, entry.stat().st_size)
            for entry in entries
            if is_delimited(entry.name) and not entry.name.startswith((".", "_")) and entry.is_file()
        ]
    return sorted(found, key=lambda file: file.name)


def names_pictures(folder: str) -> bool:
    """Tell whether a CSV file directly in the folder names pictures in it. Raises StorageError."""
    options = SourceOptions(paths=(folder,), slice_bytes=0)
    return any(find_ways(table, folder, options) for table in top_tables(folder)[:_MOST_TABLES])


def find_ways(table: InputFile, folder: str, options: SourceOptions, columns: Sequence[str] | None = None) -> list[Way]:
    """Return the ways from a table's columns, or from some, to pictures below a folder; none where it can't be read.

    Raises:
        StorageError: Something can't be read.
    """
    try:
        names, rows = read_head(table, options)
    except (SourceError, UsageError):  # whoever reads the table says so
        return []
    if table.name == METADATA_CSV and any(map(names_file, names)):
        return []  # of Hugging Face, which has a kind of its own
    ways: dict[Way, int] = {}
    folders = list(_folders(folder))
    for number, name in enumerate(names[: None if columns else _MOST_COLUMNS]):
        if columns is not None and name not in columns:
            continue
        values = [row[number] for row in rows if len(row) == len(names) and row[number]]
        safe = [path for path in map(_path, values) if path is not None]
        if not safe or len(safe) < len(values):
            continue
        for way in _tried(name, safe, folder, folders):
            hits = sum(os.path.isfile(_at(folder, way, path)) for path in safe)
            if 2 * hits >= len(safe):
                ways[way] = len(set(safe))
    # Small numbers name pictures by chance, and the same ones again and again.
    most = max(ways.values(), default=0)
    return sorted(way for way, different in ways.items() if different == most)


def find_rule(table: InputFile, folder: str, options: SourceOptions) -> PathRule | None:
    """Return how the paths of pictures below a folder are made of a table's column; None where no column names any.

    Raises:
        SourceError: There are several ways.
        StorageError: Something can't be read.
    """
    ways = find_ways(table, folder, options)
    if not ways:
        return None
    if len(ways) > 1:
        raise SourceError(
            f"{printable(table.path)!r} names pictures in several ways: {'; '.join(map(str, ways))}. Say which column "
            "with --image-column, and the folder that its paths are below with --root"
        )
    way = ways[0]
    names = read_head(table, options)[0]
    name = _IMAGE if _IMAGE not in names or way.column == _IMAGE else way.column
    prefix = f"{way.folder}/" if way.folder else ""
    return PathRule(name, way.column, prefix, way.extension, replaces=not way.extension)


def find_extension(table: InputFile, column: str, root: str, options: SourceOptions) -> PathRule | None:
    """Return how paths in a column are completed that are names of pictures below `root` but for the extension.

    Raises:
        SourceError: There are pictures of one name with several extensions.
        StorageError: Something can't be read.
    """
    ways = [way for way in find_ways(table, root, options, (column,)) if not way.folder]
    if not ways or not all(way.extension for way in ways):
        return None
    if len(ways) > 1:
        found = ", ".join(way.extension for way in ways)
        raise SourceError(
            f"{printable(table.path)!r}: the names in {column!r} have no extension, and {printable(root)!r} has files "
            f"of these names with {found}: move the others out"
        )
    return PathRule(column, column, "", ways[0].extension, replaces=True)


def _tried(name: str, paths: Sequence[str], folder: str, folders: Sequence[str]) -> Iterator[Way]:
    """Yield the ways by which one of the first paths leads to a picture."""
    for below in folders:
        for extension in _EXTENSIONS:
            way = Way(name, below, extension)
            if not extension and not all(path.lower().endswith(IMAGE_EXTENSIONS) for path in paths):
                continue
            if any(os.path.isfile(_at(folder, way, path)) for path in paths[:2]):
                yield way


def _at(folder: str, way: Way, path: str) -> str:
    return os.path.join(folder, way.folder, path + way.extension)


def _path(value: str) -> str | None:
    try:
        return relative(value.encode())
    except (UnsafePathError, UnicodeEncodeError):
        return None


def _folders(top: str) -> Iterator[str]:
    """Yield the folders that pictures may lie in: the top, those in it, and those in these, so many at the most."""
    yield ""
    level, left = [""], _MOST_FOLDERS
    for _ in range(2):
        below = []
        for parent in level:
            with os.scandir(os.path.join(top, parent)) as entries:
                names = sorted(one.name for one in entries if not one.name.startswith((".", "_")) and one.is_dir())
            below += [f"{parent}/{name}" if parent else name for name in names]
        yield from below[:left]
        left -= len(below)
        if left <= 0:
            return
        level = below

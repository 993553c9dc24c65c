"""Image folders with metadata files as a source: what `datasets` makes of them, with keys as image folders have them.

A metadata file tells of the files below its own folder: a row each, `file_name` is the path. Columns that end in
`_file_name` are paths too. Class folders mean nothing where there is a metadata file, as in `datasets`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq

from toolkit.errors import SourceError, ToolkitError, UsageError
from toolkit.format.schema import Kind
from toolkit.sources.file_names import METADATA, METADATA_CSV, names_file
from toolkit.sources.files import InputFile, expand, find_files, group_by_split
from toolkit.sources.first_line import first_fields
from toolkit.sources.names import printable
from toolkit.sources.options import SourceOptions
from toolkit.sources.regular import check_regular, open_file
from toolkit.sources.skips import FILE_REASONS, Skips
from toolkit.sources.splits import SPLIT_NAMES
from toolkit.sources.tables.delimited.dialect import make_dialect
from toolkit.sources.tables.delimited.head import read_head
from toolkit.sources.tables.delimited.read import read_delimited
from toolkit.sources.tables.json_lines.read import read_json_lines
from toolkit.sources.tables.memory import MemoryTable
from toolkit.sources.tables.passed import BesidePictures
from toolkit.sources.tables.path_rule import PathRule, RuledTable
from toolkit.sources.tables.source import TableSource
from toolkit.sources.tables.table import Table, TableFacts
from toolkit.storage.files import storage_errors

__all__ = ["MetadataSource", "has_paths"]

_ONE, _MANY = "file_name", "file_names"
_IMAGE = "image"
_MOST_BYTES = 1 << 30  # of a metadata.parquet, which is read whole


def has_paths(path: str) -> bool:
    """Tell whether a metadata file has a field of paths. Raises StorageError."""
    try:
        return any(map(names_file, _names(path)))
    except ToolkitError:
        return os.path.basename(path) == METADATA_CSV  # damaged; whoever reads it says so


class MetadataSource(TableSource):
    """A folder of pictures with metadata files."""

    kind = "metadata"
    reasons = ("blank_lines", *FILE_REASONS)

    def __init__(self, options: SourceOptions) -> None:
        super().__init__(options)
        make_dialect(options, ",")
        paths = options.paths
        if len(paths) > 1:
            raise UsageError(
                f"an image folder is one SOURCE, and there are {len(paths)}: pack the first, then the others with "
                "--on-existing append"
            )
        self._all: Sequence[Table] = ()

    def tables(self, skips: Skips) -> Mapping[str, Sequence[Table]]:
        """Return a table for each metadata file."""
        top = expand(self.options.paths[0])[0]
        if not os.path.isdir(top):
            raise UsageError(f"{top!r} is a file: give the folder that it lies in, with the pictures")
        files = find_files(self.options, _is_metadata, None, BesidePictures(skips))
        for folder in dict.fromkeys(os.path.dirname(file.path) for file in files):
            beside = [os.path.basename(file.path) for file in files if os.path.dirname(file.path) == folder]
            if len(beside) > 1:
                raise SourceError(f"{printable(folder)!r} has {' and '.join(beside)}: leave one out with --exclude")
        self._check_places(top, files)
        groups = group_by_split(files, self.options.split)
        found = {path: _ruled(table, top) for path, table in self._read(files, skips).items()}
        self._all = list(found.values())
        return {split: [found[file.path] for file in members] for split, members in groups.items()}

    def all_tables(self, splits: Mapping[str, Sequence[Table]]) -> Sequence[Table]:
        """Return the tables of all files."""
        return self._all

    def _check_places(self, top: str, files: Sequence[InputFile]) -> None:
        """Refuse a metadata file beside split folders: which split a row is of would be guessed."""
        beside = [name for name in SPLIT_NAMES if os.path.isdir(os.path.join(top, name))]
        for file in files:
            if "/" not in file.name and beside and self.options.split is None:
                raise SourceError(
                    f"{printable(file.path)!r} lies beside split folders ({', '.join(beside)}): put a metadata file "
                    "in each of them, with paths below it, or make everything one split with --split"
                )

    def _read(self, files: Sequence[InputFile], skips: Skips) -> dict[str, Table]:
        """Return the tables of files of whatever form, by path."""
        found: dict[str, Table] = {}
        by_form = {
            form: [file for file in files if file.name.endswith(form)] for form in (".csv", ".jsonl", ".parquet")
        }
        fields = {name for file in by_form[".csv"] for name in _names_or_none(file.path) if names_file(name)}
        paths = {name for name in fields if not name.endswith(_MANY)}
        found |= read_delimited(by_form[".csv"], self.options, skips, as_text=paths)
        found |= read_json_lines(by_form[".jsonl"], self.options, skips)
        found |= {file.path: _read_parquet(file) for file in by_form[".parquet"]}
        return {file.path: found[file.path] for file in files}


def _is_metadata(name: str) -> bool:
    return os.path.basename(name) in METADATA


def _names_or_none(path: str) -> Sequence[str]:
    try:
        return _names(path)
    except SourceError:  # whoever reads the file tells where it is wrong
        return ()


def _names(path: str) -> Sequence[str]:
    """Return the fields of a metadata file; of JSON lines those of the first."""
    if path.endswith(".csv"):
        size = check_regular(path).st_size
        return read_head(InputFile(path, METADATA_CSV, size), SourceOptions(paths=(), slice_bytes=0))[0]
    if path.endswith(".jsonl"):
        return first_fields(path)
    with _parquet_errors(path), open_file(path) as file:
        names: list[str] = pq.read_schema(file).names
        return names


def _read_parquet(file: InputFile) -> Table:
    shown = repr(printable(file.path))
    if file.bytes > _MOST_BYTES:
        raise SourceError(f"{shown} has more than {_MOST_BYTES} bytes: pack it with --source-kind parquet")
    with _parquet_errors(file.path), open_file(file.path) as opened:
        table = pq.ParquetFile(opened, page_checksum_verification=True).read(use_threads=False)
    return MemoryTable(file, table.replace_schema_metadata(None), TableFacts())


@contextlib.contextmanager
def _parquet_errors(path: str) -> Iterator[None]:
    """Turn Arrow's complaints about content into SourceError, the system's (they have an errno) into StorageError."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            with storage_errors("read", path):
                raise
        reason = " ".join(str(error).split())
        raise SourceError(
            f"{printable(path)!r} is no Parquet file that can be read ({reason}): write it anew"
        ) from error


def _ruled(table: Table, top: str) -> Table:
    """Return a table whose paths are below the top, under the names that `datasets` gives their columns."""
    names = [name for name in table.schema.names if names_file(name)]
    many = [name for name in names if name.endswith(_MANY)]
    if many:
        raise SourceError(f"{table.shown}: {many[0]!r} names several files a row, and a row has one: {_ONE!r}")
    if not names:
        raise SourceError(f"{table.shown} has no field {_ONE!r} or *_{_ONE}, which say which files it tells of")
    folder = os.path.dirname(table.file.name)
    rules = []
    for name in names:
        made = name.removesuffix(_ONE).removesuffix("_") or _IMAGE
        if made in table.schema.names:
            raise SourceError(f"{table.shown}: the files of {name!r} and the field {made!r} would have one name")
        if table.schema.field(name).type not in (pa.string(), pa.large_string()):
            raise SourceError(f"{table.shown}: {name!r} is {table.schema.field(name).type}, and paths are text")
        rules.append(PathRule(made, name, f"{folder}/" if folder else ""))
    files = {rule.name: top for rule in rules}
    kinds = {**table.facts.kinds, **dict.fromkeys(files, Kind.IMAGE)}
    facts = replace(table.facts, kinds=kinds, files=files, key=rules[0].name, counts_unlisted=True)
    return RuledTable(table, rules, facts)

"""The manifest: what a version of a dataset consists of. Its bytes' sha256 is the pin."""

from __future__ import annotations

import json
from typing import Annotated

import msgspec

from toolkit.errors import CorruptTableError, FormatError
from toolkit.escapes import listed
from toolkit.format.contract import MOST_BYTES, MOST_ROWS, columns_fault
from toolkit.format.references import REFERENCES, UNHASHED
from toolkit.format.schema import FORMAT_VERSION, Column, Derived, Hash, Kind
from toolkit.format.tables import sha256

__all__ = [
    "MOST_SHARDS",
    "LabelCounts",
    "Manifest",
    "Split",
    "TableRef",
    "encode_manifest",
    "parse_manifest",
    "unknown_part",
]

MOST_SHARDS = 4096  # of a shard table: it is read as a whole

_KNOWN_FEATURES = frozenset({REFERENCES, UNHASHED})
_NOTHING = object()  # equal to nothing that JSON has
_Rows = Annotated[int, msgspec.Meta(ge=0, le=MOST_ROWS)]
_Bytes = Annotated[int, msgspec.Meta(ge=0, le=MOST_BYTES)]


class TableRef(msgspec.Struct, frozen=True, kw_only=True):
    """A shard table: tables/<sha256>.arrow, and what it adds up to; `bytes` are those of its shards."""

    sha256: Hash
    shards: _Rows
    batches: _Rows
    rows: _Rows
    bytes: _Bytes
    tokens: _Rows


class LabelCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How often each class of a label column occurs in a split, by id; `missing` counts nulls."""

    counts: tuple[_Rows, ...]
    missing: _Rows


class Split(msgspec.Struct, frozen=True, kw_only=True):
    """A split: its rows, bytes of shards, class counts by label column, and its shard tables in row order."""

    rows: _Rows
    bytes: _Bytes
    labels: dict[str, LabelCounts]
    tables: tuple[TableRef, ...]


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """A version of a dataset. Keys that aren't known here were ignored when it was read.

    Attributes:
        format: Version of the format.
        requires: Features a reader must know; an unknown one is refused by name.
        columns: The columns in the user's order, without __key__, __digest__ and derived ones.
        derived: The derived columns, in the order of shards.
        schema: sha256 of the schema table: an Arrow file without rows that has the shards' schema.
        splits: Splits by name.
        options: The options that shaped the samples.
        parent: Pin of the version this one appends to.
        user: Metadata of the user's own.
    """

    format: int
    requires: tuple[str, ...]
    columns: tuple[Column, ...]
    derived: tuple[Derived, ...]
    schema: Hash
    splits: dict[str, Split]
    options: dict[str, object]
    parent: Hash | None
    user: dict[str, str]


class _Version(msgspec.Struct):
    format: int
    requires: tuple[str, ...] = ()
    derived: object = _NOTHING


# Made here, not where they are used: msgspec learns a type when it first meets it, and a second thread that meets it
# meanwhile ends the process. Imports have a lock.
_VERSION = msgspec.json.Decoder(_Version)
_MANIFEST = msgspec.json.Decoder(Manifest)


def encode_manifest(manifest: Manifest) -> tuple[bytes, str]:
    """Return the canonical bytes (sorted keys, UTF-8, indented by one, newline at the end) and their pin."""
    text = json.dumps(msgspec.to_builtins(manifest), ensure_ascii=False, sort_keys=True, indent=1)
    data = text.encode() + b"\n"
    return data, sha256(data)


def parse_manifest(data: bytes, name: str) -> Manifest:
    """Read a manifest; `name` is for the error.

    Raises:
        FormatError: It has a newer format or requires features that this version doesn't know.
        CorruptTableError: It isn't a manifest.
    """
    try:
        version = _VERSION.decode(data)
        if version.format != FORMAT_VERSION:
            raise FormatError(
                f"{name} has format {version.format}; this version of toolkit reads format {FORMAT_VERSION}: "
                "install a newer toolkit"
            )
        unknown = sorted(set(version.requires) - _KNOWN_FEATURES)
        if unknown:
            raise FormatError(f"{name} requires {listed(unknown)}, unknown here: install a newer toolkit")
        if version.derived is _NOTHING:
            raise FormatError(
                f"{name} is of a toolkit from before format {FORMAT_VERSION} was settled: pack the dataset again"
            )
        manifest = _MANIFEST.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise CorruptTableError(f"{name} isn't a manifest of format {FORMAT_VERSION}: {error}") from error
    fault = columns_fault(manifest.columns, manifest.derived, manifest.requires) or _sums_fault(manifest)
    if fault is not None:
        raise CorruptTableError(f"{name} contradicts itself: {fault}")
    return manifest


def unknown_part(data: bytes, manifest: Manifest) -> str | None:
    """Say where `data`, of which `manifest` was read, holds what isn't known here: "columns[2].kind"; None: nowhere."""
    return _unknown(json.loads(data), msgspec.to_builtins(manifest), "")


def _unknown(given: object, known: object, where: str) -> str | None:
    if isinstance(given, dict) and isinstance(known, dict):
        pairs = [(f"{where}.{key}" if where else key, value, known.get(key, _NOTHING)) for key, value in given.items()]
    elif isinstance(given, list) and isinstance(known, list | tuple):
        pairs = [(f"{where}[{i}]", value, other) for i, (value, other) in enumerate(zip(given, known, strict=True))]
    else:
        return None if given == known else where
    return next((found for place, value, other in pairs if (found := _unknown(value, other, place)) is not None), None)


def _sums_fault(manifest: Manifest) -> str | None:
    """Say which numbers don't add up, or None."""
    labels = {column.name for column in manifest.columns if column.kind is Kind.LABEL}
    for name, split in manifest.splits.items():
        rows = sum(table.rows for table in split.tables)
        nbytes = sum(table.bytes for table in split.tables)
        if (split.rows, split.bytes) != (rows, nbytes):
            return f"split {name!r} has {split.rows} rows and {split.bytes} bytes, its shard tables {rows} and {nbytes}"
        for what in ("shards", "batches", "tokens"):
            total = sum(getattr(table, what) for table in split.tables)
            if total > MOST_ROWS:
                return f"split {name!r} has {total} {what}, and {MOST_ROWS} are the most"
        for table in split.tables:
            if not table.shards and (table.batches, table.rows, table.bytes, table.tokens) != (0, 0, 0, 0):
                return f"split {name!r} has table {table.sha256} of no shards, and yet rows, bytes or tokens"
        most = max((table.shards for table in split.tables), default=0)
        if most > MOST_SHARDS:
            return f"split {name!r} has a table of {most} shards, and {MOST_SHARDS} are the most"
        if set(split.labels) != labels:
            return f"split {name!r} counts the labels of {sorted(split.labels)}, the label columns are {sorted(labels)}"
        for column, one in split.labels.items():
            if sum(one.counts) + one.missing != rows:
                return f"split {name!r} has {rows} rows, the classes of {column!r} are counted otherwise"
    return None

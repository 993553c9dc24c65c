"""Choose which fields of an input become which columns: --map, --columns, --rename, --kind, --key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from toolkit.errors import UsageError, did_you_mean
from toolkit.format.media import stored_medium
from toolkit.format.schema import Column, Kind, label_column, medium_column, stored_type
from toolkit.sources.options import SourceOptions

__all__ = ["Chosen", "Field", "choose_fields", "make_column"]


@dataclass(frozen=True, slots=True)
class Field:
    """A field of the input: its Arrow type, and the kind that its content or metadata tells."""

    type: pa.DataType
    kind: Kind


@dataclass(frozen=True, slots=True)
class Chosen:
    """A field that becomes a column. `field` is its name in the input."""

    field: str
    column: str
    kind: Kind
    type: pa.DataType


def choose_fields(fields: Mapping[str, Field], options: SourceOptions) -> list[Chosen]:
    """Return the columns to make, in order: of the mapping, of --columns, or of the input.

    The key field makes no column of its own unless it is asked for by name.

    Raises:
        UsageError: An option names a field or column that isn't there, or two columns would have one name.
    """
    wanted = _wanted(fields, options)
    _known(options.rename, fields, "--rename")
    if options.key is not None:
        _known([options.key], fields, "--key")
    columns = {options.rename.get(name, name) if column is None else column: name for name, column in wanted}
    if len(columns) != len(wanted):
        names = [options.rename.get(name, name) if column is None else column for name, column in wanted]
        twice = next(name for name in names if names.count(name) > 1)
        raise UsageError(f"two fields would become the column {twice!r}: --rename one of them")
    for name in columns:
        if name.startswith("__") or not name:
            raise UsageError(
                f"{name!r} can't name a column: names that begin with __ are the format's own; --rename it"
            )
    _known(options.kind, columns, "--kind")
    return [
        Chosen(name, column, options.kind.get(column, fields[name].kind), fields[name].type)
        for column, name in columns.items()
    ]


def make_column(name: str, kind: Kind, dtype: pa.DataType) -> tuple[Column, pa.DataType]:
    """Return the column of that kind for values of `dtype`, and the type it is stored as.

    Raises:
        UsageError: Values of that type can't be of that kind.
    """
    medium = stored_medium(kind)
    if medium is not None:
        return medium_column(name, medium), medium.source_form.type
    match kind:
        case Kind.LABEL:
            return label_column(name, ""), pa.int64()
        case Kind.TENSOR:
            return Column(name=name, kind=kind, arrow_type=str(pa.binary()), encoding="npy"), pa.binary()
        case Kind.TOKENS:
            raise UsageError(f"--kind {name}=tokens: tokens are made of text by --tokenizer, or by toolkit.pack_tokens")
    stored = stored_type(dtype)
    fits = {
        Kind.TEXT: stored in (pa.string(), pa.large_string()),
        Kind.JSON: stored in (pa.string(), pa.large_string()),
        Kind.BYTES: stored in (pa.binary(), pa.large_binary()) or pa.types.is_fixed_size_binary(stored),
        Kind.SCALAR: pa.types.is_integer(stored) or pa.types.is_floating(stored) or pa.types.is_boolean(stored),
        Kind.VALUE: True,
    }
    if not fits[kind]:
        raise UsageError(f"--kind {name}={kind.value}: its values are {dtype}, which can't be {kind.value}")
    return Column(name=name, kind=kind, arrow_type=str(stored)), stored


def _wanted(fields: Mapping[str, Field], options: SourceOptions) -> list[tuple[str, str | None]]:
    """Return (field, column or None for its own name)."""
    if options.map is not None:
        if options.columns is not None:
            raise UsageError("--map says which columns there are already: leave --columns out")
        _known(options.map.values(), fields, "--map")
        return [(field, column) for column, field in options.map.items()]
    if options.columns is not None:
        _known(options.columns, fields, "--columns")
        return [(field, None) for field in options.columns]
    return [(field, None) for field in fields if field != options.key]


def _known(names: Iterable[str], known: Mapping[str, object], flag: str) -> None:
    for name in names:
        if name not in known:
            raise UsageError(
                f"{flag} names {name!r}, which the input hasn't; it has {', '.join(known)}.{did_you_mean(name, known)}"
            )

"""Choose which fields of an input become which columns: --map, --columns, --rename, --kind, --key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from toolkit.errors import UsageError, did_you_mean
from toolkit.format.media import stored_medium
from toolkit.format.schema import Column, Kind, is_own_name, label_column, medium_column, stored_type
from toolkit.sources.options import SourceOptions

__all__ = ["Chosen", "Field", "check_fields", "check_known", "choose_fields", "make_column"]


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


def check_fields(options: SourceOptions) -> None:
    """Refuse what choose_fields() would refuse of the options alone, whatever the input has.

    Raises:
        UsageError: Options contradict each other, or no column can have a name that is asked for.
    """
    if options.map is not None and options.columns is not None:
        raise UsageError("--map says which columns there are already: leave --columns out")
    if options.map is not None:
        columns = [*options.map]
        check_known(options.kind, options.map, "--kind", "--map")
    elif options.columns is not None:
        twice = _repeated(options.columns)
        if twice is not None:
            raise UsageError(f"--columns names {twice!r} twice: name it once")
        columns = [new for field, new in options.rename.items() if field in options.columns]
    else:
        columns = [new for field, new in options.rename.items() if field != options.key]
    _check_names(columns)


def choose_fields(fields: Mapping[str, Field], options: SourceOptions) -> list[Chosen]:
    """Return the columns to make, in order: of the mapping, of --columns, or of the input.

    The key field makes no column of its own unless it is asked for by name.

    Raises:
        UsageError: An option names a field or column that isn't there, or two columns would have one name.
    """
    wanted = _wanted(fields, options)
    check_known(options.rename, fields, "--rename")
    if options.key is not None:
        check_known([options.key], fields, "--key")
    names = [options.rename.get(name, name) if column is None else column for name, column in wanted]
    _check_names(names)
    columns = {column: field for column, (field, _) in zip(names, wanted, strict=True)}
    check_known(options.kind, columns, "--kind")
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
        check_known(options.map.values(), fields, "--map")
        return [(field, column) for column, field in options.map.items()]
    if options.columns is not None:
        check_known(options.columns, fields, "--columns")
        return [(field, None) for field in options.columns]
    return [(field, None) for field in fields if field != options.key]


def _check_names(columns: Sequence[str]) -> None:
    """Refuse names of which one is there twice, or can't be that of a column."""
    twice = _repeated(columns)
    if twice is not None:
        raise UsageError(f"two fields would become the column {twice!r}: --rename one of them")
    for name in columns:
        if is_own_name(name) or not name:
            raise UsageError(
                f"{name!r} can't name a column: names that begin with __ are the format's own; --rename it"
            )


def _repeated(names: Sequence[str]) -> str | None:
    return next((name for name, times in Counter(names).items() if times > 1), None)


def check_known(names: Iterable[str], known: Mapping[str, object], flag: str, of: str = "the input") -> None:
    """Raise UsageError when an option names something that isn't there."""
    for name in names:
        if name not in known:
            raise UsageError(
                f"{flag} names {name!r}, which {of} hasn't; it has {', '.join(known)}.{did_you_mean(name, known)}"
            )

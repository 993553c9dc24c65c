"""Columns of a dataset and the Arrow schema its shards have."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec
import pyarrow as pa

from toolkit.format.encodings import KEEP, ImageEncoding
from toolkit.format.kinds import Kind
from toolkit.format.media import IMAGE, StoredMedium, stored_medium
from toolkit.format.references import is_reference

__all__ = [
    "DIGEST",
    "FORMAT_VERSION",
    "KEY",
    "Column",
    "Derived",
    "Hash",
    "Kind",
    "TokenEncoding",
    "arrow_schema",
    "columns_of",
    "derived_columns",
    "derived_of",
    "derived_type",
    "image_column",
    "is_list_of_ids",
    "is_own_name",
    "is_scalar",
    "label_column",
    "medium_column",
    "reference_columns",
    "stored_order",
    "stored_type",
    "token_column",
    "token_type",
]

FORMAT_VERSION = 1
KEY = "__key__"
DIGEST = "__digest__"
DIGEST_BYTES = 16

Hash = Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z")]


class TokenEncoding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the numbers of a tokens column mean.

    Attributes:
        vocabulary: Every id is below it.
        eos: The id behind each document that isn't empty; None without one.
        tokenizer: sha256 of the tokenizer's file, or "bytes" when ids are UTF-8 bytes; None for ready ids.
        tokenizer_table: sha256 of the table that holds the file itself.
    """

    vocabulary: Annotated[int, msgspec.Meta(ge=1, le=1 << 32)]
    eos: Annotated[int, msgspec.Meta(ge=0)] | None = None
    tokenizer: Annotated[str, msgspec.Meta(pattern=r"\A(bytes|[0-9a-f]{64})\Z")] | None = None
    tokenizer_table: Hash | None = None


class Column(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One column of a manifest: name, kind, Arrow type, and what its kind needs.

    Attributes:
        name: The column's name; names that begin with two underscores are the format's own.
        kind: What it means.
        arrow_type: str() of its Arrow type, for people; the schema table has the type itself.
        encoding: How a medium's or a tensor's bytes are stored: "keep" is the source's own bytes, "jpeg:<quality>" and
            "raw" are what ImageEncoding says, "npy" is a NumPy file.
        label_table: sha256 of the table with the names of a label column, or of the ids in the lists of a column of
            values; the row is the id.
        tokens: What the numbers of a tokens column mean.
    """

    name: str
    kind: Kind
    arrow_type: str
    encoding: str | None = None
    label_table: Hash | None = None
    tokens: TokenEncoding | None = None


class Derived(msgspec.Struct, frozen=True, kw_only=True):
    """A derived column: what is known of the values of another one without decoding them.

    Attributes:
        of: The column it is made of.
        what: What it says: "height".
        version: Of the way it is made.
        arrow_type: str() of its Arrow type, for people.
    """

    of: str
    what: str
    version: Annotated[int, msgspec.Meta(ge=1)]
    arrow_type: str

    @property
    def name(self) -> str:
        """Its name in shards."""
        return f"__{self.of}.{self.what}__"


_COLUMNS = tuple[Column, ...]
msgspec.convert((), _COLUMNS)  # learnt within the import: see toolkit.format.manifest


def image_column(name: str, encoding: ImageEncoding = KEEP) -> Column:
    """Return an image column; it keeps the source's bytes unless `encoding` says otherwise."""
    return medium_column(name, IMAGE, str(encoding))


def medium_column(name: str, medium: StoredMedium, encoding: str = "keep") -> Column:
    """Return a column of a medium in that encoding; "keep" is the source's own bytes."""
    return Column(name=name, kind=medium.kind, arrow_type=str(medium.form_in(encoding).type), encoding=encoding)


def label_column(name: str, label_table: str) -> Column:
    """Return a label column whose names are in the label table with that sha256."""
    return Column(name=name, kind=Kind.LABEL, arrow_type=str(pa.int64()), label_table=label_table)


def token_type(vocabulary: int) -> pa.DataType:
    """Return the type of a tokens column: the smaller unsigned type that holds every id below `vocabulary`."""
    ids = pa.uint16() if vocabulary <= 1 << 16 else pa.uint32()
    return pa.large_list(pa.field("item", ids, nullable=False))


def token_column(name: str, encoding: TokenEncoding) -> Column:
    """Return a tokens column, one document a row."""
    return Column(name=name, kind=Kind.TOKENS, arrow_type=str(token_type(encoding.vocabulary)), tokens=encoding)


def stored_type(dtype: pa.DataType) -> pa.DataType:
    """Return the type that a value of `dtype` is stored as: dictionaries and views become plain values.

    Raises:
        TypeError: Format 1 has no layout for it.
    """
    match dtype:
        case pa.DictionaryType():
            return stored_type(dtype.value_type)
        case pa.MapType():
            pair = [pa.field("key", stored_type(dtype.key_type)), pa.field("value", stored_type(dtype.item_type))]
            return pa.list_(pa.struct(pair))
        case pa.ListType() | pa.ListViewType():
            return pa.list_(stored_type(dtype.value_type))
        case pa.LargeListType() | pa.LargeListViewType():
            return pa.large_list(stored_type(dtype.value_type))
        case pa.FixedSizeListType():
            return pa.list_(stored_type(dtype.value_type), dtype.list_size)
        case pa.StructType():
            names = [child.name for child in dtype]
            for name in names:
                if names.count(name) > 1:
                    raise TypeError(f"{dtype}: two fields called {name!r}")
            return pa.struct([pa.field(child.name, stored_type(child.type)) for child in dtype])
        case pa.ExtensionType() | pa.BaseExtensionType():
            return stored_type(dtype.storage_type)
        case pa.RunEndEncodedType():
            return stored_type(dtype.value_type)
        case pa.UnionType():
            raise TypeError(f"{dtype}: format 1 stores no unions")
    if dtype == pa.string_view():
        return pa.string()
    if dtype == pa.binary_view():
        return pa.binary()
    return dtype


def is_own_name(name: str) -> bool:
    """Tell whether a column's name is the format's own: a key, a digest, a derived column."""
    return name.startswith("__")


def is_scalar(dtype: pa.DataType) -> bool:
    """Tell whether a column of kind scalar can have that type."""
    return any(is_of_kind(dtype) for is_of_kind in (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean))


def is_list_of_ids(dtype: pa.DataType) -> bool:
    """Tell whether a column of values of that type can have a label table."""
    is_list = pa.types.is_list(dtype) or pa.types.is_large_list(dtype)
    return is_list and bool(dtype.value_type == pa.int64())


def derived_of(columns: Sequence[Column]) -> tuple[Derived, ...]:
    """Return the derived columns that are written beside these, in the order of shards."""
    return tuple(
        Derived(of=column.name, what=fact.what, version=fact.version, arrow_type=str(fact.type))
        for column in columns
        if (medium := stored_medium(column.kind)) is not None
        for fact in medium.facts
    )


def derived_type(derived: Derived, columns: Sequence[Column]) -> pa.DataType | None:
    """Return the type of a derived column of these; None of one that isn't known here."""
    kinds = [column.kind for column in columns if column.name == derived.of]
    medium = stored_medium(kinds[0]) if kinds else None
    known = () if medium is None else medium.facts
    return next((one.type for one in known if (one.what, one.version) == (derived.what, derived.version)), None)


def derived_columns(derived: Sequence[Derived], schema: pa.Schema) -> tuple[Column, ...]:
    """Return derived columns as columns that are read by their type alone, so also those that a newer toolkit made.

    `schema` is that of the shards.
    """
    made = []
    for one in derived:
        dtype = schema.field(one.name).type
        kind = Kind.SCALAR if is_scalar(dtype) else Kind.TEXT if dtype == pa.string() else Kind.VALUE
        made.append(Column(name=one.name, kind=kind, arrow_type=str(dtype)))
    return tuple(made)


def stored_order(columns: Sequence[Column], types: Mapping[str, pa.DataType]) -> tuple[list[str], list[str], list[str]]:
    """Return the names of columns of one width, of texts, and of large ones: in this order they stand in shards.

    What is small comes first, so that one read of a record batch's message and what lies behind it has it all.
    """
    fixed, texts, large = [], [], []
    for column in columns:
        dtype = types[column.name]
        if column.kind in (Kind.TEXT, Kind.JSON):
            texts.append(column.name)
        elif column.kind in (Kind.LABEL, Kind.SCALAR) or (column.kind is Kind.VALUE and _has_one_width(dtype)):
            fixed.append(column.name)
        else:
            large.append(column.name)
    return fixed, texts, large


def _has_one_width(dtype: pa.DataType) -> bool:
    if pa.types.is_null(dtype) or pa.types.is_boolean(dtype):
        return True
    nested = bool(dtype.num_fields) or pa.types.is_struct(dtype)
    return not nested and dtype not in (pa.binary(), pa.string(), pa.large_binary(), pa.large_string())


def arrow_schema(
    columns: tuple[Column, ...],
    types: Mapping[str, pa.DataType],
    class_names: Mapping[str, tuple[str, ...]],
    derived: tuple[Derived, ...] = (),
    *,
    hashed: bool = True,
) -> pa.Schema:
    """Return the schema of every shard, with the metadata by which Hugging Face `datasets` decodes it unasked.

    Args:
        columns: The dataset's columns, in the user's order.
        types: The stored Arrow type of each.
        class_names: Names of each column that has a label table; of one that isn't named, they aren't known yet. Our
            own readers take them from that table, never from here.
        derived: Derived columns, of those that are known here.
        hashed: Whether every sample has a digest.
    """
    features: dict[str, object] = {
        KEY: _value_feature("string"),
        DIGEST: _value_feature(f"fixed_size_binary[{DIGEST_BYTES}]"),
    }
    for column in columns:
        medium = stored_medium(column.kind)
        form = None if medium is None else medium.form_of(types[column.name])
        if form is not None and form.feature is not None:
            features[column.name] = {"_type": form.feature}
        elif column.kind is Kind.LABEL and column.name in class_names:
            features[column.name] = _class_label(class_names[column.name])
        elif column.name in class_names:
            features[column.name] = _list_feature(types[column.name], _class_label(class_names[column.name]))
        else:
            features[column.name] = _feature(types[column.name])
    own = {
        "format": FORMAT_VERSION,
        "columns": msgspec.to_builtins(columns),
        "derived": msgspec.to_builtins(derived),
    }
    known = {
        column.name: pa.field(column.name, types[column.name], nullable=column.kind is not Kind.TOKENS)
        for column in columns
    }
    made = [pa.field(one.name, derived_type(one, columns)) for one in derived]
    features.update({field.name: _feature(field.type) for field in made})
    fixed, texts, large = stored_order(columns, types)
    fields = [
        pa.field(KEY, pa.string(), nullable=False),
        pa.field(DIGEST, pa.binary(DIGEST_BYTES), nullable=not hashed),
    ]
    fields += [*(known[name] for name in (*fixed, *texts)), *made, *(known[name] for name in large)]
    return pa.schema(fields, metadata={"huggingface": _json({"info": {"features": features}}), "toolkit": _json(own)})


def reference_columns(columns: Sequence[Column], schema: pa.Schema) -> tuple[str, ...]:
    """Return the names of the columns of media whose values lie in other files; `schema` is that of the shards.

    A column of values that happens to have that type holds structs and no references.
    """
    return tuple(
        column.name
        for column in columns
        if stored_medium(column.kind) is not None and is_reference(schema.field(column.name).type)
    )


def columns_of(schema: pa.Schema) -> tuple[Column, ...]:
    """Return the columns that arrow_schema() wrote into the metadata of `schema`; none of another schema."""
    own = json.loads((schema.metadata or {}).get(b"toolkit", b"{}"))
    return tuple(msgspec.convert(own.get("columns", ()), _COLUMNS))


def _feature(dtype: pa.DataType) -> object:
    """Return the Hugging Face feature of a type, as its Features.to_dict() would."""
    if pa.types.is_struct(dtype):
        return {child.name: _feature(child.type) for child in dtype}
    if pa.types.is_fixed_size_list(dtype):
        return {"feature": _feature(dtype.value_type), "length": dtype.list_size, "_type": "List"}
    if pa.types.is_list(dtype) or pa.types.is_large_list(dtype):
        return _list_feature(dtype, _feature(dtype.value_type))
    names = {
        "double": "float64",
        "float": "float32",
        "halffloat": "float16",
        "date32[day]": "date32",
        "date64[ms]": "date64",
    }
    return _value_feature(names.get(str(dtype), str(dtype)))


def _list_feature(dtype: pa.DataType, item: object) -> object:
    return {"feature": item, "_type": "LargeList" if pa.types.is_large_list(dtype) else "List"}


def _class_label(names: Sequence[str]) -> object:
    return {"names": list(names), "_type": "ClassLabel"}


def _value_feature(dtype: str) -> dict[str, str]:
    return {"dtype": dtype, "_type": "Value"}


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))

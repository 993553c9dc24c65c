"""Columns of a dataset and the Arrow schema its shards have."""

from __future__ import annotations

import enum
import json

import msgspec
import pyarrow as pa

__all__ = ["DIGEST", "FORMAT_VERSION", "IMAGE_TYPE", "KEY", "Column", "Kind", "arrow_schema"]

FORMAT_VERSION = 1
KEY = "__key__"
DIGEST = "__digest__"
DIGEST_BYTES = 16
IMAGE_TYPE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


class Kind(enum.Enum):
    """What a column means to a loader; the Arrow type says how it is stored."""

    IMAGE = "image"
    LABEL = "label"


_ARROW_TYPES = {Kind.IMAGE: IMAGE_TYPE, Kind.LABEL: pa.int64()}


class Column(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One column of a manifest: name, kind, Arrow type, and what its kind needs.

    Attributes:
        name: The column's name; names that begin with two underscores are the format's own.
        kind: What it means.
        arrow_type: str() of its Arrow type.
        encoding: How image bytes are stored: "keep" is the source's own bytes.
        label_table: sha256 of the table with the names of a label column; the row is the id.
    """

    name: str
    kind: Kind
    arrow_type: str
    encoding: str | None = None
    label_table: str | None = None

    @property
    def type(self) -> pa.DataType:
        """The Arrow type that this kind has in format 1."""
        return _ARROW_TYPES[self.kind]


def image_column(name: str) -> Column:
    """Return an image column that keeps the source's bytes."""
    return Column(name=name, kind=Kind.IMAGE, arrow_type=str(IMAGE_TYPE), encoding="keep")


def label_column(name: str, label_table: str) -> Column:
    """Return a label column whose names are in the label table with that sha256."""
    return Column(name=name, kind=Kind.LABEL, arrow_type=str(pa.int64()), label_table=label_table)


def arrow_schema(columns: tuple[Column, ...], class_names: dict[str, tuple[str, ...]]) -> pa.Schema:
    """Return the schema of every shard, with the metadata by which Hugging Face `datasets` decodes it unasked.

    Args:
        columns: The dataset's columns, in order.
        class_names: Names of each label column. Our own readers take them from the label table, never from here.
    """
    features: dict[str, object] = {
        KEY: {"dtype": "string", "_type": "Value"},
        DIGEST: {"dtype": f"fixed_size_binary[{DIGEST_BYTES}]", "_type": "Value"},
    }
    for column in columns:
        if column.kind is Kind.IMAGE:
            features[column.name] = {"_type": "Image"}
        else:
            features[column.name] = {"names": list(class_names[column.name]), "_type": "ClassLabel"}
    own = {"format": FORMAT_VERSION, "columns": msgspec.to_builtins(columns)}
    fields = [pa.field(KEY, pa.string(), nullable=False), pa.field(DIGEST, pa.binary(DIGEST_BYTES), nullable=False)]
    fields += [pa.field(column.name, column.type) for column in columns]
    return pa.schema(
        fields,
        metadata={"huggingface": _json({"info": {"features": features}}), "toolkit": _json(own)},
    )


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))

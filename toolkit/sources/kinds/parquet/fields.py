"""The columns that Parquet files become: the kind of each field, and the classes of label columns."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from toolkit.errors import SourceError, UsageError
from toolkit.format.media import StoredForm, stored_medium
from toolkit.format.schema import Column, Kind
from toolkit.pipelines.media import media
from toolkit.sources.classes import check_class_names
from toolkit.sources.fields import Chosen, Field, choose_fields, make_column
from toolkit.sources.kinds.parquet.files import Footer, batch_rows, open_parquet, partition_types, read_group, stored
from toolkit.sources.options import LabelMode, SourceOptions, VerifyImages
from toolkit.sources.payloads import holds

__all__ = ["Plan", "PlannedColumn", "bytes_of", "is_pandas_index", "make_plan"]

# More different values than this are no classes.
_MOST_CLASSES = 1_000_000
_PANDAS_INDEX = re.compile(r"__index_level_\d+__")


@dataclass(frozen=True, slots=True)
class PlannedColumn:
    """A column to make.

    Attributes:
        field: The field it is made of.
        column: What it becomes.
        type: The type it is stored as.
        classes: Class names of a label column, in id order.
        ids: Class names of the ids in the file, where it says them itself.
    """

    field: str
    column: Column
    type: pa.DataType
    classes: tuple[str, ...] = ()
    ids: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """How rows are made of files.

    Attributes:
        columns: The columns, in order.
        key: The field that holds the keys, or None for file name and row.
        require_labels: A missing label is a reject.
        partitions: Type of each field that folder names give.
        verify_images: Whether headers of images are looked at.
        max_value_bytes: A row with a larger value is rejected.
    """

    columns: tuple[PlannedColumn, ...]
    key: str | None
    require_labels: bool
    partitions: Mapping[str, pa.DataType]
    verify_images: VerifyImages
    max_value_bytes: int

    @property
    def fields(self) -> list[str]:
        """The fields to read from the files."""
        wanted = [column.field for column in self.columns] + ([self.key] if self.key is not None else [])
        return [name for name in dict.fromkeys(wanted) if name not in self.partitions]


def is_pandas_index(name: str, options: SourceOptions) -> bool:
    """Tell whether a field holds an index of pandas and no option asks for it: such are left out."""
    asked = {options.key, *(options.map or {}).values(), *(options.columns or ()), *options.rename}
    return _PANDAS_INDEX.fullmatch(name) is not None and name not in asked


def make_plan(first: Footer, footers: Sequence[Footer], options: SourceOptions) -> Plan:
    """Decide the columns. `first` is the file whose schema and metadata count; `footers` are all files.

    Raises:
        UsageError: An option doesn't fit the fields.
        SourceError: Class names of the files differ, or can't be class names.
    """
    partitions = {name: t for name, t in partition_types(footers).items() if name not in first.schema.names}
    fields = {
        name: Field(stored(first, name), _kind(first, name, options))
        for name in first.schema.names
        if not is_pandas_index(name, options)
    }
    fields |= {name: Field(t, Kind.TEXT if t == pa.string() else Kind.SCALAR) for name, t in partitions.items()}
    chosen = choose_fields(fields, options)
    if options.key is not None and not _is_text(fields[options.key].type) and not _is_int(fields[options.key].type):
        raise UsageError(f"--key {options.key}: its values are {fields[options.key].type}; keys are text or integers")
    labels = [one for one in chosen if one.kind is Kind.LABEL]
    if labels and options.label_mode is LabelMode.NONE:
        raise UsageError(
            f"--kind {labels[0].column}=label asks for labels and --label-mode none for none: leave one out"
        )
    given = _takes_given_classes(labels, first, options)
    columns = []
    for one in chosen:
        column, dtype = _make_column(one)
        if one.kind is Kind.LABEL:
            ids = _file_classes(first, footers, one.field)
            names = options.classes if one is given and options.classes else ids
            if names is None:
                names = _found_classes(one, footers, partitions)
            columns.append(PlannedColumn(one.field, column, dtype, names, ids))
        else:
            columns.append(PlannedColumn(one.field, column, dtype))
    return Plan(
        tuple(columns),
        options.key,
        options.require_labels,
        partitions,
        options.verify_images,
        options.max_value_bytes,
    )


def _kind(footer: Footer, name: str, options: SourceOptions) -> Kind:
    """Return the kind that Hugging Face's metadata, the type, or a first value that is a medium's tells."""
    dtype = stored(footer, name)
    feature = footer.features.get(name, {}).get("_type")
    if feature == "ClassLabel" and _is_int(dtype) and _names(footer, name) is not None:
        return Kind.SCALAR if options.label_mode is LabelMode.NONE else Kind.LABEL
    structs = [medium for medium in media() if _is_like(dtype, medium.stored.source_form)]
    if structs:
        told = [medium for medium in structs if feature in (None, medium.stored.source_form.feature)]
        return told[0].stored.kind if told else Kind.VALUE
    if dtype in (pa.binary(), pa.large_binary()):
        told = [medium for medium in media() if feature is not None and feature == medium.stored.source_form.feature]
        return told[0].stored.kind if told else _held_by_first(footer, name) or Kind.BYTES
    if pa.types.is_fixed_size_binary(dtype):
        return Kind.BYTES
    if _is_text(dtype):
        return Kind.TEXT
    if _is_int(dtype) or pa.types.is_floating(dtype) or pa.types.is_boolean(dtype):
        return Kind.SCALAR
    return Kind.VALUE


def _make_column(chosen: Chosen) -> tuple[Column, pa.DataType]:
    dtype = chosen.type
    binary = dtype in (pa.binary(), pa.large_binary()) or pa.types.is_fixed_size_binary(dtype)
    medium = stored_medium(chosen.kind)
    fits = {
        Kind.LABEL: _is_text(dtype) or _is_int(dtype) or pa.types.is_floating(dtype) or pa.types.is_boolean(dtype),
        Kind.TENSOR: binary,
    }
    if not (fits.get(chosen.kind, True) if medium is None else binary or _is_like(dtype, medium.source_form)):
        raise UsageError(
            f"--kind {chosen.column}={chosen.kind.value}: its values are {dtype}, which can't be {chosen.kind.value}"
        )
    return make_column(chosen.column, chosen.kind, dtype)


def _held_by_first(footer: Footer, name: str) -> Kind | None:
    """Return the kind of the medium that the first value of the first row group is that isn't null; None: of none."""
    if not footer.groups:
        return None
    with open_parquet(footer.file.path, 1) as file:
        for batch in read_group(file, footer.file, 0, [name], batch_rows(footer, [name])[0]):
            there = batch.column(name).cast(stored(footer, name)).drop_null()
            if len(there):
                return holds(bytes_of(there[0]))
    return None


def bytes_of(value: pa.BinaryScalar) -> memoryview:
    """Return a view of the bytes of a value that isn't null. Arrow's own has signed bytes, unequal to Python's."""
    return memoryview(value.as_buffer()).cast("B")


def _takes_given_classes(labels: Sequence[Chosen], first: Footer, options: SourceOptions) -> Chosen | None:
    """Return the label column that --classes is about: the one that says no names itself, or the only one."""
    if not labels and (options.classes is not None or options.require_labels):
        flag = "--classes" if options.classes is not None else "--require-labels"
        raise UsageError(f"{flag}: no column is a label. Say which one is: --kind COLUMN=label")
    if options.classes is None:
        return None
    nameless = [one for one in labels if _names(first, one.field) is None] or labels
    if len(nameless) > 1:
        names = ", ".join(one.column for one in nameless)
        raise UsageError(f"--classes can be about any of the label columns {names}: make only one of them a label")
    return nameless[0]


def _names(footer: Footer, field: str) -> tuple[str, ...] | None:
    """Return the class names of a ClassLabel feature in the file's metadata."""
    feature = footer.features.get(field, {})
    names = feature.get("names")
    if feature.get("_type") != "ClassLabel" or not isinstance(names, list) or not names:
        return None
    return tuple(map(str, names)) if _is_int(stored(footer, field)) else None


def _file_classes(first: Footer, footers: Sequence[Footer], field: str) -> tuple[str, ...] | None:
    """Return the class names that the files say themselves, after checking that all say the same."""
    if field not in first.schema.names or (names := _names(first, field)) is None:
        return None
    for footer in footers:
        if footer.rows and _names(footer, field) != names:
            raise SourceError(
                f"the class names of column {field!r} in {footer.shown} are not those in {first.shown}: an id would "
                "mean two classes. Write the files alike, or leave some out with --exclude"
            )
    check_class_names(names, where=f"class names of column {field!r} in {first.shown}", unit="id", first=0)
    return names


def _found_classes(chosen: Chosen, footers: Sequence[Footer], partitions: Mapping[str, pa.DataType]) -> tuple[str, ...]:
    """Return the different texts of a column, sorted, found by reading that column of all files."""
    if not _is_text(chosen.type):
        raise UsageError(
            f"--kind {chosen.column}=label: its values are {chosen.type}, so give the names of the ids with --classes"
        )
    found: set[bytes] = set()
    for footer in footers:
        if chosen.field in partitions:
            value = footer.partitions[chosen.field]
            found |= set() if value is None else {value.encode()}
        elif footer.rows:
            found |= _different(footer, chosen.field)
        if len(found) > _MOST_CLASSES:
            raise UsageError(
                f"--kind {chosen.column}=label: more than {_MOST_CLASSES:,} different values are no classes"
            )
    names = []
    for text in found:
        try:
            names.append(text.decode())
        except UnicodeDecodeError:
            continue  # its rows are rejected when they are read
    if not names:
        raise SourceError(
            f"column {chosen.field!r} holds no value to be a class: leave --kind {chosen.column}=label out"
        )
    check_class_names(sorted(names), where=f"values of column {chosen.field!r}", unit="value", first=0)
    return tuple(sorted(names))


def _different(footer: Footer, name: str) -> set[bytes]:
    found: set[bytes] = set()
    with open_parquet(footer.file.path, 1) as file:
        sizes = batch_rows(footer, [name])
        for group in range(len(footer.groups)):
            for batch in read_group(file, footer.file, group, [name], sizes[group]):
                texts = batch.column(name).cast(pa.large_string()).cast(pa.large_binary())
                found.update(pc.unique(texts).drop_null().to_pylist())
    return found


def _is_text(dtype: pa.DataType) -> bool:
    return dtype in (pa.string(), pa.large_string())


def _is_int(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_integer(dtype))


def _is_like(dtype: pa.DataType, form: StoredForm) -> bool:
    """Tell whether values of `dtype` can be stored in a form of files: a struct with the same children."""
    if not pa.types.is_struct(dtype) or {child.name for child in dtype} != {child.name for child in form.type}:
        return False
    binary = dtype.field(form.payload).type in (pa.binary(), pa.large_binary())
    return binary and (form.path is None or _is_text(dtype.field(form.path).type))

"""The columns that a source's tables become: the kind of each field, and the classes of label columns.

What a field's values are is said by --kind, then by the table itself, then by the type. A field of integers with class
names is a label; so is a field of text that is called "label". No other text becomes labels unasked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from toolkit.errors import SourceError, UsageError
from toolkit.format.media import StoredForm, stored_medium
from toolkit.format.schema import Column, Kind, is_list_of_ids
from toolkit.pipelines.media import media
from toolkit.sources.classes import check_class_names
from toolkit.sources.fields import Chosen, Field, check_known, choose_fields, make_column
from toolkit.sources.options import LabelMode, Missing, SourceOptions, VerifyImages
from toolkit.sources.payloads import holds
from toolkit.sources.tables.table import Table

__all__ = ["LABEL_FIELD", "Plan", "PlannedColumn", "bytes_of", "check_alike", "file_fields", "is_media", "make_plan"]

LABEL_FIELD = "label"
_IMAGE_COLUMN = "image"
_MOST_CLASSES = 1_000_000  # more different values than this are no classes
_OF_FILES = {Kind.TEXT: pa.string(), Kind.JSON: pa.string(), Kind.SCALAR: pa.int64(), Kind.LABEL: pa.int64()}


@dataclass(frozen=True, slots=True)
class PlannedColumn:
    """A column to make.

    Attributes:
        field: The field it is made of.
        column: What it becomes.
        type: The type it is stored as.
        classes: Class names of a label column, or of a column of lists of ids, in id order.
        ids: Class names of the ids in the table, where it says them itself.
    """

    field: str
    column: Column
    type: pa.DataType
    classes: tuple[str, ...] = ()
    ids: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """How rows are made of tables.

    Attributes:
        columns: The columns, in order.
        key: The field that holds the keys, or None for the input's name and row.
        key_is_path: The keys are paths, and written as such.
        files: The fields whose text is the path of a file that is packed.
        require_labels: A missing label is a reject.
        verify_images: Whether headers of images are looked at.
        max_value_bytes: A row with a larger value is rejected.
        missing: What becomes of a row whose file isn't there.
        fetches: A path may be a URL, whose content is fetched.
    """

    columns: tuple[PlannedColumn, ...]
    key: str | None
    key_is_path: bool
    files: tuple[str, ...]
    require_labels: bool
    verify_images: VerifyImages
    max_value_bytes: int
    missing: Missing
    fetches: bool

    @property
    def fields(self) -> list[str]:
        """The fields to read from the tables."""
        wanted = [column.field for column in self.columns] + ([self.key] if self.key is not None else [])
        return list(dict.fromkeys(wanted))


def file_fields(table: Table, options: SourceOptions) -> tuple[str, ...]:
    """Return the fields whose text is the path of a file: those that --image-column names, or the table knows of.

    Raises:
        UsageError: There is no such field, or its values are no text.
    """
    if options.image_column is None:
        return tuple(table.facts.files)
    names = dict.fromkeys(options.image_column)
    check_known(names, dict.fromkeys(table.schema.names), "--image-column")
    for name in names:
        dtype = table.schema.field(name).type
        if not _is_text(dtype) and not pa.types.is_null(dtype):
            raise UsageError(f"--image-column {name}: its values are {dtype}; paths are text")
    return tuple(names)


def check_alike(first: Table, others: Sequence[Table], wanted: Sequence[str] | None) -> None:
    """Raise SourceError when tables differ in a field, in its type, or in what they say of it.

    What fields a table without rows has doesn't matter. `wanted`: only these fields matter; all when None.
    """
    asked = None if wanted is None else {*wanted}
    has = _types(first)
    for other in others:
        if not other.rows:
            continue
        others_has = _types(other)
        for name in has | others_has:
            if asked is None or name in asked:
                _check_field(name, (has.get(name), others_has.get(name)), first, other)


def make_plan(first: Table, tables: Sequence[Table], files: Sequence[str], options: SourceOptions) -> Plan:
    """Decide the columns.

    Args:
        first: The table whose schema and facts count.
        tables: All tables; of those with rows, the schemas are alike.
        files: What file_fields() gave.
        options: What is asked for.

    Raises:
        UsageError: An option doesn't fit the fields.
        SourceError: Values can't be class names.
    """
    facts = first.facts
    options = _called_image(first, files, options)
    fields = {
        field.name: Field(pa.binary(), _kind_of_file(first, field.name))
        if field.name in files
        else Field(field.type, _kind(first, field, options))
        for field in first.schema
    }
    key = options.key if options.key is not None else facts.key
    if options.key is None and key is None and files:
        key = files[0]
    # A field of files makes its column too: the key is the path, and the column has what lies there.
    chosen = choose_fields(fields, replace(options, key=None if key in files else key))
    if key is not None and key not in files and not _is_text(fields[key].type) and not _is_int(fields[key].type):
        raise UsageError(f"--key {key}: its values are {fields[key].type}; keys are text or integers")
    chosen = [replace(one, type=_OF_FILES.get(one.kind, one.type)) if one.field in files else one for one in chosen]
    labels = [one for one in chosen if one.kind is Kind.LABEL]
    if labels and options.label_mode is LabelMode.NONE:
        raise UsageError(
            f"--kind {labels[0].column}=label asks for labels and --label-mode none for none: leave one out"
        )
    listed = [one for one in chosen if one.kind is Kind.VALUE and is_list_of_ids(one.type)]
    named = [*labels, *(one for one in listed if one.field in facts.classes)]
    given = _takes_given_classes(named, facts.classes, options)
    columns = []
    for one in chosen:
        column, dtype = _make_column(one)
        ids = facts.classes.get(one.field)
        if one in named:
            if ids is not None:
                _check_classes(one.field, first, tables)
            names = options.classes if one is given and options.classes else ids
            if names is None:
                names = _found_classes(one, tables)
            columns.append(PlannedColumn(one.field, column, dtype, names, ids))
        else:
            columns.append(PlannedColumn(one.field, column, dtype))
    return Plan(
        tuple(columns),
        key,
        key in files,
        tuple(one.field for one in chosen if one.field in files),
        options.require_labels,
        options.verify_images,
        options.max_value_bytes,
        options.missing,
        options.fetch_urls,
    )


def bytes_of(value: pa.BinaryScalar) -> memoryview:
    """Return a view of the bytes of a value that isn't null. Arrow's own has signed bytes, unequal to Python's."""
    return memoryview(value.as_buffer()).cast("B")


def is_media(column: PlannedColumn) -> bool:
    """Tell whether a column's values are those of a medium."""
    return stored_medium(column.column.kind) is not None


def _called_image(first: Table, files: Sequence[str], options: SourceOptions) -> SourceOptions:
    """Call the one column of --image-column "image", as image folders do, unless an option or a field says a name."""
    if options.image_column is None or len(files) != 1 or options.map is not None:
        return options
    field = files[0]
    if field in options.rename or _IMAGE_COLUMN in (*first.schema.names, *options.rename.values()):
        return options
    if options.columns is not None and field not in options.columns:
        return options
    return replace(options, rename={**options.rename, field: _IMAGE_COLUMN})


def _types(table: Table) -> dict[str, pa.DataType]:
    return dict(zip(table.schema.names, table.schema.types, strict=True))


def _check_field(name: str, types: tuple[pa.DataType | None, ...], first: Table, other: Table) -> None:
    if types[0] != types[1]:
        told = [
            f"isn't in {table.shown}" if dtype is None else f"is {dtype} in {table.shown}"
            for dtype, table in zip(types, (first, other), strict=True)
        ]
        raise SourceError(
            f"column {name!r} {told[0]} and {told[1]}: all files of a source need the same columns. "
            "Write them alike, leave some out with --exclude, or name the columns to pack with --columns"
        )
    facts = [(t.facts.kinds.get(name), name in t.facts.files, t.facts.key == name) for t in (first, other)]
    if facts[0] != facts[1]:
        raise SourceError(
            f"column {name!r} means something else in {other.shown} than in {first.shown}: "
            "write the files alike, or leave some out with --exclude"
        )


def _kind_of_file(table: Table, name: str) -> Kind:
    return table.facts.kinds.get(name, Kind.IMAGE) if name in table.facts.files else Kind.IMAGE


def _kind(table: Table, field: pa.Field, options: SourceOptions) -> Kind:
    """Return the kind that the table says, or the field's name and type, or a first value that is a medium's."""
    dtype, name = field.type, field.name
    labelled = Kind.SCALAR if options.label_mode is LabelMode.NONE else Kind.LABEL
    said = table.facts.kinds.get(name)
    if said is not None:
        return labelled if said is Kind.LABEL and _is_int(dtype) else said
    if name in table.facts.classes and _is_int(dtype):
        return labelled
    if name == LABEL_FIELD and _is_text(dtype) and options.label_mode is not LabelMode.NONE:
        return Kind.LABEL
    forms = [medium.stored for medium in media() if _is_like(dtype, medium.stored.source_form)]
    if forms:
        return forms[0].kind
    if dtype in (pa.binary(), pa.large_binary()):
        return _held_by_first(table, name) or Kind.BYTES
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


def _held_by_first(table: Table, name: str) -> Kind | None:
    """Return the kind of the medium that the first value of the first piece is that isn't null; None: of none."""
    if not table.pieces:
        return None
    for batch in table.read([name], 0, 1):
        there = batch.column(name).cast(table.schema.field(name).type).drop_null()
        if len(there):
            return holds(bytes_of(there[0]))
    return None


def _takes_given_classes(
    named: Sequence[Chosen], said: Mapping[str, tuple[str, ...]], options: SourceOptions
) -> Chosen | None:
    """Return the column that --classes is about: the label that says no names itself, the only label, or the only one.

    `named` are those that have class names: labels, then lists of ids.
    """
    labels = [one for one in named if one.kind is Kind.LABEL]
    if (options.require_labels and not labels) or (options.classes is not None and not named):
        flag = "--classes" if options.classes is not None else "--require-labels"
        raise UsageError(f"{flag}: no column is a label. Say which one is: --kind COLUMN=label")
    if options.classes is None:
        return None
    nameless = [one for one in labels if one.field not in said] or labels or named
    if len(nameless) > 1:
        names = ", ".join(one.column for one in nameless)
        raise UsageError(f"--classes can be about any of the label columns {names}: make only one of them a label")
    return nameless[0]


def _check_classes(field: str, first: Table, tables: Sequence[Table]) -> None:
    """Refuse class names that tables say unless all say the same, and they can be a class map."""
    names = first.facts.classes[field]
    for table in tables:
        if table.rows and table.facts.classes.get(field) != names:
            raise SourceError(
                f"the class names of column {field!r} in {table.shown} are not those in {first.shown}: an id would "
                "mean two classes. Write the files alike, or leave some out with --exclude"
            )
    check_class_names(names, where=f"class names of column {field!r} in {first.shown}", unit="id", first=0)


def _found_classes(chosen: Chosen, tables: Sequence[Table]) -> tuple[str, ...]:
    """Return the different texts of a column, sorted, found by reading that column of all tables."""
    if not _is_text(chosen.type):
        raise UsageError(
            f"--kind {chosen.column}=label: its values are {chosen.type}, so give the names of the ids with --classes"
        )
    found: set[bytes] = set()
    for table in tables:
        for values in table.different(chosen.field):
            texts = values.cast(pa.large_string()).cast(pa.large_binary())
            found.update(pc.unique(texts).drop_null().to_pylist())
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
            f"column {chosen.field!r} holds no value to be a class: leave --kind {chosen.column}=label out, "
            "or pack it as it is with --label-mode none"
        )
    check_class_names(sorted(names), where=f"values of column {chosen.field!r}", unit="value", first=0)
    return tuple(sorted(names))


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

"""Rows of a dataset from a record batch of a table, a column at a time; what doesn't fit becomes a reject."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from toolkit.errors import did_you_mean
from toolkit.format.arrays import bits_buffer, bool_array, numbers, to_array, truths, valid_rows, value_offsets
from toolkit.format.schema import Kind, stored_type
from toolkit.format.sizes import row_bytes
from toolkit.pipelines.media import medium_of
from toolkit.pipelines.medium import Medium, UnfitMediumError
from toolkit.sources.base import LARGEST_VALUE, too_large
from toolkit.sources.contents import UnfitError, check_json, check_tensor, integer_of, label_of
from toolkit.sources.names import printable
from toolkit.sources.options import VerifyImages
from toolkit.sources.payloads import check_payload, payload_column
from toolkit.sources.reject import Reject
from toolkit.sources.tables.paths import UnsafePathError, key_of, paths_of
from toolkit.sources.tables.plan import Plan, PlannedColumn, bytes_of
from toolkit.sources.tables.table import FAULT, Table

__all__ = ["LoadedFiles", "RowMaker", "safe_paths"]

_MOST_HINTS = 20  # looking for the nearest of many names takes long

# Why a row is left out, by its number in the batch; the first reason counts.
_Reasons = dict[int, str]


@dataclass(frozen=True, slots=True)
class LoadedFiles:
    """What a field of paths led to, for the rows of a batch.

    Attributes:
        paths: The paths as keys have them; null where there is none that can be a key.
        payloads: binary: the files; null where there is none, or where it isn't read.
        there: Which rows have a file that can be used, as far as it was read.
        reasons: Why a row has none and is left out, by its number in the batch.
    """

    paths: pa.Array
    payloads: pa.Array
    there: NDArray[np.bool_]
    reasons: Mapping[int, str] = field(default_factory=dict)


class RowMaker:
    """Makes rows of one table's batches."""

    def __init__(self, plan: Plan, schema: pa.Schema, table: Table) -> None:
        self._plan = plan
        self._schema = schema
        self._table = table

    def make(
        self, batch: pa.RecordBatch, rows: NDArray[np.int64], loaded: Mapping[str, LoadedFiles]
    ) -> tuple[pa.RecordBatch, NDArray[np.bool_], tuple[Reject, ...]]:
        """Return the rows of a batch, which of its rows they are, and those left out.

        Args:
            batch: The fields of the plan, and FAULT where the table tells faults.
            rows: Of each row, its number in the table.
            loaded: What the fields of paths led to.
        """
        fields = {
            name: array.cast(stored_type(array.type))
            for name, array in zip(batch.schema.names, batch.columns, strict=True)
        }
        reasons = _faults(fields.pop(FAULT, None))
        name = printable(self._table.file.name)
        places = to_array([f"{name}#{row}" for row in rows.tolist()], pa.string())
        key = self._plan.key
        if key is None:
            keys = places
        elif self._plan.key_is_path:
            paths = loaded[key].paths if key in loaded else self._safe(fields[key], reasons)
            keys = pc.coalesce(paths, places)
        else:
            keys = _keys(fields[key], key, reasons)
        arrays = [keys]
        for column in self._plan.columns:
            found: _Reasons = {}
            arrays.append(_convert(fields[column.field], column, self._plan, loaded.get(column.field), found))
            reasons = found | reasons
        keep = np.ones(batch.num_rows, np.bool_)
        if not reasons:
            return pa.RecordBatch.from_arrays(arrays, schema=self._schema), keep, ()
        keep[list(reasons)] = False
        kept = [array.filter(bool_array(keep)) for array in arrays]
        rejects = tuple(
            Reject(
                source=printable(self._table.place(int(rows[i]))),
                key=keys[i].as_py() if keys[i].is_valid else places[i].as_py(),
                reason=reasons[i],
            )
            for i in sorted(reasons)
        )
        return pa.RecordBatch.from_arrays(kept, schema=self._schema), keep, rejects

    def _safe(self, array: pa.Array, reasons: _Reasons) -> pa.Array:
        return safe_paths(array, reasons, fetches=self._plan.fetches)


def _faults(array: pa.Array | None) -> _Reasons:
    """Return the rows that the table says can't be used."""
    if array is None or array.null_count == len(array):
        return {}
    return {i: array[i].as_py() for i in np.flatnonzero(valid_rows(array)).tolist()}


def safe_paths(array: pa.Array, reasons: dict[int, str], *, fetches: bool) -> pa.Array:
    """Return paths as keys have them; null where there is none, or a reason why not."""
    paths: list[str | None] = []
    for i, text in enumerate(paths_of(array)):
        try:
            paths.append(None if text is None else key_of(text, fetches=fetches)[0])
        except UnsafePathError as fault:
            paths.append(None)
            reasons[i] = str(fault)
    return to_array(paths, pa.string())


def _keys(array: pa.Array, field: str, reasons: _Reasons) -> pa.Array:
    """Return the keys; null where there is a reason."""
    keys = array.cast(pa.string())
    _note(reasons, ~valid_rows(keys), f"the key field {field!r} is null")
    _note(reasons, truths(pc.equal(keys, "")), f"the key field {field!r} is empty")
    unreadable = _invalid(keys, field)
    reasons |= unreadable
    return _without(keys, unreadable)


def _convert(
    array: pa.Array, column: PlannedColumn, plan: Plan, files: LoadedFiles | None, reasons: _Reasons
) -> pa.Array:
    """Return the values as they are stored; rows with a reason hold anything."""
    if files is not None:
        array = files.payloads
        reasons |= {i: f"column {column.field!r}: {reason}" for i, reason in files.reasons.items()}
    elif array.nbytes > plan.max_value_bytes:  # only then may one value of the batch be
        sizes = _sizes(array)
        for i in np.flatnonzero(sizes > plan.max_value_bytes).tolist():
            reasons[i] = f"column {column.field!r}: {too_large(int(sizes[i]), plan.max_value_bytes)}"
        array = _without(array, reasons)
    medium = medium_of(column.column.kind)
    if files is not None and column.column.kind in (Kind.SCALAR, Kind.LABEL):
        return _written_numbers(array, column, reasons)
    match column.column.kind:
        case Kind.LABEL:
            text = array.type in (pa.string(), pa.large_string())
            made = _text_labels(array, column, reasons) if text else _number_labels(array, column, reasons)
            if plan.require_labels:
                _note(reasons, ~valid_rows(made), f"column {column.field!r} is null, and labels are required")
            return made
        case _ if medium is not None:
            made = _payloads(array, column.field, medium, plan.verify_images, files, reasons)
        case Kind.TENSOR:
            made = _tensors(array, column.field, reasons)
        case Kind.VALUE if column.classes:
            made = _listed_ids(array, column, reasons)
        case Kind.TEXT | Kind.JSON if files is not None:
            made = array.view(pa.string())  # UTF-8 or not is found out below
        case _:
            made = array
    reasons |= _invalid(made, column.field)
    if column.column.kind is Kind.JSON:
        reasons |= _not_json(made, column.field, reasons)
    return made


def _sizes(array: pa.Array) -> NDArray[np.int64]:
    """Return the bytes of each value."""
    dtype = array.type
    if dtype in (pa.binary(), pa.string(), pa.large_binary(), pa.large_string()):
        return np.where(valid_rows(array), np.diff(value_offsets(array).astype(np.int64)), 0)
    if pa.types.is_struct(dtype):
        children = (pc.struct_field(array, i) for i in range(dtype.num_fields))
        return sum((_sizes(child) for child in children), start=np.zeros(len(array), np.int64))
    return row_bytes(pa.RecordBatch.from_arrays([array], names=["value"]))


def _written_numbers(array: pa.Array, column: PlannedColumn, reasons: _Reasons) -> pa.Array:
    """Return the number that is written in each file; of labels, a name of a class will do."""
    ids = {name: number for number, name in enumerate(column.classes)}
    made: list[int | None] = [None] * len(array)
    for i in np.flatnonzero(valid_rows(array)).tolist():
        data = bytes_of(array[i])
        try:
            made[i] = label_of(data, column.classes, ids) if column.column.kind is Kind.LABEL else integer_of(data)
        except UnfitError as fault:
            reasons[i] = f"column {column.field!r}: {fault}"
    return to_array(made, pa.int64())


def _text_labels(array: pa.Array, column: PlannedColumn, reasons: _Reasons) -> pa.Array:
    ids = pc.index_in(array, to_array(column.classes, array.type), skip_nulls=True)
    unknown = np.flatnonzero(valid_rows(array) & ~valid_rows(ids)).tolist()
    if unknown:
        invalid = _invalid(array, column.field)
        hints: dict[str, str] = {}
        for i in unknown:
            reasons[i] = invalid[i] if i in invalid else _unknown_class(array[i].as_py(), column, hints)
    return ids.cast(pa.int64())


def _number_labels(array: pa.Array, column: PlannedColumn, reasons: _Reasons) -> pa.Array:
    there = valid_rows(array)
    found = numbers(array.cast(pa.int8()) if pa.types.is_boolean(array.type) else array)
    values = np.where(there, found, found.dtype.type(0))
    count = len(column.classes if column.ids is None else column.ids)
    good = there & (values >= 0) & (values < count)
    if pa.types.is_floating(array.type):
        good &= np.floor(values) == values
    # Hugging Face writes -1 for a label that isn't known.
    missing = ~there if column.ids is None else ~there | (values == -1)
    for i in np.flatnonzero(~good & ~missing).tolist():
        reasons[i] = f"column {column.field!r}: label {values[i]} is none of the ids 0 to {count - 1}"
    ids = np.where(good, values, 0).astype(np.int64)
    if column.ids is not None and column.ids != column.classes:
        place = {name: i for i, name in enumerate(column.classes)}
        table = np.array([place.get(name, -1) for name in column.ids], np.int64)
        hints: dict[str, str] = {}
        for i in np.flatnonzero(good & (table[ids] < 0)).tolist():
            reasons[i] = _unknown_class(column.ids[ids[i]], column, hints)
        ids = table[ids]
    return pa.Array.from_buffers(pa.int64(), len(ids), [bits_buffer(good), pa.py_buffer(ids)])


def _unknown_class(name: str, column: PlannedColumn, hints: dict[str, str]) -> str:
    if name not in hints and len(hints) < _MOST_HINTS:
        hints[name] = did_you_mean(name, column.classes)
    told = f"column {column.field!r}: label {name!r} is none of the {len(column.classes)} classes"
    return f"{told}.{hints[name]}" if hints.get(name) else told


def _payloads(
    array: pa.Array, field: str, medium: Medium, verify: VerifyImages, files: LoadedFiles | None, reasons: _Reasons
) -> pa.Array:
    """Return bytes and base names of a medium's files; null where there are neither."""
    form = medium.stored.source_form
    paths = None
    if files is not None:
        data = array
        paths = _base_names(files.paths)
        _note(reasons, valid_rows(data) & (np.diff(value_offsets(data)) == 0), f"column {field!r}: empty file")
    elif not pa.types.is_struct(array.type):
        data = array.cast(pa.binary()) if pa.types.is_fixed_size_binary(array.type) else array
    else:
        data = pc.struct_field(array, form.payload)
        if form.path is not None:
            paths = pc.struct_field(array, form.path).cast(pa.string())
            told = f"column {field!r}: {medium.stored.kind.value} bytes are not in the file"
            _note(reasons, ~valid_rows(data) & valid_rows(paths), told)
            paths = _base_names(paths)
    there = valid_rows(data)
    for i in np.flatnonzero(there).tolist():
        if i in reasons:
            continue
        try:
            check_payload(medium, bytes_of(data[i]), verify)
        except UnfitMediumError as fault:
            reasons[i] = f"column {field!r}: {fault if data[i].as_buffer().size else 'no bytes'}"
    data = _without(data, reasons).cast(pa.binary())
    return payload_column(form, data, paths)


def _base_names(paths: pa.Array) -> pa.Array:
    return pc.replace_substring_regex(paths, r"(?s)^.*/", "")


def _listed_ids(array: pa.Array, column: PlannedColumn, reasons: _Reasons) -> pa.Array:
    """Return lists of ids as the classes have them."""
    ids = column.ids or column.classes
    rows = np.repeat(np.arange(len(array)), pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False))
    items = array.flatten()
    there, found = valid_rows(items), numbers(items)
    outside = there & ((found < 0) | (found >= len(ids)))
    for i in np.flatnonzero(outside).tolist():
        reasons.setdefault(int(rows[i]), f"column {column.field!r}: {found[i]} is none of the ids 0 to {len(ids) - 1}")
    for i in np.flatnonzero(~there).tolist():
        reasons.setdefault(int(rows[i]), f"column {column.field!r}: its list holds a null, which is none of the ids")
    if ids == column.classes:
        return array
    place = {name: i for i, name in enumerate(column.classes)}
    table = np.array([place.get(name, -1) for name in ids], np.int64)
    good = there & ~outside
    moved = table[np.where(good, found, 0)]
    hints: dict[str, str] = {}
    for i in np.flatnonzero(good & (moved < 0)).tolist():
        reasons.setdefault(int(rows[i]), _unknown_class(ids[found[i]], column, hints))
    values = pa.Array.from_buffers(pa.int64(), len(moved), [bits_buffer(there), pa.py_buffer(moved)])
    ends = np.cumsum(np.bincount(rows, minlength=len(array)))
    offsets = np.concatenate((np.zeros(1, np.int64), ends))
    if pa.types.is_list(array.type):
        offsets = offsets.astype(np.int32)
    buffers = [bits_buffer(valid_rows(array)), pa.py_buffer(offsets)]
    return pa.Array.from_buffers(array.type, len(array), buffers, children=[values])


def _tensors(array: pa.Array, field: str, reasons: _Reasons) -> pa.Array:
    if pa.types.is_fixed_size_binary(array.type):
        array = array.cast(pa.binary())
    else:
        lengths = np.where(valid_rows(array), np.diff(value_offsets(array)), 0)
        _note(reasons, lengths > LARGEST_VALUE, f"column {field!r}: more bytes than a tensor column holds (2 GiB)")
    for i in np.flatnonzero(valid_rows(array)).tolist():
        if i not in reasons:
            try:
                check_tensor(bytes_of(array[i]))
            except UnfitError as fault:
                reasons[i] = f"column {field!r}: {fault}"
    return _without(array, reasons).cast(pa.binary())


def _invalid(array: pa.Array, field: str) -> _Reasons:
    """Return the rows whose text isn't UTF-8, or whose value breaks its type's rules otherwise."""
    try:
        array.validate(full=True)
        return {}
    except pa.ArrowInvalid:
        pass
    reasons: _Reasons = {}
    for i in range(len(array)):
        try:
            array.take(to_array([i], pa.int64())).validate(full=True)
        except pa.ArrowInvalid as error:
            told = "text is not valid UTF-8" if "UTF8" in str(error) else str(error)
            reasons[i] = f"column {field!r}: {told}"
    return reasons


def _not_json(array: pa.Array, field: str, known: _Reasons) -> _Reasons:
    reasons: _Reasons = {}
    for i in range(len(array)):
        if i not in known and array[i].is_valid:
            try:
                check_json(array[i].as_py())
            except UnfitError as fault:
                reasons[i] = f"column {field!r}: {fault}"
    return reasons


def _without(array: pa.Array, reasons: _Reasons) -> pa.Array:
    """Return the array with nulls at the rows that have a reason."""
    if not reasons:
        return array
    keep = np.ones(len(array), np.bool_)
    keep[list(reasons)] = False
    return pc.if_else(bool_array(keep), array, pa.nulls(1, array.type)[0])


def _note(reasons: _Reasons, rows: NDArray[np.bool_], reason: str) -> None:
    for i in np.flatnonzero(rows).tolist():
        reasons.setdefault(i, reason)

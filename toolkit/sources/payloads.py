"""The payloads of media columns: which medium bytes are, whether they can be stored, and the column of many."""

from __future__ import annotations

import pyarrow as pa

from toolkit.format.arrays import bool_array, valid_rows
from toolkit.format.kinds import Kind
from toolkit.format.media import StoredForm
from toolkit.pipelines.media import media
from toolkit.pipelines.medium import Medium, UnfitMediumError
from toolkit.sources.base import LARGEST_VALUE
from toolkit.sources.options import VerifyImages

__all__ = ["begun_as", "check_payload", "holds", "named_as", "payload_column"]


def check_payload(medium: Medium, data: bytes | memoryview, verify: VerifyImages) -> None:
    """Raise UnfitMediumError when `data` can't be stored, or has no header of the medium's unless `verify` is OFF."""
    if verify is VerifyImages.OFF:
        _check_size(medium, data)
    else:
        _check(medium, data)


def holds(data: bytes | memoryview) -> Kind | None:
    """Return the kind of the medium whose header `data` has, or None."""
    for medium in media():
        try:
            _check(medium, data)
        except UnfitMediumError:
            continue
        return medium.stored.kind
    return None


def begun_as(head: bytes) -> Kind | None:
    """Return the kind of the medium that a file is whose first HEAD_BYTES are `head`, or None."""
    return next((medium.stored.kind for medium in media() if medium.begins(head)), None)


def named_as(extension: str) -> Kind | None:
    """Return the kind of the medium whose files have that extension, in lower case and without its dot, or None."""
    return next((medium.stored.kind for medium in media() if extension in medium.extensions), None)


def payload_column(form: StoredForm, payloads: pa.Array, paths: pa.Array | None) -> pa.Array:
    """Return a column in the form of the source's own bytes: null where the payload is.

    `paths` are the base names of the files; None: they have none.
    """
    children: dict[str | None, pa.Array | None] = {form.payload: payloads, form.path: paths}
    arrays = []
    for field in form.type:
        child = children.get(field.name)
        arrays.append(pa.nulls(len(payloads), field.type) if child is None else child)
    missing = bool_array(~valid_rows(payloads)) if payloads.null_count else None
    return pa.StructArray.from_arrays(arrays, fields=list(form.type), mask=missing)


def _check(medium: Medium, data: bytes | memoryview) -> None:
    if not len(data):
        raise UnfitMediumError("empty file")
    _check_size(medium, data)
    medium.check_header(data)


def _check_size(medium: Medium, data: bytes | memoryview) -> None:
    if len(data) > LARGEST_VALUE:
        kind = medium.stored.kind.value
        article = "an" if kind[0] in "aeiou" else "a"
        raise UnfitMediumError(f"{len(data)} bytes are more than {article} {kind} column holds (2 GiB)")

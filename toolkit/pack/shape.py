"""Shape media between source and shards: check that they decode, or store them in another encoding, images as JPEG or
pixels.

A step from rows to rows, on the packing threads. What a value comes to is up to its medium's Encoder.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from toolkit.errors import UsageError
from toolkit.format.encodings import KEEP, ImageEncoding
from toolkit.format.media import IMAGE
from toolkit.format.schema import KEY, medium_column
from toolkit.pipelines.media import held_medium
from toolkit.pipelines.medium import Encoder, Made, Shaping, UnfitMediumError
from toolkit.sources.base import PIECE_BYTES, Rows, Slice, Source, Survey
from toolkit.sources.options import VerifyImages
from toolkit.sources.reject import Reject

__all__ = ["Shaper"]


class Shaper:
    """The rows of a source with their media shaped. Its rows() runs on several threads, each with its own slice.

    Attributes:
        survey: What is packed: the source's survey with its image columns as they are stored.
    """

    def __init__(
        self,
        source: Source,
        survey: Survey,
        verify: VerifyImages,
        encoding: ImageEncoding,
        short_side: int | None,
        max_pixels: int,
    ) -> None:
        """See toolkit.pack.job.PackJob. Raises UsageError when there is no image to encode."""
        self._source = source
        self._source_survey = survey
        images = [column.name for column in survey.columns if column.kind is IMAGE.kind]
        encodes = encoding != KEEP
        if encodes and not images:
            found = ", ".join(f"{column.name} ({column.kind.value})" for column in survey.columns)
            raise UsageError(
                f"--image-encoding {encoding}: no column holds images; there are {found}. Leave it out, or say which "
                "one does with --kind COLUMN=image"
            )
        self.survey = _encoded(survey, images, encoding, short_side) if encodes else survey
        self._columns: dict[str, tuple[str, Encoder]] = {}  # name -> the child with its payload, what stores it
        for column in survey.columns:
            held = held_medium(column.kind, survey.types[column.name])
            encoded = column.name in images and encodes
            if held is not None and (encoded or verify is VerifyImages.DECODE):
                shaping = Shaping(
                    encoding=str(encoding if encoded else KEEP), short_side=short_side, max_pixels=max_pixels
                )
                self._columns[column.name] = held.form.payload, held.medium.encoder(shaping)

    def rows(self, part: Slice) -> Iterator[Rows]:
        """Yield the rows of a slice in pieces of a few MiB; values that can't be decoded become rejects."""
        for rows in self._source.read(self._source_survey, part):
            yield from self.shaped(rows, functools.partial(self.place, part))

    def place(self, part: Slice, key: str) -> str:
        """Return the path of the file that a sample of the slice comes from, for a reject."""
        return self._source.place(part, key)

    def shaped(self, rows: Rows, place: Callable[[str], str]) -> Iterator[Rows]:
        """Yield rows with their media shaped; `place` says where the sample of a key stands. For any thread.

        Columns that the survey hasn't stay as they are.
        """
        if not self._columns:
            yield rows
            return
        import pyarrow.compute as pc  # late: a pack of files as they are does without, and starts sooner

        batch = rows.batch
        payloads = [
            (name, encoder, pc.struct_field(batch.column(name), payload))  # with the struct's nulls
            for name, (payload, encoder) in self._columns.items()
        ]
        piece = _Piece(rows, {name: encoder for name, (_, encoder) in self._columns.items()})
        rejects = list(rows.rejects)
        for row in range(batch.num_rows):
            try:
                piece.add(row, [_made(encoder, array[row], name) for name, encoder, array in payloads])
            except UnfitMediumError as fault:
                key = batch.column(KEY)[row].as_py()
                rejects.append(Reject(place(key), key, str(fault)))
            # A few MiB of source files can be very many pixels: hand on what there is.
            if piece.nbytes >= PIECE_BYTES:
                yield piece.take((), 0)
        yield piece.take(tuple(rejects), rows.read_bytes)


def _made(encoder: Encoder, value: pa.BinaryScalar, column: str) -> Made | None:
    if not value.is_valid:
        return None
    try:
        return encoder.make(memoryview(value.as_buffer()).cast("B"))
    except UnfitMediumError as fault:
        raise UnfitMediumError(f"column {column!r}: {fault}") from fault


class _Piece:
    """Rows of a batch that are kept, with what their media came to."""

    def __init__(self, rows: Rows, encoders: Mapping[str, Encoder]) -> None:
        self._batch = rows.batch
        self._places = rows.places
        self._encoders = encoders
        self._begin()

    def add(self, row: int, values: Sequence[Made | None]) -> None:
        """Keep a row."""
        self._rows.append(row)
        for made, value in zip(self._made.values(), values, strict=True):
            made.append(value)
            self.nbytes += 0 if value is None else value.nbytes

    def take(self, rejects: tuple[Reject, ...], read_bytes: int) -> Rows:
        """Return the rows kept since the last call, with what else is to be said of them."""
        arrays = {}
        for name, array in zip(self._batch.schema.names, self._batch.columns, strict=True):
            kept = _picked(array, self._rows)
            encoder = self._encoders.get(name)
            arrays[name] = kept if encoder is None else encoder.array(self._made[name], kept)
        kept_rows = np.array(self._rows, np.int64)
        places = {name: one.picked(kept_rows) for name, one in self._places.items()}
        self._begin()
        batch = pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))
        return Rows(batch, rejects, read_bytes, places)

    def _begin(self) -> None:
        self._rows: list[int] = []
        self._made: dict[str, list[Made | None]] = {name: [] for name in self._encoders}
        self.nbytes = 0


def _picked(array: pa.Array, rows: Sequence[int]) -> pa.Array:
    if not rows or rows[-1] - rows[0] + 1 == len(rows):  # neighbours, as nearly always: no copy
        return array.slice(rows[0] if rows else 0, len(rows))
    return array.take(pa.array(rows, pa.int64()))


def _encoded(survey: Survey, images: Sequence[str], encoding: ImageEncoding, short_side: int | None) -> Survey:
    columns = tuple(
        medium_column(column.name, IMAGE, str(encoding)) if column.name in images else column
        for column in survey.columns
    )
    types = dict.fromkeys(images, IMAGE.form_in(str(encoding)).type)
    options = {"image_encoding": str(encoding), "short_side": short_side}
    return replace(survey, columns=columns, types={**survey.types, **types}, options={**survey.options, **options})

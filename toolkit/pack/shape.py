"""Shape images between source and shards: check that they decode, or store them as JPEG of our making or as pixels.

A step from rows to rows, on the packing threads. What an image comes to is decided in toolkit.pack.images.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from toolkit.errors import UsageError
from toolkit.format.encodings import KEEP, ImageEncoding
from toolkit.format.media import IMAGE
from toolkit.format.schema import KEY, Kind, image_column
from toolkit.pack.images import ImageMaker, StoredImage, UnfitImageError
from toolkit.sources.base import PIECE_BYTES, Rows, Slice, Source, Survey
from toolkit.sources.options import VerifyImages
from toolkit.sources.reject import Reject

__all__ = ["Shaper"]


class Shaper:
    """The rows of a source with their images shaped. Its rows() runs on several threads, each with its own slice.

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
        self._columns = tuple(column.name for column in survey.columns if column.kind is Kind.IMAGE)
        encodes = encoding != KEEP
        if encodes and not self._columns:
            found = ", ".join(f"{column.name} ({column.kind.value})" for column in survey.columns)
            raise UsageError(
                f"--image-encoding {encoding}: no column holds images; there are {found}. Leave it out, or say which "
                "one does with --kind COLUMN=image"
            )
        self.survey = _encoded(survey, encoding, short_side) if encodes else survey
        decodes = encodes or (verify is VerifyImages.DECODE and bool(self._columns))
        self._maker = ImageMaker(encoding, short_side, max_pixels) if decodes else None

    def rows(self, part: Slice) -> Iterator[Rows]:
        """Yield the rows of a slice in pieces of a few MiB; images that can't be decoded become rejects."""
        for rows in self._source.read(self._source_survey, part):
            if self._maker is None:
                yield rows
            else:
                yield from self._shaped(rows, part, self._maker)

    def _shaped(self, rows: Rows, part: Slice, maker: ImageMaker) -> Iterator[Rows]:
        batch = rows.batch
        encoded = [pc.struct_field(batch.column(name), "bytes") for name in self._columns]  # with the struct's nulls
        piece = _Piece(batch, self._columns)
        rejects = list(rows.rejects)
        for row in range(batch.num_rows):
            try:
                piece.add(row, [self._image(maker, array[row], i) for i, array in enumerate(encoded)])
            except UnfitImageError as fault:
                key = batch.column(KEY)[row].as_py()
                rejects.append(Reject(self._source.place(part, key), key, str(fault)))
            # A few MiB of source files can be very many pixels: hand on what there is.
            if piece.nbytes >= PIECE_BYTES:
                yield Rows(piece.take(maker), (), 0)
        yield Rows(piece.take(maker), tuple(rejects), rows.read_bytes)

    def _image(self, maker: ImageMaker, value: pa.BinaryScalar, column: int) -> StoredImage | None:
        if not value.is_valid:
            return None
        try:
            return maker.make(memoryview(value.as_buffer()).cast("B"))
        except UnfitImageError as fault:
            raise UnfitImageError(f"column {self._columns[column]!r}: {fault}") from fault


class _Piece:
    """Rows of a batch that are kept, with what their images came to."""

    def __init__(self, batch: pa.RecordBatch, columns: Sequence[str]) -> None:
        self._batch = batch
        self._columns = columns
        self._begin()

    def add(self, row: int, images: Sequence[StoredImage | None]) -> None:
        """Keep a row."""
        self._rows.append(row)
        for made, image in zip(self._made, images, strict=True):
            made.append(image)
            self.nbytes += 0 if image is None else image.nbytes

    def take(self, maker: ImageMaker) -> pa.RecordBatch:
        """Return the rows kept since the last call."""
        arrays = {}
        for name, array in zip(self._batch.schema.names, self._batch.columns, strict=True):
            kept = _picked(array, self._rows)
            made = self._made[self._columns.index(name)] if name in self._columns else None
            arrays[name] = kept if made is None else maker.array(made, kept)
        self._begin()
        return pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))

    def _begin(self) -> None:
        self._rows: list[int] = []
        self._made: list[list[StoredImage | None]] = [[] for _ in self._columns]
        self.nbytes = 0


def _picked(array: pa.Array, rows: Sequence[int]) -> pa.Array:
    if not rows or rows[-1] - rows[0] + 1 == len(rows):  # neighbours, as nearly always: no copy
        return array.slice(rows[0] if rows else 0, len(rows))
    return array.take(pa.array(rows, pa.int64()))


def _encoded(survey: Survey, encoding: ImageEncoding, short_side: int | None) -> Survey:
    columns = tuple(
        image_column(column.name, encoding) if column.kind is Kind.IMAGE else column for column in survey.columns
    )
    types = {column.name: IMAGE.form_in(str(encoding)).type for column in columns if column.kind is Kind.IMAGE}
    options = {"image_encoding": str(encoding), "short_side": short_side}
    return replace(survey, columns=columns, types={**survey.types, **types}, options={**survey.options, **options})

"""Images as a medium."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from toolkit._native.image.program import UNSUPPORTED, ImageError, Scratch, probe
from toolkit.format.arrays import valid_rows
from toolkit.format.media import IMAGE, StoredForm
from toolkit.pipelines.image.facts import JPEG_MAGIC, column_facts, decoded_facts, facts_of
from toolkit.pipelines.image.formats import NotAPictureError, NotBuiltError, find_format, open_picture
from toolkit.pipelines.medium import Encoder, Header, Medium, MissingReaderError, Shaping, UnfitMediumError
from toolkit.pipelines.state import State, ValueKind

__all__ = ["ImageMedium"]

_CHANNELS = 3


class ImageMedium(Medium):
    """Image files, and uint8 pixels (height, width, 3)."""

    stored = IMAGE
    extensions = frozenset(
        {
            *("jpg", "jpeg", "png", "ppm", "bmp", "pgm", "tif", "tiff", "webp", "gif", "jfif"),
            *("apng", "avif", "j2k", "jp2", "jpe", "jpf", "jpx", "pbm", "pfm", "pnm"),
        }
    )

    numbers = ("width", "height")
    marks = MappingProxyType({"rotated": "turned by EXIF"})

    def begins(self, head: bytes) -> bool:
        """Tell whether one of the formats that are decoded begins so."""
        return find_format(head) is not None

    def check_header(self, payload: bytes | memoryview) -> None:
        """Read the header, a JPEG's natively."""
        if payload[:3] == JPEG_MAGIC:
            try:
                probe(payload)
                return
            except ImageError as error:
                if error.status != UNSUPPORTED:  # CMYK and the like: PIL decodes them
                    raise UnfitMediumError(f"no readable JPEG header: {error}") from error
        try:
            open_picture(payload).close()
        except NotBuiltError as error:
            raise MissingReaderError(str(error)) from error
        except NotAPictureError as error:
            raise UnfitMediumError(str(error)) from error

    def header(self, payload: bytes | memoryview) -> Header | None:
        """Return the size as it is decoded, the format, and whether EXIF turns it."""
        facts = facts_of(payload)
        return None if facts is None else _header(facts.format, facts.width, facts.height, facts.orientation > 1)

    def header_of(self, sizes: Sequence[int]) -> Header:
        """Return the size of raw pixels; nothing is to turn any more."""
        height, width, _ = sizes
        return _header("raw", width, height, False)

    def header_of_facts(self, facts: Sequence[Any]) -> Header | None:
        """Return the size as it is decoded, the format, and whether EXIF turns it."""
        height, width, orientation, name = facts
        return None if None in facts else _header(name, width, height, orientation > 1)

    def derive(self, column: pa.Array) -> list[pa.Array]:
        """Return height, width, orientation and format of each picture."""
        form = self.stored.form_of(column.type) or self.stored.source_form
        there = valid_rows(column) & valid_rows(column.field(form.payload))
        if form.is_decoded:
            return decoded_facts(column, there)
        return column_facts(column.field(form.payload), there)

    def decode_check(self, max_pixels: int) -> Callable[[bytes], str | None]:
        """Return what decodes as a pipeline does."""
        # Late: a pack does without, and starts sooner.
        from toolkit.pipelines.image.compiled import CompiledImage
        from toolkit.pipelines.image.decode_step import DecodeImage

        program, scratch = CompiledImage("", [DecodeImage(max_pixels=max_pixels)]), Scratch()

        def check(encoded: bytes) -> str | None:
            try:
                program.decode(encoded, scratch)
            except (ImageError, ValueError, MemoryError) as error:
                return str(error)
            return None

        return check

    def encoder(self, shaping: Shaping) -> Encoder:
        """Return what keeps files, or stores JPEGs or pixels."""
        from toolkit.pipelines.image.encode import ImageEncoder  # late: a loader does without

        return ImageEncoder(shaping)

    def state(self, form: StoredForm, column: str) -> State:
        """Return an image file or an image of pixels."""
        return State(ValueKind.RAW_IMAGE if form.is_decoded else ValueKind.IMAGE, column=column)

    def sizes_fault(self, nbytes: int, sizes: Sequence[int]) -> str | None:
        """Say why pixels don't fit the height, width and channels stored beside them, or None."""
        height, width, channels = sizes
        if channels != _CHANNELS or height < 1 or width < 1:
            return f"no size of a raw image: {height} x {width} pixels, {channels} channels"
        if nbytes != height * width * channels:
            return f"{nbytes} bytes of pixels for a raw image of {height} x {width} x {channels}"
        return None


def _header(name: str, width: int, height: int, turned: bool) -> Header:
    marks = frozenset({"rotated"} if turned else ())
    return Header(name, f"{width} x {height} {name}", {"width": width, "height": height}, marks)

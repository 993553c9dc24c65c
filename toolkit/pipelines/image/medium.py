"""Images as a medium."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MappingProxyType

import pyarrow as pa

from toolkit._native.image.program import UNSUPPORTED, ImageError, Scratch, probe
from toolkit.format.media import IMAGE, StoredForm
from toolkit.pipelines.image.formats import NotAPictureError, find_format, open_picture
from toolkit.pipelines.image.pil_messages import heard
from toolkit.pipelines.medium import Encoder, Header, Medium, Shaping, UnfitMediumError
from toolkit.pipelines.state import State, ValueKind

__all__ = ["ImageMedium"]

_CHANNELS = 3
_FIRST_SIDEWAYS = 5  # of EXIF's orientations: from here on, width and height change places
_JPEG_MAGIC = b"\xff\xd8\xff"


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
        if payload[:3] == _JPEG_MAGIC:
            try:
                probe(payload)
                return
            except ImageError as error:
                if error.status != UNSUPPORTED:  # CMYK and the like: PIL decodes them
                    raise UnfitMediumError(f"no readable JPEG header: {error}") from error
        try:
            open_picture(payload).close()
        except NotAPictureError as error:
            raise UnfitMediumError(str(error)) from error

    def header(self, payload: bytes | memoryview) -> Header | None:
        """Return size, format, and whether EXIF turns it; width and height are as stored, before that."""
        if payload[:3] == _JPEG_MAGIC:
            try:
                width, height, _, orientation, _ = probe(payload)
            except ImageError:
                return None
            return _header("JPEG", width, height, orientation > 1)
        from PIL import ExifTags

        try:
            with open_picture(payload) as image, heard():
                turned = image.getexif().get(ExifTags.Base.Orientation, 1) in range(2, 9)
                return _header(image.format or "?", image.width, image.height, turned)
        except Exception:  # PIL's plugins raise whatever damaged bytes lead them to
            return None

    def header_of(self, sizes: Sequence[int]) -> Header:
        """Return the size of raw pixels; nothing is to turn any more."""
        height, width, _ = sizes
        return _header("raw", width, height, False)

    def derive(self, column: pa.Array) -> list[pa.Array]:
        """Return height, width, orientation and format of each picture."""
        form = self.stored.form_of(column.type) or self.stored.source_form
        found: list[tuple[int, int, int, str] | tuple[None, ...]] = []
        for value in column:
            if not value.is_valid or not value[form.payload].is_valid:
                found.append((None,) * len(self.stored.facts))
            elif form.is_decoded:
                found.append((value["height"].as_py(), value["width"].as_py(), 1, "raw"))
            else:
                found.append(_facts(value[form.payload].as_buffer().to_pybytes()))
        columns = zip(*found, strict=True) if found else ([] for _ in self.stored.facts)
        return [pa.array(values, fact.type) for values, fact in zip(columns, self.stored.facts, strict=True)]

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


def _facts(payload: bytes) -> tuple[int, int, int, str] | tuple[None, ...]:
    """Return height and width as they are decoded, EXIF's orientation, and the format."""
    if payload[:3] == _JPEG_MAGIC:
        try:
            width, height, _, orientation, _ = probe(payload)
        except ImageError:
            return (None,) * 4
        name = "JPEG"
    else:
        from PIL import ExifTags

        try:
            with open_picture(payload) as image, heard():
                orientation = image.getexif().get(ExifTags.Base.Orientation, 1)
                name, width, height = image.format or "?", image.width, image.height
        except Exception:  # PIL's plugins raise whatever damaged bytes lead them to
            return (None,) * 4
    orientation = orientation if orientation in range(1, 9) else 1
    return (width, height, orientation, name) if orientation >= _FIRST_SIDEWAYS else (height, width, orientation, name)


def _header(name: str, width: int, height: int, turned: bool) -> Header:
    marks = frozenset({"rotated"} if turned else ())
    return Header(name, f"{width} x {height} {name}", {"width": width, "height": height}, marks)

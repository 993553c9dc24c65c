"""The picture formats that are decoded: which bytes are one of them, and PIL's reader of it, the only one that runs.

PIL itself would try all of its readers, one of which starts Ghostscript, and whatever else was registered.
"""

from __future__ import annotations

import importlib
import io
import re
import struct
from typing import TYPE_CHECKING

from toolkit.pipelines.image.pil_messages import heard

if TYPE_CHECKING:
    from PIL.ImageFile import ImageFile

__all__ = [
    "DEFAULT_MAX_PIXELS",
    "FORMATS",
    "HEAD_BYTES",
    "NotAPictureError",
    "NotBuiltError",
    "find_format",
    "open_picture",
    "size_before_opening",
    "webp_tells_more",
]

DEFAULT_MAX_PIXELS = 1 << 27  # 134 million: a photograph of 100 megapixels passes, a bomb of a few kB does not
HEAD_BYTES = 512  # of a file, that tell its format

_RIFF_HEADER = 30  # bytes, up to the size of a WebP's first frame
_VP8_SIZE_MASK = 0x3FFF
_WEBP_METADATA = 0x0C  # flags of a VP8X chunk: there is EXIF, there is XMP
_GIF_FRAME, _GIF_EXTENSION = 0x2C, 0x21

# As PIL calls them, with the module that has PIL's reader.
FORMATS = {
    "JPEG": "JpegImagePlugin",
    "PNG": "PngImagePlugin",
    "GIF": "GifImagePlugin",
    "BMP": "BmpImagePlugin",
    "PPM": "PpmImagePlugin",
    "TIFF": "TiffImagePlugin",
    "WEBP": "WebPImagePlugin",
    "AVIF": "AvifImagePlugin",
    "JPEG2000": "Jpeg2KImagePlugin",
}

# A BMP and a PPM begin with two letters as a text may: what follows them has to fit as well.
_BMP = re.compile(rb"BM.{12}(?:\x0c|\x28|\x34|\x38|\x40|\x6c|\x7c)\0\0\0", re.DOTALL)
_GAP = rb"(?:\s|#[^\n\r]*[\n\r])"
_PPM = re.compile(rb"P[1-6f]" + _GAP + rb"+\d+" + _GAP + rb"+\d+\s")
_FTYP = re.compile(rb"....ftyp", re.DOTALL)
_BEGINNINGS: tuple[tuple[str, re.Pattern[bytes]], ...] = (
    ("JPEG", re.compile(rb"\xff\xd8\xff")),
    ("PNG", re.compile(rb"\x89PNG\r\n\x1a\n")),
    ("GIF", re.compile(rb"GIF8[79]a")),
    ("TIFF", re.compile(rb"II\x2a\0|MM\0\x2a|II\x2b\0|MM\0\x2b")),
    ("WEBP", re.compile(rb"RIFF....WEBPVP8[ LX]", re.DOTALL)),
    ("JPEG2000", re.compile(rb"\xff\x4f\xff\x51|\0\0\0\x0cjP  \r\n\x87\n")),
    ("BMP", _BMP),
    ("PPM", _PPM),
)
_OTHERS: tuple[tuple[str, re.Pattern[bytes]], ...] = (
    ("PostScript", re.compile(rb"%!|\xc5\xd0\xd3\xc6")),
    ("PDF", re.compile(rb"%PDF")),
    ("a web page", re.compile(rb"\s*<(?:!doctype html|html)", re.IGNORECASE)),
    ("SVG or other XML", re.compile(rb"(?:\xef\xbb\xbf)?\s*<(?:\?xml|svg|!doctype svg)", re.IGNORECASE)),
    ("HEIF", re.compile(rb"....ftyp(?:heic|heix|heim|heis|hevc|hevx|mif1|msf1)", re.DOTALL)),
    ("JPEG XL", re.compile(rb"\xff\x0a|\0\0\0\x0cJXL ")),
    ("an icon", re.compile(rb"\0\0[\1\2]\0")),
    ("a Photoshop file", re.compile(rb"8BPS")),
    ("QOI", re.compile(rb"qoif")),
    ("DDS", re.compile(rb"DDS ")),
    ("FITS", re.compile(rb"SIMPLE  =")),
    ("OpenEXR", re.compile(rb"\x76\x2f\x31\x01")),
    ("a zip", re.compile(rb"PK\x03\x04")),
    ("gzip", re.compile(rb"\x1f\x8b")),
)
_KNOWN = "JPEG, PNG, GIF, BMP, PPM, TIFF, WebP, AVIF, JPEG 2000"


class NotAPictureError(ValueError):
    """Why bytes can't be opened as a picture."""


class NotBuiltError(NotAPictureError):
    """Why a picture can't be opened here: PIL was built without its format."""


def find_format(head: bytes | memoryview) -> str | None:
    """Return which of FORMATS begins with `head`, the first HEAD_BYTES of a file; None: none of them."""
    head = bytes(head[:HEAD_BYTES])
    for name, beginning in _BEGINNINGS:
        if beginning.match(head):
            return name
    # The container is HEIF's; the brand tells what is in it, or one of those behind it does.
    if _FTYP.match(head):
        brands = head[8 : min(HEAD_BYTES, int.from_bytes(head[:4]))]
        if b"avif" in brands or b"avis" in brands:
            return "AVIF"
    return None


def size_before_opening(encoded: bytes | memoryview) -> tuple[int, int] | None:
    """Return (width, height) of a WebP or GIF: PIL takes memory for the pixels when it opens one. None: another one."""
    if encoded[:4] == b"RIFF":
        return _webp_size(bytes(encoded[:_RIFF_HEADER]))
    return _gif_size(encoded) if encoded[:4] == b"GIF8" else None


def webp_tells_more(encoded: bytes | memoryview) -> bool:
    """Tell whether a WebP may have EXIF or XMP, or says no size in its first chunk: PIL knows then."""
    head = bytes(encoded[:_RIFF_HEADER])
    match head[12:16]:
        case b"VP8X":
            return len(head) < _RIFF_HEADER or bool(head[20] & _WEBP_METADATA)
        case b"VP8L":
            return head[20:21] != b"\x2f"
        case b"VP8 ":
            return head[23:26] != b"\x9d\x01\x2a"
    return True


def open_picture(encoded: bytes | memoryview) -> ImageFile:
    """Read the header of a picture with PIL's reader of its format, and with no other. Decodes nothing.

    Raises:
        NotAPictureError: It is none of FORMATS, or its header is damaged.
        NotBuiltError: PIL was built without this one.
    """
    from PIL import Image

    name = find_format(encoded)
    if name is None:
        raise NotAPictureError(_no_format(bytes(encoded[:HEAD_BYTES])))
    try:
        importlib.import_module(f"PIL.{FORMATS[name]}")
        reader, accepts = Image.OPEN[name]
    except (ImportError, KeyError) as error:  # an older PIL
        raise NotBuiltError(_not_built(name)) from error
    if accepts is not None and isinstance(accepts(bytes(encoded[:16])), str):
        raise NotBuiltError(_not_built(name))
    with heard() as said:
        try:
            # Not Image.open: its limit on pixels is a global of the whole process, and a warning.
            return reader(io.BytesIO(encoded), "")
        except Exception as error:  # PIL's plugins raise whatever damaged bytes lead them to
            raise NotAPictureError(f"no readable {name} header: {said.why(error)}") from error


def _not_built(name: str) -> str:
    return f"PIL was built without {name}: install a wheel of pillow, or one that has it (see toolkit doctor)"


def _no_format(head: bytes) -> str:
    found = next((name for name, beginning in _OTHERS if beginning.match(head)), None)
    what = f"{found}, which is none of the formats" if found else "it begins as none of the formats"
    return f"not an image: {what} that are decoded ({_KNOWN})"


def _webp_size(head: bytes) -> tuple[int, int] | None:
    if len(head) == _RIFF_HEADER:
        match head[12:16]:
            case b"VP8X":
                return 1 + int.from_bytes(head[24:27], "little"), 1 + int.from_bytes(head[27:30], "little")
            case b"VP8L":
                bits = int.from_bytes(head[21:25], "little")
                return 1 + (bits & _VP8_SIZE_MASK), 1 + (bits >> 14 & _VP8_SIZE_MASK)
            case b"VP8 ":
                width, height = struct.unpack("<HH", head[26:30])
                return width & _VP8_SIZE_MASK, height & _VP8_SIZE_MASK
    return None


def _gif_size(encoded: bytes | memoryview) -> tuple[int, int] | None:
    """Return the size that holds the screen and the first frame, which may be larger."""
    try:
        width, height, flags = struct.unpack_from("<HHB", encoded, 6)
        place = 13 + _palette_bytes(flags)
        while encoded[place] != _GIF_FRAME:
            if encoded[place] == _GIF_EXTENSION:
                place += 2
                while encoded[place]:
                    place += 1 + encoded[place]
            place += 1
        left, top, frame_width, frame_height = struct.unpack_from("<HHHH", encoded, place + 1)
    except (IndexError, struct.error):  # damaged: PIL says how
        return None
    return max(width, left + frame_width), max(height, top + frame_height)


def _palette_bytes(flags: int) -> int:
    return 3 << (flags & 7) + 1 if flags & 128 else 0

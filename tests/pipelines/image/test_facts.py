"""What is known of pictures without decoding them is what their decoder then does with them."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable
from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pictures import encode, picture
from PIL import Image, features
from PIL.PngImagePlugin import PngInfo

from toolkit._native.image.program import Scratch
from toolkit.format.media import IMAGE_TYPE, RAW_IMAGE_TYPE
from toolkit.pipelines.image.compiled import CompiledImage
from toolkit.pipelines.image.decode_step import DecodeImage
from toolkit.pipelines.image.facts import Facts, column_facts, facts_of
from toolkit.pipelines.image.formats import FORMATS
from toolkit.pipelines.image.medium import ImageMedium

_ORIENTATION = 0x0112
_XMP = b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF><rdf:Description tiff:Orientation="%d"/></rdf:RDF></x:xmpmeta>'
_NEEDED = {"AVIF": "avif", "JPEG2000": "jpg_2000"}  # what PIL may be built without
_WRITTEN = [name for name in FORMATS if name not in _NEEDED or features.check(_NEEDED[name])]
_EXIF = {"JPEG": "exif", "PNG": "exif", "WEBP": "exif", "TIFF": "tiffinfo", "AVIF": "exif"}
_NO_TELLING = [None, b"", b"\0", b"no picture", b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n"]


def written(name: str, exif: int | None, xmp: int | None, **options: object) -> bytes:
    """Return a picture of 30 x 20 pixels in that format, with what it can hold of an orientation."""
    tags = Image.Exif()
    if exif is not None:
        tags[_ORIENTATION] = exif
        options[_EXIF[name]] = tags
    if xmp is not None and name == "TIFF":
        tags[700] = _XMP % xmp
        options["tiffinfo"] = tags
    elif xmp is not None and name == "PNG":
        info = PngInfo()
        info.add_itxt("XML:com.adobe.xmp", (_XMP % xmp).decode())
        options["pnginfo"] = info
    elif xmp is not None:
        options["xmp"] = _XMP % xmp
    return encode(picture(1, 30, 20), name, **options)


def decoded_shape(file: bytes) -> tuple[int, ...]:
    return CompiledImage("", [DecodeImage()]).decode(file, Scratch()).shape[:2]


@pytest.mark.parametrize("name", _WRITTEN)
def test_every_format_has_the_size_that_it_is_decoded_to(name: str) -> None:
    numbers = [None, *range(10)] if name in _EXIF else [None]
    for exif, xmp in product(numbers, numbers if name != "AVIF" else [None, 6]):
        file = written(name, exif, xmp)
        facts = facts_of(file)
        assert facts is not None
        assert (facts.height, facts.width) == decoded_shape(file), (exif, xmp)
        told = xmp if exif is None else exif
        assert (facts.orientation, facts.format) == (told if told in range(1, 9) else 1, name), (exif, xmp)


def test_a_jpeg_that_pil_decodes_is_known_alike() -> None:
    tags = Image.Exif()
    tags[_ORIENTATION] = 6
    file = encode(picture(1, 30, 20).convert("CMYK"), exif=tags)
    assert facts_of(file) == Facts(30, 20, 6, "JPEG")
    assert decoded_shape(file) == (30, 20)


def test_an_animation_counts_its_first_frame() -> None:
    frames = [picture(seed, 30, 20) for seed in range(3)]
    for name in ("GIF", "PNG", "WEBP", "TIFF"):
        file = encode(frames[0], name, save_all=True, append_images=frames[1:])
        assert facts_of(file) == Facts(20, 30, 1, name)
        assert decoded_shape(file) == (20, 30)


@pytest.mark.skipif(not features.check("webp"), reason="PIL was built without WebP")
@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
@pytest.mark.parametrize("lossless", [False, True])
def test_a_webp_is_known_by_its_first_chunk(mode: str, lossless: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    image = picture(1, 30, 20).convert(mode)
    image.putpixel((3, 3), (1, 2, 3, 4)[: len(mode)])
    plain = encode(image, "WEBP", lossless=lossless)
    turned = encode(image, "WEBP", lossless=lossless, exif=exif_bytes(6))
    assert decoded_shape(plain) == (20, 30)
    assert facts_of(turned) == Facts(30, 20, 6, "WEBP")
    assert decoded_shape(turned) == (30, 20)
    monkeypatch.setattr("toolkit.pipelines.image.facts.open_picture", None)
    assert facts_of(plain) == Facts(20, 30, 1, "WEBP")
    assert [facts_of(plain[:cut]) for cut in range(30)] == [None] * 30


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def exif_bytes(orientation: int) -> bytes:
    tags = Image.Exif()
    tags[_ORIENTATION] = orientation
    return tags.tobytes()


_PNG_CHUNKS: dict[str, Callable[[int], bytes]] = {
    "eXIf": lambda n: chunk(b"eXIf", exif_bytes(n)[6:]),
    "eXIf with a name": lambda n: chunk(b"eXIf", exif_bytes(n)),
    "text exif": lambda n: chunk(b"tEXt", b"exif\0" + exif_bytes(n)),
    "raw profile": lambda n: chunk(b"tEXt", b"Raw profile type exif\0\nexif\n 9\n" + exif_bytes(n).hex().encode()),
    "packed profile": lambda n: chunk(
        b"zTXt", b"Raw profile type exif\0\0" + zlib.compress(b"\nexif\n 9\n" + exif_bytes(n).hex().encode())
    ),
    "XMP": lambda n: chunk(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + _XMP % n),
    "packed XMP": lambda n: chunk(b"iTXt", b"XML:com.adobe.xmp\0\1\0\0\0" + zlib.compress(_XMP % n)),
    "other text": lambda n: chunk(b"tEXt", b"Comment\0tiff:Orientation=%d" % n),
    "nothing": lambda n: chunk(b"tEXt", b""),
    "private": lambda n: chunk(b"prVt", bytes(n)),
    "damaged EXIF": lambda n: chunk(b"eXIf", exif_bytes(n)[6 : 6 + n]),
    "damaged text": lambda n: chunk(b"zTXt", b"Raw profile type exif\0\0" + bytes(n)),
}


@settings(max_examples=150, deadline=None)
@given(
    before=st.lists(st.tuples(st.sampled_from(list(_PNG_CHUNKS)), st.integers(1, 8)), max_size=3),
    behind=st.lists(st.tuples(st.sampled_from(list(_PNG_CHUNKS)), st.integers(1, 8)), max_size=3),
    cut=st.integers(0, 40) | st.just(0),
)
def test_a_png_is_turned_as_pil_says(before: list[tuple[str, int]], behind: list[tuple[str, int]], cut: int) -> None:
    plain = encode(picture(1, 30, 20), "PNG")
    pixels, end = plain.index(b"IDAT") - 4, plain.index(b"IEND") - 4
    parts = [b"".join(_PNG_CHUNKS[name](number) for name, number in some) for some in (before, behind)]
    file = plain[:pixels] + parts[0] + plain[pixels:end] + parts[1] + plain[end:]
    file = file[: len(file) - cut]
    facts = facts_of(file)
    try:
        with Image.open(io.BytesIO(file)) as image:
            image.load()
            number = image.getexif().get(_ORIENTATION, 1)
    except Exception:  # PIL can't decode it: what its header says is then as good as nothing
        return
    assert facts == Facts(*((30, 20) if number >= 5 else (20, 30)), number, "PNG")


_WIDTH, _HEIGHT = 30, 20
_PIXELS = zlib.compress(
    b"".join(b"\0" + row.tobytes() for row in np.asarray(picture(1, _WIDTH, _HEIGHT)))  # each row with its filter, none
)
_MARKED = ["acTL", "fcTL", "eXIf", "XMP"]  # what decides whether it is an animation, and how it is turned


def png_of(parts: list[tuple[str, int]]) -> bytes:
    """Return a PNG of these chunks; the frames' own are numbered as they come.

    A part's number is that of frames (acTL), an orientation, or the part of the width that a header tells (IHDR).
    """
    file, sequence = bytearray(b"\x89PNG\r\n\x1a\n"), 0
    for name, number in parts:
        match name:
            case "IHDR":
                file += chunk(b"IHDR", struct.pack(">II5B", _WIDTH, _HEIGHT // number, 8, 2, 0, 0, 0))
            case "acTL":
                file += chunk(b"acTL", struct.pack(">II", number, 0))
            case "fcTL":
                file += chunk(b"fcTL", struct.pack(">5I2H2B", sequence, _WIDTH, _HEIGHT, 0, 0, 1, 10, 0, 0))
                sequence += 1
            case "IDAT":
                file += chunk(b"IDAT", _PIXELS)
            case "fdAT":
                file += chunk(b"fdAT", struct.pack(">I", sequence) + _PIXELS)
                sequence += 1
            case _:
                file += _PNG_CHUNKS[name](number)
    return bytes(file) + chunk(b"IEND", b"")


def delivered(file: bytes) -> np.ndarray:
    return CompiledImage("", [DecodeImage()]).decode(file, Scratch())


def parts_of(names: list[str]) -> st.SearchStrategy[list[tuple[str, int]]]:
    def part(name: str) -> st.SearchStrategy[tuple[str, int]]:
        numbers = st.sampled_from([0, 1, 2, 1 << 31, (1 << 31) + 1]) if name == "acTL" else st.integers(1, 8)
        return st.tuples(st.just(name), numbers)

    return st.lists(st.sampled_from(names).flatmap(part), max_size=5)


_LATE = [("fcTL", 0), ("fdAT", 0), ("eXIf", 6)]  # turned behind what may be a second frame


@settings(max_examples=400, deadline=None)
@given(parts_of(_MARKED), st.sampled_from(["IDAT", "fdAT"]), parts_of([*_MARKED, "IDAT", "fdAT"]))
@example([("acTL", 0)], "IDAT", _LATE)
@example([("acTL", 1)], "IDAT", _LATE)
@example([("acTL", 1), ("fcTL", 0)], "IDAT", _LATE)
@example([("acTL", 1), ("fcTL", 0)], "fdAT", _LATE)
@example([("acTL", 2), ("fcTL", 0)], "IDAT", _LATE)
@example([("fcTL", 0), ("acTL", 2)], "IDAT", _LATE)
@example([("acTL", 1 << 31), ("fcTL", 0)], "IDAT", _LATE)
@example([("acTL", (1 << 31) + 1), ("fcTL", 0)], "IDAT", _LATE)
@example([("acTL", 2), ("acTL", 2), ("fcTL", 0)], "IDAT", _LATE)
@example([("acTL", 2), ("acTL", 2), ("acTL", 2), ("fcTL", 0)], "IDAT", _LATE)
@example([("acTL", 0), ("acTL", 2), ("fcTL", 0)], "IDAT", _LATE)
@example([], "IDAT", [("acTL", 2), *_LATE])
def test_frames_count_as_the_decoder_counts_them(
    before: list[tuple[str, int]], pixels: str, behind: list[tuple[str, int]]
) -> None:
    file = png_of([("IHDR", 1), *before, (pixels, 0), *behind])
    try:
        found = delivered(file)
    except ValueError:  # frames out of order: it can't be decoded, whatever its header says
        return
    facts = facts_of(file)
    assert facts is not None
    upright = delivered(png_of([("IHDR", 1), ("eXIf", facts.orientation), ("IDAT", 0)]))
    assert (facts.height, facts.width) == found.shape[:2]
    np.testing.assert_array_equal(found, upright)


@pytest.mark.parametrize(
    "parts",
    [
        [("IHDR", 1), ("IHDR", 2), ("IDAT", 0)],
        [("IHDR", 2), ("IHDR", 1), ("IDAT", 0), ("IHDR", 4)],
        [("XMP", 6), ("IHDR", 1), ("IDAT", 0)],
    ],
)
def test_the_last_png_header_before_the_pixels_counts(parts: list[tuple[str, int]]) -> None:
    file = png_of(parts)
    facts = facts_of(file)
    assert facts is not None
    assert (facts.height, facts.width) == delivered(file).shape[:2]


@given(st.integers(0, 40), st.binary(min_size=1, max_size=3))
def test_a_damaged_png_header_is_none_or_right(place: int, junk: bytes) -> None:
    file = bytearray(encode(picture(1, 30, 20), "PNG"))
    file[place : place + len(junk)] = junk
    try:
        with Image.open(io.BytesIO(file)) as image:
            size = image.height, image.width
    except Exception:
        size = None
    facts = facts_of(bytes(file))
    assert facts is None or size in (None, facts[:2])


def test_a_column_is_known_as_its_values_are() -> None:
    medium = ImageMedium()
    files = [written(name, None, None) for name in _WRITTEN]
    files += [written("JPEG", number, None) for number in range(1, 9)]
    rows = [*files, *_NO_TELLING, *files[::-1]]
    column = pa.array([None if row is None else {"bytes": row, "path": None} for row in rows], IMAGE_TYPE)
    whole = [facts_of(row) if row is not None else None for row in rows]
    for start, stop in ((0, len(rows)), (3, 20), (len(files), len(files) + len(_NO_TELLING)), (5, 5)):
        arrays = medium.derive(column.slice(start, stop - start))
        assert [array.type for array in arrays] == [fact.type for fact in medium.stored.facts]
        for array in arrays:
            array.validate(full=True)
        found = list(zip(*(array.to_pylist() for array in arrays), strict=True))
        assert found == [(None,) * 4 if facts is None else tuple(facts) for facts in whole[start:stop]]
    assert whole[len(files) : len(files) + len(_NO_TELLING)] == [None] * len(_NO_TELLING)


def damaged_jpegs(file: bytes) -> list[bytes]:
    """Return it with a header that no decoder takes, or only some do."""
    frame = file.index(b"\xff\xc0")  # marker, length, precision, height, width, components, sampling factors
    return [
        file[: frame + 4] + b"\x0c" + file[frame + 5 :],
        file[: frame + 5] + struct.pack(">HH", 1, 65535) + file[frame + 9 :],
        file[: frame + 5] + bytes(4) + file[frame + 9 :],
        file[: frame + 11] + b"\0" + file[frame + 12 :],
        file[: frame + 19],
        file[: len(file) // 2],
    ]


def test_a_column_of_jpegs_is_known_as_its_values_are() -> None:
    tags = Image.Exif()
    tags[_ORIENTATION] = 6
    image = picture(1, 30, 20)
    good = [encode(image.convert(mode), exif=tags) for mode in ("RGB", "L", "CMYK")]
    files = [file for one in good for file in (one, *damaged_jpegs(one))]
    column = pa.array([b"", *files], pa.binary()).slice(1)
    found = column_facts(column, np.ones(len(files), bool))
    rows = list(zip(*(array.to_pylist() for array in found), strict=True))
    assert rows == [tuple(facts_of(file) or (None,) * 4) for file in files]
    assert [rows[files.index(one)] for one in good] == [(30, 20, 6, "JPEG")] * 3
    assert (None,) * 4 in rows


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(["RGB", "L", "CMYK"]), st.integers(0, 700), st.binary(min_size=1, max_size=4))
def test_a_damaged_jpeg_is_known_alike_in_a_column(mode: str, place: int, junk: bytes) -> None:
    file = bytearray(encode(picture(1, 30, 20).convert(mode)))
    file[place : place + len(junk)] = junk
    found = column_facts(pa.array([bytes(file)], pa.binary()), np.ones(1, bool))
    assert tuple(array[0].as_py() for array in found) == tuple(facts_of(bytes(file)) or (None,) * 4)


def test_raw_pixels_have_nothing_to_turn() -> None:
    value = {"pixels": bytes(2 * 3 * 3), "height": 2, "width": 3, "channels": 3}
    column = pa.array([value, None, value], RAW_IMAGE_TYPE).slice(1)
    assert [array.to_pylist() for array in ImageMedium().derive(column)] == [
        [None, 2],
        [None, 3],
        [None, 1],
        [None, "raw"],
    ]


def test_nothing_is_decoded_to_look_for_an_orientation(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(image: object) -> None:
        raise AssertionError("decoded")

    files = [written(name, exif, None) for name in _WRITTEN for exif in ([None, 6] if name in _EXIF else [None])]
    monkeypatch.setattr("PIL.ImageFile.ImageFile.load", load)
    assert all(facts_of(file) is not None for file in files)


def test_sizes_that_no_column_holds_are_not_told() -> None:
    ihdr = struct.pack(">II5B", 1 << 31, 1, 8, 2, 0, 0, 0)
    file = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", ihdr) + chunk(b"IDAT", b"") + chunk(b"IEND", b"")
    assert facts_of(file) is None
    assert np.asarray(ImageMedium().derive(pa.array([{"bytes": file, "path": None}], IMAGE_TYPE))[0].is_null()).all()

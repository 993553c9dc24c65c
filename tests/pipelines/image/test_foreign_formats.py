"""Which bytes are a picture, and that no reader but the one of its own format ever runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from command import program
from image_slots import DECODE, decode
from pictures import encode, picture
from PIL import Image

from toolkit.pipelines.image.decode import decode_with_pil
from toolkit.pipelines.image.formats import FORMATS, NotAPictureError, find_format, open_picture, size_before_opening

POSTSCRIPT = (
    b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 20 10\n%%EndComments\n"
    b"0 0 20 10 rectfill\nshowpage\n%%EOF\n"
)  # fmt: skip
DOS_EPS = b"\xc5\xd0\xd3\xc6" + (32).to_bytes(4, "little") + len(POSTSCRIPT).to_bytes(4, "little") + bytes(20)
PICTURE_KINDS = {
    "JPEG": encode(picture(1)),
    "PNG": encode(picture(1), "PNG"),
    "GIF": encode(picture(1).convert("P"), "GIF"),
    "BMP": encode(picture(1), "BMP"),
    "PPM": encode(picture(1), "PPM"),
    "TIFF": encode(picture(1), "TIFF"),
    "WEBP": encode(picture(1), "WEBP"),
}


@pytest.fixture
def ghostscript(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program called gs, first on PATH, that leaves a mark; returns where."""
    mark, folder = tmp_path / "gs-has-run", tmp_path / "bin"
    folder.mkdir()
    (folder / "gs").write_text(f"#!/bin/sh\necho \"$@\" >> '{mark}'\nexit 1\n")
    (folder / "gs").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return mark


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "source"
    root.mkdir()
    (root / "a.jpg").write_bytes(encode(picture(1)))
    (root / "x.jpg").write_bytes(POSTSCRIPT)
    (root / "y.png").write_bytes(DOS_EPS + POSTSCRIPT)
    return root


def test_the_trap_is_one(ghostscript: Path, folder: Path) -> None:
    """PIL itself does start it; else the tests below would show nothing."""
    code = "import sys, PIL.Image; PIL.Image.open(sys.argv[1]).load()"
    subprocess.run([sys.executable, "-c", code, folder / "x.jpg"], check=False, capture_output=True)
    assert ghostscript.exists()


@pytest.mark.parametrize(
    "options",
    [
        ("--verify-images", "header"),
        ("--verify-images", "decode"),
        ("--image-encoding", "raw"),
        ("--image-encoding", "jpeg:90", "--short-side", "20"),
    ],
)
def test_packing_starts_no_ghostscript(
    options: tuple[str, ...], ghostscript: Path, folder: Path, tmp_path: Path
) -> None:
    ended = program("pack", folder, tmp_path / "ds", *options, "--max-rejects", "2")
    assert (ended.code, ghostscript.exists()) == (0, False), ended.err
    reports = "".join(path.read_text() for path in (tmp_path / "ds" / "reports").rglob("*") if path.is_file())
    assert reports.count("not an image: PostScript, which is none of the formats that are decoded (JPEG, PNG") == 2


def test_reading_starts_no_ghostscript(ghostscript: Path, folder: Path, tmp_path: Path) -> None:
    assert program("pack", folder, tmp_path / "ds", "--verify-images", "off").code == 0
    checked = program("verify", tmp_path / "ds", "--decode")
    assert checked.code != 0
    assert checked.out.count("PostScript") == 2
    assert program("inspect", tmp_path / "ds").code == 0
    code = (
        "import sys, toolkit\n"
        "ds = toolkit.open(sys.argv[1])\n"
        "steps = toolkit.pipeline(toolkit.slot('image').decode_image().center_crop(8))\n"
        "print(ds.dry_run(steps, 3))\n"
        "loader = ds.loader(steps, batch_size=3, on_error='skip')\n"
        "print([batch.mask.tolist() for batch in loader], loader.stats()['skipped'], 'skipped')\n"
    )
    ran = subprocess.run([sys.executable, "-c", code, tmp_path / "ds"], check=True, capture_output=True, text=True)
    assert "[[True, False, False]] 2 skipped" in ran.stdout
    assert not ghostscript.exists()


def test_no_other_reader_is_even_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    Image.init()
    asked: list[str] = []
    for name in Image.OPEN:

        def reader(*given: object, name: str = name) -> bool:
            asked.append(name)
            return True

        if name not in FORMATS:
            monkeypatch.setitem(Image.OPEN, name, (reader, reader))
    monkeypatch.setitem(Image.OPEN, "MINE", (reader, reader))  # what a package has registered
    for kind, encoded in PICTURE_KINDS.items():
        assert decode_with_pil(encoded, DECODE).shape == (48, 64, 3), kind
    for junk in (POSTSCRIPT, DOS_EPS, b"", b"\0" * 64, b"%PDF-1.7 ", b"GIF89a", b"BM" + bytes(60), bytes(range(256))):
        with pytest.raises(ValueError, match=r"not an image|no readable"):
            decode_with_pil(junk, DECODE)
    assert not asked


@pytest.mark.parametrize("kind", PICTURE_KINDS)
def test_formats_are_found_by_content(kind: str) -> None:
    encoded = PICTURE_KINDS[kind]
    assert find_format(encoded) == find_format(memoryview(encoded)) == kind
    with open_picture(memoryview(encoded)) as image:
        assert (image.format, image.size) == (kind, (64, 48))
    if kind in ("GIF", "WEBP"):
        assert size_before_opening(encoded) == (64, 48)
    else:
        assert size_before_opening(encoded) is None


@pytest.mark.parametrize(
    "text",
    [b"BMW and others, a list of cars of this class", b"P1 is a class", b"P6\n# made by\n", b"II", b"MM", b"RIFF", b""],
)
def test_text_is_no_picture(text: bytes) -> None:
    assert find_format(text) is None
    with pytest.raises(NotAPictureError, match="it begins as none of the formats that are decoded"):
        open_picture(text)


@pytest.mark.parametrize(
    ("head", "format"),
    [
        (b"P6\n# made by a program\n3 2\n255\n", "PPM"),
        (b"P5#x\n12 7 65535 ", "PPM"),
        (b"\0\0\0\x1cftypavif\0\0\0\0mif1miaf", "AVIF"),
        (b"\0\0\0\x1cftypmif1\0\0\0\0mif1avifmiaf", "AVIF"),
        (b"\0\0\0\x14ftypmif1\0\0\0\0heic" + b"avif", None),  # behind the box
        (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic", None),
        (b"\xff\x4f\xff\x51", "JPEG2000"),
        (b"\0\0\0\x0cjP  \r\n\x87\n", "JPEG2000"),
        (b"MM\0\x2b", "TIFF"),
    ],
)
def test_beginnings(head: bytes, format: str | None) -> None:
    assert find_format(head) == format


def test_a_format_that_pil_lacks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(Image.OPEN, "WEBP", raising=False)
    monkeypatch.setitem(sys.modules, "PIL.WebPImagePlugin", None)  # what import says of a module that isn't there
    with pytest.raises(ValueError, match="PIL was built without WEBP"):
        decode(PICTURE_KINDS["WEBP"])


def test_what_other_files_are_is_said() -> None:
    for name, head in (("a web page", b"<!DOCTYPE html><html>"), ("HEIF", b"\0\0\0\x18ftypheic\0\0\0\0mif1heic")):
        with pytest.raises(ValueError, match=f"not an image: {name}, which is none of the formats"):
            decode(head)

"""What PIL and libtiff say of damaged pictures: told with the file's name and key, never printed to stderr."""

from __future__ import annotations

import contextlib
import gc
import json
import struct
import subprocess
import sys
import threading
import warnings
import zlib
from pathlib import Path

import numpy as np
import pytest
from pictures import encode, picture
from PIL import Image

from toolkit.pipelines.image.decode import decode_with_pil
from toolkit.pipelines.image.decode_step import DecodeImage
from toolkit.pipelines.image.pil_messages import heard


def lzw_damaged() -> bytes:
    """A TIFF whose strip holds codes that its LZW table hasn't."""
    data = bytearray(encode(picture(1), "TIFF", compression="tiff_lzw"))
    start = struct.unpack_from("<I", data, _entry(data, 273) + 8)[0]
    data[start + 4 : start + 200] = b"\xff\xf0" * 98
    return bytes(data)


def tiff_cut() -> bytes:
    """A TIFF that ends within its directory."""
    data = encode(picture(1), "TIFF")
    at = struct.unpack("<I", data[4:8])[0]
    return data[: at + 40]


def tiff_far_tag() -> bytes:
    """A TIFF whose tag 305, the software, would lie behind its end; all that the pixels need is there."""
    data = bytearray(encode(picture(1), "TIFF", software="x" * 100))
    entry = _entry(data, 305)
    data[entry + 8 : entry + 12] = struct.pack("<I", len(data) + 100)
    return bytes(data)


def tiff_many_samples() -> bytes:
    """A TIFF with more samples a pixel than PIL decodes, of which it logs an error."""
    data = bytearray(encode(picture(1), "TIFF"))
    entry = _entry(data, 277)
    data[entry + 8 : entry + 10] = struct.pack("<H", 900)
    return bytes(data)


def _entry(tiff: bytes | bytearray, tag: int) -> int:
    """Return where the entry of a tag lies in the first directory."""
    at = struct.unpack_from("<I", tiff, 4)[0]
    entries = range(at + 2, at + 2 + 12 * struct.unpack_from("<H", tiff, at)[0], 12)
    return next(entry for entry in entries if struct.unpack_from("<H", tiff, entry)[0] == tag)


EXIF_CUT = b"Exif\0\0II*\0\x08\0\0\0\x05\0\x12\x01\x03\0\x01\0"


def cmyk_with_cut_exif() -> bytes:
    """A JPEG for PIL, since it is CMYK, whose EXIF ends within an entry."""
    return encode(picture(2).convert("CMYK"), exif=EXIF_CUT)


def png_with_cut_exif() -> bytes:
    """A PNG whose EXIF ends within an entry."""
    return _with_chunk(encode(picture(3), "PNG"), b"eXIf", EXIF_CUT[6:])


def png_no_frames() -> bytes:
    """A PNG that says it is an animation, of no frames."""
    return _with_chunk(encode(picture(4), "PNG"), b"acTL", bytes(8))


def _with_chunk(png: bytes, name: bytes, data: bytes) -> bytes:
    chunk = struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    return png[:33] + chunk + png[33:]


GOOD = {
    "cmyk.jpg": cmyk_with_cut_exif,
    "exif.png": png_with_cut_exif,
    "frames.png": png_no_frames,
    "tag.tif": tiff_far_tag,
}
BAD = {
    "cut.tif": (tiff_cut, "Truncated File Read"),
    "lzw.tif": (lzw_damaged, "(Using code not yet in table)"),
    "samples.tif": (tiff_many_samples, "More samples per pixel than can be decoded: 900"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    for name, make in {**GOOD, **{name: make for name, (make, _) in BAD.items()}}.items():
        (tmp_path / "src" / name).write_bytes(make())
    return tmp_path / "src"


PACK = """
import json, sys
from toolkit.format.encodings import Encoding, ImageEncoding
from toolkit.pack.job import PackJob
from toolkit.pack.run import pack

encoding = ImageEncoding(Encoding.JPEG, 90) if sys.argv[3] == "jpeg" else ImageEncoding(Encoding.KEEP)
result = pack(PackJob(source=sys.argv[1], dataset=sys.argv[2], max_rejects=9, image_encoding=encoding))
print(json.dumps({reject.key: [reject.source, reject.reason] for reject in result.rejects}))
"""

READ = """
import sys
import toolkit
from toolkit import slot

steps = toolkit.pipeline(slot("image").decode_image().resize((8, 8)))
loader = toolkit.open(sys.argv[1]).loader(steps, batch_size=1, threads=2)
print(sum(len(batch["image"]) for batch in loader))
"""


def run(*args: str) -> str:
    """Return what a Python of its own prints, which is nothing on stderr."""
    done = subprocess.run([sys.executable, *args], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_rejects_say_what_was_said(folder: Path, tmp_path: Path) -> None:
    rejects = json.loads(run("-c", PACK, str(folder), str(tmp_path / "ds"), "jpeg"))
    assert rejects.keys() == BAD.keys()
    for name, (source, reason) in rejects.items():
        assert source == str(folder / name)
        assert BAD[name][1] in reason


def test_an_error_filter_makes_no_rejects(folder: Path, tmp_path: Path) -> None:
    assert json.loads(run("-W", "error", "-c", PACK, str(folder), str(tmp_path / "ds"), "jpeg")).keys() == BAD.keys()


def test_reading_is_silent(folder: Path, tmp_path: Path) -> None:
    for name in BAD:
        (folder / name).unlink()
    dataset = str(tmp_path / "ds")
    assert json.loads(run("-c", PACK, str(folder), dataset, "keep")) == {}
    assert "4" in run("-m", "toolkit.cli.main", "inspect", dataset)
    run("-m", "toolkit.cli.main", "verify", "--full", dataset)
    assert run("-c", READ, dataset) == "4\n"


@pytest.mark.parametrize("name", ["lzw.tif", "cut.tif"])
def test_whoever_does_not_listen_hears_all(name: str) -> None:
    """Other uses of PIL in the process are as they were, while another thread decodes with us too."""
    program = f"""
import io, sys, threading
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from PIL import Image
from pipelines.image.test_pil_messages import BAD
from toolkit.pipelines.image.pil_messages import heard

encoded = BAD[{name!r}][0]()
inside, done = threading.Event(), threading.Event()

def listen():
    with heard():
        inside.set()
        done.wait()

thread = threading.Thread(target=listen)
thread.start()
inside.wait()
try:
    Image.open(io.BytesIO(encoded)).load()
except OSError:
    print("refused")
done.set()
thread.join()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout == "refused\n"
    assert BAD[name][1].strip("()") in done.stderr


def test_threads_hear_their_own() -> None:
    """Many threads decode what is whole and what is damaged in different ways: every reason is its picture's."""
    kinds = [(make(), words) for make, words in BAD.values()] + [(make(), "") for make in GOOD.values()]
    wrong: list[str] = []

    def decode(start: int) -> None:
        for i in range(60):
            encoded, words = kinds[(start + i) % len(kinds)]
            try:
                decode_with_pil(encoded, DecodeImage())
                reason = ""
            except ValueError as error:
                reason = str(error)
            others = [other for _, other in kinds if other and other != words]
            if words not in reason or bool(words) != bool(reason) or any(other in reason for other in others):
                wrong.append(reason)

    threads = [threading.Thread(target=decode, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_filters_of_the_user_are_kept() -> None:
    gc.collect()  # what other tests left may warn when it goes
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        before = list(warnings.filters)
        for _ in range(3):
            decode_with_pil(cmyk_with_cut_exif(), DecodeImage())
        assert [one for one in warnings.filters if one in before] == before
        assert len(warnings.filters) <= len(before) + 1
        assert caught == []
        warnings.warn("mine", stacklevel=1)
        with heard():
            pass
        warnings.warn("mine too", stacklevel=1)
    assert [str(one.message) for one in caught] == ["mine", "mine too"]


@pytest.mark.parametrize("seed", range(6))
def test_damage_of_any_kind_is_silent(seed: int, capfd: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(seed)
    image = picture(seed, 40, 30)
    exif = Image.Exif()
    exif[0x0112], exif[0x010E] = 6, "words of some length"
    whole = [
        encode(image.convert("CMYK"), exif=exif),
        encode(image.convert("CMYK"), progressive=True),
        encode(image, "PNG", exif=exif),
        encode(image, "WEBP", exif=exif),
        encode(image.convert("P"), "GIF"),
        *(encode(image, "TIFF", compression=how) for how in ("raw", "jpeg", "tiff_lzw", "tiff_adobe_deflate")),
        encode(image.convert("1"), "TIFF", compression="group4"),
    ]
    for encoded in whole:
        for _ in range(25):
            data = bytearray(encoded[: rng.integers(len(encoded) // 2, len(encoded) + 1)])
            for _ in range(rng.integers(1, 6)):
                data[rng.integers(4, len(data))] = rng.integers(256)
            with contextlib.suppress(ValueError):
                decode_with_pil(bytes(data), DecodeImage())
    assert capfd.readouterr().err == ""

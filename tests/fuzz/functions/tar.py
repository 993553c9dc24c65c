"""Tars through the WebDataset source: every sample is what Python's tarfile reads, or the tar is refused.

The first byte of an input says whether the check sums of headers are mended, and how the rest is compressed. Which
samples are refused is up to the source; but one that is delivered, or passed over, must be one that tarfile sees.
"""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import lzma
import tarfile
import zlib
from collections.abc import Iterator

import numpy as np
import zstandard
from fuzz.inputs import File, check_places, pieces, refused
from pictures import encode, picture
from sources.tars import FORMATS, numpy_file, tar_bytes

from toolkit.errors import ToolkitError
from toolkit.sources.kinds.webdataset.source import WebDatasetSource
from toolkit.sources.options import Missing, SourceOptions

_TAR = File("a.tar")
_BLOCK = 512
_PACK = [bytes, gzip.compress, bz2.compress, lzma.compress, zstandard.compress]
_MEND, _HURT = 8, 16  # flags in the first byte, beside the way to compress

Sample = tuple[str, dict[str, bytes]]


def _mended(data: bytes) -> bytes:
    """Return the tar with the check sum that each header has to have."""
    out = bytearray(data)
    at = 0
    while at + _BLOCK <= len(out):
        block = out[at : at + _BLOCK]
        if any(block):
            block[148:156] = b" " * 8
            out[at + 148 : at + 156] = b"%06o\0 " % sum(block)
        size = 0
        with contextlib.suppress(tarfile.HeaderError):
            size = tarfile.nti(bytes(block[124:136]))  # type: ignore[attr-defined]
        at += _BLOCK * (1 + -(-max(size, 0) // _BLOCK))
    return bytes(out)


def _expected(data: bytes) -> list[Sample] | None:
    """Return the samples as webdataset makes them of the members that tarfile reads: neighbours with one key.

    None where it isn't to be asked: it stops at a header that it can't read, without a word unless it is the first; and
    it takes a prefix from headers that have something else there, by their magic.
    """
    found: list[Sample] = []
    with tarfile.open(fileobj=io.BytesIO(data), errors="surrogateescape", encoding="utf-8") as tar:
        for name, content in _members(tar):
            folder, slash, base = name.rpartition("/")
            stem, _, extension = base.partition(".")
            key = folder + slash + stem
            if not found or found[-1][0] != key:
                found.append((key, {}))
            found[-1][1][extension.lower()] = content
        heads = [data[member.offset_data - _BLOCK : member.offset_data] for member in tar]
        if any(head[345] and head[257:263] != b"ustar\0" for head in heads):
            return None
        return None if data[tar.offset : tar.offset + _BLOCK].strip(b"\0") else found


def _members(tar: tarfile.TarFile) -> Iterator[tuple[str, bytes]]:
    for member in tar:
        name = member.name
        base = name.rpartition("/")[2]
        top = name.partition("/")[0]
        is_meta = len(top) > 3 and top.startswith("__") and top.endswith("__")
        if not member.isreg() or member.issparse() or name.endswith("/"):
            continue
        leads_out = name.startswith("/") or ".." in name.split("/")  # told of, not passed over
        if not leads_out and ("." not in base or base.startswith(".") or is_meta):
            continue
        if any(key.startswith("GNU.sparse.") for key in member.pax_headers):
            continue
        file = tar.extractfile(member)
        assert file is not None
        yield name, file.read()


def fuzz(data: bytes) -> object:
    """Use one input."""
    flags, plain = data[0] if data else 0, data[1:]
    if flags & _MEND:
        plain = _mended(plain)
    packed = _PACK[(flags & 7) % len(_PACK)](plain)
    if flags & _HURT and packed:
        at = flags * 7919 % len(packed)
        packed = packed[:at] + bytes([packed[at] ^ 1 << (flags >> 5)]) + packed[at + 1 :]
    options = SourceOptions(paths=(_TAR.write(packed),), slice_bytes=2048, missing=Missing.NULL)
    check_places(WebDatasetSource, options, packed)
    samples: list[tuple[str, dict[str, object]]] = []
    rejects = 0
    try:
        for survey, part, rows in pieces(WebDatasetSource(options)):
            rejects += len(rows.rejects)
            extensions = part.payload.columns  # type: ignore[attr-defined]
            for row in rows.batch.to_pylist():
                parts = {}
                for column, of in zip(survey.columns, extensions, strict=True):
                    parts[";".join(of)] = row[column.name]
                samples.append((row["__key__"], parts))
    except ToolkitError as error:
        return refused(error).rpartition(_TAR.path)[2][:40].rstrip("0123456789")
    if flags & _HURT and flags & 7:
        return len(samples)
    try:
        wanted = _expected(plain)
    except (tarfile.TarError, ValueError) as error:
        return str(error)[:30]
    if wanted is None:
        return "not to be asked"
    told = f"{samples}\n{wanted}".replace("\\x00", "")
    assert rejects + len(samples) == len(wanted), told
    at = 0
    for key, parts in samples:
        while at < len(wanted) and (wanted[at][0] != key or not _fits(parts, wanted[at][1])):
            at += 1
        assert at < len(wanted), f"{key} {told}"
        at += 1
    return len(samples), rejects, tuple(parts)[:3] if samples else ()


def _fits(parts: dict[str, object], wanted: dict[str, bytes]) -> bool:
    """Tell whether a row's columns have what the members hold."""
    for extensions, value in parts.items():
        extension = next((one for one in extensions.split(";") if one in wanted), None)
        content = None if extension is None else wanted[extension]
        if content is not None and f".{extension}".endswith(".gz"):
            try:
                content = gzip.decompress(content)
            except (OSError, EOFError, zlib.error):
                return False
        if isinstance(value, dict):
            value = value["bytes"]
        if isinstance(value, str):
            value = value.encode()
        if isinstance(value, int):
            content = None if content is None else int(content)  # type: ignore[assignment]
        if value != content:
            return False
    return True


def seeds() -> list[bytes]:
    """Return tars of each format, with long names, links, folders and second thoughts."""
    items = [
        ("a/1.cls", b"7\n"),
        ("a/1.txt", "é".encode()),
        ("a/2.json", b'{"a": 1}'),
        ("a/2.png", encode(picture(1, 4, 4), "PNG")),
        ("a/2.x.npy", numpy_file(np.arange(3))),
    ]
    long = [("d" * 90 + "/" + "e" * 30 + ".txt", b"long"), ("é" * 40 + ".bin", bytes(600))]
    folder, link, pipe = (tarfile.TarInfo(name) for name in ("f", "g.txt", "h.txt"))
    folder.type, link.type, pipe.type = tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.FIFOTYPE
    link.linkname = "a/1.txt"
    odd = [
        ("__meta__/a.txt", b"m"),
        (".hidden.txt", b"h"),
        ("no", b"n"),
        ("../up.txt", b"u"),
        ("x.TXT", b""),
        ("x.txt.GZ", gzip.compress(b"z", mtime=0)),
        ("x.y", b""),
    ]
    made = [
        bytes([way | flag]) + tar_bytes(of, format=format, extra=[folder, link, pipe])
        for format in FORMATS
        for of in (items, long + odd)
        for way, flag in ((0, 0), (0, _MEND), (1, 0), (2, 0), (3, 0), (4, 0), (1, _HURT), (4, _HURT))
        if format != "ustar" or of is items
    ]
    sized = tarfile.TarInfo("s.txt")
    sized.pax_headers = {"size": "512", "path": "t.txt", "comment": "c"}
    sparse = tarfile.TarInfo("u.txt")
    sparse.type = tarfile.GNUTYPE_SPARSE
    old = tarfile.TarInfo("v/")
    old.type = tarfile.AREGTYPE
    extra = tar_bytes(items, format="pax", extra=[sized, old])
    return [
        *made,
        bytes([_MEND]) + extra,
        bytes([_MEND]) + tar_bytes(items, extra=[sparse]) + bytes(1024),
        b"\0" + bytes(1024),
    ]

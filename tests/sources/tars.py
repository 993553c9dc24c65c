"""Write small tars in the ways that others do, and pack them."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import zstandard
from pictures import encode, picture

import toolkit
from toolkit.pack.job import PackJob
from toolkit.pack.run import pack

Items = Iterable[tuple[str, bytes]]

FORMATS = {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}
JPEG = encode(picture(1))
PNG = encode(picture(2), "PNG")


def tar_bytes(items: Items, *, format: str = "ustar", extra: Iterable[tarfile.TarInfo] = ()) -> bytes:
    """Return a tar of files, then members without data."""
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w", format=FORMATS[format], errors="surrogateescape") as tar:
        for name, data in items:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
        for info in extra:
            tar.addfile(info)
    return sink.getvalue()


def write(path: Path, data: bytes) -> Path:
    """Write a tar, compressed as its name says."""
    if path.name.endswith((".gz", ".tgz")):
        data = gzip.compress(data, 1)
    elif path.name.endswith(".zst"):
        data = zstandard.ZstdCompressor(write_checksum=True).compress(data)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def numpy_file(array: np.ndarray) -> bytes:
    sink = io.BytesIO()
    np.save(sink, array)
    return sink.getvalue()


def samples(count: int, *, start: int = 0) -> list[tuple[str, bytes]]:
    """Return the members of samples with an image, a class, JSON, text, a tensor and other bytes."""
    items = []
    for i in range(start, start + count):
        items += [
            (f"a/{i:04d}.jpg", JPEG + bytes([i % 256]) * (i * 37 % 5000)),
            (f"a/{i:04d}.cls", b"%d\n" % (i % 3)),
            (f"a/{i:04d}.json", b'{"number": %d}' % i),
            (f"a/{i:04d}.txt", f"caption {i} é".encode()),
            (f"a/{i:04d}.emb.npy", numpy_file(np.arange(i % 7, dtype=np.float32))),
            (f"a/{i:04d}.x-y", bytes([i % 256]) * i),
        ]
    return items


def job(source: Path | str, dataset: Path, **options: Any) -> PackJob:
    return PackJob(source=str(source), dataset=str(dataset), source_kind="webdataset", **options)


def packed(source: Path | str, dataset: Path, **options: Any) -> list[dict[str, Any]]:
    pack(job(source, dataset, **options))
    opened = toolkit.open(dataset)
    return [opened[i] for i in range(len(opened))]


def rejects(source: Path | str, dataset: Path, **options: Any) -> dict[str, str]:
    result = pack(job(source, dataset, max_rejects=100, **options))
    return {reject.key: reject.reason for reject in result.rejects}

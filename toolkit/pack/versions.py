"""The versions of everything that the bytes of a pack's shards depend on."""

from __future__ import annotations

from importlib import metadata

import PIL
import pyarrow as pa

from toolkit._native.image import encode
from toolkit.format.encodings import KEEP
from toolkit.format.schema import FORMAT_VERSION
from toolkit.pack.job import PackJob
from toolkit.pipelines.image.libjpeg import libjpeg_turbo
from toolkit.sources.tokenizer import BYTES
from toolkit.version import __version__

__all__ = ["versions"]


def versions(job: PackJob) -> dict[str, object]:
    """Return name -> version: another one could write other bytes. What makes images and ids, only if they are made."""
    found: dict[str, object] = {"format": FORMAT_VERSION, "pyarrow": pa.__version__, "toolkit": __version__}
    if job.image_encoding != KEEP:
        found |= {"libjpeg-turbo": libjpeg_turbo(encode.__file__)[0], "pillow": PIL.__version__}
    if job.tokenizer not in (None, BYTES):
        found["tokenizers"] = metadata.version("tokenizers")
    return found

"""Compiled image slots for tests, without a dataset: a decode step with any option, and batches from bytes."""

from __future__ import annotations

import dataclasses
from typing import Any

import image_steps as steps
import numpy as np

from toolkit._native.image.program import Scratch
from toolkit._native.shards.fetch import FetchBuffer
from toolkit.pipelines.image.compiled import CompiledImage, Failure

DECODE = steps.DecodeImage(
    mode=steps.Mode.RGB,
    exif=True,
    max_pixels=100_000_000,
    max_bytes=1 << 30,
    truncated=steps.Truncated.ERROR,
    accuracy=steps.Accuracy.EXACT,
    icc=False,
)
MODES = {"RGB": steps.Mode.RGB, "L": steps.Mode.GRAY, "RGBA": steps.Mode.RGBA}


def compiled(*chain: Any, **options: Any) -> CompiledImage:
    """Return the steps behind a decode step with the options (mode by PIL's name)."""
    if "mode" in options:
        options["mode"] = MODES[options["mode"]]
    return CompiledImage("image", [dataclasses.replace(DECODE, **options), *chain])


def decode(encoded: bytes, *chain: Any, key: int | None = None, **options: Any) -> np.ndarray:
    """Return what becomes of one encoded image."""
    return compiled(*chain, **options).decode(encoded, Scratch(), key)


def run_batch(
    image: CompiledImage, encoded: list[bytes], keys: np.ndarray | None = None, scratch: Scratch | None = None
) -> tuple[Any, list[Failure]]:
    """Return a batch of encoded images, an array or a list, and which of them failed."""
    addresses, lengths, buffer = held(encoded)
    out: Any = [None] * len(encoded)
    if image.shape is not None:
        out = np.zeros((len(encoded), *image.shape), image.dtype)
    failures = image.run(addresses, lengths, buffer, out, scratch or Scratch(), keys)
    return out, failures


def held(encoded: list[bytes]) -> tuple[np.ndarray, np.ndarray, FetchBuffer]:
    """Return addresses and lengths of encoded images, and the buffer that has them."""
    buffer = _Held()
    buffer.arrays = [np.frombuffer(one or b"\0", np.uint8) for one in encoded]
    addresses = np.array([one.ctypes.data for one in buffer.arrays], np.uint64)
    return addresses, np.array([len(one) for one in encoded], np.int64), buffer


class _Held(FetchBuffer):
    """Hands out bytes at any address, as the buffer that a loader fetches into does for its own."""

    arrays: list[np.ndarray]

    def take(self, address: int, length: int) -> bytes:
        import ctypes

        return ctypes.string_at(address, length)

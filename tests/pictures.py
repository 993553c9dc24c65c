"""Small ImageFolders with natural-looking pictures, made from a seed."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from PIL import Image

NO_PICTURE = (
    "not an image: it begins as none of the formats that are decoded "
    "(JPEG, PNG, GIF, BMP, PPM, TIFF, WebP, AVIF, JPEG 2000)"
)


def picture(seed: int, width: int = 64, height: int = 48) -> Image.Image:
    """Return smooth coloured noise: like a photograph, it has neighbours that resemble each other."""
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 256, (max(2, height // 8), max(2, width // 8), 3), dtype=np.uint8)
    smooth = np.asarray(Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC), np.int16)
    grain = rng.integers(-6, 7, smooth.shape)
    return Image.fromarray(np.clip(smooth + grain, 0, 255).astype(np.uint8))


def encode(image: Image.Image, format: str = "JPEG", **options: object) -> bytes:
    """Return the picture's file."""
    sink = io.BytesIO()
    image.save(sink, format, **options)
    return sink.getvalue()


def make_folder(root: Path, classes: dict[str, int], *, width: int = 64, height: int = 48) -> Path:
    """Write `classes` (folder below root -> number of JPEGs) and return root."""
    seed = 0
    for name, count in classes.items():
        folder = root / name
        folder.mkdir(parents=True)
        for i in range(count):
            seed += 1
            (folder / f"{i:04d}.jpg").write_bytes(encode(picture(seed, width, height), quality=90))
    return root

"""Decode what libjpeg-turbo does not: every other format, and pictures with a colour profile, through PIL."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolkit.pipelines.image_steps import DecodeImage, Mode
from toolkit.pipelines.pillow import to_eight_bits

__all__ = ["check_colour_management", "decode_with_pil"]

_PIL_MODES = {Mode.RGB: "RGB", Mode.GRAY: "L", Mode.RGBA: "RGBA"}


def decode_with_pil(encoded: bytes, step: DecodeImage) -> NDArray[np.uint8]:
    """Decode any format PIL knows to uint8 (height, width, channels of the step's mode).

    What PIL makes of it, but for 16-bit gray and numbers that are no pixels: see toolkit.pipelines.pillow. Of an
    animation the first frame is taken.

    Raises:
        ValueError: It is no image, is truncated, holds no pixels, or exceeds a limit.
    """
    from PIL import Image, ImageOps, UnidentifiedImageError

    if len(encoded) > step.max_bytes:
        raise ValueError(f"the image has {len(encoded)} bytes, more than max_bytes={step.max_bytes}")
    try:
        with Image.open(io.BytesIO(encoded)) as image:
            if image.width * image.height > step.max_pixels:
                raise ValueError(f"{image.width}x{image.height} is more than max_pixels={step.max_pixels}")
            profile = image.info.get("icc_profile") if step.icc else None
            upright = ImageOps.exif_transpose(image) if step.exif else image
            pixels = np.ascontiguousarray(
                _convert(to_eight_bits(upright, image.format), _PIL_MODES[step.mode], profile), np.uint8
            )
    except UnidentifiedImageError as error:  # names an address in memory
        raise ValueError("not an image: no format that is known") from error
    except Exception as error:  # PIL's plugins raise whatever damaged bytes lead them to
        raise ValueError(str(error) or type(error).__name__) from error
    return pixels[:, :, None] if pixels.ndim == 2 else pixels


def check_colour_management() -> None:
    """Raise ValueError when PIL cannot convert colour profiles."""
    from PIL import features

    if not features.check("littlecms2"):
        raise ValueError("decode_image(icc=True) needs PIL with LittleCMS: pip install pillow")


def _convert(image: Any, mode: str, profile: bytes | None) -> Any:
    """Return the PIL image in another mode, in sRGB when it has a profile."""
    if image.mode == "P":
        # To RGB at once, PIL would warn of a transparency that it leaves out.
        image = image.convert("RGBA" if "transparency" in image.info else "RGB")
    if profile:
        image = _to_srgb(image, profile)
    return image if image.mode == mode else image.convert(mode)


def _to_srgb(image: Any, profile: bytes) -> Any:
    from PIL import ImageCms

    alpha = image.getchannel("A") if image.mode in ("RGBA", "LA") else None
    if image.mode in ("RGBA", "1"):
        image = image.convert("RGB")
    elif image.mode == "LA":
        image = image.convert("L")
    source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
    image = ImageCms.profileToProfile(image, source, ImageCms.createProfile("sRGB"), outputMode="RGB")
    if alpha is not None:
        image.putalpha(alpha)
    return image

"""Decode what libjpeg-turbo does not: every other format, and pictures with a colour profile, through PIL."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolkit.pipelines.image_steps import DecodeImage, Mode

__all__ = ["check_colour_management", "converted", "decode_with_pil"]

_PIL_MODES = {Mode.RGB: "RGB", Mode.GRAY: "L", Mode.RGBA: "RGBA"}
_SIXTEEN_BITS = frozenset({"PNG", "PPM"})  # formats whose mode I, in older versions of PIL, holds 0 to 65535


def decode_with_pil(encoded: bytes, step: DecodeImage) -> NDArray[np.uint8]:
    """Decode any format PIL knows to uint8 (height, width, channels of the step's mode).

    What PIL makes of it, with two exceptions: 16-bit gray keeps its upper bytes, as 16-bit colour does in PIL (which
    itself clips everything above 255 to white); and numbers that say nothing about what black and white are (modes I
    and F) are refused. Of an animation the first frame is taken.

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
            pixels = np.ascontiguousarray(converted(upright, _PIL_MODES[step.mode], profile, image.format), np.uint8)
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


def converted(image: Any, mode: str, profile: bytes | None, format: str | None) -> Any:
    """Return the PIL image in another mode, in sRGB when it has a profile. `format`: of its file, as PIL calls it."""
    from PIL import Image

    if image.mode.startswith("I;16") or (image.mode == "I" and format in _SIXTEEN_BITS):
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    elif image.mode in ("I", "F"):
        raise ValueError(
            f"pixels of 32 bits (PIL's mode {image.mode}) have no known range: convert them to 8 or 16 bits"
        )
    elif image.mode == "P":
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

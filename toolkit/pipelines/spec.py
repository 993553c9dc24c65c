"""The steps of a slot as frozen data: printable, comparable, hashable. Nothing here runs."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CenterCrop", "DecodeImage", "Normalize", "ResizeShort", "Step"]


@dataclass(frozen=True, slots=True)
class DecodeImage:
    """Decode an image column to uint8 HWC RGB, EXIF orientation applied."""

    max_pixels: int


@dataclass(frozen=True, slots=True)
class ResizeShort:
    """Resize so that the shorter side has `size` pixels: bilinear, antialiased, as Pillow."""

    size: int


@dataclass(frozen=True, slots=True)
class CenterCrop:
    """Cut `height` x `width` pixels out of the middle, by torchvision's rounding; zeros where the image is smaller."""

    height: int
    width: int


@dataclass(frozen=True, slots=True)
class Normalize:
    """(pixel / 255 - mean) / std for each channel, as float32 CHW."""

    mean: tuple[float, float, float]
    std: tuple[float, float, float]


Step = DecodeImage | ResizeShort | CenterCrop | Normalize


def step_text(step: Step) -> str:
    """Return the step as it is written in code."""
    match step:
        case DecodeImage():
            return "decode_image()"
        case ResizeShort(size):
            return f"resize_short({size})"
        case CenterCrop(height, width):
            return f"center_crop({height if height == width else (height, width)})"
        case Normalize():
            return "normalize()"

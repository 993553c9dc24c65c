"""The steps of an image slot as frozen data: printable, comparable, hashable. Nothing here runs, nothing is checked.

Pixels are uint8 (height, width, channels) until normalize, cast or a layout says otherwise. Resizes are antialiased,
and equal those of RESIZES_AS. (Pillow 13 makes the vertical pass first where that is less work; what is rounded and
clipped between the passes then differs.) Every random step draws from its sample's own stream: see
toolkit.pipelines.randomness.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

__all__ = [
    "RESIZES_AS",
    "Accuracy",
    "Cast",
    "CenterCrop",
    "ColorJitter",
    "Crop",
    "DecodeImage",
    "Filter",
    "Grayscale",
    "HFlip",
    "ImageStep",
    "Layout",
    "Mode",
    "Normalize",
    "Pad",
    "RandomCrop",
    "RandomResizedCrop",
    "Resize",
    "ResizeLong",
    "ResizeShort",
    "ToLayout",
    "Truncated",
    "VFlip",
]


RESIZES_AS = "Pillow 12"


class Mode(enum.Enum):
    """Channels that an image is decoded to: 3, 1 or 4."""

    RGB = "rgb"
    GRAY = "gray"
    RGBA = "rgba"


class Accuracy(enum.Enum):
    """EXACT agrees with Pillow within 1/255; FAST may scale in the DCT and resize before colour conversion."""

    EXACT = "exact"
    FAST = "fast"


class Truncated(enum.Enum):
    """What an image that ends too early is: an error, or a warning and gray pixels where it lacks some."""

    ERROR = "error"
    WARN = "warn"


class Filter(enum.Enum):
    """How a resize weighs pixels."""

    NEAREST = "nearest"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    LANCZOS = "lanczos"


class Layout(enum.Enum):
    """The order of an image's axes."""

    HWC = "hwc"
    CHW = "chw"


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeImage:
    """Decode to uint8 (height, width, channels of the mode)."""

    mode: Mode
    exif: bool
    max_pixels: int
    max_bytes: int
    truncated: Truncated
    accuracy: Accuracy
    icc: bool  # convert to sRGB by the embedded profile


@dataclass(frozen=True, slots=True)
class Resize:
    """Resize to exactly height x width."""

    height: int
    width: int
    filter: Filter


@dataclass(frozen=True, slots=True)
class ResizeShort:
    """Resize so that the shorter side has `size` pixels; the longer one is int(size * long / short)."""

    size: int
    filter: Filter


@dataclass(frozen=True, slots=True)
class ResizeLong:
    """Resize so that the longer side has `size` pixels; the shorter one is max(1, int(size * short / long))."""

    size: int
    filter: Filter


@dataclass(frozen=True, slots=True)
class Crop:
    """Cut height x width pixels from (top, left) on; zeros where the image has none."""

    top: int
    left: int
    height: int
    width: int


@dataclass(frozen=True, slots=True)
class CenterCrop:
    """Cut height x width pixels out of the middle, by torchvision's rounding; zeros where the image is smaller."""

    height: int
    width: int


@dataclass(frozen=True, slots=True)
class RandomCrop:
    """Cut height x width pixels at a random place.

    A smaller image is first padded with zeros, as center_crop pads it. With H, W the size after that:
    top = floor(u0 * (H - height + 1)), left = floor(u1 * (W - width + 1)).
    """

    height: int
    width: int


@dataclass(frozen=True, slots=True)
class RandomResizedCrop:
    """Cut a random part and resize it to height x width: torchvision's RandomResizedCrop.

    Attempt a of 0..9: area = H * W * (scale[0] + (scale[1] - scale[0]) * u[4a]), ratio = exp(log(ratio[0]) +
    (log(ratio[1]) - log(ratio[0])) * u[4a + 1]), w = round(sqrt(area * ratio)), h = round(sqrt(area / ratio)), halves
    to even. With 0 < w <= W and 0 < h <= H: top = floor(u[4a + 2] * (H - h + 1)), left = floor(u[4a + 3] *
    (W - w + 1)). After ten failures torchvision's central crop.
    """

    height: int
    width: int
    scale: tuple[float, float]
    ratio: tuple[float, float]
    filter: Filter


@dataclass(frozen=True, slots=True)
class Pad:
    """Add pixels around the image, each channel `fill`."""

    top: int
    left: int
    bottom: int
    right: int
    fill: int


@dataclass(frozen=True, slots=True)
class HFlip:
    """Swap left and right when u0 < p."""

    p: float


@dataclass(frozen=True, slots=True)
class VFlip:
    """Swap top and bottom when u0 < p."""

    p: float


@dataclass(frozen=True, slots=True)
class ColorJitter:
    """Change brightness, contrast, saturation and hue, in random order: torchvision's ColorJitter on PIL images.

    Each is (low, high) of its factor, None = left alone. Factor i = low + (high - low) * u[i]; the order is permutation
    number floor(u4 * 24) of the four in itertools.permutations' order. Brightness, contrast and saturation are
    PIL.ImageEnhance's; hue is torchvision's adjust_hue through PIL's 8-bit HSV.
    """

    brightness: tuple[float, float] | None
    contrast: tuple[float, float] | None
    saturation: tuple[float, float] | None
    hue: tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class Grayscale:
    """PIL's L of an RGB image, in one or three equal channels."""

    channels: int


@dataclass(frozen=True, slots=True)
class Normalize:
    """(pixel / 255 - mean) / std for each channel, as float32 (channels, height, width)."""

    mean: tuple[float, ...]
    std: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Cast:
    """Change the dtype, values as they are: float16, float32, bfloat16, uint8, int16, int32, int64 …"""

    dtype: str


@dataclass(frozen=True, slots=True)
class ToLayout:
    """Order the axes."""

    layout: Layout


ImageStep = (
    DecodeImage
    | Resize
    | ResizeShort
    | ResizeLong
    | Crop
    | CenterCrop
    | RandomCrop
    | RandomResizedCrop
    | Pad
    | HFlip
    | VFlip
    | ColorJitter
    | Grayscale
    | Normalize
    | Cast
    | ToLayout
)

"""The steps of image slots, in one place for tests: `import image_steps as steps`."""

from __future__ import annotations

from toolkit.pipelines.cast import Cast
from toolkit.pipelines.image.colour import ColorJitter, Grayscale
from toolkit.pipelines.image.decode_step import Accuracy, DecodeImage, Mode, Truncated
from toolkit.pipelines.image.filters import GaussianBlur, Sharpness
from toolkit.pipelines.image.finish import Normalize, ToChw, ToHwc
from toolkit.pipelines.image.fitting import Contain, Cover, ScaleJitter, Thumbnail
from toolkit.pipelines.image.geometry import (
    CenterCrop,
    Crop,
    Filter,
    HFlip,
    Pad,
    RandomCrop,
    RandomResizedCrop,
    Resize,
    ResizeLong,
    ResizeShort,
    VFlip,
)
from toolkit.pipelines.image.image_step import ImageStep
from toolkit.pipelines.image.warps import Rotate, ShearX, ShearY, Take, TranslateX, TranslateY, Unit
from toolkit.pipelines.state import Layout

__all__ = [
    "Accuracy",
    "Cast",
    "CenterCrop",
    "ColorJitter",
    "Contain",
    "Cover",
    "Crop",
    "DecodeImage",
    "Filter",
    "GaussianBlur",
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
    "Rotate",
    "ScaleJitter",
    "Sharpness",
    "ShearX",
    "ShearY",
    "Take",
    "Thumbnail",
    "ToChw",
    "ToHwc",
    "TranslateX",
    "TranslateY",
    "Truncated",
    "Unit",
    "VFlip",
]

"""The steps of image slots, in one place for tests: `import image_steps as steps`."""

from __future__ import annotations

from toolkit.pipelines.cast import Cast
from toolkit.pipelines.image.affine import Affine, Perspective, Shear
from toolkit.pipelines.image.channels import ChannelDrop, ChannelShuffle, ColorTemperature, Grayscale
from toolkit.pipelines.image.clahe import Clahe
from toolkit.pipelines.image.clamp import Clamp
from toolkit.pipelines.image.colour import Brightness, ColorJitter, Contrast, Saturation, Sharpness
from toolkit.pipelines.image.decode_step import Accuracy, DecodeImage, Mode, Truncated
from toolkit.pipelines.image.elastic import Elastic, Mixing
from toolkit.pipelines.image.erasing import Cutout, Erasing, RandomErasing
from toolkit.pipelines.image.filters import GaussianBlur, MedianBlur, MotionBlur, UnsharpMask
from toolkit.pipelines.image.finish import Normalize, Patchify, ToChw, ToHwc
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
from toolkit.pipelines.image.noise import GaussianNoise, SaltAndPepper, SpeckleNoise
from toolkit.pipelines.image.recompress import JpegCompression
from toolkit.pipelines.image.tone import Autocontrast, Equalize, Gamma, Invert, Lut, Posterize, Solarize, SolarizeAdd
from toolkit.pipelines.image.views import FiveCrop, TenCrop, Tile
from toolkit.pipelines.image.warps import Rotate, ShearX, ShearY, Take, TranslateX, TranslateY, Unit
from toolkit.pipelines.state import Layout

__all__ = [
    "Accuracy",
    "Affine",
    "Autocontrast",
    "Brightness",
    "Cast",
    "CenterCrop",
    "ChannelDrop",
    "ChannelShuffle",
    "Clahe",
    "Clamp",
    "ColorJitter",
    "ColorTemperature",
    "Contain",
    "Contrast",
    "Cover",
    "Crop",
    "Cutout",
    "DecodeImage",
    "Elastic",
    "Equalize",
    "Erasing",
    "Filter",
    "FiveCrop",
    "Gamma",
    "GaussianBlur",
    "GaussianNoise",
    "Grayscale",
    "HFlip",
    "ImageStep",
    "Invert",
    "JpegCompression",
    "Layout",
    "Lut",
    "MedianBlur",
    "Mixing",
    "Mode",
    "MotionBlur",
    "Normalize",
    "Pad",
    "Patchify",
    "Perspective",
    "Posterize",
    "RandomCrop",
    "RandomErasing",
    "RandomResizedCrop",
    "Resize",
    "ResizeLong",
    "ResizeShort",
    "Rotate",
    "SaltAndPepper",
    "Saturation",
    "ScaleJitter",
    "Sharpness",
    "Shear",
    "ShearX",
    "ShearY",
    "Solarize",
    "SolarizeAdd",
    "SpeckleNoise",
    "Take",
    "TenCrop",
    "Thumbnail",
    "Tile",
    "ToChw",
    "ToHwc",
    "TranslateX",
    "TranslateY",
    "Truncated",
    "Unit",
    "UnsharpMask",
    "VFlip",
]

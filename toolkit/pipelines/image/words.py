"""The words of image slots. toolkit.pipelines.image.steps says what each step does to the last digit."""

from __future__ import annotations

from collections.abc import Sequence

from toolkit.errors import did_you_mean
from toolkit.pipelines.check import (
    BadArgumentError,
    a_choice,
    a_dtype,
    a_flag,
    a_number,
    a_pair,
    a_size,
    an_int,
)
from toolkit.pipelines.image.steps import (
    Accuracy,
    Cast,
    CenterCrop,
    ColorJitter,
    Crop,
    DecodeImage,
    Filter,
    Grayscale,
    HFlip,
    Layout,
    Mode,
    Normalize,
    Pad,
    RandomCrop,
    RandomResizedCrop,
    Resize,
    ResizeLong,
    ResizeShort,
    ToLayout,
    Truncated,
    VFlip,
)
from toolkit.pipelines.spec import DEFAULT_DECODE, STATISTICS
from toolkit.pipelines.words import Words, word

__all__ = ["ImageWords"]

_LEAST_STD = 1e-30  # below, a pixel over it leaves the range of float32


class ImageWords(Words):
    """Decoding and steps on pixels."""

    __slots__ = ()

    @word
    def decode_image(
        self,
        *,
        mode: str = "rgb",
        exif: bool = True,
        max_pixels: int = DEFAULT_DECODE.max_pixels,
        max_bytes: int = DEFAULT_DECODE.max_bytes,
        truncated: str = "error",
        accuracy: str = "exact",
        icc: bool = False,
    ) -> DecodeImage:
        """Decode to uint8 (height, width, channels).

        Args:
            mode: "rgb" (3 channels), "gray" (1) or "rgba" (4).
            exif: Turn it as its EXIF orientation says.
            max_pixels: More are an error, found in the header.
            max_bytes: A larger file is an error.
            truncated: What a file that ends too early is: "error", or "warn": gray where it lacks pixels.
            accuracy: "exact" agrees with Pillow within 1/255; "fast" may be 40 dB PSNR off it.
            icc: Convert to sRGB by the embedded profile.
        """
        return DecodeImage(
            mode=a_choice(Mode, "mode", mode),
            exif=a_flag("exif", exif),
            max_pixels=an_int("max_pixels", max_pixels, most=1 << 62),
            max_bytes=an_int("max_bytes", max_bytes, most=1 << 62),
            truncated=a_choice(Truncated, "truncated", truncated),
            accuracy=a_choice(Accuracy, "accuracy", accuracy),
            icc=a_flag("icc", icc),
        )

    @word
    def resize(self, size: tuple[int, int], *, filter: str = "bilinear") -> Resize:
        """Resize to (height, width), antialiased. Filters: nearest, bilinear, bicubic, lanczos."""
        if isinstance(size, int):
            raise BadArgumentError(
                f"a size is (height, width), got {size!r}: say resize(({size}, {size})), or resize_short({size}), "
                "which keeps the proportions"
            )
        return Resize(*a_size(size), a_choice(Filter, "filter", filter))

    @word
    def resize_short(self, size: int, *, filter: str = "bilinear") -> ResizeShort:
        """Resize so that the shorter side has `size` pixels; antialiased, as Pillow and torchvision."""
        return ResizeShort(an_int("size", size), a_choice(Filter, "filter", filter))

    @word
    def resize_long(self, size: int, *, filter: str = "bilinear") -> ResizeLong:
        """Resize so that the longer side has `size` pixels; antialiased."""
        return ResizeLong(an_int("size", size), a_choice(Filter, "filter", filter))

    @word
    def crop(self, top: int, left: int, height: int, width: int) -> Crop:
        """Cut height x width pixels from (top, left) on; zeros where the image has none."""
        corner = an_int("top", top, least=0), an_int("left", left, least=0)
        return Crop(*corner, an_int("height", height), an_int("width", width))

    @word
    def center_crop(self, size: int | tuple[int, int]) -> CenterCrop:
        """Cut the middle: `size` or (height, width) pixels; a smaller image is padded with zeros."""
        return CenterCrop(*a_size(size))

    @word
    def random_crop(self, size: int | tuple[int, int]) -> RandomCrop:
        """Cut `size` or (height, width) pixels at a random place; a smaller image is padded with zeros first."""
        return RandomCrop(*a_size(size))

    @word
    def random_resized_crop(
        self,
        size: int | tuple[int, int],
        *,
        scale: tuple[float, float] = (0.08, 1.0),
        ratio: tuple[float, float] = (3 / 4, 4 / 3),
        filter: str = "bilinear",
    ) -> RandomResizedCrop:
        """Cut a random part and resize it to `size` or (height, width), as torchvision.

        Args:
            size: Of the result.
            scale: Share of the image's area that the part has, (low, high).
            ratio: Width by height of the part, (low, high).
            filter: Of the resize.
        """
        scales, ratios = a_pair("scale", scale, least=0.0, most=1.0), a_pair("ratio", ratio, least=1e-3, most=1e3)
        return RandomResizedCrop(*a_size(size), scales, ratios, a_choice(Filter, "filter", filter))

    @word
    def pad(
        self, size: int | None = None, *, top: int = 0, left: int = 0, bottom: int = 0, right: int = 0, fill: int = 0
    ) -> Pad:
        """Add pixels of value `fill` (0..255) around the image: `size` on each side, or a number for each."""
        sides = {"top": top, "left": left, "bottom": bottom, "right": right}
        if size is not None:
            if any(sides.values()):
                raise BadArgumentError("give one size for all sides, or top, left, bottom and right")
            sides = dict.fromkeys(sides, size)
        checked = [an_int(name, value, least=0) for name, value in sides.items()]
        return Pad(checked[0], checked[1], checked[2], checked[3], an_int("fill", fill, least=0, most=255))

    @word
    def hflip(self, p: float = 0.5) -> HFlip:
        """Swap left and right, with probability `p`."""
        return HFlip(a_number("p", p, least=0, most=1))

    @word
    def vflip(self, p: float = 0.5) -> VFlip:
        """Swap top and bottom, with probability `p`."""
        return VFlip(a_number("p", p, least=0, most=1))

    @word
    def color_jitter(
        self,
        *,
        brightness: float | tuple[float, float] | None = None,
        contrast: float | tuple[float, float] | None = None,
        saturation: float | tuple[float, float] | None = None,
        hue: float | tuple[float, float] | None = None,
    ) -> ColorJitter:
        """Change colours in random order, as torchvision.

        Args:
            brightness, contrast, saturation: (low, high) of the factor; x is (max(0, 1 - x), 1 + x).
            hue: (low, high) within -0.5..0.5; x is (-x, x).
        """
        return ColorJitter(
            _factor("brightness", brightness),
            _factor("contrast", contrast),
            _factor("saturation", saturation),
            None if hue is None else a_pair("hue", _around(hue, 0.0, -0.5), least=-0.5, most=0.5),
        )

    @word
    def grayscale(self, *, channels: int = 1) -> Grayscale:
        """Make it gray, in 1 or 3 equal channels."""
        if channels not in (1, 3):
            raise BadArgumentError(f"channels must be 1 or 3, got {channels!r}")
        return Grayscale(channels)

    @word
    def normalize(self, mean: str | Sequence[float], std: Sequence[float] | None = None) -> Normalize:
        """Make float32 (channels, height, width): (pixel / 255 - mean) / std.

        Args:
            mean: A mean for each channel, or one for all, or the name of known statistics: imagenet, half, unit.
            std: Standard deviations alike; none with a name.
        """
        if isinstance(mean, str):
            if mean not in STATISTICS:
                known = f"{', '.join(STATISTICS)}.{did_you_mean(mean, STATISTICS)}"
                raise BadArgumentError(f"no statistics are called {mean!r}; known: {known}")
            if std is not None:
                raise BadArgumentError(f"{mean!r} brings its own std: leave std out")
            return Normalize(*STATISTICS[mean])
        if std is None:
            raise BadArgumentError("means need a std: normalize(mean, std)")
        means, stds = _statistics("mean", mean), _statistics("std", std)
        if len(means) != len(stds):
            raise BadArgumentError(f"mean has {len(means)} values and std {len(stds)}: one of each a channel")
        if not all(value >= _LEAST_STD for value in stds):
            raise BadArgumentError(f"std {stds} must be positive, and no smaller than {_LEAST_STD}")
        return Normalize(means, stds)

    @word
    def cast(self, dtype: str) -> Cast:
        """Change the dtype, values as they are. Images also to bfloat16: numpy output has it as uint16."""
        return Cast(a_dtype(dtype, also=("bfloat16",)))

    @word
    def to_chw(self) -> ToLayout:
        """Put channels first: (channels, height, width)."""
        return ToLayout(Layout.CHW)

    @word
    def to_hwc(self) -> ToLayout:
        """Put channels last: (height, width, channels)."""
        return ToLayout(Layout.HWC)


def _statistics(name: str, values: Sequence[float]) -> tuple[float, ...]:
    if not isinstance(values, Sequence) or len(values) not in (1, 3, 4):
        raise BadArgumentError(f"{name} must have three values, one a channel (1 for gray, 4 for rgba), got {values!r}")
    return tuple(a_number(name, value) for value in values)


def _around(value: object, middle: float, least: float) -> object:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if value < 0:
            raise BadArgumentError(f"a jitter must be 0 or more, got {value!r}")
        return max(least, middle - value), middle + value
    return value


def _factor(name: str, value: object) -> tuple[float, float] | None:
    return None if value is None else a_pair(name, _around(value, 1.0, 0.0), least=0.0)

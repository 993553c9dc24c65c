"""The words of slots and chains. Made by scripts/make_words.py of the registered steps: don't edit it."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Self

from toolkit.pipelines.pixels import Pixels
from toolkit.pipelines.step import Step, Steps

class Words(ABC):
    """What steps are added to. Immutable: a word returns a new one. Each registered step is a method."""

    @property
    @abstractmethod
    def place(self) -> str:
        """Who is speaking, for messages: slot 'image'."""

    @abstractmethod
    def with_step(self, step: Step) -> Self:
        """Return this with one more step. Raises PipelineError when it doesn't fit."""

    def decode_image(
        self,
        *,
        mode: str = "rgb",
        exif: bool = True,
        max_pixels: int = 134217728,
        max_bytes: int = 268435456,
        truncated: str = "error",
        accuracy: str = "exact",
        icc: bool = False,
        ignore: int = 255,
    ) -> Self:
        """Decode to uint8 (height, width, channels), or in mode "id" to int32 (height, width).

        Ids are the numbers of masks and label maps, as they are stored: the place in a palette, a gray value of up to
        16 bits, or 0 (black) and 1. They are never converted, and a picture in colour is an error. Steps may move them,
        with filter="nearest"; none mixes them or changes their values.

        Args:
            mode: "rgb" (3 channels), "gray" (1), "rgba" (4) or "id".
            exif: Turn it as its EXIF orientation says.
            max_pixels: More are an error, found in the header.
            max_bytes: A larger file is an error.
            truncated: What a file that ends too early is: "error", or "warn": gray where it lacks pixels.
            accuracy: "exact" agrees with Pillow within 1/255; "fast" may be 40 dB PSNR off it.
            icc: Convert to sRGB by the embedded profile.
            ignore: With mode="id", what stands where a step finds no pixels, such as padding.
        """

    def resize(self, size: tuple[int, int], *, filter: str = "bilinear") -> Self:
        """Resize to exactly (height, width), antialiased. Filters: nearest, bilinear, bicubic, lanczos."""

    def resize_short(self, size: int, *, filter: str = "bilinear") -> Self:
        """Resize so that the shorter side has `size` pixels; antialiased, as Pillow and torchvision.

        The longer side is int(size * long / short).
        """

    def resize_long(self, size: int, *, filter: str = "bilinear") -> Self:
        """Resize so that the longer side has `size` pixels; antialiased.

        The shorter side is max(1, int(size * short / long)).
        """

    def crop(self, top: int, left: int, height: int, width: int) -> Self:
        """Cut height x width pixels from (top, left) on; zeros where the image has none."""

    def center_crop(self, size: int | tuple[int, int], *, halves: str = "even") -> Self:
        """Cut the middle: `size` or (height, width) pixels; a smaller image is padded with zeros.

        Args:
            size: Of the result.
            halves: Where it begins when an odd number of pixels is left out: half of that, rounded to "even" (as
                torchvision) or "down" (as transformers).
        """

    def random_crop(self, size: int | tuple[int, int], *, name: str | None = None) -> Self:
        """Cut `size` or (height, width) pixels at a random place; a smaller image is padded with zeros first.

        It is padded as center_crop pads it. With H, W the size after that: top = floor(u0 * (H - height + 1)),
        left = floor(u1 * (W - width + 1)).

        Args:
            size: Of the result.
            name: What it draws by, in place of its number among those that have no name.
        """

    def random_resized_crop(
        self,
        size: int | tuple[int, int],
        *,
        scale: tuple[float, float] = (0.08, 1.0),
        ratio: tuple[float, float] = (0.75, 1.3333333333333333),
        filter: str = "bilinear",
        name: str | None = None,
    ) -> Self:
        """Cut a random part and resize it to `size` or (height, width): torchvision's RandomResizedCrop.

        Attempt a of 0..9: area = H * W * (scale[0] + (scale[1] - scale[0]) * u[4a]), ratio = exp(log(ratio[0]) +
        (log(ratio[1]) - log(ratio[0])) * u[4a + 1]), w = round(sqrt(area * ratio)), h = round(sqrt(area / ratio)),
        halves to even. With 0 < w <= W and 0 < h <= H: top = floor(u[4a + 2] * (H - h + 1)), left = floor(u[4a + 3] *
        (W - w + 1)). After ten failures torchvision's central crop.

        Args:
            size: Of the result.
            scale: Share of the image's area that the part has, (low, high).
            ratio: Width by height of the part, (low, high).
            filter: Of the resize.
            name: What it draws by, in place of its number among those that have no name.
        """

    def pad(
        self, size: int | None = None, *, top: int = 0, left: int = 0, bottom: int = 0, right: int = 0, fill: int = 0
    ) -> Self:
        """Add pixels of value `fill` (0..255) around the image: `size` on each side, or a number for each."""

    def hflip(self, p: float = 0.5, *, name: str | None = None) -> Self:
        """Swap left and right, with probability `p`: when u0 < p.

        Args:
            p: The probability.
            name: What it draws by, in place of its number among those that have no name.
        """

    def vflip(self, p: float = 0.5, *, name: str | None = None) -> Self:
        """Swap top and bottom, with probability `p`: when u0 < p.

        Args:
            p: The probability.
            name: What it draws by, in place of its number among those that have no name.
        """

    def cover(self, size: int | tuple[int, int], *, filter: str = "bilinear") -> Self:
        """Fill `size` or (height, width) with the middle of the picture, proportions kept: PIL's ImageOps.fit.

        The largest part in the middle that has the proportions of the size is resized to it. Its sides may lie between
        pixels, and the filter sees the pixels around it.
        """

    def contain(
        self, size: int | tuple[int, int], *, pad: bool = True, fill: int = 0, filter: str = "bilinear"
    ) -> Self:
        """Resize to the largest picture within `size` or (height, width), proportions kept, and pad it to the size.

        PIL's ImageOps.pad; without `pad` it is ImageOps.contain. The other side is round(size * side / longest side),
        halves to even, at least 1. Where a number of pixels to add is odd, half of it is rounded to even in front.

        Args:
            size: Of the result; without `pad`, the most that it may have.
            pad: Whether to add pixels on both sides, so that all results have the size.
            fill: The value (0..255) of pixels that are added.
            filter: Of the resize.
        """

    def thumbnail(self, size: int | tuple[int, int], *, filter: str = "bilinear") -> Self:
        """Shrink to the largest picture of the same proportions within `size` or (height, width); never enlarge.

        Sizes are those of PIL's Image.thumbnail: of two whole numbers the one that keeps the proportions better. Pixels
        are those of its reducing_gap=None.
        """

    def scale_jitter(
        self,
        target_size: int | tuple[int, int],
        *,
        scale_range: tuple[float, float] = (0.1, 2.0),
        filter: str = "bilinear",
        name: str | None = None,
    ) -> Self:
        """Resize by a random scale and keep the proportions: torchvision's ScaleJitter, large scale jitter.

        With H, W the picture's size: r = min(height / H, width / W) * (low + (high - low) * u0), and the result has
        int(H * r) x int(W * r) pixels, at least one each way. torchvision's target_size is (width, height).

        Args:
            target_size: One number or (height, width), within which a picture lies that is drawn a scale of 1.
            scale_range: (low, high) of the scale.
            filter: Of the resize.
            name: What it draws by, in place of its number among those that have no name.
        """

    def five_crop(self, size: int | tuple[int, int]) -> Self:
        """Cut out the four corners and the middle, `size` or (height, width) each: torchvision's FiveCrop.

        Gives (5, height, width, channels): top left, top right, bottom left, bottom right, middle. A smaller picture is
        an error.
        """

    def ten_crop(self, size: int | tuple[int, int], *, vertical: bool = False) -> Self:
        """Cut out what five_crop does, and then the same of the flipped picture: torchvision's TenCrop.

        Gives (10, height, width, channels). A smaller picture is an error.

        Args:
            size: One number or (height, width) of each crop.
            vertical: Whether top and bottom are swapped for the second five, and not left and right.
        """

    def tile(self, size: int | tuple[int, int]) -> Self:
        """Cut into tiles of `size` or (height, width) without gaps: (tiles, height, width, channels), row by row.

        The picture's sides must be multiples of the tile's. Where its size isn't known before, samples come as a list.
        """

    def shear_x(
        self,
        magnitude: float | tuple[float, float],
        *,
        random_sign: bool = False,
        filter: str = "nearest",
        fill: int | tuple[int, int, int] = 0,
        name: str | None = None,
    ) -> Self:
        """Shift every row by `magnitude` times its distance from the top edge: ShearX of torchvision's policies.

        m = low + (high - low) * u0, and -m where random_sign and u1 < 0.5. As torchvision's
        affine(shear=(degrees(atan(m)), 0), center=(0, 0)): the pixel (x, y) is what was at (x + m * y, y).

        Args:
            magnitude: m, or (low, high) of it.
            random_sign: Whether half of all pictures are sheared the other way.
            filter: How pixels are taken: nearest, bilinear or bicubic.
            fill: What lies outside: a number, or red, green and blue.
            name: What it draws by, in place of its number among those that have no name.
        """

    def shear_y(
        self,
        magnitude: float | tuple[float, float],
        *,
        random_sign: bool = False,
        filter: str = "nearest",
        fill: int | tuple[int, int, int] = 0,
        name: str | None = None,
    ) -> Self:
        """Shift every column by `magnitude` times its distance from the left edge: ShearY of torchvision's policies.

        m = low + (high - low) * u0, and -m where random_sign and u1 < 0.5. As torchvision's
        affine(shear=(0, degrees(atan(m))), center=(0, 0)): the pixel (x, y) is what was at (x, y + m * x).

        Args:
            magnitude: m, or (low, high) of it.
            random_sign: Whether half of all pictures are sheared the other way.
            filter: How pixels are taken: nearest, bilinear or bicubic.
            fill: What lies outside: a number, or red, green and blue.
            name: What it draws by, in place of its number among those that have no name.
        """

    def translate_x(
        self,
        magnitude: float | tuple[float, float],
        *,
        unit: str = "pixels",
        whole: bool = True,
        random_sign: bool = False,
        filter: str = "nearest",
        fill: int | tuple[int, int, int] = 0,
        name: str | None = None,
    ) -> Self:
        """Move the picture right, by pixels or a share of its width: the TranslateX of torchvision's policies.

        m = low + (high - low) * u0, and -m where random_sign and u1 < 0.5; times the width with unit="fraction". Where
        `whole`, what lies behind the point is cut off, as torchvision does; timm doesn't.

        Args:
            magnitude: m, or (low, high) of it.
            unit: "pixels", or "fraction" of the width.
            whole: Whether to move by a whole number of pixels.
            random_sign: Whether half of all pictures are moved the other way.
            filter: How pixels are taken: nearest, bilinear or bicubic.
            fill: What lies outside: a number, or red, green and blue.
            name: What it draws by, in place of its number among those that have no name.
        """

    def translate_y(
        self,
        magnitude: float | tuple[float, float],
        *,
        unit: str = "pixels",
        whole: bool = True,
        random_sign: bool = False,
        filter: str = "nearest",
        fill: int | tuple[int, int, int] = 0,
        name: str | None = None,
    ) -> Self:
        """Move the picture down, by pixels or a share of its height: the TranslateY of torchvision's policies.

        m = low + (high - low) * u0, and -m where random_sign and u1 < 0.5; times the height with unit="fraction". Where
        `whole`, what lies behind the point is cut off, as torchvision does; timm doesn't.

        Args:
            magnitude: m, or (low, high) of it.
            unit: "pixels", or "fraction" of the height.
            whole: Whether to move by a whole number of pixels.
            random_sign: Whether half of all pictures are moved the other way.
            filter: How pixels are taken: nearest, bilinear or bicubic.
            fill: What lies outside: a number, or red, green and blue.
            name: What it draws by, in place of its number among those that have no name.
        """

    def rotate(
        self,
        degrees: float | tuple[float, float],
        *,
        random_sign: bool = False,
        filter: str = "nearest",
        expand: bool = False,
        center: tuple[float, float] | None = None,
        fill: int | tuple[int, int, int] = 0,
        name: str | None = None,
    ) -> Self:
        """Turn counterclockwise by an angle between two: torchvision's RandomRotation of PIL images.

        angle = low + (high - low) * u0, and -angle where random_sign and u1 < 0.5. The picture is then Pillow's
        Image.rotate(angle).

        Args:
            degrees: (low, high) of the angle; d is (-d, d).
            random_sign: Whether half of all pictures are turned the other way: policies turn by (d, d) either way.
            filter: How pixels are taken: nearest, bilinear or bicubic.
            expand: Whether the result is as large as the turned picture; else it keeps its size.
            center: (x, y) of the place that stays, from the upper left corner; None: the picture's middle.
            fill: What lies outside: a number, or red, green and blue.
            name: What it draws by, in place of its number among those that have no name.
        """

    def affine(
        self,
        degrees: float | tuple[float, float] = (0.0, 0.0),
        translate: tuple[float, float] | None = None,
        scale: tuple[float, float] | None = None,
        shear: float | tuple[float, ...] | None = None,
        *,
        filter: str = "nearest",
        fill: int | tuple[int, int, int] = 0,
        center: tuple[float, float] | None = None,
        name: str | None = None,
    ) -> Self:
        """Turn, move, scale and shear about the center by what is drawn: torchvision's RandomAffine of PIL images.

        Each is low + (high - low) * u: the angle, clockwise, by u0; the shift of x by u1 and of y by u2, from
        -share * side to share * side, rounded, halves to even; the scale by u3; the shears, in degrees, along x by
        u4 and along y by u5. What is None isn't done. The inverse of the map is torchvision's, and goes to Pillow's
        Image.transform.

        Args:
            degrees: (low, high) of the angle; d is (-d, d).
            translate: The largest shifts, as shares of (width, height).
            scale: (low, high) of the scale.
            shear: (low, high) along x, with two more numbers along y; s is (-s, s) along x.
            filter: How pixels are taken: nearest, bilinear or bicubic.
            fill: What lies outside: a number, or red, green and blue.
            center: (x, y) of the place that stays, from the upper left corner; None: the picture's middle.
            name: What it draws by, in place of its number among those that have no name.
        """

    def shear(
        self,
        x: float | tuple[float, float],
        y: float | tuple[float, float] = (0.0, 0.0),
        *,
        filter: str = "nearest",
        fill: int | tuple[int, int, int] = 0,
        center: tuple[float, float] | None = None,
        name: str | None = None,
    ) -> Self:
        """Shear about the center by angles: torchvision's affine with a shear alone.

        Along x by low + (high - low) * u0 degrees, along y by low + (high - low) * u1.

        Args:
            x: (low, high) of the angle along x; s is (-s, s).
            y: (low, high) of the angle along y; s is (-s, s).
            filter: How pixels are taken: nearest, bilinear or bicubic.
            fill: What lies outside: a number, or red, green and blue.
            center: (x, y) of the place that stays, from the upper left corner; None: the picture's middle.
            name: What it draws by, in place of its number among those that have no name.
        """

    def perspective(
        self,
        distortion_scale: float = 0.5,
        *,
        p: float = 0.5,
        filter: str = "bilinear",
        fill: int | tuple[int, int, int] = 0,
        name: str | None = None,
    ) -> Self:
        """Move the four corners inwards, with probability `p`: torchvision's RandomPerspective of PIL images.

        It happens when u0 < p. Let X = int(distortion_scale * (width // 2)), and Y the same of the height. The x of
        the top left, top right, bottom right and bottom left corner draw floor(u * (X + 1)) by u1, u3, u5 and u7,
        their y floor(u * (Y + 1)) by u2, u4, u6 and u8. That is added to 0, on the right to width - X - 1 and at the
        bottom to height - Y - 1. The map takes the corners of the picture, (0, 0) to (width - 1, height - 1), there.
        Its eight numbers are rounded to float32, and go to Pillow's Image.transform. A picture whose corners come to
        lie on a line stays as it is.

        Args:
            distortion_scale: How far the corners move at most, 0 to 1: 1 is to the middle.
            p: The probability.
            filter: How pixels are taken: nearest, bilinear or bicubic.
            fill: What lies outside: a number, or red, green and blue.
            name: What it draws by, in place of its number among those that have no name.
        """

    def elastic(
        self,
        alpha: float | tuple[float, float] = (50.0, 50.0),
        sigma: float = 5.0,
        *,
        filter: str = "bilinear",
        fill: int | tuple[int, int, int] = 0,
        name: str | None = None,
    ) -> Self:
        """Move every pixel by a smooth random field: torchvision's ElasticTransform.

        Pixel i, counted along the rows, draws 64 bits: its noise along x is the highest 24 of them over 2**23, less
        1, and along y the next 24. Each noise is blurred by a Gaussian of int(8 * sigma + 1) taps, or one more where
        that is even, mirrored at the edges, and multiplied by alpha / 2. So many pixels away, to the right and down,
        lies what the pixel is taken from. (torchvision says alpha / width on a grid from -1 to 1, which is the same.)
        It is sampled as by torch's grid_sample with align_corners=False: pixels outside are 0, and where the shares
        of those inside sum to m, the mix is weighed by m and `fill` by 1 - m. Halves are rounded to even. Alpha is a
        channel like the others.

        Args:
            alpha: How far pixels move: one number, or (x, y).
            sigma: How smooth the field is; 0: not at all.
            filter: nearest or bilinear.
            fill: What lies outside: a number, or red, green and blue.
            name: What it draws by, in place of its number among those that have no name.
        """

    def color_jitter(
        self,
        *,
        brightness: float | tuple[float, float] | None = None,
        contrast: float | tuple[float, float] | None = None,
        saturation: float | tuple[float, float] | None = None,
        hue: float | tuple[float, float] | None = None,
        name: str | None = None,
    ) -> Self:
        """Change brightness, contrast, saturation and hue, in random order: torchvision's ColorJitter on PIL images.

        Factor i = low + (high - low) * u[i]; the order is permutation number floor(u4 * 24) of the four in
        itertools.permutations' order. Brightness, contrast and saturation are PIL.ImageEnhance's; hue is torchvision's
        adjust_hue through PIL's 8-bit HSV. None leaves alone.

        Args:
            brightness, contrast, saturation: (low, high) of the factor; x is (max(0, 1 - x), 1 + x).
            hue: (low, high) within -0.5..0.5; x is (-x, x).
            name: What it draws by, in place of its number among those that have no name.
        """

    def brightness(
        self, factor: float | tuple[float, float], *, mirror: bool = False, p: float = 1.0, name: str | None = None
    ) -> Self:
        """Blend with black, or away from it: PIL.ImageEnhance.Brightness.

        It happens when u0 < p, with factor = low + (high - low) * u1. With `mirror` that becomes 2 - factor when
        u2 < 0.5: 1 + m or 1 - m, as RandAugment draws them. Alpha stays.

        Args:
            factor: The factor, or (low, high) to draw it from: 1 changes nothing.
            mirror: Whether to take 2 - factor half the time.
            p: The probability.
            name: What it draws by, in place of its number among those that have no name.
        """

    def contrast(
        self, factor: float | tuple[float, float], *, mirror: bool = False, p: float = 1.0, name: str | None = None
    ) -> Self:
        """Blend with the mean of the picture in gray, or away from it: PIL.ImageEnhance.Contrast.

        It happens when u0 < p, with factor = low + (high - low) * u1. With `mirror` that becomes 2 - factor when
        u2 < 0.5: 1 + m or 1 - m, as RandAugment draws them. Alpha stays.

        Args:
            factor: The factor, or (low, high) to draw it from: 1 changes nothing.
            mirror: Whether to take 2 - factor half the time.
            p: The probability.
            name: What it draws by, in place of its number among those that have no name.
        """

    def saturation(
        self, factor: float | tuple[float, float], *, mirror: bool = False, p: float = 1.0, name: str | None = None
    ) -> Self:
        """Blend with the picture in gray, or away from it: PIL.ImageEnhance.Color.

        It happens when u0 < p, with factor = low + (high - low) * u1. With `mirror` that becomes 2 - factor when
        u2 < 0.5: 1 + m or 1 - m, as RandAugment draws them. Alpha stays.

        Args:
            factor: The factor, or (low, high) to draw it from: 1 changes nothing.
            mirror: Whether to take 2 - factor half the time.
            p: The probability.
            name: What it draws by, in place of its number among those that have no name.
        """

    def sharpness(
        self, factor: float | tuple[float, float], *, mirror: bool = False, p: float = 1.0, name: str | None = None
    ) -> Self:
        """Blend with a smoothed picture, or away from it: PIL.ImageEnhance.Sharpness, torchvision's adjust_sharpness.

        Factor 0 is the picture smoothed by PIL.ImageFilter.SMOOTH; the border stays. It happens when u0 < p, with
        factor = low + (high - low) * u1. With `mirror` that becomes 2 - factor when u2 < 0.5: 1 + m or 1 - m, as
        RandAugment draws them. Alpha stays.

        Args:
            factor: The factor, or (low, high) to draw it from: 1 changes nothing.
            mirror: Whether to take 2 - factor half the time.
            p: The probability.
            name: What it draws by, in place of its number among those that have no name.
        """

    def gaussian_blur(
        self,
        kernel_size: int | None,
        sigma: float | tuple[float, float] = (0.1, 2.0),
        *,
        p: float = 1.0,
        name: str | None = None,
    ) -> Self:
        """Blur by a Gaussian kernel of kernel_size x kernel_size pixels: torchvision's GaussianBlur.

        Weight k from the middle is exp(-(k / sigma)^2 / 2), divided by the sum of all, along both axes. It happens
        when u0 < p, with sigma = low + (high - low) * u1. Borders are mirrored as numpy.pad's "reflect" does; all
        channels are blurred, alpha too. Values are at most one level from what floats give.

        Args:
            kernel_size: How many pixels it is wide, odd; None: as wide as 4 sigma reaches to each side, as
                scipy.ndimage.gaussian_filter does.
            sigma: The standard deviation in pixels, or (low, high) to draw it from.
            p: The probability.
            name: What it draws by, in place of its number among those that have no name.
        """

    def motion_blur(
        self,
        kernel_size: int,
        angle: float | tuple[float, float] = (0.0, 360.0),
        direction: float | tuple[float, float] = 0.0,
        *,
        p: float = 1.0,
        name: str | None = None,
    ) -> Self:
        """Blur along a line through each pixel, as a moving camera does: a mean of kernel_size points one pixel apart.

        Point i = 0 .. n - 1 lies at (i - r) * (cos(angle), -sin(angle)) from the pixel, r = (n - 1) / 2, and is taken
        bilinearly, with the weight 2 / n * (f + (1 - 2f) * i / (n - 1)), f = (1 - direction) / 2. It happens when u0
        < p, with angle = low + (high - low) * u1, and direction likewise by u2. Borders are mirrored as numpy.pad's
        "reflect" does; all channels are blurred, alpha too. Values are at most one level from what floats give.
        Albumentations and imgaug draw such kernels, too, though each rounds lines to pixels in its own way.

        Args:
            kernel_size: How many points, odd.
            angle: Of the line in degrees, counterclockwise from the horizontal, or (low, high) to draw it from.
            direction: -1 to 1, or (low, high) to draw it from: 0 weighs all points alike, 1 the last one most and the
                first one 0, -1 the other way round.
            p: The probability.
            name: What it draws by, in place of its number among those that have no name.
        """

    def median_blur(self, radius: int | tuple[int, int] = 1, *, p: float = 1.0, name: str | None = None) -> Self:
        """Take the median of the square around each pixel: PIL.ImageFilter.MedianFilter(2 * radius + 1).

        It happens when u0 < p, with radius = low + floor(u1 * (high - low + 1)). Beyond a border its pixels are
        repeated. Each channel goes by itself, alpha too.

        Args:
            radius: How far the square reaches to each side, or (low, high) to draw it from.
            p: The probability.
            name: What it draws by, in place of its number among those that have no name.
        """

    def unsharp_mask(
        self,
        radius: float | tuple[float, float] = 2.0,
        percent: int | tuple[int, int] = 150,
        threshold: int = 3,
        *,
        p: float = 1.0,
        name: str | None = None,
    ) -> Self:
        """Sharpen by what a blur takes away: PIL.ImageFilter.UnsharpMask.

        value + (value - blurred) * percent / 100 where the two are more than `threshold` apart, the blur being PIL's:
        three boxes along each axis. It happens when u0 < p, with radius = low + (high - low) * u1 and percent = low +
        floor(u2 * (high - low + 1)). All channels are sharpened, alpha too.

        Args:
            radius: Of the blur, its standard deviation in pixels, or (low, high) to draw it from.
            percent: How much is added, or (low, high) to draw it from.
            threshold: A value stays where it is at most so many levels from the blur.
            p: The probability.
            name: What it draws by, in place of its number among those that have no name.
        """

    def clahe(
        self,
        clip_limit: float | tuple[float, float] = (1.0, 4.0),
        tiles: int | tuple[int, int] = (8, 8),
        *,
        p: float = 1.0,
        name: str | None = None,
    ) -> Self:
        """Even out the histogram of lightness by tiles, with limited contrast: OpenCV's CLAHE, as in albumentations.

        Of a gray picture the values are equalized, of any other L* of CIE Lab (sRGB, D65) in 8 bits, while a* and b*
        stay. Each tile gets the table that cv2.createCLAHE would give it, and a pixel what the tables of the four
        tiles around it say, bilinearly. It happens when u0 < p, with clip_limit = low + (high - low) * u1. Alpha
        stays. (OpenCV also rounds a* and b* to 8 bits, which moves its colours by up to a few levels.)

        Args:
            clip_limit: How many times the mean a bin of a histogram may have, at most, or (low, high) to draw it from;
                0: there is no limit.
            tiles: How many rows and columns of tiles: one number, or (rows, columns).
            p: The probability.
            name: What it draws by, in place of its number among those that have no name.
        """

    def jpeg_compression(self, quality: int | tuple[int, int], *, p: float = 1.0, name: str | None = None) -> Self:
        """Write the picture as a JPEG and read it again: what PIL's save(quality=quality) and open() make of it.

        The same pixels, that is, of PIL over libjpeg-turbo: YCbCr with 4:2:0 subsampling; torchvision's v2.JPEG. It
        happens when u0 < p, with quality = low + floor(u1 * (high - low + 1)). Alpha stays. A side has 65500 pixels
        at most.

        Args:
            quality: 1 (worst) to 100, or (low, high) to draw it from.
            p: The probability.
            name: What it draws by, in place of its number among those that have no name.
        """

    def posterize(self, bits: int | tuple[int, int], *, p: float = 1.0, name: str | None = None) -> Self:
        """Keep the highest bits of each value: PIL.ImageOps.posterize, torchvision's RandomPosterize.

        It happens when u0 < p, with bits = low + floor(u1 * (high - low + 1)).

        Args:
            bits: How many, 1 to 8, or (low, high) to draw from.
            p: The probability.
            name: What it draws by, in place of its number among those that have no name.
        """

    def solarize(
        self, threshold: float | tuple[float, float] = 128.0, *, p: float = 1.0, name: str | None = None
    ) -> Self:
        """Invert values of `threshold` or more: PIL.ImageOps.solarize, torchvision's RandomSolarize.

        It happens when u0 < p, with threshold = low + (high - low) * u1.

        Args:
            threshold: The least value that is inverted, or (low, high) to draw it from; above 255 there is none.
            p: The probability.
            name: What it draws by, in place of its number among those that have no name.
        """

    def solarize_add(
        self, add: int | tuple[int, int], threshold: float = 128.0, *, p: float = 1.0, name: str | None = None
    ) -> Self:
        """Add to values below `threshold`, up to 255: solarize_add of timm's RandAugment.

        It happens when u0 < p, with add = low + floor(u1 * (high - low + 1)).

        Args:
            add: What is added, or (low, high) to draw from.
            threshold: The least value that stays.
            p: The probability.
            name: What it draws by, in place of its number among those that have no name.
        """

    def invert(self, p: float = 1.0, *, name: str | None = None) -> Self:
        """Turn values round, 255 - value: PIL.ImageOps.invert, torchvision's RandomInvert. It happens when u0 < p.

        Args:
            p: The probability.
            name: What it draws by, in place of its number among those that have no name.
        """

    def equalize(self, p: float = 1.0, *, name: str | None = None) -> Self:
        """Even out the histogram of each channel: PIL.ImageOps.equalize, torchvision's RandomEqualize.

        It happens when u0 < p.

        Args:
            p: The probability.
            name: What it draws by, in place of its number among those that have no name.
        """

    def autocontrast(
        self, cutoff: float | tuple[float, float] = (0.0, 0.0), *, p: float = 1.0, name: str | None = None
    ) -> Self:
        """Stretch each channel to go from 0 to 255: PIL.ImageOps.autocontrast, torchvision's RandomAutocontrast.

        It happens when u0 < p.

        Args:
            cutoff: The percentage of the darkest and of the lightest pixels that don't count: one number, or one each.
            p: The probability.
            name: What it draws by, in place of its number among those that have no name.
        """

    def gamma(
        self, gamma: float | tuple[float, float], gain: float = 1.0, *, p: float = 1.0, name: str | None = None
    ) -> Self:
        """Bend values by a power: torchvision's adjust_gamma, floor(255.999 * gain * (value / 255)^gamma), 255 at most.

        It happens when u0 < p, with gamma = low + (high - low) * u1.

        Args:
            gamma: The exponent, or (low, high) to draw it from; above 1 it makes shadows darker.
            gain: What the result is multiplied by.
            p: The probability.
            name: What it draws by, in place of its number among those that have no name.
        """

    def lut(self, table: Sequence[int] | Sequence[Sequence[int]], *, p: float = 1.0, name: str | None = None) -> Self:
        """Look each value up in a table: PIL's Image.point. It happens when u0 < p.

        Args:
            table: What becomes of values 0 to 255: 256 ints, or three times 256 for red, green and blue; a numpy
                array will do.
            p: The probability.
            name: What it draws by, in place of its number among those that have no name.
        """

    def grayscale(self, *, channels: int = 1, p: float = 1.0, name: str | None = None) -> Self:
        """Make it gray, in 1 or 3 equal channels: PIL's L of an RGB image, torchvision's RandomGrayscale.

        It happens when u0 < p.

        Args:
            channels: 1, or 3 equal ones.
            p: The probability; below 1 only with 3 channels, which colour pictures have, too.
            name: What it draws by, in place of its number among those that have no name.
        """

    def channel_shuffle(self, p: float = 1.0, *, name: str | None = None) -> Self:
        """Put red, green and blue in another order: torchvision's RandomChannelPermutation. Alpha stays.

        It happens when u0 < p, by permutation number floor(u1 * 6) in itertools.permutations' order; the first
        changes nothing. Channel i becomes what channel permutation[i] was.

        Args:
            p: The probability.
            name: What it draws by, in place of its number among those that have no name.
        """

    def channel_drop(
        self, channels: int | tuple[int, int] = 1, *, fill: int = 0, p: float = 1.0, name: str | None = None
    ) -> Self:
        """Fill one or two of red, green and blue: the ChannelDropout of albumentations. Alpha stays.

        It happens when u0 < p, to low + floor(u1 * (high - low + 1)) channels: choice number floor(u2 * 3) of that
        many, in itertools.combinations' order.

        Args:
            channels: How many, 1 or 2, or (1, 2) to draw from.
            fill: Their value.
            p: The probability.
            name: What it draws by, in place of its number among those that have no name.
        """

    def color_temperature(
        self, kelvin: float | tuple[float, float], *, p: float = 1.0, name: str | None = None
    ) -> Self:
        """Light the picture by a black body: value * c / 255, rounded, c being the body's red, green or blue.

        With t = kelvin / 100, red is 255 up to t = 66, then 329.698727446 * (t - 60)^-0.1332047592; green is
        99.4708025861 * ln t - 161.1195681661 up to 66, then 288.1221695283 * (t - 60)^-0.0755148492; blue is 0 up to
        19, then 138.5177312231 * ln(t - 10) - 305.0447927307, and 255 from 66 on; all within 0 to 255. This is Tanner
        Helland's fit (tannerhelland.com, 2012) to Mitchell Charity's table of black bodies in sRGB. Alpha stays.

        It happens when u0 < p, with kelvin = low + (high - low) * u1.

        Args:
            kelvin: 1000 (red) to 40000 (blue), or (low, high) to draw from; 6600 changes next to nothing.
            p: The probability.
            name: What it draws by, in place of its number among those that have no name.
        """

    def rand_augment(
        self,
        num_ops: int = 2,
        magnitude: float = 9,
        *,
        ops: str = "torchvision",
        num_magnitude_bins: int = 31,
        magnitude_std: float = 0.0,
        p: float | None = None,
        filter: str | None = None,
        fill: int | tuple[int, int, int] | None = None,
        name: str | None = None,
    ) -> Self:
        """Run `num_ops` operations, each drawn from a list: torchvision's RandAugment, or timm's.

        torchvision's operations are identity, shear, translate and rotate, brightness, color, contrast, sharpness,
        posterize, solarize, autocontrast and equalize, with the magnitude of one bin of `num_magnitude_bins`.
        timm's lack identity and have invert and solarize_add, and the magnitude is a level of 0 to 10. Those with a
        sign take either, half the time. timm's rand-m9-mstd0.5-inc1 is rand_augment(2, 9, ops="timm",
        magnitude_std=0.5, fill=(124, 116, 104)).

        It stands for so many one_of's, whose draws choose operations; what an operation draws goes by its own name.

        Args:
            num_ops: How many operations a picture passes through.
            magnitude: The number of the bin, or with timm's operations a level of 0 to 10.
            ops: "torchvision"; "timm", whose operations do more at a higher level; "timm-decreasing", not all of
                which do.
            num_magnitude_bins: Of torchvision's operations.
            magnitude_std: Of timm's: the level is normal, and cut off at 0 and 10; 0: it is fixed.
            p: The probability of each operation that is drawn; None: 1, or with timm's operations 0.5.
            filter: nearest, bilinear, bicubic or random, one of the last two; None: nearest, or with timm's
                operations random.
            fill: What lies outside of moved pixels: a number, or red, green and blue; None: 0, or with timm's
                operations 128.
            name: What it draws by, in place of its number among those that have no name.
        """

    def auto_augment(
        self,
        policy: str = "imagenet",
        *,
        filter: str = "nearest",
        fill: int | tuple[int, int, int] = 0,
        name: str | None = None,
    ) -> Self:
        """Run one of 25 pairs of operations that were learned on a dataset: torchvision's AutoAugment.

        Each operation of the pair is run with its probability, at its magnitude; those with a sign take either,
        half the time.

        Args:
            policy: What it was learned on: "imagenet", "cifar10" or "svhn".
            filter: How pixels are taken: nearest, bilinear, bicubic, or random, which is one of the last two.
            fill: What lies outside of moved pixels: a number, or red, green and blue.
            name: What it draws by, in place of its number among those that have no name.
        """

    def trivial_augment_wide(
        self,
        num_magnitude_bins: int = 31,
        *,
        filter: str = "nearest",
        fill: int | tuple[int, int, int] = 0,
        name: str | None = None,
    ) -> Self:
        """Run one operation with any magnitude: torchvision's TrivialAugmentWide.

        The operations are rand_augment's, with wider magnitudes; each, and each of the bins, is as likely as the
        others, and those with a sign take either, half the time.

        Args:
            num_magnitude_bins: How many magnitudes an operation has.
            filter: How pixels are taken: nearest, bilinear, bicubic, or random, which is one of the last two.
            fill: What lies outside of moved pixels: a number, or red, green and blue.
            name: What it draws by, in place of its number among those that have no name.
        """

    def three_augment(self, *, name: str | None = None) -> Self:
        """Make it gray, solarize or blur it, each as likely: 3-Augment of DeiT III, "3a" in timm.

        Values of 128 or more are inverted; the blur has a sigma of 0.1 to 2, and is gaussian where theirs is the
        box blurs of PIL.ImageFilter.GaussianBlur, which come near.

        Args:
            name: What it draws by, in place of its number among those that have no name.
        """

    def aug_mix(
        self,
        severity: int = 3,
        mixture_width: int = 3,
        chain_depth: int = -1,
        alpha: float = 1.0,
        all_ops: bool = True,
        *,
        filter: str = "bilinear",
        fill: int | tuple[int, int, int] = 0,
        name: str | None = None,
    ) -> Self:
        """Mix a picture with what chains of operations make of it: torchvision's AugMix.

        Each chain runs `chain_depth` operations of rand_augment's list without identity, each with the magnitude of
        one of the first `severity` of ten bins; those with a sign take either, half the time. With (m, 1 - m) drawn
        from Beta(alpha, alpha) and w of the chains from Dirichlet(alpha), the result is m * picture + the sum of
        (1 - m) * w[i] * chain i in float32, cut off. Operations are those of PIL images, as in every policy here;
        torchvision's AugMix runs those of tensors, whose bilinear ones differ.

        Args:
            severity: How many magnitudes may be drawn, 1 to 10.
            mixture_width: How many chains there are.
            chain_depth: How many operations a chain has; -1: 1, 2 or 3, each as likely.
            alpha: Of the distributions that the shares are drawn from.
            all_ops: Whether brightness, color, contrast and sharpness are among the operations.
            filter: How pixels are taken: nearest, bilinear, bicubic, or random, which is one of the last two.
            fill: What lies outside of moved pixels: a number, or red, green and blue.
            name: What it draws by, in place of its number among those that have no name.
        """

    def random_erasing(
        self,
        p: float = 0.5,
        *,
        scale: tuple[float, float] = (0.02, 0.33),
        ratio: tuple[float, float] = (0.3, 3.3),
        value: float | Sequence[float] | str = 0.0,
        count: int | tuple[int, int] = 1,
        name: str | None = None,
    ) -> Self:
        """Erase a random rectangle with probability `p`: torchvision's RandomErasing, on pixels or behind normalize.

        When u0 < p: of count = fewest + floor(u1 * (most - fewest + 1)) rectangles, rectangle r is attempt a of 0..9,
        the first that fits. With k = 2 + 40r + 4a: area = H * W * (scale[0] + (scale[1] - scale[0]) * u[k]) / count,
        ratio = exp(log(ratio[0]) + (log(ratio[1]) - log(ratio[0])) * u[k + 1]), h = round(sqrt(area * ratio)),
        w = round(sqrt(area / ratio)), halves to even. It fits with h < H and w < W: top = floor(u[k + 2] * (H - h +
        1)), left = floor(u[k + 3] * (W - w + 1)). After ten failures it stays.

        All channels are erased, alpha too. "random" draws each value of the rectangle, "random_color" one for each
        channel of it: on pixels 0..255, all alike; on a tensor from the normal distribution of mean 0 and standard
        deviation 1, as torchvision and timm.

        Args:
            p: The probability.
            scale: Share of the picture's area that the rectangles have together, (low, high).
            ratio: Height by width of a rectangle, (low, high).
            value: What comes in its place: a number, one a channel, "random" or "random_color". On pixels a level of
                0..255, on a tensor any number.
            count: How many rectangles, as timm's: a number, or (fewest, most).
            name: What it draws by, in place of its number among those that have no name.
        """

    def cutout(
        self,
        size: int | tuple[int, int],
        *,
        holes: int = 1,
        value: float | Sequence[float] = 0.0,
        p: float = 1.0,
        name: str | None = None,
    ) -> Self:
        """Erase squares whose middles may lie anywhere: DeVries and Taylor's Cutout, on pixels or behind normalize.

        It happens when u0 < p. Hole i has its middle at y = floor(u[1 + 2i] * H), x = floor(u[2 + 2i] * W); its first
        row is y - height // 2, its first column x - width // 2, and what of it lies outside of the picture is left out.
        All channels are erased, alpha too.

        Args:
            size: Of a hole: one number or (height, width).
            holes: How many.
            value: What comes in their place: a number, or one a channel. On pixels a level of 0..255, on a tensor any.
            p: The probability.
            name: What it draws by, in place of its number among those that have no name.
        """

    def gaussian_noise(
        self, std: float | tuple[float, float], mean: float = 0.0, *, p: float = 1.0, name: str | None = None
    ) -> Self:
        """Add noise of the normal distribution to each value, on pixels or behind normalize.

        It happens when u0 < p, with std = low + (high - low) * u1: value + mean + std * z. On pixels the units are
        levels of 0..255, and the sum is rounded, halves up, and cut off at both ends; alpha stays. On a tensor they are
        its own, and the sum is rounded to its dtype. Each channel of each pixel has its own z, a number of the normal
        distribution by Box and Muller from the bits that the pixel's place draws.

        Args:
            std: The standard deviation, or (low, high) to draw it from.
            mean: What is added to all.
            p: The probability.
            name: What it draws by, in place of its number among those that have no name.
        """

    def speckle_noise(self, std: float | tuple[float, float], *, p: float = 1.0, name: str | None = None) -> Self:
        """Multiply each value of pixels with noise: value + value * std * z, skimage's speckle.

        It happens when u0 < p, with std = low + (high - low) * u1. Each channel of each pixel has its own z, as in
        gaussian_noise; the sum is rounded, halves up, and cut off at 0 and 255. Alpha stays.

        Args:
            std: The standard deviation, or (low, high) to draw it from.
            p: The probability.
            name: What it draws by, in place of its number among those that have no name.
        """

    def salt_and_pepper(
        self, amount: float | tuple[float, float], salt: float = 0.5, *, p: float = 1.0, name: str | None = None
    ) -> Self:
        """Make pixels white or black: a share `amount` of them, and of those the share `salt` white.

        It happens when u0 < p, with amount = low + (high - low) * u1. By the 64 bits that a pixel's place draws: it
        changes when the upper 32, over 2^32, are below the amount, and becomes white when the lower 32 are below the
        share. All colours of a pixel change; alpha stays.

        Args:
            amount: The share of pixels that change, or (low, high) to draw it from.
            salt: The share of white among them.
            p: The probability.
            name: What it draws by, in place of its number among those that have no name.
        """

    def clamp(self, low: float, high: float) -> Self:
        """Bring values below `low` to it, and those above `high` to that: numpy.clip.

        It takes pixels, the tensor of floats that they become, and any other number or tensor. Of whole numbers both
        ends must be whole.
        """

    def normalize(self, mean: str | Sequence[float], std: Sequence[float] | None = None) -> Self:
        """Make float32 (channels, height, width): (pixel / 255 - mean) / std.

        Args:
            mean: A mean for each channel, or one for all, or the name of known statistics: imagenet, half, unit.
            std: Standard deviations alike; none with a name.
        """

    def to_chw(self) -> Self:
        """Put channels first: (channels, height, width)."""

    def to_hwc(self) -> Self:
        """Put channels last: (height, width, channels)."""

    def patchify(self, patch_size: int) -> Self:
        """Cut an image into squares of `patch_size` x `patch_size` pixels: (tokens, values), row by row of squares.

        Sides must be multiples of the square's. The values of a token are in the order that the image's axes have
        before it: channels first after normalize or to_chw, einops' "c (h p1) (w p2) -> (h w) (c p1 p2)", which is that
        of the weights of a ViT's convolution and of torch's unfold; else channels last, "(p1 p2 c)".
        """

    def cast(self, dtype: str) -> Self:
        """Change the dtype, values as they are. Images also to bfloat16: numpy output has it as uint16."""

    def passthrough(self) -> Self:
        """Give the value as it is stored: numbers as arrays, anything else as a list."""

    def bytes(self) -> Self:
        """Give the stored bytes of an image, text or bytes column, as a list of `bytes`."""

    def text(self, encoding: str = "utf-8") -> Self:
        """Give a list of `str`; bytes that are not in `encoding` are an error."""

    def json(self) -> Self:
        """Give a list of the Python objects that the stored JSON describes."""

    def array(self, dtype: str, shape: tuple[int | None, ...]) -> Self:
        """Read raw bytes (little-endian, C order) or a list of numbers as an array.

        Args:
            dtype: Of the bytes, or what the list's numbers become.
            shape: Of each sample. One size may be None, and then samples come as a list of arrays.
        """

    def npy(self, dtype: str | None = None, shape: tuple[int | None, ...] | None = None) -> Self:
        """Read a NumPy file (.npy); with dtype and shape given, which are checked, a batch is one array.

        Args:
            dtype: The file's; None: as the file says.
            shape: The file's, None for a size that may be any; None: as the file says.
        """

    def as_image(self) -> Self:
        """Take uint8 tensors (height, width, 1, 3 or 4 channels) for pixels: steps on images may follow.

        Of a tensor (height, width) each number is a gray pixel. Heights and widths may be open, channels may not.
        """

    def scalar(self, dtype: str) -> Self:
        """Give a number column as an array (n,) of `dtype`; a number that doesn't fit is an error."""

    def one_hot(self, classes: int) -> Self:
        """Make float32 (classes,) of a class id: 1 at the id, 0 elsewhere; an id outside is an error."""

    def reshape(self, shape: int | Sequence[int]) -> Self:
        """Give an array another shape, its numbers in the order that they have: numpy.reshape.

        Args:
            shape: Of each sample. One size may be -1: it follows from the others.
        """

    def transpose(self, axes: Sequence[int]) -> Self:
        """Put the axes of an array into another order: numpy.transpose, the batch's own axis not counted.

        Args:
            axes: For each axis of the result, which one it was: (2, 0, 1) puts the last one first.
        """

    def python(
        self,
        fn: Callable[..., Any],
        schema: str | tuple[str, tuple[int | None, ...]] | Pixels,
        *,
        random: bool = False,
        timeout: float | None = 60.0,
        version: int = 1,
        name: str | None = None,
    ) -> Self:
        """Call a function on a worker thread: fn(value), under the GIL.

        Args:
            fn: Gets the value so far: an array, number, str, bytes or object.
            schema: What it returns, which is checked: ("float32", (3, 224, 224)), "int64" for a number, or "object".
                A size may be None, and then samples come as a list of arrays. toolkit.pixels() says that it returns an
                image, which every step on images takes.
            random: Call fn(value, rng), with a numpy Generator that follows from seed, epoch and position alone.
            timeout: Seconds a call may take before the batch is an error; None: any time.
            version: Raise it when the function changes, so that describe() does too.
            name: What it draws by with `random`, in place of its number among those that have no name.
        """

    def maybe(self, chain: Steps, p: float = 0.5, *, name: str | None = None) -> Self:
        """Run the steps of a chain with probability `p`: when u0 < p.

        They must leave what they are given, but for an image's height and width.

        Args:
            chain: The steps: toolkit.chain().hflip().pad(2).
            p: The probability.
            name: What it draws by, in place of its number among those that have no name.
        """

    def one_of(self, *chains: Steps, weights: Sequence[float] | None = None, name: str | None = None) -> Self:
        """Run the steps of one of several chains, by weights: the first whose share, with all before it, is above u0.

        All must leave the same, but for an image's height and width. A chain without steps leaves the sample alone.

        Args:
            chains: Two or more.
            weights: One for each; None: all alike.
            name: What it draws by, in place of its number among those that have no name.
        """

def word_of(step: type[Step]) -> Callable[..., Words]:
    """Return the method that adds such a step: its arguments' faults get the place."""

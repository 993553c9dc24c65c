"""torchvision's transforms as a chain. Objects are known by their classes' names: torchvision isn't imported."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from toolkit.errors import PipelineError
from toolkit.escapes import short
from toolkit.pipelines.slots import Chain, chain

__all__ = ["from_torchvision"]


@dataclass
class _Made:
    """What is translated so far.

    Attributes:
        steps: Steps on pixels.
        tensor: What pixels are by now: None an image of PIL's, else "uint8" or "float32".
        normalized: Mean and std, once they are.
        behind: Steps on what is normalized.
    """

    steps: Chain = field(default_factory=chain)
    tensor: str | None = None
    normalized: tuple[tuple[float, ...], tuple[float, ...]] | None = None
    behind: Chain = field(default_factory=chain)


class _NoEqualError(Exception):
    """Why a transform has no equal here."""


def from_torchvision(transforms: Any) -> Chain:
    """Return the chain that does what transforms of torchvision (v1 or v2) do to images of PIL.

    It stands behind decode_image: slot("image").decode_image(exif=False).then(from_torchvision(compose)); torchvision's
    own loader leaves EXIF alone. Pixels are the same, and so are distributions; draws are toolkit's. (Policies have
    v1's tables: v2 rounds thresholds of solarize in another order, and some that are whole numbers, as 170, become a
    little more, so that it leaves pixels of just this value as they are.)

    Args:
        transforms: A transform, or a list of them; Compose, RandomApply and RandomChoice are looked into.

    Raises:
        PipelineError: A transform has no equal here, or runs on tensors, where torchvision computes otherwise.
    """
    made = _Made()
    for i, each in enumerate(_flat(transforms)):
        try:
            _add(made, each)
        except (_NoEqualError, PipelineError) as error:
            shown = short(" ".join(repr(each).split()), 120)
            raise PipelineError(f"transform {i + 1}, {shown}, can't be translated: {error}") from None
    finished = made.steps
    if made.normalized is not None:
        finished = finished.normalize(*made.normalized)
    elif made.tensor is not None:
        finished = finished.normalize("unit") if made.tensor == "float32" else finished.to_chw()
    return finished.then(made.behind)


def _flat(transforms: Any) -> Iterable[Any]:
    if isinstance(transforms, list | tuple):
        for each in transforms:
            yield from _flat(each)
    elif _name(transforms) in ("Compose", "Sequential"):
        inner = transforms.transforms if _name(transforms) == "Compose" else list(transforms)
        yield from _flat(list(inner))
    else:
        yield transforms


def _name(transform: Any) -> str:
    module = type(transform).__module__
    known = module.startswith(("torchvision.transforms", "torch.nn.modules.container"))
    return type(transform).__name__ if known else ""


def _add(made: _Made, transform: Any) -> None:
    name = _name(transform)
    if not name:
        what = getattr(transform, "__name__", type(transform).__name__)
        raise _NoEqualError(f"{what} is no transform of torchvision's: call it with python(fn, pixels())")
    if name in _TO_TENSOR:
        _TO_TENSOR[name](made, transform)
        return
    if name not in _STEPS:
        raise _NoEqualError("toolkit has no step that does the same")
    if made.behind.steps:
        raise _NoEqualError("it stands behind RandomErasing")
    if made.tensor is not None and name not in _ALIKE_ON_TENSORS:
        raise _NoEqualError("on tensors torchvision computes otherwise: move it in front of ToTensor or ToImage")
    made.steps = _STEPS[name](made.steps, transform)


# --- steps on pixels ---------------------------------------------------------------------------------------------

_FILTERS = {"nearest": "nearest", "bilinear": "bilinear", "bicubic": "bicubic", "lanczos": "lanczos"}


def _filter(transform: Any) -> str:
    name = str(getattr(transform.interpolation, "value", transform.interpolation))
    if name not in _FILTERS:
        raise _NoEqualError(f"there is no filter {name!r}, but {', '.join(_FILTERS)}")
    return _FILTERS[name]


def _plain(transform: Any, **expected: Any) -> None:
    """Refuse options that have no equal here, unless they are at a value that changes nothing."""
    for name, value in expected.items():
        given = getattr(transform, name, value)
        if given != value:
            raise _NoEqualError(f"there is nothing like {name}={short(given, 60)}")


def _sides(size: Any) -> tuple[int, int]:
    sides = [int(side) for side in (size if isinstance(size, Sequence) else [size])]
    return (sides[0], sides[-1])


def _pair(ends: Any) -> tuple[float, float]:
    return float(ends[0]), float(ends[1])


def _number(fill: Any) -> int:
    """Return a fill of one number, which v2 keeps by type."""
    if isinstance(fill, Mapping):
        (fill,) = set(fill.values()) or {0}
    if isinstance(fill, Sequence):
        if len(set(fill)) != 1:
            raise _NoEqualError(f"fill is one number here, not {short(fill, 60)}")
        fill = fill[0]
    return int(fill or 0)


def _resize(steps: Chain, transform: Any) -> Chain:
    _plain(transform, max_size=None, antialias=True)
    size = transform.size
    if isinstance(size, int) or len(size) == 1:
        return steps.resize_short(_sides(size)[0], filter=_filter(transform))
    return steps.resize(_sides(size), filter=_filter(transform))


def _random_crop(steps: Chain, transform: Any) -> Chain:
    if transform.pad_if_needed:
        raise _NoEqualError("there is nothing like pad_if_needed=True")
    if transform.padding is not None:
        steps = _pad(steps, transform)
    return steps.random_crop(_sides(transform.size))


def _random_resized_crop(steps: Chain, transform: Any) -> Chain:
    _plain(transform, antialias=True)
    scale, ratio = _pair(transform.scale), _pair(transform.ratio)
    return steps.random_resized_crop(_sides(transform.size), scale=scale, ratio=ratio, filter=_filter(transform))


def _pad(steps: Chain, transform: Any) -> Chain:
    _plain(transform, padding_mode="constant")
    padding = transform.padding
    sides = [padding] if isinstance(padding, int) else list(padding)
    left, top, right, bottom = {1: sides * 4, 2: sides * 2, 4: sides}[len(sides)]
    return steps.pad(top=top, left=left, bottom=bottom, right=right, fill=_number(transform.fill))


def _jitter(steps: Chain, transform: Any) -> Chain:
    def ends(name: str) -> tuple[float, float] | None:
        given = getattr(transform, name)
        return None if given is None else _pair(given)

    return steps.color_jitter(
        brightness=ends("brightness"), contrast=ends("contrast"), saturation=ends("saturation"), hue=ends("hue")
    )


def _inner(transforms: Any) -> Chain:
    made = _Made()
    for each in _flat(list(transforms)):
        _add(made, each)
    if made.tensor is not None or made.behind.steps:
        raise _NoEqualError("what is within it must run on images of PIL's")
    return made.steps


def _apply(steps: Chain, transform: Any) -> Chain:
    return steps.maybe(_inner(transform.transforms), p=float(transform.p))


def _choice(steps: Chain, transform: Any) -> Chain:
    weights = getattr(transform, "p", None)
    chains = [_inner([each]) for each in transform.transforms]
    return steps.one_of(*chains, weights=None if weights is None else tuple(map(float, weights)))


def _fill(fill: Any) -> int | tuple[int, int, int]:
    """Return a fill of one number, or one a colour."""
    if isinstance(fill, Mapping):
        fill = next(iter(fill.values()), 0)
    if isinstance(fill, Sequence) and len(fill) == 3:
        red, green, blue = map(int, fill)
        return red, green, blue
    return _number(fill)


def _center(transform: Any) -> tuple[float, float] | None:
    return None if transform.center is None else _pair(transform.center)


def _rotation(steps: Chain, transform: Any) -> Chain:
    return steps.rotate(
        _pair(transform.degrees),
        filter=_filter(transform),
        expand=bool(transform.expand),
        center=_center(transform),
        fill=_fill(transform.fill),
    )


def _affine(steps: Chain, transform: Any) -> Chain:
    return steps.affine(
        _pair(transform.degrees),
        None if transform.translate is None else _pair(transform.translate),
        None if transform.scale is None else _pair(transform.scale),
        None if transform.shear is None else tuple(map(float, transform.shear)),
        filter=_filter(transform),
        fill=_fill(transform.fill),
        center=_center(transform),
    )


def _perspective(steps: Chain, transform: Any) -> Chain:
    return steps.perspective(
        float(transform.distortion_scale),
        p=float(transform.p),
        filter=_filter(transform),
        fill=_fill(transform.fill),
    )


def _rand_augment(steps: Chain, transform: Any) -> Chain:
    return steps.rand_augment(
        int(transform.num_ops),
        float(transform.magnitude),
        num_magnitude_bins=int(transform.num_magnitude_bins),
        filter=_filter(transform),
        fill=_fill(transform.fill),
    )


def _auto_augment(steps: Chain, transform: Any) -> Chain:
    return steps.auto_augment(str(transform.policy.value), filter=_filter(transform), fill=_fill(transform.fill))


def _trivial(steps: Chain, transform: Any) -> Chain:
    bins = int(transform.num_magnitude_bins)
    return steps.trivial_augment_wide(bins, filter=_filter(transform), fill=_fill(transform.fill))


def _aug_mix(steps: Chain, transform: Any) -> Chain:
    return steps.aug_mix(
        int(transform.severity),
        int(transform.mixture_width),
        int(transform.chain_depth),
        float(transform.alpha),
        bool(transform.all_ops),
        filter=_filter(transform),
        fill=_fill(transform.fill),
    )


def _grayscale(steps: Chain, transform: Any) -> Chain:
    if transform.num_output_channels not in (1, 3):
        raise _NoEqualError("a gray picture has 1 channel or 3")
    return steps.grayscale(channels=transform.num_output_channels)


def _blur(steps: Chain, transform: Any) -> Chain:
    height, width = _sides(transform.kernel_size)
    if height != width:
        raise _NoEqualError("a kernel is as high as wide here")
    low, high = transform.sigma
    return steps.gaussian_blur(height, (float(low), float(high)))


_STEPS: dict[str, Callable[[Chain, Any], Chain]] = {
    "AugMix": _aug_mix,
    "AutoAugment": _auto_augment,
    "CenterCrop": lambda steps, it: steps.center_crop(_sides(it.size)),
    "ColorJitter": _jitter,
    "GaussianBlur": _blur,
    "Grayscale": _grayscale,
    "Identity": lambda steps, it: steps,
    "Pad": _pad,
    "RandAugment": _rand_augment,
    "RandomAdjustSharpness": lambda steps, it: steps.sharpness(float(it.sharpness_factor), p=float(it.p)),
    "RandomAffine": _affine,
    "RandomApply": _apply,
    "RandomAutocontrast": lambda steps, it: steps.autocontrast(p=float(it.p)),
    "RandomChoice": _choice,
    "RandomCrop": _random_crop,
    "RandomEqualize": lambda steps, it: steps.equalize(float(it.p)),
    "RandomGrayscale": lambda steps, it: steps.grayscale(channels=3, p=float(it.p)),
    "RandomHorizontalFlip": lambda steps, it: steps.hflip(float(it.p)),
    "RandomInvert": lambda steps, it: steps.invert(float(it.p)),
    "RandomPerspective": _perspective,
    "RandomPosterize": lambda steps, it: steps.posterize(int(it.bits), p=float(it.p)),
    "RandomResizedCrop": _random_resized_crop,
    "RandomRotation": _rotation,
    "RandomSolarize": lambda steps, it: steps.solarize(float(it.threshold), p=float(it.p)),
    "RandomVerticalFlip": lambda steps, it: steps.vflip(float(it.p)),
    "Resize": _resize,
    "RGB": lambda steps, it: steps,
    "TrivialAugmentWide": _trivial,
}
_ALIKE_ON_TENSORS = {"RandomHorizontalFlip", "RandomVerticalFlip", "Identity"}


# --- tensors -----------------------------------------------------------------------------------------------------


def _to_tensor(made: _Made, transform: Any) -> None:
    made.tensor = "float32"


def _to_image(made: _Made, transform: Any) -> None:
    made.tensor = made.tensor or "uint8"


def _to_dtype(made: _Made, transform: Any) -> None:
    dtype = str(transform.dtype).removeprefix("torch.")
    if made.tensor is None:
        raise _NoEqualError("it stands in front of ToImage or PILToTensor")
    if dtype == "uint8" and made.tensor == "uint8":
        return
    # v1's ConvertImageDtype always scales.
    if dtype != "float32" or not getattr(transform, "scale", True):
        raise _NoEqualError("only ToDtype(torch.float32, scale=True) has an equal")
    made.tensor = "float32"


def _normalize(made: _Made, transform: Any) -> None:
    if made.tensor != "float32" or made.normalized is not None or made.behind.steps:
        raise _NoEqualError("it must stand once, behind ToTensor or ToDtype(torch.float32, scale=True)")
    made.normalized = tuple(map(float, transform.mean)), tuple(map(float, transform.std))


def _erase(made: _Made, transform: Any) -> None:
    if made.tensor != "float32":
        raise _NoEqualError("it must stand behind ToTensor or ToDtype(torch.float32, scale=True)")
    value = transform.value if transform.value is not None else "random"
    if isinstance(value, list | tuple):
        value = tuple(map(float, value))
    made.behind = made.behind.random_erasing(
        float(transform.p), scale=_pair(transform.scale), ratio=_pair(transform.ratio), value=value
    )


_TO_TENSOR: dict[str, Callable[[_Made, Any], None]] = {
    "ConvertImageDtype": _to_dtype,
    "Normalize": _normalize,
    "PILToTensor": _to_image,
    "RandomErasing": _erase,
    "ToDtype": _to_dtype,
    "ToImage": _to_image,
    "ToPureTensor": lambda made, transform: None,
    "ToTensor": _to_tensor,
}

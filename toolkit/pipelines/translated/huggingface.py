"""Image processors of Hugging Face's transformers as a chain. Their configs are data: transformers isn't imported."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from toolkit.errors import PipelineError, did_you_mean
from toolkit.escapes import short
from toolkit.options.load import text_of
from toolkit.pipelines.slots import Chain, chain

__all__ = ["from_hf"]

_FILTERS = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic"}  # Pillow's numbers
_RESCALE = 1 / 255
# What changes no pixel, or only says how a batch is given.
_SILENT = {
    "_processor_class",
    "_valid_processor_keys",
    "auto_map",
    "data_format",
    "default_to_square",
    "device",
    "disable_grouping",
    "do_convert_rgb",
    "feature_extractor_type",
    "image_processor_type",
    "image_seq_length",
    "input_data_format",
    "processor_class",
    "return_tensors",
    "transformers_version",
}
_READ = {
    "crop_pct",
    "crop_size",
    "do_center_crop",
    "do_normalize",
    "do_rescale",
    "do_resize",
    "image_mean",
    "image_std",
    "resample",
    "rescale_factor",
    "size",
}
_STANDARD, _DEFAULT = ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)), ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
_CLIP = ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711))


@dataclass(frozen=True)
class _Usual:
    """What a class of processors does where its config is silent."""

    size: Mapping[str, int]
    crop: int | None
    resample: int
    statistics: tuple[tuple[float, ...], tuple[float, ...]]
    crop_pct: float | None = None


_SQUARE = {"height": 224, "width": 224}
_KNOWN = {
    "BitImageProcessor": _Usual({"shortest_edge": 224}, 224, 3, _CLIP),
    "CLIPImageProcessor": _Usual({"shortest_edge": 224}, 224, 3, _CLIP),
    "ConvNextImageProcessor": _Usual({"shortest_edge": 384}, None, 3, _STANDARD, 224 / 256),
    "DeiTImageProcessor": _Usual({"height": 256, "width": 256}, 224, 3, _STANDARD),
    "MobileNetV1ImageProcessor": _Usual({"shortest_edge": 256}, 224, 2, _STANDARD),
    "PvtImageProcessor": _Usual(_SQUARE, None, 3, _DEFAULT),
    "SiglipImageProcessor": _Usual(_SQUARE, None, 3, _STANDARD),
    "ViTImageProcessor": _Usual(_SQUARE, None, 2, _STANDARD),
}


def from_hf(config: Mapping[str, Any] | str | os.PathLike[str] | Any) -> Chain:
    """Return the chain that does what an image processor of transformers does to an image of PIL's in RGB.

    It stands behind decode_image: slot("image").decode_image(exif=False).then(from_hf("preprocessor_config.json")).
    Pixels are those of transformers' Pillow backend; its torchvision backend resizes tensors by other arithmetic.

    Args:
        config: A preprocessor_config.json, by its path or as the dict that it holds; or the processor.

    Raises:
        PipelineError: The class of processor isn't known, or the config asks for what has no equal here.
        NotFoundError, UsageError, StorageError: The file can't be read.
    """
    said = _read(config)
    kind = str(said.get("image_processor_type") or said.get("feature_extractor_type"))
    name = kind.removesuffix("Fast").removesuffix("Pil").replace("FeatureExtractor", "ImageProcessor")
    if name not in _KNOWN:
        hint = did_you_mean(name, _KNOWN) or f" Known: {', '.join(_KNOWN)}"
        raise PipelineError(f"the image processor {short(kind, 80)} has no equal here.{hint}")
    for key, value in said.items():
        if key not in _READ | _SILENT and value not in (None, False):
            raise PipelineError(f"{kind}: there is nothing like {key}={short(value, 60)}")
    if said.get("do_convert_rgb") is False:
        raise PipelineError(f"{kind}: there is nothing like do_convert_rgb=False: decode_image gives one mode")
    usual = _KNOWN[name]
    return _finished(kind, said, usual, _resized(kind, said, usual))


def _read(config: Any) -> dict[str, Any]:
    if isinstance(config, str | os.PathLike):
        path = os.fspath(config)
        try:
            config = json.loads(text_of(path, "processor's config"))
        except ValueError as error:
            raise PipelineError(f"{path}: no JSON: {error}") from error
    elif hasattr(config, "to_dict"):
        config = config.to_dict()
    if not isinstance(config, Mapping):
        raise PipelineError(f"a processor's config is a dict or a path, got {type(config).__name__}")
    return dict(config)


def _resized(kind: str, said: Mapping[str, Any], usual: _Usual) -> Chain:
    steps = chain()
    number = said.get("resample", usual.resample)
    if number not in _FILTERS:
        raise PipelineError(f"{kind}: there is no filter resample={short(number, 20)}, but {_FILTERS}")
    if said.get("do_resize", True):
        size = _size(kind, "size", said.get("size", usual.size), short_edge="shortest_edge" in usual.size)
        pct = said.get("crop_pct", usual.crop_pct)
        if pct is not None and usual.crop_pct is None:
            raise PipelineError(f"{kind}: there is nothing like crop_pct={short(pct, 20)}")
        if isinstance(size, tuple):
            steps = steps.resize(size, filter=_FILTERS[number])
        elif pct is None:
            steps = steps.resize_short(size, filter=_FILTERS[number])
        elif size < 384:  # ConvNeXT: larger ones are resized to a square
            steps = steps.resize_short(int(size / pct), filter=_FILTERS[number]).center_crop(size, halves="down")
        else:
            steps = steps.resize((size, size), filter=_FILTERS[number])
    if said.get("do_center_crop", usual.crop is not None):
        crop = _size(kind, "crop_size", said.get("crop_size", usual.crop or 224), short_edge=False)
        steps = steps.center_crop(crop, halves="down")
    return steps


def _size(kind: str, key: str, given: Any, *, short_edge: bool) -> int | tuple[int, int]:
    """Return the length of the shorter side, or (height, width)."""
    if isinstance(given, int):
        return given if short_edge else (given, given)
    if isinstance(given, Mapping):
        sides = {name: value for name, value in given.items() if value is not None}
        if set(sides) == {"shortest_edge"}:
            return int(sides["shortest_edge"])
        if set(sides) == {"height", "width"}:
            return int(sides["height"]), int(sides["width"])
    raise PipelineError(f"{kind}: there is nothing like {key}={short(given, 80)}")


def _finished(kind: str, said: Mapping[str, Any], usual: _Usual, steps: Chain) -> Chain:
    rescales, normalizes = bool(said.get("do_rescale", True)), bool(said.get("do_normalize", True))
    factor = said.get("rescale_factor", _RESCALE)
    if rescales and abs(float(factor) - _RESCALE) > 1e-9:
        raise PipelineError(f"{kind}: there is nothing like rescale_factor={short(factor, 30)}, but 1/255")
    if not rescales and normalizes:
        raise PipelineError(f"{kind}: there is nothing like do_normalize without do_rescale")
    if not rescales:
        return steps.to_chw()
    if not normalizes:
        return steps.normalize("unit")
    mean, std = (said.get(key, value) for key, value in zip(("image_mean", "image_std"), usual.statistics, strict=True))
    return steps.normalize(*(tuple(each) if isinstance(each, list | tuple) else (each,) for each in (mean, std)))

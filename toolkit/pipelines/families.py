"""The families of steps: importing this registers each step in them. A new family adds its line here."""

from __future__ import annotations

from toolkit.pipelines import cast, conditions, python, stored
from toolkit.pipelines.array import axes, numbers, tensors
from toolkit.pipelines.image import (
    affine,
    as_image,
    channels,
    clahe,
    clamp,
    colour,
    decode_step,
    elastic,
    erasing,
    filters,
    finish,
    fitting,
    geometry,
    noise,
    recompress,
    tone,
    views,
    warps,
)
from toolkit.pipelines.image.policies import aug_mix, augment
from toolkit.pipelines.text import strings

__all__ = ["FAMILIES"]

FAMILIES = (
    decode_step,
    geometry,
    fitting,
    views,
    warps,
    affine,
    elastic,
    colour,
    filters,
    clahe,
    recompress,
    tone,
    channels,
    augment,
    aug_mix,
    erasing,
    noise,
    clamp,
    finish,
    cast,
    stored,
    strings,
    tensors,
    as_image,
    numbers,
    axes,
    python,
    conditions,
)

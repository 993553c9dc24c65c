"""Each operation at each magnitude makes of a picture what torchvision and timm make of it with PIL.

Bit for bit, but that a bilinear or bicubic value may be one level from theirs. tests/golden/make_policies.py wrote
digests of what they make with Pillow 13; the oracle has them too, whichever PIL is installed, and operations equal it.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest
from image_slots import compiled
from PIL import Image
from policy_golden import GOLDEN, SPACES, plain
from policy_oracle import apply_op, apply_timm
from policy_picture import policy_picture
from tone_oracle import to_gray

from toolkit._native.image.program import Scratch
from toolkit.pipelines.image.policies.operations import Sampling, Warping, Way, at_bin, at_level, magnitudes
from toolkit.pipelines.image.policies.tables import TIMM_DECREASING, TIMM_INCREASING, Levels

PICTURE = policy_picture()
KEYS = range(12)  # in which either sign occurs
LEVELS = (0.0, 3.0, 8.37, 9.0, 10.0)
FILL = (124, 116, 104)


def digest(image: Image.Image) -> str:
    return hashlib.sha256(np.ascontiguousarray(np.asarray(image.convert("RGB")))).hexdigest()[:8]


def check(way: Way, image: Image.Image, filter: str, wanted: list[Image.Image]) -> None:
    """Check that a way makes of a picture each of those, by the sign that it draws."""
    pixels = np.asarray(image)
    pixels = np.ascontiguousarray(pixels.reshape(*pixels.shape[:2], -1))
    program = compiled(*way, mode=image.mode)
    found = set()
    for key in KEYS:
        got = program.apply(pixels, Scratch(), key).astype(np.int16)
        off = [np.abs(got - np.asarray(each).reshape(got.shape)) for each in wanted]
        nearest = min(range(len(off)), key=lambda i: off[i].sum())
        assert off[nearest].max() <= (filter != "nearest")
        assert off[nearest].mean() < 0.1  # bilinear values that are whole numbers may be cut off to the one below
        found.add(np.asarray(wanted[nearest]).tobytes())
    assert found == {np.asarray(each).tobytes() for each in wanted}


def torchvisions(which: str) -> tuple[Image.Image, list[list[Image.Image]]]:
    """Return the picture, and what the oracle makes of it in each bin, of either sign."""
    name, bins, word, filter, mode = which.split("/")
    scale: Any = SPACES[name][plain(word)]
    image = PICTURE if mode == "RGB" else to_gray(PICTURE)
    values = [0.0] if scale is None else magnitudes(scale, int(bins))
    if getattr(scale, "of_side", False):
        side = image.width if word == "TranslateX" else image.height
        values = [value * side * (1 + 1e-9) for value in values]
    signs = (1, -1) if getattr(scale, "signed", False) else (1,)
    return image, [[apply_op(image, word, sign * value, filter) for sign in signs] for value in values]


def timms(which: str) -> list[list[Image.Image]]:
    """Return what the oracle makes of the picture at each level, of either sign."""
    ops, word, filter = which.split("/")
    level = table_of(ops)[plain(word)]
    made = []
    for each in LEVELS:
        change = 0.0 if level is None else each / 10.0 * level.change
        change = int(change) if level is not None and level.whole else change
        signs = (-1, 1) if level is not None and level.signed else (1,)
        start = 0.0 if level is None else level.start
        made.append([apply_timm(PICTURE, word, start + sign * change, filter, FILL) for sign in signs])
    return made


def table_of(ops: str) -> Levels:
    return TIMM_INCREASING if ops == "timm" else TIMM_DECREASING


@pytest.mark.parametrize("which", GOLDEN["pictures"])
def test_the_oracle_is_torchvision(which: str) -> None:
    assert [digest(each) for both in torchvisions(which)[1] for each in both] == GOLDEN["pictures"][which]


@pytest.mark.parametrize("which", GOLDEN["timm_pictures"])
def test_the_oracle_is_timm(which: str) -> None:
    golden = GOLDEN["timm_pictures"][which]
    for place, both in enumerate(timms(which)):
        assert {digest(each) for each in both} == set(golden[2 * place : 2 * place + 2])


@pytest.mark.parametrize("which", GOLDEN["pictures"])
def test_torchvisions_operations(which: str) -> None:
    name, bins, word, filter, _ = which.split("/")
    image, wanted = torchvisions(which)
    for number, both in enumerate(wanted):
        way = at_bin(plain(word), SPACES[name][plain(word)], number, int(bins), Warping(Sampling(filter), 0))
        check(way, image, filter, both)


@pytest.mark.parametrize("which", GOLDEN["timm_pictures"])
def test_timms_operations(which: str) -> None:
    ops, word, filter = which.split("/")
    for each, both in zip(LEVELS, timms(which), strict=True):
        way = at_level(plain(word), table_of(ops)[plain(word)], each, 0.0, Warping(Sampling(filter), FILL))
        check(way, PICTURE, filter if plain(word) in MOVING else "nearest", both)


MOVING = {"shear_x", "shear_y", "translate_x", "translate_y", "rotate"}

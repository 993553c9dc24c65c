"""Write tests/golden/policies.json: tables of torchvision's and timm's policies, and what their operations make.

    python tests/golden/make_policies.py

Run with torchvision 0.28, timm 1.0 and Pillow, none of which the tests need. Pictures are the beginnings of sha256 of
the pixels that torchvision's _apply_op, and timm's functions, make of the one of policy_picture.py.
"""

from __future__ import annotations

import hashlib
import json
import random
import sys
from pathlib import Path
from unittest import mock

import numpy as np
import PIL
import timm
import torch
import torchvision
from PIL import Image
from timm.data import auto_augment as timm_policies
from torchvision.transforms import InterpolationMode, autoaugment

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from policy_picture import policy_picture  # noqa: E402

FILTERS = ("nearest", "bilinear", "bicubic")
BINS = {"RandAugment": (31, 10), "AutoAugment": (10,), "TrivialAugmentWide": (31,), "AugMix": (10,)}
SIDE = 224
TIMM = {"timm": timm_policies._RAND_INCREASING_TRANSFORMS, "timm-decreasing": timm_policies._RAND_TRANSFORMS}
TIMM_FILL = (124, 116, 104)
LEVELS = (0.0, 3.0, 8.37, 9.0, 10.0)


def digest(image: Image.Image) -> str:
    pixels = np.asarray(image.convert("RGB"))
    return hashlib.sha256(np.ascontiguousarray(pixels)).hexdigest()[:8]


def space(name: str, bins: int, width: int, height: int) -> dict[str, object]:
    made = getattr(autoaugment, name)()
    arguments = (bins,) if name == "TrivialAugmentWide" else (bins, (height, width))
    return {word: [values.tolist(), signed] for word, (values, signed) in made._augmentation_space(*arguments).items()}


def spaces() -> dict[str, object]:
    return {f"{name}/{bins}": space(name, bins, SIDE, SIDE) for name, of_bins in BINS.items() for bins in of_bins}


def moved() -> dict[str, list[int]]:
    """Return whole pixels of TranslateX in every bin, by the width."""
    return {
        f"{name}/{width}": [int(each) for each in space(name, bins, width, 9)["TranslateX"][0]]
        for name, bins in (("RandAugment", 31), ("AugMix", 10))
        for width in (*range(1, 40), 96, 160, 224, 256, 331, 384, 500, 640, 662, 993, 1024, 1655, 2048, 3310, 4096)
    }


def pictures(image: Image.Image) -> dict[str, list[str]]:
    """Return {policy/bins/op/filter/mode: digests}: of the magnitude of each bin, and of the other sign behind it."""
    made = {}
    for name, of_bins in BINS.items():
        for bins in of_bins:
            for word, (values, signed) in space(name, bins, *image.size).items():
                values = values if isinstance(values, list) else [values]
                signs = (1, -1) if signed else (1,)
                moves = word.startswith(("Shear", "Translate", "Rotate"))
                for filter in FILTERS if moves and name == "AugMix" else ("nearest",):
                    for mode in ("RGB", "L") if bins == 10 else ("RGB",):
                        made[f"{name}/{bins}/{word}/{filter}/{mode}"] = [
                            digest(apply(image.convert(mode), word, sign * value, filter))
                            for value in values
                            for sign in signs
                        ]
    return made


def apply(image: Image.Image, word: str, magnitude: float, filter: str) -> Image.Image:
    if word == "Posterize" and magnitude == 0:  # Pillow 13 refuses to keep no bits
        return Image.new(image.mode, image.size)
    return autoaugment._apply_op(image, word, magnitude, InterpolationMode(filter), fill=None)


def timm_pictures(image: Image.Image) -> dict[str, list[str]]:
    """Return {list/op/filter: digests}: of each of LEVELS, and of the other sign behind it."""
    made = {}
    for which, words in TIMM.items():
        for word in words:
            for filter in (Image.Resampling.BILINEAR, Image.Resampling.BICUBIC):
                made[f"{which}/{word}/{filter.name.lower()}"] = [
                    digest(apply_timm(image, word, level, sign, filter)) for level in LEVELS for sign in (0.0, 1.0)
                ]
    return made


def apply_timm(image: Image.Image, word: str, level: float, sign: float, filter: Image.Resampling) -> Image.Image:
    hparams = {"img_mean": TIMM_FILL, "interpolation": filter}
    op = timm_policies.AugmentOp(word, prob=1.0, magnitude=level, hparams=hparams)
    if "Posterize" in word and op.level_fn(level, {})[0] == 0:  # Pillow 13 refuses to keep no bits
        return Image.new(image.mode, image.size)
    with mock.patch.object(random, "random", return_value=sign):
        return op(image)


def main() -> None:
    image = policy_picture()
    learned = {policy.value: autoaugment.AutoAugment(policy).policies for policy in autoaugment.AutoAugmentPolicy}
    made = {
        "versions": {each.__name__: each.__version__ for each in (torchvision, timm, torch, PIL)},
        "spaces": spaces(),
        "moved": moved(),
        "learned": learned,
        "timm": TIMM,
        "pictures": pictures(image),
        "timm_pictures": timm_pictures(image),
    }
    with open(sys.argv[1] if len(sys.argv) > 1 else HERE / "policies.json", "x") as file:
        json.dump(made, file, separators=(",", ":"))


if __name__ == "__main__":
    main()

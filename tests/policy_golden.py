"""What torchvision's and timm's policies hold and make: tests/golden/make_policies.py wrote it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from toolkit.pipelines.image.policies.tables import AUG_MIX_MORE, AUTO_AUGMENT, RAND_AUGMENT, TRIVIAL_AUGMENT_WIDE

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parent / "golden" / "policies.json").read_text())
SPACES = {
    "RandAugment": RAND_AUGMENT,
    "AutoAugment": AUTO_AUGMENT,
    "TrivialAugmentWide": TRIVIAL_AUGMENT_WIDE,
    "AugMix": AUG_MIX_MORE,
}


def plain(word: str) -> str:
    """Return our word for torchvision's or timm's: shear_x for ShearX."""
    word = word.removesuffix("Increasing").removesuffix("Rel")
    if word == "AutoContrast":
        return "autocontrast"
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in word).removeprefix("_")

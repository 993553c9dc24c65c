"""Write hf_processors.npz: configs of transformers' image processors, and what they give of two pictures.

Run where transformers 5 and Pillow are installed, with tests/ on PYTHONPATH:

    python tests/golden/make_hf_processors.py
"""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np
from pictures import picture

SIZES = [(47, 61), (64, 48)]  # width and height; test_translated.py begins with the same ones
CROP = {"crop_size": {"height": 17, "width": 15}}
CASES: list[tuple[str, dict[str, Any]]] = [
    ("ViT", {"size": {"height": 16, "width": 20}}),
    ("ViT", {"size": {"height": 16, "width": 20}, "do_normalize": False}),
    ("CLIP", {"size": {"shortest_edge": 22}, **CROP}),
    ("CLIP", {"size": {"shortest_edge": 22}, **CROP, "do_rescale": False, "do_normalize": False}),
    ("DeiT", {"size": {"height": 21, "width": 24}, **CROP}),
    ("Bit", {"size": {"shortest_edge": 19}, **CROP}),
    ("Siglip", {"size": {"height": 18, "width": 18}}),
    ("ConvNext", {"size": {"shortest_edge": 16}}),
    ("ConvNext", {"size": {"shortest_edge": 16}, "crop_pct": 0.7}),
    ("Pvt", {"size": {"height": 18, "width": 18}}),
    ("MobileNetV1", {"size": {"shortest_edge": 23}, **CROP}),
]
MODULES = {"MobileNetV1": "mobilenet_v1"}


def main() -> None:
    """Write the file beside this one."""
    kept: dict[str, Any] = {}
    for i, (name, options) in enumerate(CASES):
        folder = MODULES.get(name, name.lower())
        module = importlib.import_module(f"transformers.models.{folder}.image_processing_pil_{folder}")
        processor = getattr(module, f"{name}ImageProcessorPil")(**options)
        kept[f"{i}_config"] = np.array(json.dumps(processor.to_dict()))
        for j, (width, height) in enumerate(SIZES):
            made = processor(picture(j, width, height), return_tensors="np")["pixel_values"][0]
            kept[f"{i}_{j}"] = np.asarray(made, np.float32)
    np.savez_compressed(Path(__file__).parent / "hf_processors.npz", **kept)


if __name__ == "__main__":
    main()

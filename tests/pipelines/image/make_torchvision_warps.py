"""Write torchvision_warps.json, beside this file: run it where torch and torchvision are installed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
from torchvision.transforms import ElasticTransform, InterpolationMode, RandomPerspective
from torchvision.transforms import functional as F

CENTERS = [(112.0, 112.0), (0.0, 0.0), (31.5, 20.0)]


def main() -> None:
    """Ask torchvision for matrices, coefficients and displaced pixels."""
    rng = np.random.default_rng(7)
    matrices, corners, kernels = [], [], []
    for n in range(24):
        given = [
            list(CENTERS[n % 3]),
            float(rng.uniform(-180, 180)),
            [int(rng.integers(-50, 50)), int(rng.integers(-50, 50))],
            float(rng.uniform(0.5, 2)),
            [float(rng.uniform(-40, 40)), float(rng.uniform(-40, 40))],
        ]
        matrices.append([given, F._get_inverse_affine_matrix(*given)])
    torch.manual_seed(1)
    for width, height, scale in [(224, 224, 0.5), (64, 48, 0.9), (7, 5, 0.3), (333, 17, 0.1)] * 4:
        start, end = RandomPerspective.get_params(width, height, scale)
        corners.append([[width, height], end, F._get_perspective_coeffs(start, end)])
    for sigma in (0.4, 1.0, 3.3, 5.0):
        taps = int(8 * sigma + 1) | 1
        point = torch.zeros(1, 1, 2 * taps + 1, 2 * taps + 1)
        point[0, 0, taps, taps] = 1
        blurred = F.gaussian_blur(point, [taps, taps], [sigma, sigma])[0, 0]
        kernels.append([sigma, blurred.sum(0)[taps - taps // 2 : taps + taps // 2 + 1].tolist()])
    pixels = rng.integers(0, 256, (10, 12, 3), np.uint8)
    y, x = np.mgrid[:10, :12]
    moves = np.stack([3 * np.sin(x + 0.3 * y), 2.5 * np.cos(0.7 * y - x)]).astype(np.float32)
    share = torch.from_numpy(np.stack([moves[0] * 2 / 12, moves[1] * 2 / 10], -1)[None])
    displaced = {}
    for name, mode in (("nearest", InterpolationMode.NEAREST), ("bilinear", InterpolationMode.BILINEAR)):
        made = F.elastic_transform(torch.from_numpy(pixels).permute(2, 0, 1), share, mode, [10.0, 100.0, 200.0])
        displaced[name] = made.permute(1, 2, 0).tolist()
    torch.manual_seed(2)
    fields = [ElasticTransform.get_params([50.0, 50.0], [5.0, 5.0], [64, 64])[0, :, :, 0] * 32 for _ in range(30)]
    made = {"matrices": matrices, "corners": corners, "kernels": kernels, "pixels": pixels.tolist()}
    made |= {"moves": moves.tolist(), "displaced": displaced, "spread": float(np.mean([each.std() for each in fields]))}
    Path(__file__).with_name("torchvision_warps.json").write_text(json.dumps(made))


if __name__ == "__main__":
    main()

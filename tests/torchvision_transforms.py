"""torchvision's transforms, v1 and v2, to compare with: `from torchvision_transforms import v1, v2`."""

from __future__ import annotations

import warnings

import torchvision_operators  # noqa: F401 - before torchvision

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torchvision import transforms as v1
    from torchvision.transforms import v2

__all__ = ["v1", "v2"]

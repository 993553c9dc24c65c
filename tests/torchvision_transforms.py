"""torchvision's transforms, v1 and v2, to compare with: `from torchvision_transforms import v1, v2`."""

from __future__ import annotations

import warnings

import torch

# A torchvision that was built for another build of torch lacks its native operators; transforms of PIL use none.
_library = torch.library.Library("torchvision", "FRAGMENT")
for _name in ("nms", "qnms"):
    _library.define(f"{_name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torchvision import transforms as v1
    from torchvision.transforms import v2

__all__ = ["v1", "v2"]

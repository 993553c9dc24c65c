"""Lets a torchvision be imported that was built for another build of torch: `import torchvision_operators` before it.

It lacks its native operators then, and asks for these when it is imported; transforms and folders of PIL use none.
"""

from __future__ import annotations

import torch

_library = torch.library.Library("torchvision", "FRAGMENT")
for _name in ("nms", "qnms"):
    _library.define(f"{_name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")

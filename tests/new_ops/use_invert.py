"""Run by test_new_op.py over a copy of toolkit that has the op of invert.c and the step of invert_step.py."""

import sys

import invert_step
import numpy as np
import pytest

import toolkit
from toolkit import slot

assert invert_step.Invert.word == "invert"

ds = toolkit.open(sys.argv[1], split="train", columns=["image"])
plain = slot("image").decode_image().resize_short(16).center_crop(12)
both = toolkit.pipeline(
    plain,
    slot("image", name="turned")
    .then(toolkit.chain())
    .decode_image()
    .resize_short(16)
    .center_crop(12)
    .invert(99)
    .hflip(1.0),
)
assert ".invert(above=99)" in repr(both), both
for batch in ds.loader(both, batch_size=4):
    wanted = batch["image"].copy()
    wanted[wanted > 99] = 255 - wanted[wanted > 99]
    assert np.array_equal(batch["turned"], wanted[:, :, ::-1])
with pytest.raises(toolkit.errors.PipelineError, match="above"):
    slot("image").decode_image().invert(256)

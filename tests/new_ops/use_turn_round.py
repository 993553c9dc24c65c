"""Run by test_new_op.py over a copy of toolkit that has the op of turn_round.c and the step of turn_round_step.py."""

import sys

import numpy as np
import pytest
import turn_round_step

import toolkit
from toolkit import slot

assert turn_round_step.TurnRound.word == "turn_round"

ds = toolkit.open(sys.argv[1], split="train", columns=["image"])
plain = slot("image").decode_image().resize_short(16).center_crop(12)
both = toolkit.pipeline(
    plain,
    slot("image", name="turned")
    .then(toolkit.chain())
    .decode_image()
    .resize_short(16)
    .center_crop(12)
    .turn_round(99)
    .hflip(1.0),
)
assert ".turn_round(above=99)" in repr(both), both
for batch in ds.loader(both, batch_size=4):
    wanted = batch["image"].copy()
    wanted[wanted > 99] = 255 - wanted[wanted > 99]
    assert np.array_equal(batch["turned"], wanted[:, :, ::-1])
with pytest.raises(toolkit.errors.PipelineError, match="above"):
    slot("image").decode_image().turn_round(256)

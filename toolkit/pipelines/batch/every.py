"""Every batch step by its word."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from toolkit.pipelines.batch.label_smoothing import LabelSmoothing
from toolkit.pipelines.batch.mix import Cutmix, Mixup, MixupOrCutmix
from toolkit.pipelines.batch.normalize import NormalizeBatch
from toolkit.pipelines.batch.pad import PadToLongest
from toolkit.pipelines.batch.resize_mix import ResizeMix
from toolkit.pipelines.batch.step import BatchStep

__all__ = ["BATCH_STEPS"]

BATCH_STEPS: Mapping[str, type[BatchStep]] = MappingProxyType(
    {
        step.word: step
        for step in (Cutmix, LabelSmoothing, Mixup, MixupOrCutmix, NormalizeBatch, PadToLongest, ResizeMix)
    }
)

"""Pack datasets into pinned, verifiable Arrow shards, and train from them at full speed.

import toolkit
from toolkit import slot

ds = toolkit.open("flowers@sha256:9f2c31ab44de", split="train")
steps = slot("image").decode_image().resize_short(256).center_crop(224).normalize("imagenet")
for batch in ds.loader(toolkit.pipeline(steps), batch_size=64, shuffle="full", output="torch"):
    train(batch["image"], batch["label"])
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from toolkit.version import __version__

if TYPE_CHECKING:
    import toolkit.errors as errors
    from toolkit.checks.doctor import doctor
    from toolkit.checks.gc import gc
    from toolkit.checks.head import head
    from toolkit.checks.inspect import inspect
    from toolkit.checks.labels import inspect_labels
    from toolkit.checks.query import QueryResult, query
    from toolkit.checks.verify import verify
    from toolkit.loader.api import Dataset
    from toolkit.loader.dataset.concat import concat
    from toolkit.loader.loader import Loader
    from toolkit.loader.mix.samples import Mix, mix
    from toolkit.loader.mix.tokens import TokenMix, mix_tokens
    from toolkit.loader.outputs.batch import Batch
    from toolkit.loader.tokens.batch import TokenBatch
    from toolkit.loader.tokens.stream import TokenStream
    from toolkit.memory.budget import set_memory_limit
    from toolkit.memory.bytes_column import BytesColumn
    from toolkit.memory.guard import set_memory_guard
    from toolkit.memory.holding import HeldBatch, debug_batches
    from toolkit.once.front import open
    from toolkit.pack.front import pack
    from toolkit.pack.index.front import index
    from toolkit.pack.job import PackResult
    from toolkit.pack.tokens import pack_tokens
    from toolkit.pack.writer.merge import merge_parts
    from toolkit.pack.writer.writer import Writer, writer
    from toolkit.pipelines.batch.label_smoothing import label_smoothing
    from toolkit.pipelines.batch.mix import cutmix, mixup, mixup_or_cutmix
    from toolkit.pipelines.batch.normalize import normalize_batch
    from toolkit.pipelines.batch.pad import pad_to_longest
    from toolkit.pipelines.batch.resize_mix import resizemix
    from toolkit.pipelines.batch.step import BatchStep
    from toolkit.pipelines.batch_maps import BatchMap, batch_map
    from toolkit.pipelines.pipeline import Pipeline, pipeline
    from toolkit.pipelines.pixels import pixels
    from toolkit.pipelines.slots import Chain, Slot, chain, slot
    from toolkit.pipelines.translated.huggingface import from_hf
    from toolkit.pipelines.translated.torchvision import from_torchvision

__all__ = [
    "Batch",
    "BatchMap",
    "BatchStep",
    "BytesColumn",
    "Chain",
    "Dataset",
    "HeldBatch",
    "Loader",
    "Mix",
    "PackResult",
    "Pipeline",
    "QueryResult",
    "Slot",
    "TokenBatch",
    "TokenMix",
    "TokenStream",
    "Writer",
    "__version__",
    "batch_map",
    "chain",
    "concat",
    "cutmix",
    "debug_batches",
    "doctor",
    "errors",
    "from_hf",
    "from_torchvision",
    "gc",
    "head",
    "index",
    "inspect",
    "inspect_labels",
    "label_smoothing",
    "merge_parts",
    "mix",
    "mix_tokens",
    "mixup",
    "mixup_or_cutmix",
    "normalize_batch",
    "open",
    "pack",
    "pack_tokens",
    "pad_to_longest",
    "pipeline",
    "pixels",
    "query",
    "resizemix",
    "set_memory_guard",
    "set_memory_limit",
    "slot",
    "verify",
    "writer",
]

_HOMES = {
    "Batch": "toolkit.loader.outputs.batch",
    "BytesColumn": "toolkit.memory.bytes_column",
    "BatchMap": "toolkit.pipelines.batch_maps",
    "BatchStep": "toolkit.pipelines.batch.step",
    "Chain": "toolkit.pipelines.slots",
    "Dataset": "toolkit.loader.api",
    "HeldBatch": "toolkit.memory.holding",
    "Loader": "toolkit.loader.loader",
    "Mix": "toolkit.loader.mix.samples",
    "PackResult": "toolkit.pack.job",
    "Pipeline": "toolkit.pipelines.pipeline",
    "QueryResult": "toolkit.checks.query",
    "Slot": "toolkit.pipelines.slots",
    "TokenBatch": "toolkit.loader.tokens.batch",
    "TokenMix": "toolkit.loader.mix.tokens",
    "TokenStream": "toolkit.loader.tokens.stream",
    "Writer": "toolkit.pack.writer.writer",
    "batch_map": "toolkit.pipelines.batch_maps",
    "chain": "toolkit.pipelines.slots",
    "concat": "toolkit.loader.dataset.concat",
    "cutmix": "toolkit.pipelines.batch.mix",
    "debug_batches": "toolkit.memory.holding",
    "doctor": "toolkit.checks.doctor",
    "from_hf": "toolkit.pipelines.translated.huggingface",
    "from_torchvision": "toolkit.pipelines.translated.torchvision",
    "gc": "toolkit.checks.gc",
    "head": "toolkit.checks.head",
    "index": "toolkit.pack.index.front",
    "inspect": "toolkit.checks.inspect",
    "inspect_labels": "toolkit.checks.labels",
    "label_smoothing": "toolkit.pipelines.batch.label_smoothing",
    "merge_parts": "toolkit.pack.writer.merge",
    "mix": "toolkit.loader.mix.samples",
    "mix_tokens": "toolkit.loader.mix.tokens",
    "mixup": "toolkit.pipelines.batch.mix",
    "mixup_or_cutmix": "toolkit.pipelines.batch.mix",
    "normalize_batch": "toolkit.pipelines.batch.normalize",
    "open": "toolkit.once.front",
    "pack": "toolkit.pack.front",
    "pack_tokens": "toolkit.pack.tokens",
    "pad_to_longest": "toolkit.pipelines.batch.pad",
    "pipeline": "toolkit.pipelines.pipeline",
    "pixels": "toolkit.pipelines.pixels",
    "query": "toolkit.checks.query",
    "resizemix": "toolkit.pipelines.batch.resize_mix",
    "set_memory_guard": "toolkit.memory.guard",
    "set_memory_limit": "toolkit.memory.budget",
    "slot": "toolkit.pipelines.slots",
    "verify": "toolkit.checks.verify",
    "writer": "toolkit.pack.writer.writer",
}

# The room toolkit/pack/ is imported first, and then its name is free for the function: no later import takes it back.
importlib.import_module("toolkit.pack")
globals().pop("pack", None)


def __getattr__(name: str) -> object:
    # Late, so that `toolkit --help` and `import toolkit.errors` cost neither numpy nor pyarrow.
    if name in ("errors", "jax", "torch"):
        return importlib.import_module(f"toolkit.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'toolkit' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    # Not the rooms that happen to be imported. jax and torch are left out: who lists all names imports what they name.
    return list(__all__)

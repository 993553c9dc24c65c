"""What a case runs: a pipeline on image columns, or a stream of a tokens column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from toolkit.checks.bench.case import BenchCase
from toolkit.format.media import IMAGE
from toolkit.format.schema import Column, Kind
from toolkit.loader.api import Dataset
from toolkit.loader.loader import Loader
from toolkit.loader.options.keywords import SharedKeywords
from toolkit.loader.tokens.stream import TokenStream
from toolkit.pipelines.pipeline import Pipeline, pipeline
from toolkit.pipelines.slots import slot

__all__ = ["case_loader", "case_pipeline", "has_tokens", "steps_text"]


def has_tokens(columns: Sequence[Column]) -> bool:
    """Tell whether a case streams tokens."""
    return any(column.kind is Kind.TOKENS for column in columns)


def case_loader(case: BenchCase, dataset: Dataset) -> Loader | TokenStream:
    """Return what a case iterates over."""
    shared: SharedKeywords = {"batch_size": case.batch_size, "threads": case.threads, "rank": 0, "world_size": 1}
    if has_tokens(dataset.columns):
        return dataset.tokens(
            **shared,
            seq_len=case.seq_len,
            shuffle="none" if case.shuffle == "none" else "block",
            epochs=case.epochs,
            output=case.output,
        )
    steps, shuffle = case_pipeline(case, dataset.columns), cast("Any", case.shuffle)  # checked there
    return dataset.loader(steps, **shared, shuffle=shuffle, epochs=case.epochs, output=case.output)


def case_pipeline(case: BenchCase, columns: Sequence[Column]) -> Pipeline | None:
    """Return decode, resize, crop and normalize for each image column; None when the case doesn't decode."""
    images = [column.name for column in columns if column.kind is IMAGE.kind]
    if not case.decode or not images:
        return None
    return pipeline(
        *(
            slot(name).decode_image().resize_short(case.short_side).center_crop(case.crop).normalize("imagenet")
            for name in images
        )
    )


def steps_text(case: BenchCase, columns: Sequence[Column]) -> str:
    """Return what is done, as it is written in code."""
    if has_tokens(columns):
        return f"windows of {case.seq_len} tokens"
    if not case.decode:
        return "none: encoded bytes"
    return f"decode_image, resize_short({case.short_side}), center_crop({case.crop}), normalize('imagenet')"

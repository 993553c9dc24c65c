"""The pipeline that a case runs on image columns."""

from __future__ import annotations

from collections.abc import Sequence

from toolkit.bench.case import BenchCase
from toolkit.format.schema import Column, Kind
from toolkit.pipelines.slots import Pipeline, pipeline, slot

__all__ = ["case_pipeline", "steps_text"]


def case_pipeline(case: BenchCase, columns: Sequence[Column]) -> Pipeline | None:
    """Return decode, resize, crop and normalize for each image column; None when the case doesn't decode."""
    images = [column.name for column in columns if column.kind is Kind.IMAGE]
    if not case.decode or not images:
        return None
    return pipeline(
        *(
            slot(name).decode_image().resize_short(case.short_side).center_crop(case.crop).normalize("imagenet")
            for name in images
        )
    )


def steps_text(case: BenchCase) -> str:
    """Return those steps as they are written in code."""
    if not case.decode:
        return "none: encoded bytes"
    return f"decode_image, resize_short({case.short_side}), center_crop({case.crop}), normalize('imagenet')"

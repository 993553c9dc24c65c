"""Check a pipeline against a dataset's columns and compile its slots. Everything that can be wrong is found here."""

from __future__ import annotations

from collections.abc import Sequence

from toolkit.errors import PipelineError, did_you_mean
from toolkit.format.schema import Column, Kind
from toolkit.pipelines import image_steps as steps
from toolkit.pipelines.image import CompiledImage
from toolkit.pipelines.slots import Pipeline, Slot
from toolkit.pipelines.spec import CenterCrop, DecodeImage, Normalize, ResizeShort, step_text

__all__ = ["compile_pipeline"]

_MAX_BYTES = 1 << 30
_PIXELS = "uint8 height x width x 3 pixels"
_TENSOR = "a float32 3 x height x width tensor"


def compile_pipeline(pipeline: Pipeline, columns: Sequence[Column]) -> dict[str, CompiledImage]:
    """Return what runs for each column that a slot names.

    Raises:
        PipelineError: A slot names no column, or a step doesn't fit what comes before it.
    """
    by_name = {column.name: column for column in columns}
    compiled = {}
    for slot in pipeline.slots:
        if slot.column not in by_name:
            raise PipelineError(
                f"slot {slot.column!r}: the dataset has no such column; it has {', '.join(by_name)}."
                f"{did_you_mean(slot.column, by_name)}"
            )
        if slot.steps:
            compiled[slot.column] = _compile(slot, by_name[slot.column])
    return compiled


def _compile(slot: Slot, column: Column) -> CompiledImage:
    if column.kind is not Kind.IMAGE:
        raise _misfit(slot, 0, "an image column", f"a {column.kind.value} column")
    if not isinstance(slot.steps[0], DecodeImage):
        raise _misfit(slot, 0, _PIXELS, "encoded image bytes: put .decode_image() first")
    built: list[steps.ImageStep] = []
    for place, step in enumerate(slot.steps):
        if place and isinstance(step, DecodeImage):
            raise _misfit(slot, place, "encoded image bytes", f"{_PIXELS}: decode once")
        if built and isinstance(built[-1], steps.Normalize):
            raise _misfit(slot, place, _PIXELS, f"{_TENSOR}: move normalize to the end")
        match step:
            case DecodeImage(max_pixels):
                built.append(
                    steps.DecodeImage(
                        mode=steps.Mode.RGB,
                        exif=True,
                        max_pixels=max_pixels,
                        max_bytes=_MAX_BYTES,
                        truncated=steps.Truncated.ERROR,
                        accuracy=steps.Accuracy.EXACT,
                        icc=False,
                    )
                )
            case ResizeShort(size):
                built.append(steps.ResizeShort(size, steps.Filter.BILINEAR))
            case CenterCrop(height, width):
                built.append(steps.CenterCrop(height, width))
            case Normalize(mean, std):
                built.append(steps.Normalize(mean, std))
    try:
        return CompiledImage(slot.column, built)
    except ValueError as error:
        raise PipelineError(f"slot {slot.column!r}: {error}") from error


def _misfit(slot: Slot, place: int, expected: str, got: str) -> PipelineError:
    step = step_text(slot.steps[place])
    return PipelineError(f"slot {slot.column!r}, step {place + 1} {step}: expected {expected}, got {got}")

"""Check a pipeline against a dataset's columns and compile its slots. Everything that can be wrong is found here."""

from __future__ import annotations

from collections.abc import Sequence

from toolkit.errors import PipelineError, did_you_mean
from toolkit.format.schema import Column, Kind
from toolkit.pipelines.image import CompiledImage
from toolkit.pipelines.slots import Pipeline, Slot
from toolkit.pipelines.spec import CenterCrop, DecodeImage, Normalize, ResizeShort, step_text

__all__ = ["compile_pipeline"]

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
    stages: list[tuple[int, int, int]] = []
    normalize: Normalize | None = None
    for place, step in enumerate(slot.steps[1:], start=1):
        if isinstance(step, DecodeImage):
            raise _misfit(slot, place, "encoded image bytes", f"{_PIXELS}: decode once")
        if normalize is not None:
            raise _misfit(slot, place, _PIXELS, f"{_TENSOR}: move normalize to the end")
        match step:
            case ResizeShort(size):
                stages.append((size, 0, 0))
            case CenterCrop(height, width) if stages and stages[-1][1] == 0:
                stages[-1] = (stages[-1][0], height, width)
            case CenterCrop(height, width):
                stages.append((0, height, width))
            case Normalize():
                normalize = step
    try:
        return CompiledImage(slot, stages, normalize)
    except ValueError as error:
        raise PipelineError(f"slot {slot.column!r}: {error}") from error


def _misfit(slot: Slot, place: int, expected: str, got: str) -> PipelineError:
    step = step_text(slot.steps[place])
    return PipelineError(f"slot {slot.column!r}, step {place + 1} {step}: expected {expected}, got {got}")

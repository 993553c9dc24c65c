"""Steps as the kernels take them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from toolkit._native.image.program import ImageError, ImageProgram
from toolkit.pipelines.conditions import Branch
from toolkit.pipelines.draw_names import draw_names
from toolkit.pipelines.image.image_step import FinishStep, KernelStep, TensorStep
from toolkit.pipelines.randomness import step_id
from toolkit.pipelines.step import Step

__all__ = ["first_too_large", "split_steps"]


def split_steps(
    steps: Sequence[Step], names: Sequence[str]
) -> tuple[list[tuple[Any, ...]], dict[str, Any], list[tuple[Any, ...]]]:
    """Return the steps on pixels, how the finished pixels are written, and the steps on what is written.

    Args:
        steps: In order.
        names: What each draws by.

    Raises:
        ValueError: A step on pixels stands behind normalize, cast or layout, or those don't go together.
    """
    ops: list[tuple[Any, ...]] = []
    tensor_ops: list[tuple[Any, ...]] = []
    finish: dict[str, Any] = {}
    for step, name in zip(steps, names, strict=True):
        if isinstance(step, FinishStep):
            if tensor_ops and not step.orders_axes:
                raise ValueError(f"{step.word} would write what steps behind it changed: put it in front of them")
            step.finish(finish)
        elif finish and isinstance(step, TensorStep):
            tensor_ops.append(_op(step, name))
        elif finish:
            raise ValueError(f"{step.word} needs uint8 pixels: move normalize, cast and layout to the end")
        else:
            ops.append(_op(step, name))
    return ops, finish, tensor_ops


def _op(step: Step, name: str) -> tuple[Any, ...]:
    """Return one step as ImageProgram takes it; `name` is what it draws by."""
    if isinstance(step, Branch):
        ways = [_way(steps, f"{name}/{step.path(way)}") for way, steps in enumerate(step.ways)]
        return step.native_word, {**step.native_fields, "id": step_id(name)}, ways
    if not isinstance(step, KernelStep):
        raise ValueError(f"{step.word} is no step on pixels")
    return step.word, step.kernel() | ({"id": step_id(name)} if step.draws else {})


def _way(steps: Sequence[Step], path: str) -> list[tuple[Any, ...]]:
    return [_op(step, name) for step, name in zip(steps, draw_names(steps, path), strict=True)]


def first_too_large(
    ops: Sequence[tuple[Any, ...]], mode: str, most: int, height: int, width: int, key: int | None
) -> int:
    """Return behind how many steps a picture has more than `most` pixels, or can't be; 0: behind none, or before."""
    for count in range(len(ops) + 1):
        try:
            ImageProgram(ops[:count], mode=mode, max_pixels=most).result_size(height, width, key)
        except (ImageError, ValueError):
            return count
    return 0

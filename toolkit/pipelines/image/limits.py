"""What the native call of an image slot takes at most: checked where steps are written, before there is a dataset."""

from __future__ import annotations

import math
from collections.abc import Sequence

from toolkit._native.image.program import MAX_DEPTH, MAX_OPS, MAX_SIDE
from toolkit.pipelines.conditions import Branch
from toolkit.pipelines.image.decode_step import DecodeImage
from toolkit.pipelines.image.finish import Patchify
from toolkit.pipelines.image.formats import DEFAULT_MAX_PIXELS
from toolkit.pipelines.image.image_step import FinishStep, PixelStep, TensorStep
from toolkit.pipelines.state import MisfitError, State, ValueKind
from toolkit.pipelines.step import Step, all_steps

__all__ = ["check_limits", "check_order", "check_size", "most_pixels"]


def check_limits(steps: Sequence[Step]) -> None:
    """Raise MisfitError when a picture would pass through too many steps on pixels, or branches lie too deep."""
    passes = _passes(steps)
    if passes > MAX_OPS:
        fix = "leave some out, or run the last ones in python(fn, schema)"
        raise MisfitError(f"at most {MAX_OPS} steps on pixels", passes, fix)
    depth = _depth(steps)
    if depth > MAX_DEPTH:
        fix = "one_of with weights says in one branch what several within each other do"
        raise MisfitError(f"at most {MAX_DEPTH} branches of steps on pixels within each other", depth, fix)


def check_size(steps: Sequence[Step], states: Sequence[State]) -> None:
    """Raise MisfitError when the last step makes more pixels of a known size than the slot takes.

    Args:
        steps: Of a slot.
        states: What the value is after each.
    """
    if len(steps) > 1 and states[-2].layout is not None:
        _check_size(steps[-1], states[-2], most_pixels(steps))


def most_pixels(steps: Sequence[Step]) -> int:
    """Return the most pixels that a picture may have in a slot of these steps."""
    return steps[0].max_pixels if steps and isinstance(steps[0], DecodeImage) else DEFAULT_MAX_PIXELS


def check_order(steps: Sequence[Step]) -> None:
    """Raise MisfitError when the last step would write a picture anew behind steps that changed what was written."""
    last = steps[-1]
    if not isinstance(last, FinishStep) or last.orders_axes or not isinstance(steps[0], DecodeImage):
        return
    if not all(step.is_native for step in steps):
        return  # numbers by now, which numpy casts
    finish = next(place for place, step in enumerate(steps) if isinstance(step, FinishStep))
    for step in all_steps(steps[finish:]):
        if isinstance(step, TensorStep):
            fix = f"put {last.word} in front"
            if isinstance(last, Patchify):
                fix = f"put {step.word} on pixels, in front of {steps[finish].word}"
            raise MisfitError("a picture as it was written", f"one that {step.text()} changed", fix)


def _check_size(step: Step, before: State, most: int) -> State:
    """Return what the value is after the step, which may be a branch: then its steps are checked, too."""
    for way in step.ways if isinstance(step, Branch) and not step.keeps_sizes else ():
        state = before
        for each in way:
            state = _check_size(each, state, most)
    after = step.after(before)
    if (after.is_picture or after.kind is ValueKind.VIEWS) and after.shape is not None:
        height, width = after.shape[len(after.leading) :][:2]
        if max(height or 0, width or 0) > MAX_SIDE:
            raise MisfitError(f"sides of at most {MAX_SIDE} pixels", _size_text(height, width), "make it smaller")
        pictures = math.prod(number or 1 for number in after.leading)
        if height is not None and width is not None and pictures * height * width > most:
            fix = "make it smaller, or allow more with decode_image(max_pixels=)"
            raise MisfitError(f"at most {most} pixels", _size_text(*after.leading, height, width), fix)
    return after


def _size_text(*sides: int | None) -> str:
    return " x ".join("any" if side is None else str(side) for side in sides)


def _passes(steps: Sequence[Step]) -> int:
    """Return the most steps on pixels that one picture passes through."""
    passes = 0
    for step in steps:
        if isinstance(step, PixelStep):
            passes += 1
        elif isinstance(step, Branch):
            passes += step.passes([_passes(way) for way in step.ways])
    return passes


def _depth(steps: Sequence[Step]) -> int:
    """Return how deep branches of steps on pixels lie within each other."""
    branches = [step for step in steps if isinstance(step, Branch) and _passes(step.inner)]
    return max((1 + max(map(_depth, step.ways)) for step in branches), default=0)

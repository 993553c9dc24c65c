"""Check a pipeline against a dataset's columns and compile its slots. Everything that can be wrong is found here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from toolkit.errors import PipelineError, did_you_mean
from toolkit.escapes import listed, short
from toolkit.format.schema import DIGEST, KEY, Column, Kind
from toolkit.pipelines.arrays import convert_numbers
from toolkit.pipelines.draw_names import draw_names
from toolkit.pipelines.image.compiled import CompiledImage
from toolkit.pipelines.image.decode_step import DecodeImage
from toolkit.pipelines.image.image_step import ImageStep
from toolkit.pipelines.image.limits import most_pixels
from toolkit.pipelines.image.stretch import PixelStretch
from toolkit.pipelines.media import held_medium
from toolkit.pipelines.slots import Slot
from toolkit.pipelines.state import State, ValueKind
from toolkit.pipelines.step import Step
from toolkit.pipelines.value_program import ValueProgram

__all__ = ["CompiledSlot", "compile_slots", "last_steps", "stored_state"]

_BINARY = (pa.binary(), pa.large_binary())
_TEXT = (pa.string(), pa.large_string())


@dataclass(frozen=True, slots=True)
class CompiledSlot:
    """A slot that fits its column.

    Attributes:
        slot: The slot.
        stored: What the column holds.
        states: The value after each step.
        image: What decodes and transforms images, for the first `image_steps` steps; None for other columns.
        values: The steps behind those.
        group: The sync group that its random steps draw in.
        native: What runs each step that runs natively, by its place.
    """

    slot: Slot
    stored: State
    states: tuple[State, ...]
    image: CompiledImage | None
    image_steps: int
    values: ValueProgram
    group: str
    native: Mapping[int, str]

    @property
    def output(self) -> State:
        """What batches get."""
        return self.states[-1] if self.states else self.stored

    @property
    def reads_bytes(self) -> bool:
        """Whether the first step wants a text's bytes and not its str."""
        return bool(self.slot.steps) and self.slot.steps[0].takes_bytes


def last_steps(compiled: Sequence[CompiledSlot]) -> dict[str, str]:
    """Return in words what each slot does last, by its name."""
    return {each.slot.name: each.slot.steps[-1].text() for each in compiled if each.slot.steps}


def compile_slots(
    slots: Sequence[Slot], groups: Mapping[str, str], columns: Sequence[Column], schema: pa.Schema
) -> list[CompiledSlot]:
    """Return what runs for each slot, in order; `groups`: the sync group of each by its name.

    Raises:
        PipelineError: A slot names no column, a step doesn't fit what comes before it, or a name is taken.
    """
    by_name = {column.name: column for column in columns}
    for slot in slots:
        if slot.column not in by_name:
            name = short(slot.column, 80, quoted=True)
            known = f"{listed(by_name, 64)}.{did_you_mean(slot.column, by_name)}"
            if slot.column in schema.names and slot.column not in (KEY, DIGEST):
                known += f" {name} is stored, but wasn't opened: toolkit.open(…, columns=[…, {name}])"
            raise PipelineError(
                f"slot {short(slot.name, 80, quoted=True)}: the dataset has no column {name}; it has {known}"
            )
    read = {slot.column for slot in slots}
    for slot in slots:
        if slot.name in by_name and slot.name not in read:
            raise PipelineError(
                f"slot {slot.name!r} reads {slot.column!r}, and the column {slot.name!r} passes through under that "
                "name: give the slot another name, or the column a slot of its own"
            )
    return [
        _compile(slot, stored_state(by_name[slot.column], schema.field(slot.column).type), groups[slot.name])
        for slot in slots
    ]


def stored_state(column: Column, dtype: pa.DataType) -> State:
    """Return what the values of a column are."""
    name = str(dtype) if column.kind is Kind.VALUE else column.kind.value
    held = held_medium(column.kind, dtype, by_type=True)
    if held is not None:
        return held.medium.state(held.form, name)
    if dtype in _BINARY:
        return State(ValueKind.BYTES, column=name)
    if dtype in _TEXT:
        return State(ValueKind.TEXT, column=name)
    if pa.types.is_integer(dtype) or pa.types.is_floating(dtype) or pa.types.is_boolean(dtype):
        return State(ValueKind.NUMBER, np.dtype(dtype.to_pandas_dtype()).name, (), column=name)
    if pa.types.is_list(dtype) or pa.types.is_large_list(dtype) or pa.types.is_fixed_size_list(dtype):
        return State(ValueKind.LIST, column=name)
    return State(ValueKind.OBJECT, column=name)


def _compile(slot: Slot, stored: State, group: str) -> CompiledSlot:
    states = slot.states(stored)
    image = None
    split = 0
    stretches: dict[int, PixelStretch] = {}
    try:
        for first, end in _native_stretches(slot, [stored, *states]):
            # A cast behind a function of the user's own is a step on values, and has nothing to fit.
            steps = [
                step.fitted(states[i]) if isinstance(step, ImageStep) else step
                for i, step in enumerate(slot.steps[first:end], start=first)
            ]
            if first == 0:
                image, split = CompiledImage(slot.column, steps), end
            else:
                stretches[first] = _stretch(slot, states[first - 1], steps, first)
    except ValueError as error:
        raise PipelineError(f"slot {slot.name!r}: {error}") from error
    behind = {first - split: stretch for first, stretch in stretches.items()}
    values = ValueProgram(slot.steps[split:], slot.steps[:split], stretches=behind)
    native = {first + i: step.native for first, stretch in stretches.items() for i, step in enumerate(stretch.steps)}
    native |= dict(image.kernels()) if image else {}
    compiled = CompiledSlot(slot, stored, tuple(states), image, split, values, group, native)
    _check_fill(slot, compiled.output)
    return compiled


def _native_stretches(slot: Slot, states: Sequence[State]) -> Iterator[tuple[int, int]]:
    """Yield first and end of the steps that run natively, one behind the other; states[i] is before step i."""
    first = None
    for i, step in enumerate(slot.steps):
        begins = states[i].layout is not None or isinstance(step, DecodeImage)
        is_native = step.is_native and (begins or first is not None)
        if is_native and first is None:
            first = i
        elif not is_native and first is not None:
            yield first, i
            first = None
    if first is not None:
        yield first, len(slot.steps)


def _stretch(slot: Slot, before: State, steps: Sequence[Step], first: int) -> PixelStretch:
    """Return what runs steps on pixels that are there already. Raises ValueError."""
    if before.kind is not ValueKind.PIXELS or before.channels is None:
        raise ValueError(
            f"{steps[0].text()} runs on pixels, natively, and {slot.steps[first - 1].text()} before it leaves "
            f"{before}: change their order"
        )
    names = draw_names(slot.steps)[first : first + len(steps)]
    return PixelStretch(steps, names, before.channels, max_pixels=most_pixels(slot.steps), first_step=first + 1)


def _check_fill(slot: Slot, output: State) -> None:
    if slot.fill is None or output.fixed_shape is None:
        return
    if isinstance(slot.fill, str):
        raise PipelineError(
            f"slot {slot.name!r}: fill={short(slot.fill, 80, quoted=True)} can't stand for {output}: give a number"
        )
    if output.dtype == "bfloat16":
        return
    given, wanted = np.asarray(slot.fill), np.dtype(output.dtype)
    cut = given.dtype.kind == "f" and wanted.kind != "f"
    if cut or given.dtype.kind not in "biuf" or convert_numbers(wanted, given[None])[1].any():
        raise PipelineError(f"slot {slot.name!r}: fill={short(slot.fill, 80, quoted=True)} doesn't fit {output}")

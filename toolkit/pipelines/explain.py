"""Draw a pipeline as a tree: what each step makes of the value, and what runs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from toolkit.format.schema import Column
from toolkit.pipelines.batch.step import BatchStep
from toolkit.pipelines.batch_maps import BatchMap
from toolkit.pipelines.build import CompiledSlot, compile_slots
from toolkit.pipelines.randomness import RANDOM_VERSION
from toolkit.pipelines.slots import Slot
from toolkit.pipelines.state import State, ValueKind

__all__ = ["explain"]


def explain(
    name: str,
    slots: Sequence[Slot],
    groups: Mapping[str, str],
    batch_maps: Sequence[BatchStep | BatchMap],
    stored: tuple[Sequence[Column], pa.Schema] | None,
) -> str:
    """Return the tree; with `stored` columns and their Arrow schema, of these, and with the kernels it leads to.

    Raises:
        PipelineError: A slot doesn't fit the columns.
    """
    compiled: dict[str, CompiledSlot] = {}
    if stored is not None:
        compiled = {each.slot.name: each for each in compile_slots(slots, groups, *stored)}
    branches: list[tuple[str, list[str]]] = []
    for slot in slots:
        branches.append(_slot(slot, compiled.get(slot.name), groups[slot.name]))
    if stored is not None:
        read = {slot.column for slot in slots}
        left = [column.name for column in stored[0] if column.name not in read]
        branches += [(f"{name}: as it is stored", []) for name in left]
    if batch_maps:
        branches.append(("batch maps", _maps(batch_maps)))
    lines = [f"pipeline {name[:12]}"]
    for number, (head, leaves) in enumerate(branches):
        last = number == len(branches) - 1
        lines.append(f"{'└─' if last else '├─'} {head}")
        for place, leaf in enumerate(leaves):
            lines.append(f"{'   ' if last else '│  '}{'└─' if place == len(leaves) - 1 else '├─'} {leaf}")
    return "\n".join(lines)


def _slot(slot: Slot, compiled: CompiledSlot | None, group: str) -> tuple[str, list[str]]:
    stored = compiled.stored if compiled else State(ValueKind.STORED)
    head = f"{slot.name}: {stored}" + ("" if slot.column == slot.name else f" {slot.column!r}")
    if slot.optional:
        head += ", optional" + ("" if slot.fill is None else f", fill {slot.fill!r}")
    if slot.is_random:
        head += f", draws in group {group!r} of generator {RANDOM_VERSION}"
    kernels = compiled.native if compiled else {}
    rows = []
    for place, (step, state) in enumerate(zip(slot.steps, slot.states(stored), strict=True)):
        runs = kernels.get(place, "native" if step.is_native and state.layout is not None else step.runs)
        rows.append((step.text(), _output(state), runs + (", random" if step.draws else "")))
    widths = [max((len(row[i]) for row in rows), default=0) for i in (0, 1)]
    return head, [f"{text:<{widths[0]}}  {output:<{widths[1]}}  {runs}" for text, output, runs in rows]


def _maps(batch_maps: Sequence[BatchStep | BatchMap]) -> list[str]:
    """Write what runs on batches, of steps with what a sample's result depends on."""
    width = max(len(repr(made)) for made in batch_maps)
    return [
        f"{made!r:<{width}}  {made.runs}{f', random, by {made.reach.value}' if made.draws else ''}"
        if isinstance(made, BatchStep)
        else repr(made)
        for made in batch_maps
    ]


def _output(state: State) -> str:
    if state.dtype is None:
        return state.kind.value
    layout = "" if state.layout is None else f" {state.layout.name}"
    sizes = "" if state.shape == () else " of any shape" if state.shape is None else " " + _tuple(state.shape)
    return f"{state.dtype}{sizes}{layout}"


def _tuple(shape: tuple[int | None, ...]) -> str:
    return (
        "(" + ", ".join("?" if size is None else str(size) for size in shape) + ("," if len(shape) == 1 else "") + ")"
    )

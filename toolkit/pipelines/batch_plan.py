"""Check the batch steps of a pipeline against a dataset's columns, and say what each of them runs with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from toolkit.errors import PipelineError
from toolkit.format.schema import Column
from toolkit.pipelines.batch.step import BatchColumn, BatchStep, Columns, Reach
from toolkit.pipelines.batch_maps import BatchMap
from toolkit.pipelines.build import CompiledSlot, stored_state
from toolkit.pipelines.draw_names import draw_names
from toolkit.pipelines.state import MisfitError

__all__ = ["PlannedMap", "batch_columns", "plan_maps", "reach_of"]


@dataclass(frozen=True, slots=True)
class PlannedMap:
    """A batch step, or a function, with what it runs on.

    Attributes:
        made: It.
        known: The columns before it.
        name: What a step draws by; "" of a function.
    """

    made: BatchStep | BatchMap
    known: Columns
    name: str


def batch_columns(
    compiled: Sequence[CompiledSlot],
    columns: Sequence[Column],
    schema: pa.Schema,
    class_names: Mapping[str, Sequence[str]],
) -> dict[str, BatchColumn]:
    """Return the columns of a batch as stages fill them; `class_names`: of each label column."""
    made = {}
    for column in columns:
        classes = len(class_names[column.name]) if column.name in class_names else None
        slots = [each for each in compiled if each.slot.column == column.name]
        for each in slots:
            made[each.slot.name] = BatchColumn(each.output, each.slot.optional, classes)
        if not slots:
            made[column.name] = BatchColumn(stored_state(column, schema.field(column.name).type), False, classes)
    return made


def plan_maps(maps: Sequence[BatchStep | BatchMap], columns: Columns) -> tuple[list[PlannedMap], Columns]:
    """Return what runs, in order, and the columns behind it.

    Raises:
        PipelineError: A step doesn't fit the columns; the message names it.
    """
    names = iter(draw_names([each for each in maps if isinstance(each, BatchStep)]))
    planned = []
    for place, each in enumerate(maps):
        planned.append(PlannedMap(each, columns, next(names) if isinstance(each, BatchStep) else ""))
        if isinstance(each, BatchMap):
            kept = [name for name in (*columns, *each.adds) if name not in each.drops]
            columns = dict.fromkeys(kept, BatchColumn(None))  # a function may make anything of them
            continue
        try:
            columns = each.after(columns)
        except MisfitError as error:
            raise PipelineError(f"batch step {place}, {each!r}: {error}") from None
    return planned, columns


def reach_of(maps: Sequence[BatchStep | BatchMap]) -> Reach:
    """Return how far steps reach; functions aren't asked, and draw by their batch."""
    reaches = [each.reach for each in maps if isinstance(each, BatchStep)]
    return next((reach for reach in (Reach.BATCH, Reach.PAIR) if reach in reaches), Reach.NONE)

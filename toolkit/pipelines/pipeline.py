"""Slots put together: what becomes of a dataset's columns. Data: printable, comparable, hashable."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from toolkit.errors import PipelineError
from toolkit.escapes import short
from toolkit.format.schema import Column
from toolkit.pipelines.batch.step import BatchStep
from toolkit.pipelines.batch_maps import BatchMap, as_batch_map
from toolkit.pipelines.build import CompiledSlot, compile_slots
from toolkit.pipelines.explain import explain
from toolkit.pipelines.functions import function_identity
from toolkit.pipelines.randomness import RANDOM_VERSION
from toolkit.pipelines.slots import Fill, Slot
from toolkit.pipelines.written import read_pipeline, write_pipeline

__all__ = ["HasColumns", "Pipeline", "RunsDry", "pipeline"]

_Ran = TypeVar("_Ran", covariant=True)


class HasColumns(Protocol):
    """What a pipeline is checked against: a dataset, for one."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns that are read."""

    @property
    def schema(self) -> pa.Schema:
        """Arrow schema of what is stored."""


class RunsDry(Protocol[_Ran]):
    """A dataset that runs samples through a pipeline."""

    def dry_run(self, pipeline: Pipeline, samples: int) -> _Ran:
        """Run the first samples, one by one."""


@dataclass(frozen=True, slots=True, repr=False)
class Pipeline:
    """Slots, and what runs on whole batches. Columns that no slot reads pass through as they are stored."""

    slots: tuple[Slot, ...]
    batch_maps: tuple[BatchStep | BatchMap, ...] = ()

    def __repr__(self) -> str:
        lines = [f"    {item!r},\n" for item in self.slots]
        if self.batch_maps:
            lines.append(f"    batch_maps=[{', '.join(map(repr, self.batch_maps))}],\n")
        return f"pipeline(\n{''.join(lines)})"

    @property
    def required_columns(self) -> tuple[str, ...]:
        """The columns that the slots read, each once."""
        return tuple(dict.fromkeys(item.column for item in self.slots))

    @property
    def sync_groups(self) -> Mapping[str, str]:
        """The sync group of each slot, by its name; see pipeline()."""
        by_name = {item.name: item for item in self.slots}
        seen: Counter[str] = Counter()
        groups = {}
        for item in self.slots:
            if item.sync is None:
                number = seen[item.column]
                seen[item.column] += 1
                groups[item.name] = f"#{number}" if number else ""
        return {name: _group(item, by_name, groups) for name, item in by_name.items()}

    def describe(self) -> str:
        """Return a hash of what changes samples, and of nothing else.

        Limits don't count (max_pixels, max_bytes, truncated, timeout), nor does a function's code: its module, name and
        `version` do. So does the version of the random generator, where a step draws.
        """
        said: dict[str, object] = {
            "slots": sorted(map(self._shaping, self.slots)),
            "batch_maps": list(map(_map_identity, self.batch_maps)),
        }
        if self.batch_maps or any(item.is_random for item in self.slots):
            said["random_version"] = RANDOM_VERSION
        return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()

    def _shaping(self, item: Slot) -> list[object]:
        group = self.sync_groups[item.name] if item.is_random else None
        return [item.name, item.column, _same_number(item.fill), group, [step.identity() for step in item.steps]]

    def compile(self, columns: Sequence[Column], schema: pa.Schema) -> list[CompiledSlot]:
        """Return what runs for each slot over columns that are stored with an Arrow schema, in order.

        Raises:
            PipelineError: A slot names no column, a step doesn't fit what comes before it, or a name is taken.
        """
        return compile_slots(self.slots, self.sync_groups, columns, schema)

    def explain(self, dataset: HasColumns | None = None) -> str:
        """Return a tree of slots and steps: dtype, shape, layout, and what runs each step.

        Args:
            dataset: What the columns are taken from; without one, nothing is known of them.

        Raises:
            PipelineError: A slot doesn't fit the dataset.
        """
        stored = None if dataset is None else (dataset.columns, dataset.schema)
        return explain(self.describe(), self.slots, self.sync_groups, self.batch_maps, stored)

    def dry_run(self, dataset: RunsDry[_Ran], samples: int = 8) -> _Ran:
        """Run the first samples of a dataset, one by one: what the slots give, and errors by key."""
        return dataset.dry_run(self, samples)

    def to_yaml(self) -> str:
        """Return the pipeline as YAML, which from_yaml() takes. Raises PipelineError: it holds a function."""
        return write_pipeline(self.slots, self.batch_maps)

    @staticmethod
    def from_yaml(source: str | os.PathLike[str]) -> Pipeline:
        """Return the pipeline of a YAML text, or of a file, which a pathlib.Path names.

        Raises:
            PipelineError: It isn't YAML, has an unknown key or step, or an argument that can't be: with the line.
            NotFoundError, StorageError: There is no such file, or it can't be read.
        """
        slots, batch_maps = read_pipeline(source)
        return pipeline(*slots, batch_maps=batch_maps)


def pipeline(*slots: Slot, batch_maps: Sequence[BatchStep | BatchMap | Callable[..., Any]] = ()) -> Pipeline:
    """Put slots together.

    Random steps of the same class draw alike in slots that read different columns, so that an image and its mask are
    cut and flipped alike. A second slot of the same column draws on its own, as a second view should. `sync=` on a slot
    overrules both: the name of a slot that it agrees with, or any name that several slots share.

    Args:
        slots: What becomes of columns.
        batch_maps: What runs on each batch, in order: steps as toolkit.mixup() makes them, which run natively and in
            place, and functions fn(columns, rng) -> columns, see toolkit.pipelines.batch_maps.

    Raises:
        PipelineError: Two slots have the same name, or something is no slot.
    """
    if not isinstance(batch_maps, Sequence):
        raise PipelineError(
            f"batch_maps takes a list of batch steps and functions, got {short(batch_maps, 80, quoted=True)}"
        )
    seen: set[str] = set()
    for item in slots:
        if not isinstance(item, Slot):
            raise PipelineError(f"pipeline() takes slots, got {type(item).__name__}: begin with slot('column')")
        if item.name in seen:
            raise PipelineError(
                f"two slots are called {item.name!r}: join their steps in one, or name one: "
                f"slot({item.column!r}, name={item.name + '2'!r})"
            )
        seen.add(item.name)
    made = Pipeline(tuple(slots), tuple(as_batch_map(each) for each in batch_maps))
    _ = made.sync_groups  # a circle is found here
    return made


def _map_identity(made: BatchStep | BatchMap) -> list[object]:
    if isinstance(made, BatchStep):
        return [*made.identity(), made.version]
    return [function_identity(made.fn), made.version, made.adds, made.drops]


def _same_number(fill: Fill) -> Fill:
    """Return equal numbers alike: 1 for 1.0 and True."""
    return int(fill) if isinstance(fill, (bool, float)) and float(fill).is_integer() else fill


def _group(item: Slot, by_name: Mapping[str, Slot], usual: Mapping[str, str]) -> str:
    """Follow `sync` from slot to slot, to a name that is no other slot's or to a slot without one."""
    visited: list[str] = []
    while item.sync is not None:
        if item.sync == item.name or item.sync not in by_name:
            return item.sync
        if item.name in visited:
            raise PipelineError(f"the slots {', '.join(visited)} sync with each other in a circle: give them one name")
        visited.append(item.name)
        item = by_name[item.sync]
    return usual[item.name]

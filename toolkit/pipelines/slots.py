"""The words a pipeline is written in: slot(...).decode_image().resize_short(256) and pipeline(...)."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from toolkit.errors import PipelineError, did_you_mean
from toolkit.pipelines.spec import CenterCrop, DecodeImage, Normalize, ResizeShort, Step

__all__ = ["Pipeline", "Slot", "pipeline", "slot"]

_STATISTICS = {
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "half": ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
    "unit": ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0)),
}
_LEAST_STD = 1e-30  # below, a pixel over it leaves the range of float32
_MAX_PIXELS = 178_956_970  # Pillow's limit: 2 * 1024**3 // 4 // 3


@dataclass(frozen=True, slots=True)
class Slot:
    """What becomes of one column: immutable, every method returns a new slot."""

    column: str
    steps: tuple[Step, ...] = ()

    def decode_image(self, *, max_pixels: int = _MAX_PIXELS) -> Slot:
        """Decode to uint8 (height, width, 3), RGB, EXIF orientation applied; more than `max_pixels` is an error."""
        return self._then(DecodeImage(_positive(self, "decode_image", "max_pixels", max_pixels)))

    def resize_short(self, size: int) -> Slot:
        """Resize so that the shorter side has `size` pixels; bilinear with antialiasing, as Pillow and torchvision."""
        return self._then(ResizeShort(_positive(self, "resize_short", "size", size)))

    def center_crop(self, size: int | tuple[int, int]) -> Slot:
        """Cut the middle: `size` or (height, width) pixels; a smaller image is padded with zeros."""
        if not isinstance(size, int) and len(size) != 2:
            raise self._error("center_crop", f"a size is one number or (height, width), got {size!r}")
        height, width = (size, size) if isinstance(size, int) else size
        return self._then(
            CenterCrop(_positive(self, "center_crop", "height", height), _positive(self, "center_crop", "width", width))
        )

    def normalize(self, mean: str | Sequence[float], std: Sequence[float] | None = None) -> Slot:
        """Make float32 (3, height, width): (pixel / 255 - mean) / std.

        Args:
            mean: Three means for red, green, blue, or the name of known statistics: imagenet, half, unit.
            std: Three standard deviations; none with a name.
        """
        if isinstance(mean, str):
            if mean not in _STATISTICS:
                known = f"{', '.join(_STATISTICS)}.{did_you_mean(mean, _STATISTICS)}"
                raise self._error("normalize", f"no statistics are called {mean!r}; known: {known}")
            if std is not None:
                raise self._error("normalize", f"{mean!r} brings its own std: leave std out")
            means, stds = _STATISTICS[mean]
        else:
            means, stds = self._triple("mean", mean), self._triple("std", () if std is None else std)
        if not all(std >= _LEAST_STD for std in stds):
            raise self._error("normalize", f"std {stds} must be positive, and no smaller than {_LEAST_STD}")
        if not all(math.isfinite(value) for value in (*means, *stds)):
            raise self._error("normalize", f"mean {means} and std {stds} must be finite")
        return self._then(Normalize(means, stds))

    def _then(self, step: Step) -> Slot:
        return replace(self, steps=(*self.steps, step))

    def _triple(self, name: str, values: Sequence[float]) -> tuple[float, float, float]:
        if len(values) != 3:
            raise self._error("normalize", f"{name} must have three values, one a channel, got {len(values)}")
        return float(values[0]), float(values[1]), float(values[2])

    def _error(self, step: str, what: str) -> PipelineError:
        return PipelineError(f"slot {self.column!r}, step {step}: {what}")


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Slots by column. Columns that no slot names pass through as they are stored."""

    slots: tuple[Slot, ...]

    @property
    def required_columns(self) -> tuple[str, ...]:
        """The columns that the slots read."""
        return tuple(slot.column for slot in self.slots)

    def describe(self) -> str:
        """Return a hash of what changes samples, and of nothing else: limits that only refuse samples don't count."""
        steps = {slot.column: [[type(step).__name__, _shaping(step)] for step in slot.steps] for slot in self.slots}
        return hashlib.sha256(json.dumps(steps, sort_keys=True).encode()).hexdigest()


def slot(column: str) -> Slot:
    """Begin a slot for `column`."""
    return Slot(column)


def pipeline(*slots: Slot) -> Pipeline:
    """Put slots together. Raises PipelineError when two name the same column."""
    seen = set()
    for item in slots:
        if not isinstance(item, Slot):
            raise PipelineError(f"pipeline() takes slots, got {type(item).__name__}: begin with slot('column')")
        if item.column in seen:
            raise PipelineError(f"two slots name the column {item.column!r}: join their steps in one")
        seen.add(item.column)
    return Pipeline(tuple(slots))


def _shaping(step: Step) -> dict[str, object]:
    return {name: value for name, value in asdict(step).items() if name != "max_pixels"}


def _positive(slot: Slot, step: str, name: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < 1 << 31:
        raise PipelineError(f"slot {slot.column!r}, step {step}: {name} must be a positive int, got {value!r}")
    return value

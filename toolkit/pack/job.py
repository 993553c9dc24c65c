"""What a pack is asked to do, what it plans to do, and what it did: frozen data."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from toolkit.errors import UsageError
from toolkit.sources.imagefolder import LabelMode
from toolkit.sources.reject import Reject

__all__ = ["DEFAULT_SHARD_BYTES", "OnExisting", "PackJob", "PackPlan", "PackResult"]

DEFAULT_SHARD_BYTES = 256 * 1024 * 1024
_LEAST_SHARD_BYTES = 64 * 1024


class OnExisting(enum.Enum):
    """What to do when the dataset is there already."""

    REFUSE = "refuse"
    OVERWRITE = "overwrite"


@dataclass(frozen=True, kw_only=True)
class PackJob:
    """A pack's input, output and options. Checked when made.

    Attributes:
        source: The ImageFolder.
        dataset: The folder of the dataset.
        split: Name of the split when the source has no split level; or which of its splits to pack.
        shard_bytes: Size that shards are filled up to.
        label_mode, require_labels, classes: See toolkit.sources.imagefolder.ImageFolderOptions.
        jobs: Shards written at the same time. Never changes the result.
        limit: Samples of each split at the most.
        on_existing: What to do when the dataset is there already.
        max_rejects: Rejected samples that are tolerated.
    """

    source: str
    dataset: str
    split: str | None = None
    shard_bytes: int = DEFAULT_SHARD_BYTES
    label_mode: LabelMode = LabelMode.AUTO
    require_labels: bool = False
    classes: tuple[str, ...] | None = None
    jobs: int = 1
    limit: int | None = None
    on_existing: OnExisting = OnExisting.REFUSE
    max_rejects: int = 0

    def __post_init__(self) -> None:
        if self.shard_bytes < _LEAST_SHARD_BYTES:
            raise UsageError(f"a shard size of {self.shard_bytes} bytes is too small: give at least 64KiB")
        for name, least in (("jobs", 1), ("max_rejects", 0), ("limit", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise UsageError(f"{name.replace('_', '-')} must be at least {least}, got {value}")


@dataclass(frozen=True, kw_only=True)
class PlannedSplit:
    """A split of a plan: its samples, source bytes, and tasks (one shard each)."""

    samples: int
    bytes: int
    tasks: int


@dataclass(frozen=True, kw_only=True)
class PackPlan:
    """What a pack would do, found without reading an image."""

    splits: dict[str, PlannedSplit]
    columns: dict[str, str]
    classes: tuple[str, ...] | None
    skipped: dict[str, int]
    rejects: list[Reject]


@dataclass(frozen=True, kw_only=True)
class PackResult:
    """What a pack did."""

    pin: str
    dataset: str
    samples: int
    shards: int
    bytes: int
    seconds: float
    splits: dict[str, int]
    classes: int | None
    skipped: dict[str, int]
    rejects: list[Reject] = field(default_factory=list)

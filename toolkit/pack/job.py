"""What a pack is asked to do, what it plans to do, and what it did: frozen data."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from toolkit.errors import UsageError
from toolkit.format.kinds import Kind
from toolkit.sources.imagefolder import LabelMode
from toolkit.sources.options import Missing, SourceKind, SourceOptions
from toolkit.sources.reject import Reject
from toolkit.sources.scan import is_utf8, printable

__all__ = ["DEFAULT_SHARD_BYTES", "OnExisting", "PackJob", "PackPlan", "PackResult", "PlannedSplit"]

DEFAULT_SHARD_BYTES = 256 * 1024 * 1024
_LEAST_SHARD_BYTES = 64 * 1024


class OnExisting(enum.Enum):
    """What to do when the dataset, or an unfinished pack of it, is there already.

    Whatever is chosen, a killed pack with the same options goes on where it was.
    """

    REFUSE = "refuse"
    OVERWRITE = "overwrite"
    APPEND = "append"


@dataclass(frozen=True, kw_only=True)
class PackJob:
    """A pack's input, output and options. Checked when made.

    Attributes:
        source: The input: a folder or file.
        more_sources: Further inputs of the same kind.
        dataset: The folder of the dataset.
        source_kind: What the input is; found from its content when None.
        shard_bytes: Size that shards are filled up to.
        jobs: Slices packed at the same time. Never changes the result.
        on_existing: What to do when the dataset is there already.
        extend_classes: An append may bring new classes; their ids come behind the old ones.
        max_rejects: Rejected samples that are tolerated: a number, or a share of all samples below 1.0 as a float.
        user: Metadata of the user's own, for the manifest.

    The others are those of toolkit.sources.options.SourceOptions.
    """

    source: str
    dataset: str
    source_kind: SourceKind | None = None
    split: str | None = None
    shard_bytes: int = DEFAULT_SHARD_BYTES
    label_mode: LabelMode = LabelMode.AUTO
    require_labels: bool = False
    classes: tuple[str, ...] | None = None
    mapping: Mapping[str, str] | None = None
    columns: tuple[str, ...] | None = None
    rename: Mapping[str, str] = field(default_factory=dict)
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    key: str | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    missing: Missing = Missing.ERROR
    raw: bool = False
    tokenizer: str | None = None
    text_column: str | None = None
    eos: bool = False
    eos_token: str | None = None
    more_sources: tuple[str, ...] = ()
    jobs: int = 1
    limit: int | None = None
    on_existing: OnExisting = OnExisting.REFUSE
    extend_classes: bool = False
    max_rejects: int | float = 0
    user: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        texts = [*(self.columns or ()), *([] if self.key is None else [self.key])]
        texts += [text for of in (self.mapping or {}, self.rename, self.user) for pair in of.items() for text in pair]
        texts += [*self.kinds, *(one for one in (self.text_column, self.eos_token) if one is not None)]
        for text in texts:
            if not is_utf8(text):
                raise UsageError(f"{printable(text)!r} is not valid UTF-8, which names and metadata are")
        if self.shard_bytes < _LEAST_SHARD_BYTES:
            raise UsageError(f"a shard size of {self.shard_bytes} bytes is too small: give at least 64KiB")
        for name, least in (("jobs", 1), ("max_rejects", 0), ("limit", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise UsageError(f"{name.replace('_', '-')} must be at least {least}, got {value}")

        if self.extend_classes and self.on_existing is not OnExisting.APPEND:
            raise UsageError("--extend-classes means nothing without --on-existing append: leave it out")

    @property
    def source_options(self) -> SourceOptions:
        """The options that the source gets."""
        return SourceOptions(
            paths=(self.source, *self.more_sources),
            slice_bytes=self.shard_bytes,
            split=self.split,
            limit=self.limit,
            label_mode=self.label_mode,
            require_labels=self.require_labels,
            classes=self.classes,
            mapping=self.mapping,
            columns=self.columns,
            rename=self.rename,
            kinds=self.kinds,
            key=self.key,
            include=self.include,
            exclude=self.exclude,
            missing=self.missing,
            raw=self.raw,
            tokenizer=self.tokenizer,
            text_column=self.text_column,
            eos=self.eos,
            eos_token=self.eos_token,
        )

    def allowed_rejects(self, samples: int) -> int:
        """Return how many of `samples` may be rejected."""
        # Rounded first: 29% of 100 is 28.999999999999996 in binary.
        return int(round(self.max_rejects * samples, 6)) if isinstance(self.max_rejects, float) else self.max_rejects


@dataclass(frozen=True, kw_only=True)
class PlannedSplit:
    """A split of a plan: its samples (None when only reading tells), bytes of input, and slices."""

    samples: int | None
    bytes: int
    tasks: int


@dataclass(frozen=True, kw_only=True)
class PackPlan:
    """What a pack would do, found by the survey alone."""

    source_kind: str
    splits: dict[str, PlannedSplit]
    columns: dict[str, str]
    classes: tuple[str, ...] | None
    skipped: dict[str, int]
    rejects: list[Reject]


@dataclass(frozen=True, kw_only=True)
class PackResult:
    """What a pack did: the version's samples, shards, bytes and splits.

    `added` counts the samples of this pack, fewer than `samples` when it was an append; `resumed` the slices that an
    earlier, killed pack had finished.
    """

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
    added: int = 0
    resumed: int = 0

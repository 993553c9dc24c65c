"""What a pack is asked to do, what it plans to do, and what it did: frozen data."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from toolkit.errors import UsageError
from toolkit.format.encodings import ENCODING_PATTERN, KEEP, ImageEncoding
from toolkit.memory.sizes import size_text
from toolkit.options.compound import Pairs
from toolkit.options.option import Option, option, options_of
from toolkit.options.values import COUNT, SHARE, SIZE, Choice, Flag, Form, Text, Whole
from toolkit.pack.in_place.trust import Trust
from toolkit.pipelines.image.formats import DEFAULT_MAX_PIXELS
from toolkit.sources.classes import check_class_names
from toolkit.sources.kind_option import KindOfSource
from toolkit.sources.names import is_utf8, printable
from toolkit.sources.options import LARGEST_VALUE, InputOptions, SourceOptions
from toolkit.sources.reject import Reject
from toolkit.storage.places import local_path

__all__ = ["DEFAULT_SHARD_SIZE", "KeyConflict", "OnExisting", "PackJob", "PackPlan", "PackResult", "PlannedSplit"]

DEFAULT_SHARD_SIZE = 256 * 1024 * 1024
_LEAST_SHARD_SIZE = 64 * 1024
_LEAST = {
    "jobs": 1,
    "max_rejects": 0,
    "limit": 1,
    "shuffle_seed": 0,
    "short_side": 1,
    "max_pixels": 1,
    "max_value_bytes": 1,
}
_INSTEAD = {
    "source": "download what it names, and give that folder or file",
    "root": "download what lies there, and give that folder",
    "dataset": "give a folder for the dataset, and copy that folder there afterwards",
}
_PINNED = re.compile(r"(.*)@sha256:[^@/]*", re.DOTALL)  # what could not be opened by its path
_MOST_SHORT_SIDE = 65535  # what a resize can make
_MOST_PIXELS = (1 << 31) - 1  # of a picture that can be decoded


class OnExisting(enum.Enum):
    """What to do when the dataset, or an unfinished pack of it, is there already.

    Whatever is chosen, a killed pack with the same options goes on where it was. RESUME does nothing else: it goes on
    with what is there, an append too, and refuses when there is nothing.
    """

    REFUSE = "refuse"
    RESUME = "resume"
    OVERWRITE = "overwrite"
    APPEND = "append"


class KeyConflict(enum.Enum):
    """What to do about samples whose key an earlier sample has: refuse the input, or rename them KEY#1, KEY#2, …."""

    ERROR = "error"
    SUFFIX = "suffix"


@dataclass(frozen=True, kw_only=True)
class PackJob(InputOptions):
    """A pack's input, output and options. Checked when made.

    Attributes:
        source: The input: a folder or file. In paths, a leading ~ is the home folder.
        more_sources: Further inputs of the same kind.
        spool: The file that holds the input where `source` only names it: standard input, as "-".
        dataset: The folder of the dataset.
        source_kind: Which kind the input is of, by name; found from its content when None.
        shard_size: Bytes that shards are filled up to.
        max_rejects: Rejected samples that are tolerated: a number, or a share of all samples below 1.0 as a float.
    """

    source: str
    more_sources: tuple[str, ...] = ()
    spool: str | None = None
    dataset: str
    source_kind: str | None = option(KindOfSource(), "What SOURCE is; found from its content if not given.")
    shard_size: int = option(
        SIZE,
        "Fill shards up to this: bytes, or with a unit as in 100MB, 256MiB.",
        DEFAULT_SHARD_SIZE,
        written="256MiB",
        in_journal=True,
        in_manifest="shard_bytes",
    )
    image_encoding: ImageEncoding = option(
        Form(ENCODING_PATTERN, "keep, jpeg:QUALITY as in jpeg:90, or raw", ImageEncoding.parse),
        "Keep the source's bytes, or store images as JPEG of a quality from 1 to 100, or as pixels.",
        KEEP,
        metavar="keep|jpeg:QUALITY|raw",
        in_journal=True,
    )
    short_side: int | None = option(
        Whole(1, "PIXELS"),
        "With jpeg or raw: resize larger images so that their shorter side has this; none is enlarged.",
        in_journal=True,
    )
    max_pixels: int = option(
        Whole(1, "PIXELS"),
        "Decode no image of more pixels; its header tells how many there are.",
        DEFAULT_MAX_PIXELS,
        in_journal=True,
    )
    key_conflict: KeyConflict = option(
        Choice(KeyConflict),
        "A sample whose key an earlier one has: refuse the input, or call it KEY#1, KEY#2, ...",
        KeyConflict.ERROR,
        in_journal=True,
    )
    max_rejects: int | float = option(SHARE, "Rejected samples to tolerate: a number, or a share of all as in 1%.", 0)
    on_existing: OnExisting = option(
        Choice(OnExisting),
        "When DATASET is there already. A killed pack goes on where it was in any case, and resume does nothing else; "
        "overwritten versions stay readable by their pins.",
        OnExisting.REFUSE,
    )
    extend_classes: bool = option(Flag(), "An append may bring new classes; their ids come behind the old ones.", False)
    user_metadata: Mapping[str, str] = option(
        Pairs(Text(), "{owner: me, licence: CC0}"),
        "Text to keep in the manifest; part of what is pinned.",
        factory=dict,
        metavar="KEY=VALUE,...",
    )
    jobs: int = option(
        COUNT,
        "Shards written at the same time; never changes the result.",
        1,  # where a program makes a job itself, it says how much of the machine it may have
        written="auto",
        short="-j",
    )

    def __post_init__(self) -> None:
        self._find_places()
        if self.classes is not None:
            check_class_names(self.classes, where="classes", unit="id", first=0)
        texts = [*(self.columns or ()), *([] if self.key is None else [self.key])]
        pairs = (self.map or {}, self.rename, self.user_metadata)
        texts += [text for of in pairs for pair in of.items() for text in pair]
        texts += [*self.kind, *(one for one in (self.text_column, self.eos_token) if one is not None)]
        texts += [text for split, folders in self.splits.items() for text in (split, *folders)]
        for text in texts:
            if not is_utf8(text):
                raise UsageError(f"{printable(text)!r} is not valid UTF-8, which names and metadata are")
        if self.shard_size < _LEAST_SHARD_SIZE:
            raise UsageError(f"a shard size of {self.shard_size} bytes is too small: give at least 64KiB")
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if value is not None and value < least:
                raise UsageError(f"{name.replace('_', '-')} must be at least {least}, got {value}")
        if self.short_side is not None and self.image_encoding == KEEP:
            raise UsageError(
                "--short-side needs --image-encoding jpeg:QUALITY or raw: keep stores the source's bytes as they are"
            )
        if self.short_side is not None and self.short_side > _MOST_SHORT_SIDE:
            raise UsageError(f"short-side must be at most {_MOST_SHORT_SIDE}, got {self.short_side}")
        if self.max_value_bytes > LARGEST_VALUE:
            raise UsageError(f"max-value-bytes must be at most {LARGEST_VALUE} (2 GiB), got {self.max_value_bytes}")
        if self.max_pixels > _MOST_PIXELS:
            raise UsageError(f"max-pixels must be at most {_MOST_PIXELS}, got {self.max_pixels}")
        if self.extend_classes and self.on_existing not in (OnExisting.APPEND, OnExisting.RESUME):
            raise UsageError("--extend-classes means nothing without --on-existing append: leave it out")

    def _find_places(self) -> None:
        """Read the paths as people write them."""
        for name in ("source", "dataset"):
            given = getattr(self, name)
            if not given:
                raise UsageError(f"{name} is empty: give a path")
            object.__setattr__(self, name, local_path(given, _INSTEAD[name]))
        pinned = _PINNED.fullmatch(self.dataset)
        if pinned is not None:
            raise UsageError(
                f"{self.dataset!r} names a version, and a pack makes a new one: give the folder alone, {pinned[1]!r}"
            )
        further = tuple(local_path(one, _INSTEAD["source"]) for one in self.more_sources)
        object.__setattr__(self, "more_sources", further)
        if self.root is not None:
            if not self.root:
                raise UsageError("root is empty: give a folder, or leave --root out")
            object.__setattr__(self, "root", local_path(self.root, _INSTEAD["root"]))

    @classmethod
    def declared(cls) -> Mapping[str, Option]:
        """Return the options that such a job has, by name."""
        return options_of(PackJob)

    @property
    def in_place(self) -> Trust | None:
        """What stands for the values that stay where they are; None: all are packed."""
        return None

    @property
    def source_options(self) -> SourceOptions:
        """The options that the source gets."""
        shared = {one.name: getattr(self, one.name) for one in fields(InputOptions)}
        paths = self.sources if self.spool is None else (self.spool,)
        return SourceOptions(paths=paths, slice_bytes=self.shard_size, **shared)

    @property
    def sources(self) -> tuple[str, ...]:
        """All inputs."""
        return (self.source, *self.more_sources)

    @property
    def read_places(self) -> tuple[str, ...]:
        """All inputs, and the folder that their rows' files lie in when it is another."""
        return self.sources if self.root is None else (*self.sources, self.root)

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
    """What a pack would do, found by the survey alone: columns with their kinds, image columns with their encodings.

    `skipped` counts what would be passed over, by reason, and `skipped_names` has the first names of each.
    """

    source_kind: str
    splits: dict[str, PlannedSplit]
    columns: dict[str, str]
    encodings: dict[str, str]
    classes: tuple[str, ...] | None
    skipped: dict[str, int]
    skipped_names: dict[str, tuple[str, ...]]
    left_out: tuple[str, ...]
    warnings: tuple[str, ...]
    rejects: list[Reject]


@dataclass(frozen=True, kw_only=True)
class PackResult:
    """What a pack did: the version's samples, shards, bytes and splits.

    `source_kind` is what the input is, or was found to be; "documents" where a program gave them. `added` counts the
    samples of this pack, fewer than `samples` when it was an append; `resumed` the slices that an earlier, killed pack
    had finished; `renamed` the samples that got a new key. `skipped` counts what was passed over, by reason, and
    `skipped_names` has the first names of each. `rejects_report` is the path of the list of rejects, if there are
    any; `options` are those of the pack, by name.
    """

    pin: str
    dataset: str
    source_kind: str
    samples: int
    shards: int
    bytes: int
    seconds: float
    splits: dict[str, int]
    classes: int | None
    skipped: dict[str, int]
    skipped_names: dict[str, tuple[str, ...]]
    left_out: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    rejects: list[Reject] = field(default_factory=list)
    added: int = 0
    resumed: int = 0
    renamed: int = 0
    rejects_report: str | None = None
    options: dict[str, object] = field(default_factory=dict)

    def __repr__(self) -> str:
        splits = ", ".join(f"{name} {rows:,}" for name, rows in self.splits.items())
        added = "" if self.added == self.samples else f", {self.added:,} of them new"
        shards = "1 shard" if self.shards == 1 else f"{self.shards:,} shards"
        rejects = f", {len(self.rejects):,} rejected" if self.rejects else ""
        return (
            f"<toolkit.PackResult {self.dataset}: {self.samples:,} samples ({splits}){added}{rejects}, "
            f"{shards} of {size_text(self.bytes)}, pin {self.pin[:12]}>"
        )

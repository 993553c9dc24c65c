"""What a source is asked for: options of all kinds; each says which it takes."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from toolkit.format.kinds import Kind

__all__ = [
    "DEFAULT_MAX_VALUE_BYTES",
    "LARGEST_VALUE",
    "InputOptions",
    "LabelMode",
    "Missing",
    "SourceOptions",
    "VerifyImages",
    "flag_of",
]

LARGEST_VALUE = (1 << 31) - 1  # bytes of one value under int32 offsets
DEFAULT_MAX_VALUE_BYTES = 256 * 1024 * 1024  # of one value: as much as a shard takes by default

# Options that the command line calls otherwise.
_FLAGS = {"kinds": "kind", "mapping": "map", "raw": "tfrecord_raw"}


class LabelMode(enum.Enum):
    """Where labels come from."""

    AUTO = "auto"
    """From class folders if one of them holds an image, else no labels."""

    NONE = "none"
    """No labels, however the images are nested."""

    IMAGEFOLDER = "imagefolder"
    """From class folders, and there must be one."""


class Missing(enum.Enum):
    """What becomes of a sample that lacks one of the columns."""

    NULL = "null"
    SKIP = "skip"
    ERROR = "error"


class VerifyImages(enum.Enum):
    """How much of an image is looked at before it is packed. What fails is rejected."""

    HEADER = "header"
    DECODE = "decode"
    OFF = "off"


@dataclass(frozen=True, kw_only=True)
class InputOptions:
    """What is taken from an input, and how: the options that a source and a pack have in common.

    Attributes:
        split: What to call the one split; or which of the input's splits to take.
        limit: Samples of each split at the most, the first in order.
        label_mode, require_labels: Where labels come from; refuse samples that have none.
        classes: Names of the label column's ids, in order.
        mapping: Column -> field of the input: only these are packed.
        columns: Names of the fields to pack; all when None.
        rename: Field -> column name.
        kinds: Column -> kind, where the kind that is found isn't the one that is meant.
        key: The field that holds each sample's key.
        include, exclude: Glob patterns on paths inside the input.
        splits: Split -> the folders of an image folder that it is made of; found by their names when empty.
        follow_links: Follow symbolic links that lead out of the folders given; they are refused otherwise.
        max_value_bytes: A sample with a larger value is rejected; for TFRecord, with a larger record.
        missing: What becomes of a sample that lacks a column.
        raw: TFRecord payloads are no tf.train.Example: pack them as bytes.
        verify_images: How much of each image is looked at; what fails is rejected. A source looks at headers unless
            this is OFF; decoding is up to whoever packs its rows.
        shuffle_seed: Take each split's samples in the order of toolkit.sources.shuffle; a source that can't leaves it
            to the pack, and its survey says so.
        tokenizer: Pack the text as tokens: the path of a tokenizer.json, or "bytes".
        text_column: The field that holds the text; "text" when None.
        eos: Put the end-of-text id behind each document.
        eos_token: The token that it is; found in the tokenizer when None.
    """

    split: str | None = None
    limit: int | None = None
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
    splits: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    follow_links: bool = False
    max_value_bytes: int = DEFAULT_MAX_VALUE_BYTES
    missing: Missing = Missing.ERROR
    raw: bool = False
    verify_images: VerifyImages = VerifyImages.HEADER
    shuffle_seed: int | None = None
    tokenizer: str | None = None
    text_column: str | None = None
    eos: bool = False
    eos_token: str | None = None


@dataclass(frozen=True, kw_only=True)
class SourceOptions(InputOptions):
    """Options of a source. What a kind doesn't take is refused by toolkit.sources.make, the values by the kind itself.

    Attributes:
        paths: The input: one folder, or files, folders and brace lists.
        slice_bytes: How much input a slice takes, as far as the input can be cut there.
    """

    paths: tuple[str, ...]
    slice_bytes: int


def flag_of(name: str) -> str:
    """Return the flag of an option."""
    return "--" + _FLAGS.get(name, name).replace("_", "-")

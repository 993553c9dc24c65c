"""What a source is asked for: the options of all kinds, declared; each kind says which it takes."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from toolkit.format.kinds import Kind
from toolkit.options.compound import Names, Pairs, TextOrNames
from toolkit.options.option import option
from toolkit.options.values import SIZE, Choice, Flag, Text, Whole
from toolkit.sources.class_option import ClassNames
from toolkit.sources.pair_option import PairPatterns
from toolkit.sources.split_option import FoldersOfSplits

__all__ = [
    "DEFAULT_MAX_VALUE_BYTES",
    "LARGEST_VALUE",
    "InputOptions",
    "LabelMode",
    "Missing",
    "PlacesWanted",
    "SourceOptions",
    "VerifyImages",
]

LARGEST_VALUE = (1 << 31) - 1  # bytes of one value under int32 offsets
DEFAULT_MAX_VALUE_BYTES = 256 * 1024 * 1024  # of one value: as much as a shard takes by default


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


class PlacesWanted(enum.Enum):
    """Whether read() of a source says where values of media lie."""

    NONE = "none"
    BESIDE = "beside"
    """With the values: both are of the same moment."""

    ONLY = "only"
    """In place of the values, which are null and not read: nothing is checked that only reading tells, so nothing is a
    reject for it."""


class VerifyImages(enum.Enum):
    """How much of an image is looked at before it is packed. What fails is rejected."""

    HEADER = "header"
    DECODE = "decode"
    OFF = "off"


_KINDS = Choice(Kind, but=(Kind.UNKNOWN,))


@dataclass(frozen=True, kw_only=True)
class InputOptions:
    """What is taken from an input, and how: the options that a source and a pack have in common.

    Here is what the code must know besides the help texts.

    Attributes:
        split: What to call the one split; or which of the input's splits to take.
        limit: Samples of each split at the most, the first in order.
        label_mode, require_labels: Where labels come from; refuse samples that have none.
        classes: Names of the label column's ids, in order.
        map: Column -> field of the input: only these are packed.
        columns: Names of the fields to pack; all when None.
        rename: Field -> column name.
        kind: Column -> kind, where the kind that is found isn't the one that is meant.
        key: The field that holds each sample's key.
        include, exclude: Glob patterns on paths inside the input.
        splits: Split -> the folders of an image folder that it is made of; found by their names when empty.
        follow_links: Follow symbolic links that lead out of the folders given; they are refused otherwise.
        max_value_bytes: A sample with a larger value is rejected; for TFRecord, with a larger record.
        missing: What becomes of a sample that lacks a column.
        image_column: Fields that hold paths of images; those that a kind knows of itself when None.
        root: What such paths are relative to; nothing above it is read.
        delimiter, quote, encoding: How delimited text is written; as its name says, "\"" and UTF-8 when None.
        field_names: Names of the fields of delimited text whose first row has none.
        fetch_urls: Paths that are http or https URLs are fetched; they are rejects otherwise.
        fetch_hosts: Hosts that may be asked for these though their addresses are private ones.
        pair: Column -> the patterns of its files, for toolkit.sources.kinds.pairs.patterns; the first column's are the
            keys.
        tfrecord_raw: TFRecord payloads are no tf.train.Example: pack them as bytes.
        verify_images: How much of each image is looked at; what fails is rejected. A source looks at headers unless
            this is OFF; decoding is up to whoever packs its rows.
        shuffle_seed: Take each split's samples in the order of toolkit.sources.shuffle; a source that can't leaves it
            to the pack, and its survey says so.
        tokenizer: Pack the text as tokens: the path of a tokenizer.json, or "bytes".
        text_column: The field that holds the text; "text" when None.
        eos: Put the end-of-text id behind each document.
        eos_token: The token that it is; found in the tokenizer when None.
    """

    split: str | None = option(
        Text(),
        "Name of the split, train if not given; with split folders, the one to pack.",
        in_journal=True,
    )
    limit: int | None = option(Whole(1), "At most N samples of each split.", in_journal=True)
    shuffle_seed: int | None = option(
        Whole(0),
        "Spread the samples of each split over its shards, in an order that N decides.",
        in_journal=True,
    )
    label_mode: LabelMode = option(
        Choice(LabelMode),
        "Labels from class folders: when there are any, never, or always.",
        LabelMode.AUTO,
        in_journal=True,
    )
    require_labels: bool = option(Flag(), "Refuse images that lie in no class folder.", False, in_journal=True)
    # Not in the journal: whether there are any is in the survey, and which in the schema.
    classes: tuple[str, ...] | None = option(ClassNames(), "Class names in id order, one a line.")
    splits: Mapping[str, tuple[str, ...]] = option(
        FoldersOfSplits(TextOrNames(), "{train: Train, val: [Test, dev]}"),
        "The folders that splits are made of, as in train=Train,val=Test,dev (val is Test and dev); "
        "other folders are left out. For image folders.",
        factory=dict,
        metavar="SPLIT=FOLDER,...",
        in_journal=True,
    )
    map: Mapping[str, str] | None = option(
        Pairs(Text(), "{image: jpg, label: cls}"),
        "The columns to pack, and the field of each.",
        metavar="COLUMN=FIELD,...",
        in_journal=True,
        in_manifest="map",
    )
    columns: tuple[str, ...] | None = option(
        Names(), "The fields to pack, under their own names.", metavar="FIELD,...", in_journal=True
    )
    rename: Mapping[str, str] = option(
        Pairs(Text(), "{jpg: image, cls: label}"),
        "Other names for fields.",
        factory=dict,
        metavar="FIELD=COLUMN,...",
        in_journal=True,
    )
    kind: Mapping[str, Kind] = option(
        Pairs(_KINDS, "{photo: image, caption: text}"),
        f"What columns mean: {', '.join(_KINDS.values)}.",
        factory=dict,
        metavar="COLUMN=KIND,...",
        in_journal=True,
        in_manifest="kind",
    )
    key: str | None = option(Text(), "The field that holds each sample's unique key.", metavar="FIELD", in_journal=True)
    include: tuple[str, ...] = option(
        Names(), "Take only input files that match one.", (), metavar="GLOB,...", in_journal=True
    )
    exclude: tuple[str, ...] = option(
        Names(), "Leave out input files that match one.", (), metavar="GLOB,...", in_journal=True
    )
    follow_links: bool = option(
        Flag(), "Follow symbolic links that lead out of SOURCE; they are refused if not given.", False
    )
    max_value_bytes: int = option(
        SIZE,
        "Reject a sample with a larger value, if possible unread: bytes, or with a unit.",
        DEFAULT_MAX_VALUE_BYTES,
        written="256MiB",
        in_journal=True,
    )
    missing: Missing = option(
        Choice(Missing),
        "A sample that lacks a column: pack a null, skip it, or reject it.",
        Missing.ERROR,
        in_journal=True,
    )
    image_column: tuple[str, ...] | None = option(
        Names(),
        "The fields of a table whose text is the path of an image, below --root.",
        metavar="FIELD,...",
        in_journal=True,
        in_manifest="image_column",
    )
    root: str | None = option(
        Text(path=True),
        "The folder that paths in tables and annotations are below; the table's own folder if not given.",
        metavar="FOLDER",
    )
    delimiter: str | None = option(
        Text(),
        "The character between the fields of a CSV file; a comma, and in .tsv files a tab, if not given.",
        metavar="CHARACTER|tab",
        in_journal=True,
    )
    quote: str | None = option(
        Text(),
        "The character around fields of a CSV file; none where quotes mean nothing.",
        metavar="CHARACTER|none",
        in_journal=True,
    )
    encoding: str | None = option(
        Text(), "The encoding of a table's text, as latin-1; UTF-8 if not given.", metavar="NAME", in_journal=True
    )
    field_names: tuple[str, ...] | None = option(
        Names(),
        "Names of the fields of a CSV file whose first row is a sample already.",
        metavar="FIELD,...",
        in_journal=True,
    )
    fetch_urls: bool = option(
        Flag(),
        "Fetch what the http and https URLs in fields of paths name; such rows are rejects if not given.",
        False,
        in_journal=True,
    )
    fetch_hosts: tuple[str, ...] = option(
        Names(),
        "Hosts that --fetch-urls may ask though their addresses are private: loopback, link-local and the like.",
        (),
        metavar="HOST,...",
    )
    pair: Mapping[str, tuple[str, ...]] | None = option(
        PairPatterns(),
        "Files that belong together by name: the columns, and what the files of each are called, {} being what a "
        "sample's files have in common. Several may stand behind one another; the first without COLUMN= is the image.",
        in_journal=True,
    )
    tfrecord_raw: bool = option(
        Flag(), "Records are bytes, not tf.train.Example.", False, in_journal=True, in_manifest="raw"
    )
    verify_images: VerifyImages = option(
        Choice(VerifyImages),
        "Reject images without a readable header, or those that can't be decoded; off looks at nothing.",
        VerifyImages.HEADER,
        in_journal=True,
    )
    # These four aren't in the journal: the survey and the schema have what they come to.
    tokenizer: str | None = option(
        Text(path=True, words=("bytes",)),
        "Pack text as tokens: a tokenizer.json, or bytes. Nothing is downloaded.",
        metavar="FILE|bytes",
    )
    text_column: str | None = option(Text(), "The field that holds the text; text if not given.", metavar="FIELD")
    eos: bool = option(Flag(), "Put the end-of-text token behind each document.", False)
    eos_token: str | None = option(
        Text(),
        "Which token ends a text; for ROXXEL02 files, the id that ends a document.",
        metavar="TOKEN",
    )


@dataclass(frozen=True, kw_only=True)
class SourceOptions(InputOptions):
    """Options of a source. What a kind doesn't take is refused by toolkit.sources.make, the values by the kind itself.

    Attributes:
        paths: The input: one folder, or files, folders and brace lists.
        slice_bytes: How much input a slice takes, as far as the input can be cut there.
        places: Whether the values of media are given, or where they lie, or both; only kinds that are `in_place` can.
    """

    paths: tuple[str, ...]
    slice_bytes: int
    places: PlacesWanted = PlacesWanted.NONE

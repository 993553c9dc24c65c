"""The keys of a config of `toolkit pack`: one for each flag, SOURCE and DATASET. Loading and schema use this table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from toolkit.config.values import Amount, Choice, Flag, Form, Names, Pairs, Text, TextOrNames, ValueType, Whole
from toolkit.format.encodings import ENCODING_PATTERN
from toolkit.format.kinds import Kind
from toolkit.pack.job import KeyConflict, OnExisting
from toolkit.sources.options import LabelMode, Missing, VerifyImages
from toolkit.sources.registry import names

__all__ = ["PACK_VALUES", "Key", "key_of_flag", "make_keys"]

_SIZE = r"^ *([0-9]+(\.[0-9]+)?|\.[0-9]+) *([KMGTkmgt][Ii]?)?[Bb]? *$"

PACK_VALUES: dict[str, ValueType] = {
    "source": Text(path=True),
    "dataset": Text(path=True),
    "split": Text(),
    "shard_size": Amount(1, _SIZE, "text with a unit as in 100MB, 256MiB"),
    "label_mode": Choice(tuple(mode.value for mode in LabelMode)),
    "require_labels": Flag(),
    "classes": Text(path=True),
    "jobs": Amount(1, r"^(auto|[1-9][0-9]{0,5})$", "auto"),
    "limit": Whole(1),
    "shuffle_seed": Whole(0),
    "key_conflict": Choice(tuple(one.value for one in KeyConflict)),
    "on_existing": Choice(tuple(one.value for one in OnExisting)),
    "extend_classes": Flag(),
    "max_rejects": Amount(0, r"^ *[0-9]+((\.[0-9]+)? *%)? *$", "a share as in 1%"),
    "source_kind": Choice(tuple(names())),
    "map": Pairs(Text(), "{image: jpg, label: cls}"),
    "columns": Names(),
    "rename": Pairs(Text(), "{jpg: image, cls: label}"),
    "kind": Pairs(Choice(tuple(kind.value for kind in Kind)), "{photo: image, caption: text}"),
    "key": Text(),
    "include": Names(),
    "exclude": Names(),
    "splits": Pairs(TextOrNames(), "{train: Train, val: [Test, dev]}"),
    "follow_links": Flag(),
    "max_value_bytes": Amount(1, _SIZE, "text with a unit as in 100MB, 256MiB"),
    "missing": Choice(tuple(one.value for one in Missing)),
    "tfrecord_raw": Flag(),
    "verify_images": Choice(tuple(one.value for one in VerifyImages)),
    "image_encoding": Form(ENCODING_PATTERN, "keep, jpeg:QUALITY as in jpeg:90, or raw"),
    "short_side": Whole(1),
    "max_pixels": Whole(1),
    "tokenizer": Text(path=True, words=("bytes",)),
    "text_column": Text(),
    "eos": Flag(),
    "eos_token": Text(),
    "user_metadata": Pairs(Text(), "{owner: me, licence: CC0}"),
    "dry_run": Flag(),
    "abort": Flag(),
    "json": Flag(),
    "progress": Flag(),
    "quiet": Flag(),
    "debug": Flag(),
}


@dataclass(frozen=True)
class Key:
    """A key of a config: its name, what it takes, and what it means."""

    name: str
    value: ValueType
    help: str


def key_of_flag(flag: str) -> str:
    """Return the key of a flag: --shard-size has shard_size."""
    return flag.removeprefix("--").replace("-", "_")


def make_keys(helps: Mapping[str, str]) -> dict[str, Key]:
    """Return the keys, in the order of `helps`: what each means."""
    return {name: Key(name, PACK_VALUES[name], text) for name, text in helps.items()}

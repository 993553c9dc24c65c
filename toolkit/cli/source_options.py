"""Options of `toolkit pack` that say how the source is read: its kind, and which fields become which columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import typer

from toolkit.cli.options import choice, envvar, parse_size
from toolkit.errors import did_you_mean
from toolkit.format.kinds import Kind
from toolkit.sources.options import Missing
from toolkit.sources.registry import every, names
from toolkit.sources.splits import is_train, like_splits

__all__ = [
    "ColumnsOption",
    "EosOption",
    "EosTokenOption",
    "ExcludeOption",
    "FollowLinksOption",
    "IncludeOption",
    "KeyOption",
    "KindOption",
    "MapOption",
    "MaxValueBytesOption",
    "MissingOption",
    "RawOption",
    "RenameOption",
    "SourceKindOption",
    "SplitsOption",
    "TextColumnOption",
    "TokenizerOption",
    "UserMetadataOption",
    "kinds_of",
    "names_of",
    "pairs_of",
    "source_text",
    "splits_of",
]


def source_text() -> str:
    """Return what SOURCE may be: inputs of every kind that is known."""
    *titles, last = (spec.title for spec in every())
    text = f"{', '.join(titles)} or {last}: files, folders, patterns or {{000..099}} lists."
    return text[0].upper() + text[1:]


# Each of these reads what a flag says as text, and what a config says as a mapping or list.


def pairs_of(given: str | Mapping[str, str]) -> dict[str, str]:
    """Return {"image": "jpg", …} for image=jpg,label=cls."""
    if isinstance(given, Mapping):
        return dict(given)
    pairs: dict[str, str] = {}
    for part in names_of(given):
        name, equals, value = part.partition("=")
        if not (name and equals and value):
            raise typer.BadParameter(f"{part!r} is not NAME=VALUE, as in image=jpg,label=cls")
        if name in pairs:
            raise typer.BadParameter(f"{name!r} is given twice")
        pairs[name] = value
    return pairs


def names_of(given: str | Sequence[str]) -> tuple[str, ...]:
    """Return ("a", "b") for a,b."""
    if not isinstance(given, str):
        return tuple(given)
    parts = tuple(part.strip() for part in given.split(","))
    if not all(parts):  # a variable that isn't set, say: to go on without it would be to do something else
        raise typer.BadParameter(f"{given!r} has an empty part: give text between commas, or leave the option out")
    return parts


def kinds_of(given: str | Mapping[str, str]) -> dict[str, Kind]:
    """Return {"photo": Kind("image"), …} for photo=image,caption=text."""
    known = [kind.value for kind in Kind]
    kinds = {}
    for column, value in pairs_of(given).items():
        if value not in known:
            hint = did_you_mean(value, known)
            raise typer.BadParameter(f"{value!r} is not one of {', '.join(known)}.{hint}")
        kinds[column] = Kind(value)
    return kinds


def splits_of(given: str | Mapping[str, str | Sequence[str]]) -> dict[str, tuple[str, ...]]:
    """Return {"train": ("Train",), "val": ("Test", "dev")} for train=Train,val=Test,dev."""
    splits: dict[str, tuple[str, ...]] = {}
    if isinstance(given, Mapping):
        for split, folders in given.items():
            splits[split] = tuple(_folder(one) for one in ([folders] if isinstance(folders, str) else folders))
        return splits
    split = ""
    for part in names_of(given):
        name, equals, folder = part.partition("=")
        if equals and not (name and folder):
            raise typer.BadParameter(f"{part!r} is not SPLIT=FOLDER, as in train=Train,val=Test,dev")
        if not equals and not split:
            raise typer.BadParameter(f"{part!r} stands behind no split: give {part}={part}, as in train=Train,val=Test")
        if not equals and like_splits([part]) and is_train(split) and not is_train(part):
            raise typer.BadParameter(
                f"{part!r} would be a part of the split {split!r}: give {part.lower()}={part} for a split of its own, "
                f"or {split}={part} if that is what you mean"
            )
        split = name if equals else split
        splits[split] = (*splits.get(split, ()), _folder(folder if equals else part))
    return splits


def _folder(text: str) -> str:
    return text.removeprefix("./").rstrip("/") or text


def _option(flag: str, metavar: str, text: str, parser: Callable[[Any], Any] | None = None) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(flag, envvar=envvar(flag), metavar=metavar, help=text, parser=parser)
    return option


SourceKindOption = Annotated[
    str | None,
    _option(
        "--source-kind",
        "|".join(names()),
        "What SOURCE is; found from its content if not given.",
        lambda value: choice(names())(value),
    ),
]
MapOption = Annotated[
    Mapping[str, str] | None,
    _option("--map", "COLUMN=FIELD,...", "The columns to pack, and the field of each.", pairs_of),
]
ColumnsOption = Annotated[
    Sequence[str] | None,
    _option("--columns", "FIELD,...", "The fields to pack, under their own names.", names_of),
]
RenameOption = Annotated[
    Mapping[str, str] | None, _option("--rename", "FIELD=COLUMN,...", "Other names for fields.", pairs_of)
]
KindOption = Annotated[
    Mapping[str, Kind] | None,
    _option("--kind", "COLUMN=KIND,...", f"What columns mean: {', '.join(kind.value for kind in Kind)}.", kinds_of),
]
KeyOption = Annotated[str | None, _option("--key", "FIELD", "The field that holds each sample's unique key.")]
IncludeOption = Annotated[
    Sequence[str] | None, _option("--include", "GLOB,...", "Take only input files that match one.", names_of)
]
ExcludeOption = Annotated[
    Sequence[str] | None, _option("--exclude", "GLOB,...", "Leave out input files that match one.", names_of)
]
SplitsOption = Annotated[
    Mapping[str, tuple[str, ...]] | None,
    _option(
        "--splits",
        "SPLIT=FOLDER,...",
        "The folders that splits are made of, as in train=Train,val=Test,dev (val is Test and dev); "
        "other folders are left out. For image folders.",
        splits_of,
    ),
]
FollowLinksOption = Annotated[
    bool,
    typer.Option(
        "--follow-links",
        envvar=envvar("--follow-links"),
        help="Follow symbolic links that lead out of SOURCE; they are refused if not given.",
    ),
]
MaxValueBytesOption = Annotated[
    int,
    typer.Option(
        "--max-value-bytes",
        envvar=envvar("--max-value-bytes"),
        parser=parse_size,
        metavar="SIZE",
        show_default="256MiB",
        help="Reject a sample with a larger value, if possible unread: bytes, or with a unit.",
    ),
]
MissingOption = Annotated[
    str,
    _option(
        "--missing",
        "null|skip|error",
        "A sample that lacks a column: pack a null, skip it, or reject it.",
        choice(Missing),
    ),
]
RawOption = Annotated[
    bool,
    typer.Option("--tfrecord-raw", envvar=envvar("--tfrecord-raw"), help="Records are bytes, not tf.train.Example."),
]
TokenizerOption = Annotated[
    str | None,
    _option("--tokenizer", "FILE|bytes", "Pack text as tokens: a tokenizer.json, or bytes. Nothing is downloaded."),
]
TextColumnOption = Annotated[
    str | None, _option("--text-column", "FIELD", "The field that holds the text; text if not given.")
]
EosOption = Annotated[
    bool, typer.Option("--eos", envvar=envvar("--eos"), help="Put the end-of-text token behind each document.")
]
EosTokenOption = Annotated[
    str | None,
    _option("--eos-token", "TOKEN", "Which token ends a text; for ROXXEL02 files, the id that ends a document."),
]
UserMetadataOption = Annotated[
    Mapping[str, str] | None,
    _option("--user-metadata", "KEY=VALUE,...", "Text to keep in the manifest; part of what is pinned.", pairs_of),
]

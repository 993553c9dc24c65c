"""Options of `toolkit pack` that say how the source is read: its kind, and which fields become which columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import typer

from toolkit.cli.options import choice, envvar
from toolkit.errors import did_you_mean
from toolkit.format.kinds import Kind
from toolkit.sources.options import Missing, SourceKind

__all__ = [
    "ColumnsOption",
    "EosOption",
    "EosTokenOption",
    "ExcludeOption",
    "IncludeOption",
    "KeyOption",
    "KindOption",
    "MapOption",
    "MissingOption",
    "RawOption",
    "RenameOption",
    "SourceKindOption",
    "TextColumnOption",
    "TokenizerOption",
    "UserMetadataOption",
    "kinds_of",
    "names_of",
    "pairs_of",
]

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
    return tuple(part.strip() for part in given.split(",") if part.strip()) if isinstance(given, str) else tuple(given)


def kinds_of(given: str | Mapping[str, str]) -> dict[str, Kind]:
    """Return {"photo": Kind.IMAGE, …} for photo=image,caption=text."""
    known = [kind.value for kind in Kind]
    kinds = {}
    for column, value in pairs_of(given).items():
        if value not in known:
            hint = did_you_mean(value, known)
            raise typer.BadParameter(f"{value!r} is not one of {', '.join(known)}.{hint}")
        kinds[column] = Kind(value)
    return kinds


def _option(flag: str, metavar: str, text: str, parser: Callable[[Any], Any] | None = None) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(flag, envvar=envvar(flag), metavar=metavar, help=text, parser=parser)
    return option


SourceKindOption = Annotated[
    str | None,
    _option(
        "--source-kind",
        "|".join(kind.value for kind in SourceKind),
        "What SOURCE is; found from its content if not given.",
        choice(SourceKind),
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
    _option("--eos-token", "TOKEN", "The token that is; for ROXXEL02 files the id that ends a document."),
]
UserMetadataOption = Annotated[
    Mapping[str, str] | None,
    _option("--user-metadata", "KEY=VALUE,...", "Text to keep in the manifest; part of what is pinned.", pairs_of),
]

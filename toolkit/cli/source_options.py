"""Options of `toolkit pack` that say how the source is read: which kind it is, and which fields become which columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from toolkit.cli.options import choice, envvar
from toolkit.errors import did_you_mean
from toolkit.format.kinds import Kind
from toolkit.sources.options import Missing, SourceKind

__all__ = [
    "ColumnsOption",
    "ExcludeOption",
    "IncludeOption",
    "KeyOption",
    "KindOption",
    "MapOption",
    "MissingOption",
    "RawOption",
    "RenameOption",
    "SourceKindOption",
    "UserMetadataOption",
    "kinds_of",
    "names_of",
    "pairs_of",
]


def pairs_of(text: str | None, flag: str) -> dict[str, str]:
    """Return {"image": "jpg", …} for image=jpg,label=cls."""
    pairs: dict[str, str] = {}
    for part in names_of(text) or ():
        name, equals, value = part.partition("=")
        if not (name and equals and value):
            raise typer.BadParameter(f"{flag}: {part!r} is not NAME=VALUE, as in image=jpg,label=cls")
        if name in pairs:
            raise typer.BadParameter(f"{flag}: {name!r} is given twice")
        pairs[name] = value
    return pairs


def names_of(text: str | None) -> tuple[str, ...] | None:
    """Return ("a", "b") for a,b; None when nothing was given."""
    return None if text is None else tuple(part.strip() for part in text.split(",") if part.strip())


def kinds_of(text: str | None) -> dict[str, Kind]:
    """Return {"photo": Kind.IMAGE, …} for photo=image,caption=text."""
    known = [kind.value for kind in Kind]
    kinds = {}
    for column, value in pairs_of(text, "--kind").items():
        if value not in known:
            hint = did_you_mean(value, known)
            raise typer.BadParameter(f"--kind: {value!r} is not one of {', '.join(known)}.{hint}")
        kinds[column] = Kind(value)
    return kinds


def _option(flag: str, metavar: str, text: str, parser: Callable[[str], str] | None = None) -> typer.models.OptionInfo:
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
MapOption = Annotated[str | None, _option("--map", "COLUMN=FIELD,...", "The columns to pack, and the field of each.")]
ColumnsOption = Annotated[str | None, _option("--columns", "FIELD,...", "The fields to pack, under their own names.")]
RenameOption = Annotated[str | None, _option("--rename", "FIELD=COLUMN,...", "Other names for fields.")]
KindOption = Annotated[
    str | None, _option("--kind", "COLUMN=KIND,...", f"What columns mean: {', '.join(kind.value for kind in Kind)}.")
]
KeyOption = Annotated[str | None, _option("--key", "FIELD", "The field that holds each sample's unique key.")]
IncludeOption = Annotated[str | None, _option("--include", "GLOB,...", "Take only input files that match one.")]
ExcludeOption = Annotated[str | None, _option("--exclude", "GLOB,...", "Leave out input files that match one.")]
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
UserMetadataOption = Annotated[
    str | None, _option("--user-metadata", "KEY=VALUE,...", "Text to keep in the manifest; part of what is pinned.")
]

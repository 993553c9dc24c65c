"""Options that say how images are checked, decoded and stored."""

from __future__ import annotations

from typing import Annotated

import typer

from toolkit.cli.options import at_least, choice, envvar
from toolkit.errors import UsageError
from toolkit.format.encodings import ImageEncoding
from toolkit.sources.options import VerifyImages

__all__ = ["ImageEncodingOption", "MaxPixelsOption", "ShortSideOption", "VerifyImagesOption"]


def _encoding(text: str) -> str:
    try:
        return str(ImageEncoding.parse(text))
    except UsageError as error:
        raise typer.BadParameter(str(error)) from error


VerifyImagesOption = Annotated[
    str,
    typer.Option(
        "--verify-images",
        envvar=envvar("--verify-images"),
        parser=choice(VerifyImages),
        metavar="header|decode|off",
        help="Reject images without a readable header, or those that can't be decoded; off looks at nothing.",
    ),
]
ImageEncodingOption = Annotated[
    str,
    typer.Option(
        "--image-encoding",
        envvar=envvar("--image-encoding"),
        parser=_encoding,
        metavar="keep|jpeg:QUALITY|raw",
        help="Keep the source's bytes, or store images as JPEG of a quality from 1 to 100, or as pixels.",
    ),
]
ShortSideOption = Annotated[
    int | None,
    typer.Option(
        "--short-side",
        envvar=envvar("--short-side"),
        parser=at_least(1),
        metavar="PIXELS",
        help="With jpeg or raw: resize larger images so that their shorter side has this; none is enlarged.",
    ),
]
MaxPixelsOption = Annotated[
    int,
    typer.Option(
        "--max-pixels",
        envvar=envvar("--max-pixels"),
        parser=at_least(1),
        metavar="PIXELS",
        help="Decode no image of more pixels; its header tells how many there are.",
    ),
]

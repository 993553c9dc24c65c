"""How delimited text is written, and the names of its fields: as options say, or as its first row does.

Nothing is guessed: what looks as if it were written otherwise is an error that says so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from toolkit.errors import SourceError, UsageError
from toolkit.sources.images import IMAGE_EXTENSIONS
from toolkit.sources.names import printable
from toolkit.sources.options import SourceOptions
from toolkit.sources.tables.stream import TextFile, check_encoding, place_of
from toolkit.sources.urls import origin_in

__all__ = ["NO_QUOTE", "Dialect", "check_names", "fields_of", "make_dialect"]

NO_QUOTE = "none"
_TAB = ("tab", "\\t")
_OTHERS = (",", ";", "\t", "|")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:[.,][0-9]+)?|[.,][0-9]+)(?:[eE][+-]?[0-9]+)?")
_WORDS = {"\t": "tab", ",": "','", ";": "';'", "|": "'|'"}
_SHOWN = 40


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a file is written.

    Attributes:
        delimiter: The character between fields.
        quote: The character around fields, None for none.
        encoding: As check_encoding() gives it.
        names: The names of the fields; None: the first row has them.
    """

    delimiter: str
    quote: str | None
    encoding: str | None
    names: tuple[str, ...] | None

    @property
    def delimiter_byte(self) -> int:
        """The delimiter's byte."""
        return ord(self.delimiter)

    @property
    def quote_byte(self) -> int | None:
        """The quote's byte."""
        return None if self.quote is None else ord(self.quote)


def make_dialect(options: SourceOptions, default: str) -> Dialect:
    """Return what options say; `default` is the delimiter where they say none. Raises UsageError."""
    delimiter = default if options.delimiter is None else options.delimiter
    delimiter = "\t" if delimiter in _TAB else delimiter
    quote = None if options.quote == NO_QUOTE else '"' if options.quote is None else options.quote
    for flag, sign in (("--delimiter", delimiter), ("--quote", quote)):
        if sign is not None and (len(sign) != 1 or not sign.isascii() or sign in "\r\n\0"):
            raise UsageError(f"{flag} {sign!r}: give one ASCII character, as ';'" + _instead(flag))
    if delimiter == quote:
        raise UsageError(f"--delimiter and --quote are both {delimiter!r}: a field could not be told from its end")
    if options.field_names is not None and not options.field_names:
        raise UsageError("--field-names names no field: give one for each")
    return Dialect(delimiter, quote, check_encoding(options.encoding), options.field_names)


def fields_of(row: bytes, dialect: Dialect) -> list[str]:
    """Return the fields of one whole row that find_rows() found nothing wrong with.

    Not by Python's csv, which has a limit for fields that is one for the whole process.
    """
    text = row.decode().removesuffix("\n").removesuffix("\r")
    delimiter, quote = dialect.delimiter, dialect.quote
    if quote is None:
        return text.split(delimiter)
    fields, at = [], 0
    while True:
        if text.startswith(quote, at):
            end = text.index(quote, at + 1)
            while text.startswith(quote, end + 1):  # two are one inside
                end = text.index(quote, end + 2)
            fields.append(text[at + 1 : end].replace(quote * 2, quote))
            end += 1
        else:
            end = text.find(delimiter, at)
            end = len(text) if end < 0 else end
            fields.append(text[at:end])
        if end == len(text):
            return fields
        at = end + 1


def check_names(text: TextFile, names: Sequence[str], line: int, row: bytes, dialect: Dialect) -> None:
    """Raise SourceError when names of fields can't be such, or the first row has none.

    Args:
        text: The file.
        names: The names.
        line: Where they stand, for messages.
        row: The first row.
        dialect: By which it was read.
    """
    place = place_of(text, line)
    if len(names) == 1 and dialect.names is None:
        _check_delimiter(place, row, dialect)
    if dialect.names is None:
        _check_header(place, names)
    places: dict[str, int] = {}
    for i, name in enumerate(names):
        # The first may be an index that pandas wrote, which the rows tell.
        if not name and (i or dialect.names is not None):
            raise SourceError(
                f"{place}: column {i + 1} has no name: give it one in the file, or name all fields with "
                "--field-names if the first row is none of names"
            )
        if name in places:
            raise SourceError(
                f"{place}: {_short(name)} names both column {places[name]} and column {i + 1}: rename one"
            )
        places[name] = i + 1


def _check_delimiter(place: str, row: bytes, dialect: Dialect) -> None:
    counts = {other: row.count(other.encode()) for other in _OTHERS if other != dialect.delimiter}
    most = max(counts, key=lambda other: counts[other])
    if counts[most]:
        word = _WORDS[most]
        raise SourceError(
            f"{place}: no {_WORDS.get(dialect.delimiter, repr(dialect.delimiter))} in the row of names, and "
            f"{counts[most]} of {word}: the fields seem to be separated by {word}. Give --delimiter {word}, or "
            f"--field-names for the one field that each row has"
        )


def _check_header(place: str, names: Sequence[str]) -> None:
    told = [name for name in names if name.lower().endswith(IMAGE_EXTENSIONS) or _has_secret(name)]
    numbers = [name for name in names if _NUMBER.fullmatch(name)]
    # pandas calls the columns of an array 0, 1, 2, …
    if told or (len(numbers) == len(names) and list(names) != [str(i) for i in range(len(names))]):
        raise SourceError(
            f"{place}: {_short((told or numbers)[0])} looks like a value and not like the name of a column: if the "
            "first row is a sample, say what the fields are called with --field-names NAME,NAME,..."
        )


def _instead(flag: str) -> str:
    return ", or tab" if flag == "--delimiter" else f", or {NO_QUOTE} where quotes mean nothing"


def _has_secret(name: str) -> bool:
    """Tell whether a text is a URL with a query or a user part."""
    return ("?" in name or "@" in name) and origin_in(name) is not None


def _short(name: str) -> str:
    if _has_secret(name):
        name = f"{origin_in(name)}/…"
    return repr(printable(name if len(name) <= _SHOWN else f"{name[:_SHOWN]}…"))

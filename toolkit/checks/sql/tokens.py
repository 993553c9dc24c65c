"""Cut SQL into tokens, and write tokens as SQL that any reader cuts at the same places.

polars never sees a user's text, only what is written here again: no comments, no prefixes of texts, one space between
tokens. So what was checked is what runs, whatever another tokenizer makes of the original.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence
from dataclasses import dataclass

from toolkit.errors import UsageError

__all__ = ["MOST_BYTES", "Kind", "Token", "place_of", "tokens_of", "written"]

MOST_BYTES = 1 << 20
_MOST_TOKENS = 20_000

_WORD = re.compile(r"[^\W\d]\w*")
_NUMBER = re.compile(r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_ALL_SIGNS = "!~~* !~~ !~* !~ ~~* ~~ ~* ~ ^@ <=> <> <= >= == != || :: ->> -> // + - * / % ( ) [ ] , . = < > | & ^ :"
_SIGNS = tuple(sorted(_ALL_SIGNS.split(), key=len, reverse=True))
_CURLY = dict.fromkeys("“”„«»", '"') | dict.fromkeys("‘’‚", "'")  # noqa: RUF001  what word processors make of quotes


class Kind(enum.Enum):
    """What a token is."""

    WORD = "word"  # a keyword or a name, as it was written
    QUOTED = "quoted name"
    TEXT = "text"
    NUMBER = "number"
    SIGN = "sign"
    END = "end"


@dataclass(frozen=True, slots=True)
class Token:
    """A token: names and texts without their quotes. `start` is its place in the user's text."""

    kind: Kind
    value: str
    start: int

    @property
    def word(self) -> str:
        """A word that isn't quoted, in small letters, as keywords are compared; "" for anything else."""
        return self.value.lower() if self.kind is Kind.WORD and self.value.isascii() else ""

    @property
    def is_name(self) -> bool:
        """Whether it may be the name of a column, table or function."""
        return self.kind in (Kind.WORD, Kind.QUOTED)

    def is_sign(self, sign: str) -> bool:
        """Return whether it is that sign."""
        return self.kind is Kind.SIGN and self.value == sign


def tokens_of(sql: str) -> list[Token]:
    """Return the tokens of one statement, without a semicolon behind it; the last one is the END.

    Raises:
        UsageError: There is something in it that no query of polars has, or too much.
    """
    if len(sql) > MOST_BYTES:
        raise UsageError(f"the query has {len(sql):,} characters, and {MOST_BYTES:,} are the most")
    tokens: list[Token] = []
    place, length = 0, len(sql)
    while place < length:
        after = _after_space(sql, place)
        if after > place:
            place = after
            continue
        token, place = _token(sql, place)
        if token is None:
            rest = place
            while rest < length and (sql[rest] == ";" or _after_space(sql, rest) > rest):
                rest = max(rest + 1, _after_space(sql, rest))
            if rest < length:
                raise UsageError(f"a query is one statement, and behind the semicolon{place_of(sql, rest)} is more")
            break
        tokens.append(token)
        if len(tokens) > _MOST_TOKENS:
            raise UsageError(f"the query has more than {_MOST_TOKENS:,} words and signs")
    if not tokens:
        raise UsageError("the query is empty: write one as `select label, count(*) from train group by label`")
    return [*tokens, Token(Kind.END, "", length)]


def place_of(sql: str, start: int) -> str:
    """Return where a token begins, for people: nothing in the first line of a short query but its column."""
    before = sql[:start]
    line = before.count("\n") + 1
    column = start - (before.rfind("\n") + 1) + 1
    return f" (line {line}, column {column})" if "\n" in sql else f" (column {column})"


def written(tokens: Sequence[Token]) -> tuple[str, list[int]]:
    """Return tokens as SQL in one line, and where each of them begins in it."""
    pieces: list[str] = []
    starts: list[int] = []
    length = 0
    glued = True
    for token in tokens:
        if token.kind is Kind.END:
            continue
        dot = token.is_sign(".")
        if not glued and not dot:
            pieces.append(" ")
            length += 1
        glued = dot
        text = _text(token)
        starts.append(length)
        pieces.append(text)
        length += len(text)
    return "".join(pieces), starts


def _text(token: Token) -> str:
    match token.kind:
        case Kind.TEXT:
            return "'" + token.value.replace("'", "''") + "'"
        case Kind.QUOTED:
            return '"' + token.value.replace('"', '""') + '"'
        case Kind.WORD if not token.value.isascii():  # which letters may stand in a bare word, readers disagree
            return f'"{token.value}"'
    return token.value


def _after_space(sql: str, place: int) -> int:
    """Return the place behind white space or a comment that begins here; `place` itself without one."""
    if sql[place].isspace():
        return place + 1
    if sql.startswith("--", place):
        end = sql.find("\n", place)
        return len(sql) if end < 0 else end + 1
    if not sql.startswith("/*", place):
        return place
    depth, at = 1, place + 2  # comments nest, as SQL has it
    while depth:
        opens, closes = sql.find("/*", at), sql.find("*/", at)
        if closes < 0:
            raise UsageError(f"the comment{place_of(sql, place)} has no end: */")
        if 0 <= opens < closes:
            depth, at = depth + 1, opens + 2
        else:
            depth, at = depth - 1, closes + 2
    return at


def _token(sql: str, place: int) -> tuple[Token | None, int]:
    """Return the token here and the place behind it; None for a semicolon."""
    first = sql[place]
    if first == ";":
        return None, place + 1
    if first in "'\"`":
        return _quoted(sql, place, first)
    word = _WORD.match(sql, place)
    if word is not None:
        if word.end() < len(sql) and sql[word.end()] == "'":
            raise UsageError(
                f"{word[0]}'…'{place_of(sql, place)}: a query has plain texts only, in single quotes with nothing "
                "before them"
            )
        return Token(Kind.WORD, word[0], place), word.end()
    number = _NUMBER.match(sql, place)
    if number is not None:
        rest = sql[number.end() : number.end() + 1]
        if rest and (rest.isalnum() or rest in "_."):
            raise UsageError(f"{number[0]}{rest}…{place_of(sql, place)} is no number; a name that begins so is quoted")
        return Token(Kind.NUMBER, number[0], place), number.end()
    sign = next((sign for sign in _SIGNS if sql.startswith(sign, place)), None)
    if sign is None:
        advice = f" Write {_CURLY[first]}, the plain quote." if first in _CURLY else ""
        raise UsageError(f"{first!r}{place_of(sql, place)} can't stand in a query.{advice}")
    return Token(Kind.SIGN, sign, place), place + len(sign)


def _quoted(sql: str, place: int, quote: str) -> tuple[Token, int]:
    """Read a text or a quoted name: two quotes in it stand for one."""
    what = "text" if quote == "'" else "name"
    pieces: list[str] = []
    start = place + 1
    while True:
        end = sql.find(quote, start)
        if end < 0:
            raise UsageError(f"the {what}{place_of(sql, place)} has no end: {quote}")
        pieces.append(sql[start:end])
        if sql[end - 1] == "\\" and end > start:
            # Some readers take \' for a quote within the text: what follows would be code to one and text to another.
            raise UsageError(
                f"the {what}{place_of(sql, place)} has a backslash before a quote, which a query can't have"
            )
        if sql[end + 1 : end + 2] != quote:
            break
        pieces.append(quote)
        start = end + 2
    value = "".join(pieces)
    if quote == "'":
        return Token(Kind.TEXT, value, place), end + 1
    if not value or not value.isprintable():
        raise UsageError(f"{value!r}{place_of(sql, place)} can't be a name")
    return Token(Kind.QUOTED, value, place), end + 1

"""Where the rows of delimited text end, and how many fields each has: RFC 4180 to the letter, over whole blocks.

Readers of CSV guess where a quote stands in the wrong place, and rows move or vanish. So every quote is checked here,
and what passes can be read in one way only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Fault", "RowsFound", "find_rows"]

_LF, _CR, _NUL = 10, 13, 0
_Places = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong, on which line of the text (from 0), and whether that is a quote."""

    line: int
    reason: str
    is_quote: bool


@dataclass(frozen=True, slots=True)
class RowsFound:
    """The whole rows of a text that begins where a row does.

    Attributes:
        ends: Offset behind the line end of each row.
        widths: How many fields each has; 0 for a blank line.
        lines: How many lines each takes.
        fault: The first thing that is wrong; rows before it are right.
    """

    ends: _Places
    widths: _Places
    lines: _Places
    fault: Fault | None

    @property
    def end(self) -> int:
        """Where the last row ends; what is behind it isn't whole yet."""
        return int(self.ends[-1]) if len(self.ends) else 0


def find_rows(data: bytes, delimiter: int, quote: int | None, *, final: bool) -> RowsFound:
    """Find the rows of `data`.

    Args:
        data: Text in UTF-8 that begins where a row does.
        delimiter: The byte between fields.
        quote: The byte around fields, doubled inside; None: there is none, and it means nothing.
        final: There is nothing behind it, so the last row needs no line end.
    """
    text = np.frombuffer(data, np.uint8)
    quotes = np.flatnonzero(text == quote) if quote is not None else np.empty(0, np.int64)
    newlines = np.flatnonzero(text == _LF)
    ends = _outside(newlines, quotes) + 1
    if final and len(text) and len(quotes) % 2 == 0 and (not len(ends) or ends[-1] < len(text)):
        ends = np.append(ends, len(text))
    starts = np.concatenate((np.zeros(1, np.int64), ends[:-1])) if len(ends) else ends
    delimiters = _outside(np.flatnonzero(text == delimiter), quotes)
    widths = np.diff(np.searchsorted(delimiters, ends, side="left"), prepend=0) + 1
    widths[_blank(text, starts, ends)] = 0
    lines = np.maximum(np.diff(np.searchsorted(newlines, ends, side="left"), prepend=0), 1)
    if final and len(ends) and text[-1] != _LF and len(newlines) and newlines[-1] >= starts[-1]:
        lines[-1] += 1  # the last row has no line end of its own
    faults = [*_quote_faults(text, quotes, delimiter, final=final), *_byte_faults(text, quotes, final=final)]
    fault = None
    if faults:
        offset, reason, is_quote = min(faults, key=lambda fault: fault[0])
        fault = Fault(int(np.searchsorted(newlines, offset)), reason, is_quote)
    return RowsFound(ends, widths, lines, fault)


def _outside(places: _Places, quotes: _Places) -> _Places:
    """Return those that lie in no quoted field."""
    return places[np.searchsorted(quotes, places) % 2 == 0] if len(quotes) else places


def _blank(text: NDArray[np.uint8], starts: _Places, ends: _Places) -> NDArray[np.bool_]:
    lengths = ends - starts
    last = np.maximum(ends - 1, 0)
    only_lf = (lengths == 1) & (text[last] == _LF) if len(ends) else np.zeros(0, np.bool_)
    crlf = (lengths == 2) & (text[last] == _LF) & (text[np.maximum(ends - 2, 0)] == _CR) if len(ends) else only_lf
    return only_lf | crlf


def _quote_faults(
    text: NDArray[np.uint8], quotes: _Places, delimiter: int, *, final: bool
) -> Iterator[tuple[int, str, bool]]:
    """Yield the first quotes that may not stand where they do: at an offset, for a reason."""
    if not len(quotes):
        return
    opening, closing = quotes[0::2], quotes[1::2]
    quote = text[quotes[0]]
    before = text[np.maximum(opening - 1, 0)]
    # Behind a quote, the two are one quote inside of a field.
    good = (opening == 0) | (before == delimiter) | (before == _LF) | (before == quote)
    for place in opening[~good][:1].tolist():
        yield place, "a quote within a field that doesn't begin with one", True
    known = closing[closing + 1 < len(text)]
    after = text[known + 1]
    good = (after == delimiter) | (after == _LF) | (after == _CR) | (after == quote)
    for place in known[~good][:1].tolist():
        yield place, "text behind the closing quote of a field", True
    if final and len(quotes) % 2:
        yield int(quotes[-1]), "a quote is opened here and never closed", True


def _byte_faults(text: NDArray[np.uint8], quotes: _Places, *, final: bool) -> Iterator[tuple[int, str, bool]]:
    returns = _outside(np.flatnonzero(text == _CR), quotes)
    behind = np.minimum(returns + 1, len(text) - 1)
    # What follows the last byte isn't known yet, unless nothing does.
    alone = (text[behind] != _LF) & ((returns + 1 < len(text)) | final)
    for place in returns[alone][:1].tolist():
        yield place, "a carriage return (CR) without a line feed (LF) behind it", False
    for place in np.flatnonzero(text == _NUL)[:1].tolist():
        yield place, "a NUL byte, which text doesn't have", False

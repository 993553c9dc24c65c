"""Make text from strangers safe to print: what could move a cursor, turn the reading direction or hide is escaped.

Every text that toolkit prints goes through plain(), every JSON text that it prints or writes into a report through
json_text(); both at the one place where the text leaves, so that nothing else has to remember it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

__all__ = ["json_text", "listed", "plain", "short"]

# Unicode's control characters (Cc: C0, DEL, C1), line and paragraph separators, surrogates that stand for bytes, and of
# the format characters (Cf) those that show nothing: bidi controls, zero-width ones, tags. Joiners stay, which emoji
# and some scripts are written with, and so do the format characters that are visible signs (Arabic, Kaithi) or
# part of a script (Egyptian).
_UNPRINTABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e007f]"
)


def plain(text: str) -> str:
    """Return one line of text as it may be printed; what is escaped reads as in Python: \\x1b, \\u202e."""
    return _UNPRINTABLE.sub(_python_escape, text)


def json_text(value: object, *, indent: int | None = None) -> str:
    """Return `value` as JSON that may be printed: \\u009b where plain() would say \\x9b, so it parses to the same text.

    Raises ValueError for NaN and infinities.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent)
    return text if text.isprintable() else "\n".join(_UNPRINTABLE.sub(_json_escape, line) for line in text.split("\n"))


def short(value: object, most: int = 24, *, quoted: bool = False) -> str:
    """Return a value as text of about `most` characters, for errors; `quoted`, as its repr(). It may have no text."""
    try:
        text = repr(value) if quoted else str(value)
    except Exception:  # nested too deep, a number of too many digits, or whatever its class raises
        return f"a {type(value).__name__} that can't be shown"
    return text if len(text) <= most else f"{text[: most - 4]}…"


def listed(names: Iterable[str], most: int = 16) -> str:
    """Return names as text for a repr or an error: a long one cut, and of many the first."""
    known = list(names)
    shown = [plain(short(name, 40)) for name in known[:most]]
    return ", ".join([*shown, f"{len(known) - most:,} more"] if len(known) > most else shown)


def _python_escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()


def _json_escape(match: re.Match[str]) -> str:
    return json.dumps(match[0])[1:-1]

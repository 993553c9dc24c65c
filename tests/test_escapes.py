from __future__ import annotations

import json
import sys
import unicodedata

import pytest

from toolkit.escapes import json_text, plain

# Format characters that are part of how a script or an emoji is written, or that show a sign.
JOINERS = {0x200C, 0x200D}
SIGNS = {*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD, *range(0x13430, 0x13440)}
LEGIT = [
    "daisy",
    "café",
    "e\u0301",
    "花 猫",
    "\u3000",
    "한국어",
    "👩\u200d👩\u200d👧 🇩🇪 ❤\ufe0f",
    "می\u200cخواهم",
    "C:\\x",
    "\U0001fae8",
]


def test_every_code_point_that_hides_or_moves_is_escaped_and_no_other() -> None:
    for code in range(sys.maxunicode + 1):
        category = unicodedata.category(chr(code))
        hostile = category in ("Cc", "Cs", "Zl", "Zp") or (category == "Cf" and code not in JOINERS | SIGNS)
        escaped = plain(chr(code)) != chr(code)
        # Python's table may be older than the list: unassigned ones may be either, and so are reserved tags.
        assert escaped == hostile or category == "Cn", hex(code)


@pytest.mark.parametrize("text", LEGIT)
def test_what_people_write_stays(text: str) -> None:
    assert plain(text) == text
    assert json_text(text) == json.dumps(text, ensure_ascii=False)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J\r\n\t", "\\x1b[2J\\r\\n\\t"),
        ("\x9b31m\x7f\x00", "\\x9b31m\\x7f\\x00"),
        ("a\u202egpj.exe\u2066", "a\\u202egpj.exe\\u2066"),
        ("\udcff\U000e0041\u2028", "\\udcff\\U000e0041\\u2028"),
    ],
)
def test_what_moves_a_cursor_is_shown(text: str, shown: str) -> None:
    assert plain(text) == shown
    assert plain(plain(text)) == shown


@pytest.mark.parametrize("indent", [None, 1])
def test_json_parses_to_the_same_text(indent: int | None) -> None:
    hostile = "".join(map(chr, range(0x2100))) + "\U000e0041\ufeff\udcff\U0001d173"
    value = {hostile: [hostile, 1.5, None, True], "plain": LEGIT}
    text = json_text(value, indent=indent)
    assert json.loads(text) == value
    assert all(plain(line) == line for line in text.split("\n"))
    text.encode()
    with pytest.raises(ValueError, match="JSON"):
        json_text(float("nan"))

"""What each kind of value takes, and that its schema says the same."""

from __future__ import annotations

from typing import Any

import pytest
from json_schema import fits

from toolkit.errors import UsageError
from toolkit.format.kinds import Kind
from toolkit.options.compound import Names, Pairs, TextOrNames
from toolkit.options.option import Option, options_of
from toolkit.options.schema import json_schema
from toolkit.options.value_type import ValueType
from toolkit.options.values import COUNT, SHARE, SIZE, Choice, Flag, Text, Whole
from toolkit.pack.job import PackJob

VALUES = {name: one.value for name, one in options_of(PackJob).items()}
ENCODING = VALUES["image_encoding"]
PAIRS = Pairs(Text(), "{a: b}")
KINDS = VALUES["kind"]


@pytest.mark.parametrize(
    ("value_type", "good", "bad"),
    [
        (Text(), ["a", " "], ["", None, 1, 1.5, True, ["a"], {"a": "b"}]),
        (Choice(("a", "b")), ["a", "b"], ["c", "", None, 1, True, ["a"]]),
        (Flag(), [True, False], [0, 1, "true", None, [], {}]),
        (Whole(1), [1, 10**9], [0, -1, 1.5, "1", "many", True, None, [1]]),
        (
            SIZE,
            [1, 65536, "4096", "100MB", "256MiB", "1.5GiB", ".5GB", "64KiB ", "10M"],
            [0, "", "big", 1.5, True, None],
        ),
        (SHARE, [0, 12, "1%", "0.5%", "12"], [-1, 0.01, "x%", "0.5", "", True, None, ["1%"]]),
        (COUNT, [1, 64, "auto", "4"], [0, "0", "many", True, None, 1.5]),
        (
            ENCODING,
            ["keep", "raw", "jpeg:1", "jpeg:90", "jpeg:100"],
            ["jpeg", "jpeg:0", "jpeg:101", "jpeg:090", "png", "", 90, None, True],
        ),
        (Names(), [[], ["a"], ["a,b", "c"]], ["a", None, [1], ["a", ""], {"a": "b"}, [["a"]]]),
        (PAIRS, [{}, {"a": "b", "c,d": "e=f"}], ["a=b", None, ["a"], {"a": 1}, {"a": ""}, {"": "a"}, {"a": None}]),
        (TextOrNames(), ["a", [], ["a", "b"]], ["", None, 1, ["a", 2], {"a": "b"}]),
        (VALUES["classes"], ["c.txt", ["cat", "dog"]], ["", None, 1, ["a", 2], {"a": "b"}]),
        (VALUES["splits"], [{}, {"val": "Test", "train": ["a", "b"]}], ["val=Test", {"val": 1}, {"val": [1]}, None]),
        (KINDS, [{"x": "image"}], [{"x": "imag"}, {"x": 1}, "x=image"]),
    ],
)
def test_check_and_schema_agree(value_type: ValueType, good: list[Any], bad: list[Any]) -> None:
    for value in good:
        assert value_type.fault(value) is None, value
        assert fits(value, value_type.schema()), value
    for value in bad:
        assert value_type.fault(value) is not None, value
        assert not fits(value, value_type.schema()), value


def test_faults_say_where_and_what() -> None:
    assert Names().fault(["a", 3]) == (
        (1,),
        "expected text, got 3",
        "; put text in quotes when YAML reads it as something else",
    )
    assert KINDS.fault({"x": "imag"}) == (
        ("x",),
        "expected one of image, label, text, scalar, tensor, tokens, json, bytes, value, got 'imag'. "
        "Did you mean 'image'?",
        "",
    )
    assert Pairs(Text(), "").fault({True: "x"}) == ((), "expected names that are text, got true", "; put it in quotes")
    assert Whole(1).fault(None) == ((), "expected a whole number of at least 1, got nothing", "")
    verify = VALUES["verify_images"]  # `off` and `null` are no texts in YAML
    assert verify.fault(False) == ((), "expected one of header, decode, off, got false", "; put the word in quotes")
    assert Flag().fault({}) == ((), "expected true or false, got a mapping", "")
    assert Flag().fault("x" * 100) == ((), f"expected true or false, got '{'x' * 39}…", "")


def test_schema_of_a_table() -> None:
    schema = json_schema({"limit": Option(name="limit", value=Whole(1), help="At most.")})
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["additionalProperties"] is False
    assert schema["properties"] == {"limit": {"description": "At most.", "type": "integer", "minimum": 1}}


def test_a_member_that_nobody_may_say_is_no_choice() -> None:
    kinds = Choice(Kind, but=(Kind.UNKNOWN,))
    assert "unknown" not in kinds.values
    assert kinds.read("image") is Kind.IMAGE
    assert kinds.fault("unknown") is not None
    with pytest.raises(UsageError, match="'unknown' is not one of image, "):
        kinds.read("unknown")

"""How the text behind a flag is read."""

from __future__ import annotations

import enum
from typing import Any

import pytest

from toolkit.errors import UsageError
from toolkit.options.compound import Names, Pairs, TextOrNames
from toolkit.options.option import options_of
from toolkit.options.texts import parse_count, parse_counts, parse_whole
from toolkit.options.values import SHARE, SIZE, Choice, Text
from toolkit.pack.job import PackJob
from toolkit.processors import processors


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [
        ("4096", 4096),
        ("4096B", 4096),
        ("100MB", 100_000_000),
        ("100mb", 100_000_000),
        ("64KiB", 65536),
        ("64kB", 64_000),
        ("256MiB", 268_435_456),
        ("256 MiB", 268_435_456),
        ("1.5GiB", 1_610_612_736),
        (".5GB", 500_000_000),
        ("1TiB", 1 << 40),
        ("0.1MB", 100_000),
        (268_435_456, 268_435_456),
    ],
)
def test_sizes(text: str | int, nbytes: int) -> None:
    assert SIZE.read(text) == nbytes


@pytest.mark.parametrize("text", ["", "MB", "10X", "1e6", "-5MB", "5 5MB", "١MB", "nan", "10M", "10 k", "9999999TiB"])
def test_no_sizes(text: str) -> None:
    with pytest.raises(UsageError):
        SIZE.read(text)


def test_counts() -> None:
    assert parse_count("3") == 3
    assert parse_count("auto") == processors() >= 1
    assert parse_counts("1,2, 4,2") == (1, 2, 4)
    assert parse_counts("auto") == (processors(),)
    for text in ("", "1,", "0", "-1", "1.5", "many"):
        with pytest.raises(UsageError):
            parse_counts(text)


def test_shares() -> None:
    assert [SHARE.read(text) for text in ("12", 12, "1%", "100 %")] == [12, 12, 0.01, 1.0]
    for text in ("101%", "x", "-1", "0.5"):
        with pytest.raises(UsageError):
            SHARE.read(text)


def test_a_share_is_shown_as_it_is_given() -> None:
    for text in ("1%", "29%", "0.5%", "0.07%", "100%", "12.34567%", "0.0000001%"):
        assert SHARE.plain(SHARE.read(text)) == text
    assert SHARE.plain(12) == 12


def test_spaces_around_parts_of_pairs() -> None:
    assert Pairs(Text(), "").read("a = b , c= d e") == {"a": "b", "c": "d e"}
    with pytest.raises(UsageError, match="not NAME=VALUE"):
        Pairs(Text(), "").read("a = ")


def test_empty_text() -> None:
    for value in (Text(), Text(path=True), TextOrNames()):
        with pytest.raises(UsageError, match="got ''"):
            value.read("")


def test_choices() -> None:
    class Colour(enum.Enum):
        RED = "red"

    assert Choice(Colour).read("red") is Colour.RED
    with pytest.raises(UsageError, match="Did you mean 'red'"):
        Choice(Colour).read("rad")
    assert Choice(("a",)).read("a") == "a"


def test_whole_numbers() -> None:
    assert parse_whole("0", 0) == parse_whole(" 0 ", 0) == 0
    for text in ("1.0", "x", "", "-1"):
        with pytest.raises(UsageError):
            parse_whole(text, 0)


def test_lists_and_mappings() -> None:
    assert Names().read("a, b") == Names().read(["a", "b"]) == ("a", "b")
    pairs = Pairs(Text(), "{a: b}")
    assert pairs.read("a=b,c=d=e") == pairs.read({"a": "b", "c": "d=e"}) == {"a": "b", "c": "d=e"}
    for text in ("", "a,,b", "a=b,"):
        with pytest.raises(UsageError, match="has an empty part"):
            pairs.read(text)


@pytest.mark.parametrize("name", list(options_of(PackJob)))
def test_what_is_written_as_the_default_is_the_default(name: str) -> None:
    one = options_of(PackJob)[name]
    job: Any = PackJob(source="s", dataset="d")
    if name == "jobs":  # a program has one, and people have the processors
        assert (one.value.read(one.default), job.jobs) == (processors(), 1)
    elif one.default is not None:
        assert one.value.read(one.default) == getattr(job, name)
    else:
        assert getattr(job, name) in (None, (), {})


@pytest.mark.parametrize("name", list(options_of(PackJob)))
def test_json_of_a_value_is_read_as_that_value(name: str) -> None:
    one = options_of(PackJob)[name]
    value = getattr(PackJob(source="s", dataset="d"), name)
    plain = one.value.plain(value)
    if plain is not None:
        assert one.value.fault(plain) is None
        assert one.value.read(plain) == value

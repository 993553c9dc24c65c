"""How option values are read."""

from __future__ import annotations

import enum

import pytest
import typer

from toolkit.cli.options import at_least, choice, parse_jobs, parse_size, parse_threads
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
    assert parse_size(text) == nbytes


@pytest.mark.parametrize("text", ["", "MB", "10X", "1e6", "-5MB", "5 5MB", "١MB", "nan", "10M", "10 k", "9999999TiB"])
def test_no_sizes(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        parse_size(text)


def test_jobs_and_threads() -> None:
    assert parse_jobs("3") == 3
    assert parse_jobs("auto") == processors() >= 1
    assert parse_threads("1,2, 4,2") == (1, 2, 4)
    assert parse_threads("auto") == (processors(),)
    for text in ("", "1,", "0", "-1", "1.5", "many"):
        with pytest.raises(typer.BadParameter):
            parse_threads(text)


def test_choices() -> None:
    class Colour(enum.Enum):
        RED = "red"

    assert choice(Colour)("red") == "red"
    with pytest.raises(typer.BadParameter, match="Did you mean 'red'"):
        choice(Colour)("rad")
    assert choice(["a"])("a") == "a"


def test_whole_numbers() -> None:
    assert at_least(0)("0") == at_least(0)(0) == 0
    for text in ("1.0", "x", "", "-1"):
        with pytest.raises(typer.BadParameter):
            at_least(0)(text)

"""Read what people write behind a flag: 12, auto, 1%, a,b and image=jpg,label=cls."""

from __future__ import annotations

import re

from toolkit.errors import UsageError, did_you_mean
from toolkit.processors import processors

__all__ = ["parse_count", "parse_counts", "parse_names", "parse_pairs", "parse_share", "parse_whole"]


def parse_whole(text: str, least: int) -> int:
    """Return a whole number that isn't below `least`. Raises UsageError."""
    text = text.strip()
    if not re.fullmatch(r"-?\d{1,18}", text, re.ASCII):
        raise UsageError(f"{text!r} is not a whole number")
    if int(text) < least:
        raise UsageError(f"{text} is less than {least}")
    return int(text)


def parse_share(text: str) -> int | float:
    """Return a number of samples, or a share of all of them as a float: 12, 1%, 0.5%. Raises UsageError."""
    text = text.strip()
    match = re.fullmatch(r"(\d{1,3}(\.\d+)?) *%", text, re.ASCII)
    if match is None:
        return parse_whole(text, 0)
    share = float(match[1]) / 100
    if share > 1:
        raise UsageError(f"{text!r} is more than all samples")
    return share


def parse_count(text: str) -> int:
    """Return how many jobs or threads: "auto" is the number of processors this process may use. Raises UsageError."""
    if text == "auto":
        return processors()
    if not re.fullmatch(r"\d{1,6}", text, re.ASCII) or int(text) == 0:
        hint = did_you_mean(text, ["auto"])
        raise UsageError(f"{text!r} is neither a number of at least 1 nor 'auto'.{hint}")
    return int(text)


def parse_counts(text: str) -> tuple[int, ...]:
    """Return counts, given as 1,2,auto; each once. Raises UsageError."""
    return tuple(dict.fromkeys(parse_count(part.strip()) for part in text.split(",")))


def parse_names(text: str) -> tuple[str, ...]:
    """Return ("a", "b") for a,b. Raises UsageError."""
    parts = tuple(part.strip() for part in text.split(","))
    if not all(parts):  # a variable that isn't set, say: to go on without it would be to do something else
        raise UsageError(f"{text!r} has an empty part: give text between commas, or leave the option out")
    return parts


def parse_pairs(text: str) -> dict[str, str]:
    """Return {"image": "jpg", …} for image=jpg,label=cls. Raises UsageError."""
    pairs: dict[str, str] = {}
    for part in parse_names(text):
        name, equals, value = map(str.strip, part.partition("="))
        if not (name and equals and value):
            raise UsageError(f"{part!r} is not NAME=VALUE, as in image=jpg,label=cls")
        if name in pairs:
            raise UsageError(f"{name!r} is given twice")
        pairs[name] = value
    return pairs

"""Patterns of --pair and paths: a path that a pattern matches is made of its stem again, capitals apart."""

from __future__ import annotations

from toolkit.errors import SourceError, UsageError
from toolkit.sources.kinds.pairs.patterns import read_patterns
from toolkit.sources.pair_option import parse_patterns


def fuzz(data: bytes) -> object:
    """Use one input: patterns, a line break, and a path."""
    text, _, path = data.decode("utf-8", "surrogateescape").partition("\n")
    try:
        patterns = read_patterns(parse_patterns(text))
    except UsageError as error:
        return str(error)[-20:]
    for pattern in patterns.every:
        stem = pattern.stem(path)
        if stem is not None:
            assert stem
            assert pattern.path(stem).lower() == path.lower()
            assert pattern.stem(pattern.path(stem)) == stem
            assert all(patterns.may_match_below(folder) for folder in _folders(path))
    try:
        found = patterns.match(path)
    except SourceError:
        return "two"
    assert (found is None) is all(pattern.stem(path) is None for pattern in patterns.every)
    return len(patterns.every) % 5, None if found is None else found[0]


def _folders(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:depth]) for depth in range(1, len(parts))]


def seeds() -> list[bytes]:
    """Return patterns with paths that fit one or another."""
    return [
        b"images/{}.{jpg,png},mask=masks/{}.png\nimages/a/b.JPG",
        b"{}/image.png,mask={}/mask.png\na/mask.png",
        b"{}.png,mask={}_mask.png\na_mask.png",
        b"x={a,b}{c,d}/{}\nac/1",
    ]

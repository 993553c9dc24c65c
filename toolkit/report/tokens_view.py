"""The tokens of a dataset as tables for a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from toolkit.report.tables import Table, View, table
from toolkit.report.text import count

if TYPE_CHECKING:
    from toolkit.checks.tokens import TokenFacts

__all__ = ["tokens_views"]

_BAR = 30
_SHOWN_CHARACTERS = 72


def tokens_views(facts: Mapping[str, TokenFacts]) -> list[View]:
    """Return the tables of the tokens column, with an empty line before each; none without one."""
    views: list[View] = []
    for name, one in facts.items():
        views += ["", _heading(name, one), _histogram(one)]
        if one.first:
            rows = [[d.split, str(d.row), d.key, f"{d.tokens:,}", _shown(d.text)] for d in one.first]
            views += ["", "first documents", table(["split", "row", "key", "tokens", "begins"], rows, right={1, 3})]
    return views


def _heading(name: str, facts: TokenFacts) -> str:
    tokenizer = {None: "ready ids", "bytes": "bytes"}.get(facts.tokenizer, f"tokenizer {facts.tokenizer}")
    ends = "no end-of-text id" if facts.eos is None else f"end of text {facts.eos}"
    return (
        f"tokens of {name}: {count(facts.tokens, 'token')} in {count(facts.documents, 'document')}, "
        f"the longest {facts.longest:,}; {facts.vocabulary:,} ids, {ends}, {tokenizer}"
    )


def _histogram(facts: TokenFacts) -> Table:
    most = max((one.documents for one in facts.histogram), default=1)
    rows = [
        [
            f"{one.least:,}" if one.least == one.most else f"{one.least:,} to {one.most:,}",
            f"{one.documents:,}",
            f"{one.tokens:,}",
            "#" * -(-one.documents * _BAR // most),
        ]
        for one in facts.histogram
    ]
    return table(["length", "documents", "tokens", ""], rows, right={0, 1, 2})


def _shown(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN_CHARACTERS else f"{line[:_SHOWN_CHARACTERS]}…"

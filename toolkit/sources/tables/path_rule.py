"""A table whose paths are made of another's fields: below a folder, or with an extension."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from toolkit.format.arrays import to_array
from toolkit.sources.tables.table import Table, TableFacts

__all__ = ["PathRule", "RuledTable"]

# What is no path below a folder; it is refused as it stands, so it must not be hidden behind a prefix.
_FOREIGN = r"^\s*(?:/|\\|[A-Za-z]:[\\/]|data:)|://|\x00"
_UPWARDS = r"(?:^|/)\.\.(?:/|$)"


@dataclass(frozen=True, slots=True)
class PathRule:
    """A field `name` of paths that are made of another: `prefix`, its text, `suffix`; `replaces`: it stands for it."""

    name: str
    field: str
    prefix: str = ""
    suffix: str = ""
    replaces: bool = True


class RuledTable(Table):
    """The rows of another table; the fields that rules make come first, and those that they replace aren't there."""

    def __init__(self, inner: Table, rules: Sequence[PathRule], facts: TableFacts) -> None:
        self.file = inner.file
        self.pieces = inner.pieces
        self.rejects = inner.rejects
        self.facts = facts
        self._inner = inner
        self._rules = {rule.name: rule for rule in rules}
        gone = {*self._rules, *(rule.field for rule in rules if rule.replaces)}
        made = [pa.field(name, pa.string()) for name in self._rules]
        self.schema = pa.schema([*made, *(field for field in inner.schema if field.name not in gone)])

    def read(self, fields: Sequence[str], first: int, count: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of pieces, in order."""
        rules = self._rules
        wanted = list(dict.fromkeys(rules[name].field if name in rules else name for name in fields))
        schema = pa.schema([self.schema.field(name) for name in fields])
        for batch in self._inner.read(wanted, first, count):
            arrays = [_made(batch, rules[name]) if name in rules else batch.column(name) for name in fields]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def fingerprint(self, first: int, count: int) -> str:
        """Return what the other table does, and the rules."""
        return repr((self._inner.fingerprint(first, count), list(self._rules.values())))

    def place(self, row: int) -> str:
        """Return where a row stands."""
        return self._inner.place(row)


def _made(batch: pa.RecordBatch, rule: PathRule) -> pa.Array:
    texts = batch.column(rule.field)
    if not rule.prefix and not rule.suffix:
        return texts
    foreign = pc.match_substring_regex(texts, _FOREIGN)
    upwards = pc.match_substring_regex(texts, _UPWARDS)
    if pc.any(upwards).as_py():
        leaves = [text is not None and posixpath.normpath(text).startswith("..") for text in texts.to_pylist()]
        foreign = pc.or_(foreign, to_array(leaves, pa.bool_()))
    made = pc.binary_join_element_wise(rule.prefix, texts, rule.suffix, "")
    # An empty text is no path, and becomes none by a prefix.
    return pc.if_else(pc.or_(foreign, pc.equal(texts, "")), texts, made)

"""Append to a dataset: what the version that is there asks of what comes, and how both become one version."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from toolkit.errors import CorruptShardError, FormatError, SourceError, UsageError, did_you_mean
from toolkit.escapes import plain
from toolkit.format.contents import read_classes, read_index, read_schema
from toolkit.format.key_hashes import key_hash
from toolkit.format.layout import batch_shape, column_layouts
from toolkit.format.manifest import LabelCounts, Split, unknown_part
from toolkit.format.pin import read_manifest, resolve
from toolkit.format.reader import ShardReader, read_failure
from toolkit.format.references import REFERENCES, UNHASHED
from toolkit.format.schema import KEY, Column, Derived, Kind, TokenEncoding, derived_of
from toolkit.format.values import DamagedValueError, read_rows
from toolkit.sources.base import Survey
from toolkit.storage.scratch import written

__all__ = ["Base"]

_FEATURES_TEXT = {  # unhashed or not, with references or without: what it does, and what to append with
    (False, False): ("holds its values itself", "append with toolkit pack"),
    (False, True): ("refers to its values, with their sums", "append with toolkit index --trust hash"),
    (True, True): ("refers to its values, and has no sums of them", "append with toolkit index --trust stat"),
}


class Base:
    """The version that is appended to: its columns, class names, keys and splits. Reads what it is asked for."""

    def __init__(self, dataset: str) -> None:
        """Open the current version.

        Raises:
            FormatError: It holds what isn't known here, which would be lost.
            NotFoundError: And what else toolkit.format.pin.resolve raises.
        """
        self._version = resolve(dataset)
        self.pin = self._version.pin
        self.manifest = self._version.manifest
        unknown = unknown_part(read_manifest(self._version), self.manifest)
        if unknown is not None:
            raise FormatError(
                f"{dataset!r} was packed by a newer toolkit: its manifest has {plain(unknown)}, which isn't known here "
                "and would be lost. Append with a newer toolkit"
            )
        self.schema = read_schema(self._version)
        for split in self.manifest.splits:
            read_index(self._version, split).read_all()  # what can't be read is told before anything is packed
        self.classes = read_classes(self._version)

    def check_requires(self, requires: Sequence[str]) -> None:
        """Raise UsageError when what would come stands otherwise for its values than what is there."""
        mine, theirs = (
            _FEATURES_TEXT[UNHASHED in one, REFERENCES in one] for one in (self.manifest.requires, requires)
        )
        if mine != theirs:
            raise UsageError(f"the dataset {mine[0]}, and what would be appended {theirs[0]}: {mine[1]}")

    @property
    def folder(self) -> str:
        """The dataset's folder."""
        return self._version.root

    def joined_classes(self, survey: Survey, *, extend: bool) -> Mapping[str, tuple[str, ...]]:
        """Return the class names of both: every id stays, new names go behind.

        Raises:
            SourceError: There are new names and `extend` is not set; the message says which.
        """
        joined = {}
        for column, names in survey.classes.items():
            known = self.classes.get(column, ())
            new = tuple(name for name in names if name not in known)
            if new and not extend:
                hint = did_you_mean(new[0], known)
                raise SourceError(
                    f"{len(new)} classes of {column!r} are not in the dataset, {new[0]!r} the first.{hint} "
                    "Rename them, or give them new ids behind the old ones with --extend-classes"
                )
            joined[column] = (*known, *new)
        return joined

    def check_classes(self, survey: Survey, joined: Mapping[str, tuple[str, ...]]) -> None:
        """Raise UsageError unless the survey, made anew with names of `joined`, has all of them."""
        for column, names in survey.classes.items():
            if names != joined[column]:
                raise UsageError(
                    f"the classes of {column!r} have other ids in the input than in the dataset, and a source takes "
                    "the names of one column only: write the input with the classes of the dataset in its order"
                )

    def check_columns(self, survey: Survey) -> None:
        """Raise UsageError when the input's columns, or what is derived of them, are not those of the dataset."""
        encodings = {one.name: one.tokens for one in self.manifest.columns}
        for one in survey.columns:
            if one.tokens is not None and one.tokens != encodings.get(one.name, one.tokens):
                raise UsageError(
                    f"column {one.name!r} has {_tokens_text(encodings[one.name])} in the dataset and "
                    f"{_tokens_text(one.tokens)} in the input: its ids would mean other things. Append with the "
                    "tokenizer and end-of-text token of the dataset, or pack a dataset of its own"
                )
        mine = {one.name: _facts(one, self.schema.field(one.name).type, self.classes) for one in self.manifest.columns}
        theirs = {one.name: _facts(one, survey.types[one.name], survey.classes) for one in survey.columns}
        for name in [*mine, *theirs]:
            if mine.get(name) != theirs.get(name):
                raise UsageError(
                    f"column {name!r} is {_column_text(mine.get(name))} in the dataset and "
                    f"{_column_text(theirs.get(name))} in the input: an append needs the same columns"
                )
        if list(mine) != list(theirs):
            raise UsageError(
                f"the dataset has the columns in the order {', '.join(mine)}, the input {', '.join(theirs)}"
            )
        there, made = self.manifest.derived, derived_of(self.manifest.columns)
        if there != made:
            raise UsageError(
                f"the dataset has {_derived_text(there)}, and this version of toolkit would write "
                f"{_derived_text(made)}: an append needs the same. Append with the version that packed it, or pack a "
                "dataset of its own"
            )

    def check_schema(self, schema: pa.Schema) -> None:
        """Raise UsageError unless the shards of the dataset have that schema: what is appended is written by it.

        check_columns() has seen that the columns are the same. Metadata may differ: class names are in it.
        """
        for mine, theirs in zip(self.schema, schema, strict=True):
            if not mine.equals(theirs):
                raise UsageError(
                    f"column {mine.name!r} is {_field_text(mine)} in the dataset's shards and would be "
                    f"{_field_text(theirs)} in those that this version of toolkit writes: an append needs the same. "
                    "Append with what packed it, or pack a dataset of its own"
                )

    def write_key_hashes(self, path: str) -> None:
        """Write the 128-bit hash of every key, read with all checks, to a file.

        Raises:
            CorruptShardError: A shard isn't what was packed: an append must not build on it.
        """
        with written(path) as file:
            for key in self.each_key():
                file.write(key_hash(key))

    def each_key(self) -> Iterator[str]:
        """Yield every key, read with all checks. Raises CorruptShardError."""
        layout = column_layouts(self.schema)[KEY]
        shape = batch_shape(self.schema, self.manifest.columns)
        for split in self.manifest.splits:
            index = read_index(self._version, split)
            for shard in range(index.shards):
                reader = ShardReader(self._version.store, index, shard, shape)
                for batch in index.shard(shard).batches:
                    body = reader.body(batch)
                    try:
                        yield from read_rows(body, layout, 0, body.rows).to_pylist()
                    except DamagedValueError as error:
                        what = read_failure(error.status, error.chunk)
                        raise CorruptShardError(f"shard {reader.path}: {what}", shard=reader.path) from error

    def joined_splits(self, added: Mapping[str, Split]) -> dict[str, Split]:
        """Return the splits of both: the tables of the base first, so that its rows keep their numbers."""
        joined = dict(self.manifest.splits)
        for name, split in added.items():
            old = joined.get(name)
            joined[name] = split if old is None else _joined(old, split)
        # A split that nothing came to has counts for the old classes only.
        widths = {column: len(counts.counts) for split in added.values() for column, counts in split.labels.items()}
        return {name: _widened(split, widths) for name, split in joined.items()}


def _joined(old: Split, new: Split) -> Split:
    return Split(
        rows=old.rows + new.rows,
        bytes=old.bytes + new.bytes,
        labels={column: _summed(old.labels[column], counts) for column, counts in new.labels.items()},
        tables=(*old.tables, *new.tables),
    )


def _summed(old: LabelCounts, new: LabelCounts) -> LabelCounts:
    pairs = itertools.zip_longest(old.counts, new.counts, fillvalue=0)
    return LabelCounts(counts=tuple(one + other for one, other in pairs), missing=old.missing + new.missing)


def _widened(split: Split, widths: Mapping[str, int]) -> Split:
    nothing = {column: LabelCounts(counts=(0,) * width, missing=0) for column, width in widths.items()}
    labels = {column: _summed(counts, nothing[column]) for column, counts in split.labels.items()}
    return Split(rows=split.rows, bytes=split.bytes, labels=labels, tables=split.tables)


def _tokens_text(encoding: TokenEncoding | None) -> str:
    if encoding is None:
        return "no tokens"
    tokenizer = "ready ids" if encoding.tokenizer is None else f"tokenizer {encoding.tokenizer[:12]}"
    return f"{tokenizer}, {encoding.vocabulary} ids, end of text {encoding.eos}"


def _derived_text(derived: Sequence[Derived]) -> str:
    names = [f"{one.name} ({one.arrow_type}, version {one.version})" for one in derived]
    return f"the derived columns {', '.join(names)}" if names else "no derived columns"


def _field_text(field: pa.Field) -> str:
    return f"{field.type}, {'null where a value is missing' if field.nullable else 'never null'},"


def _facts(column: Column, dtype: pa.DataType, classes: Mapping[str, object]) -> tuple[str, ...]:
    """Return the kind of a column, and what both must have alike besides."""
    names = "with class names" if column.name in classes and column.kind is Kind.VALUE else None
    return tuple(one for one in (column.kind.value, str(dtype), column.encoding, names) if one is not None)


def _column_text(facts: tuple[str, ...] | None) -> str:
    return "missing" if facts is None else f"{facts[0]} ({', '.join(facts[1:])})"

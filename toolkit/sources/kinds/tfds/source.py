"""Folders of TensorFlow Datasets as a source: the files of each split are tables, in their order.

dataset_info.json says which files there are and how many records each has, features.json what a record holds.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from toolkit.errors import NotFoundError, SourceError, UsageError, did_you_mean
from toolkit.format.kinds import Kind
from toolkit.sources.files import InputFile, expand, refuse, walk
from toolkit.sources.kinds.tfds.features import Content, Feature, features_of
from toolkit.sources.kinds.tfds.files import (
    DESCRIPTIONS,
    NotUnderstoodError,
    Shard,
    class_names,
    labels_file,
    read_json,
    splits_of,
    version_folders,
)
from toolkit.sources.kinds.tfds.table import TFDSTable
from toolkit.sources.names import printable
from toolkit.sources.patterns import Patterns
from toolkit.sources.regular import check_regular
from toolkit.sources.skips import FILE_REASONS, Skips
from toolkit.sources.splits import check_name
from toolkit.sources.state import FileState
from toolkit.sources.tables.listing import refuse_outside
from toolkit.sources.tables.source import TableSource
from toolkit.sources.tables.table import Table
from toolkit.sources.tfrecords.example import NotAnExampleError, parser, text_of_bytes, values_of
from toolkit.sources.tfrecords.records import RecordFile, is_named_tfrecord
from toolkit.storage.files import storage_errors

__all__ = ["TFDSSource"]

_RECORDS_LOOKED_AT = 100  # to tell text from bytes
_MOST_CLASSES = 1_000_000


class TFDSSource(TableSource):
    """A dataset that tensorflow-datasets prepared."""

    kind = "tfds"
    reasons = ("unlisted_files", *FILE_REASONS)
    _every: Sequence[Table] = ()

    def tables(self, skips: Skips) -> Mapping[str, Sequence[Table]]:
        """Read the descriptions, and look for the files of each split."""
        paths = [path for given in self.options.paths for path in expand(given)]
        folders = version_folders(paths[0]) if len(paths) == 1 else []
        if not folders:
            raise SourceError(
                f"a TFDS dataset is one folder with {' and '.join(DESCRIPTIONS)} in it, that of a version such as "
                f"1.0.0: give that folder, not {', '.join(repr(printable(path)) for path in paths[:3])}"
            )
        if len(folders) > 1:
            names = ", ".join(os.path.basename(folder) for folder in folders)
            raise SourceError(f"{printable(paths[0])!r} has several versions ({names}): give the folder of one of them")
        (root,) = folders
        info, described = (os.path.join(root, name) for name in reversed(DESCRIPTIONS))
        for description in (info, described):
            refuse_outside(description, paths[0], follow_links=self.options.follow_links)
        try:
            where = info
            splits = splits_of(read_json(info))
            where = described
            features, refused = features_of(read_json(described))
        except NotUnderstoodError as error:
            raise SourceError(f"{printable(where)!r} can't be understood: {error}") from error
        files = {split: list(self._files(root, shards, skips)) for split, shards in splits.items()}
        wanted = _wanted(splits, self.options.split)
        kept = self._features(features, refused, [one for split in splits for one in files[split]])
        classes = {one.name: known for one in kept.values() if (known := self._classes(root, one))}
        kept = {name: one if name in classes else replace(one, class_count=0) for name, one in kept.items()}
        self._note_others(root, splits, features, skips)
        every = {
            split: [
                TFDSTable(file, state, records, kept, classes, self.options.max_value_bytes)
                for file, state, records in of
            ]
            for split, of in files.items()
        }
        self._every = [table for tables in every.values() for table in tables]
        return {split: every[split] for split in wanted}

    def all_tables(self, splits: Mapping[str, Sequence[Table]]) -> Sequence[Table]:
        """Return the tables of all splits of the dataset."""
        return self._every

    def _files(self, root: str, shards: Sequence[Shard], skips: Skips) -> Iterator[tuple[InputFile, FileState, int]]:
        """Yield the files of a split with their states and how many records each has."""
        patterns = Patterns(self.options.include, self.options.exclude)
        for shard in shards:
            path = os.path.join(root, shard.name)
            if not patterns.takes(shard.name):
                skips.add("excluded", shard.name)
                continue
            if not os.path.exists(path):
                raise SourceError(
                    f"dataset_info.json tells of {printable(shard.name)!r} with {shard.records} records, and it isn't "
                    f"in {printable(root)!r}: get it, or leave it out with --exclude {printable(shard.name)!r}"
                )
            refuse_outside(path, root, follow_links=self.options.follow_links)
            with storage_errors("read", path):
                state = FileState.of(check_regular(path))
            yield InputFile(path, shard.name, state.size), state, shard.records

    def _features(
        self,
        features: Sequence[Feature],
        refused: Mapping[str, str],
        files: Sequence[tuple[InputFile, FileState, int]],
    ) -> dict[str, Feature]:
        """Return the features that can be read. Raises SourceError or UsageError: one that is wanted can't be."""
        options = self.options
        asked = options.map.values() if options.map is not None else options.columns
        names = [one.name for one in features]
        for name, why in refused.items():
            told = f"feature {name!r} can't be read: {why}"
            if name == options.key or name in (asked or ()):
                raise UsageError(f"{told}. Leave it out")
            if asked is None:
                others = f"pack the others with --columns {','.join(names)}" if names else "there is no other"
                raise SourceError(f"{told}. Export it with tensorflow-datasets itself, or {others}")
        columns = {field: column for column, field in (options.map or {}).items()} | dict(options.rename)
        strings = [one for one in features if one.content is Content.STRINGS]
        texts = set(_texts(strings, files))
        kept = {}
        for one in features:
            said = options.kind.get(columns.get(one.name, one.name))
            if one in strings and (said is Kind.TEXT or (one.name in texts and said in (None, Kind.LABEL, Kind.JSON))):
                one = replace(one, content=Content.TEXT)
            kept[one.name] = one
        return kept

    def _classes(self, root: str, feature: Feature) -> tuple[str, ...] | None:
        """Return the names of a feature's classes: those of its file, or the numbers that tensorflow-datasets says."""
        if not feature.class_count:
            return None
        refuse_outside(os.path.join(root, labels_file(feature.name)), root, follow_links=self.options.follow_links)
        names = class_names(root, feature.name)
        if names is None:
            return tuple(map(str, range(feature.class_count))) if feature.class_count <= _MOST_CLASSES else None
        if len(names) != feature.class_count:
            raise SourceError(
                f"{labels_file(feature.name)!r} has {len(names)} names, and features.json says {feature.class_count} "
                f"classes: one of them is another dataset's. Get it again, or pack without {feature.name!r}"
            )
        return names

    def _note_others(
        self, root: str, splits: Mapping[str, Sequence[Shard]], features: Sequence[Feature], skips: Skips
    ) -> None:
        """Note the files in the folder that nothing tells of."""
        known = {shard.name for shards in splits.values() for shard in shards}
        known |= {*DESCRIPTIONS, *(labels_file(one.name) for one in features)}

        def passed_over(reason: str, path: str) -> None:
            skips.add(reason, os.path.relpath(path, root))

        for folder, files in walk(root, refuse, passed_over=passed_over):
            for file in files:
                name = os.path.relpath(os.path.join(folder, file), root)
                if file.startswith("."):
                    skips.add("hidden", name)
                elif name not in known:
                    skips.add("unlisted_files" if is_named_tfrecord(file) else "other_kinds", name)


def _wanted(splits: Mapping[str, object], split: str | None) -> list[str]:
    if split is None:
        for name in splits:
            check_name(name)
        return list(splits)
    if split not in splits:
        raise NotFoundError(
            f"the splits of the dataset are {', '.join(map(printable, splits))}, not {split!r}."
            f"{did_you_mean(split, splits)}"
        )
    return [split]


def _texts(features: Sequence[Feature], files: Sequence[tuple[InputFile, FileState, int]]) -> Iterator[str]:
    """Yield the names of those features of bytes whose first values are text."""
    first = next((file for file, _, records in files if records), None)
    if not features or first is None:
        return
    found: dict[str, list[bytes]] = {one.name: [] for one in features}
    parse = parser()
    with RecordFile(first.path, first.name) as file:
        for record in islice(file.records(), _RECORDS_LOOKED_AT):
            try:
                example = {} if record.payload is None else parse(record.payload).context.feature
            except NotAnExampleError:
                continue  # it is rejected when it is read
            for one in features:
                name = f"{one.name}/ragged_flat_values" if one.ragged else one.name
                held = example.get(name)
                values = () if held is None else values_of(held) or ()
                found[one.name] += [value for value in values if isinstance(value, bytes)]
    for name, values in found.items():
        if values and all(text_of_bytes(value) is not None for value in values):
            yield name

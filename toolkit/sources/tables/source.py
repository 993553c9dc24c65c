"""A source of tables: a subclass says which tables an input has, and everything else happens here.

The survey reads no more of the tables than it must: fields of paths, whose files are looked at, texts that become
class names, and a first value that tells a kind.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np
import pyarrow as pa

from toolkit.errors import SourceError, UsageError
from toolkit.format.arrays import bool_array, valid_rows
from toolkit.sources.base import PIECE_BYTES, Rows, Slice, Source, Survey, rows_schema
from toolkit.sources.fetch import Fetcher
from toolkit.sources.in_place import Places, joined_places
from toolkit.sources.labels import check_label_options
from toolkit.sources.names import printable
from toolkit.sources.options import LabelMode, Missing, PlacesWanted, SourceOptions
from toolkit.sources.places import not_found
from toolkit.sources.reject import Reject
from toolkit.sources.skips import FILE_REASONS, Skips
from toolkit.sources.tables.cut import TablePart, cut, runs
from toolkit.sources.tables.in_place import check_media_are_files, places_of, unread_files, without_values
from toolkit.sources.tables.paths import FETCH, GOOD, MISSING, NO_PATH, Files, Root, fitting, load, paths_of, why
from toolkit.sources.tables.plan import Plan, check_alike, file_fields, is_media, make_plan
from toolkit.sources.tables.remote import Fetched, fetched_spans
from toolkit.sources.tables.rows import LoadedFiles, RowMaker, safe_paths
from toolkit.sources.tables.scan import Listed, scan, tell_unlisted
from toolkit.sources.tables.table import Table

__all__ = ["TableSource"]


@dataclass(frozen=True, kw_only=True)
class _TableSurvey(Survey):
    plan: Plan
    tables_read: tuple[Table, ...]


class TableSource(Source):
    """Reads an input that is tables.

    Attributes:
        kind: The name of the kind, for messages.
        reasons: For what a survey passes something over, told with 0 if nothing comes of it.
        takes_all: The tables are all that the input has; tables() says no where --split leaves some out.
    """

    kind: ClassVar[str]
    reasons: ClassVar[tuple[str, ...]] = FILE_REASONS

    def __init__(self, options: SourceOptions) -> None:
        """Raises UsageError: options contradict each other."""
        if options.label_mode is LabelMode.IMAGEFOLDER:
            raise UsageError(f"--label-mode imagefolder means nothing for a source of kind {self.kind}: leave it out")
        check_label_options(options.label_mode, require_labels=options.require_labels, classes=options.classes)
        if options.fetch_hosts and not options.fetch_urls:
            raise UsageError("--fetch-hosts names hosts for --fetch-urls: give that too, or leave it out")
        self.options = options
        self.takes_all = True

    @abstractmethod
    def tables(self, skips: Skips) -> Mapping[str, Sequence[Table]]:
        """Return the tables of each split, in order; a split may have none. Called once.

        --split is the subclass's business: see toolkit.sources.files.group_by_split(). So are --include, --exclude and
        --follow-links for the files of the tables themselves. --limit isn't.

        Args:
            skips: Where to note what is passed over.

        Raises:
            NotFoundError, SourceError, UsageError, StorageError: As Source.survey().
        """

    def all_tables(self, splits: Mapping[str, Sequence[Table]]) -> Sequence[Table]:
        """Return the tables that decide about columns and classes: those of all splits, packed or not."""
        return [table for tables in splits.values() for table in tables]

    def narrowed(self, table: Table, fields: Sequence[str]) -> Table:
        """Return a table for reading these fields only."""
        return table.narrowed(fields)

    def doubts(self) -> tuple[str, ...]:
        """Return what the user should look at, a sentence or two each. Called once, behind tables()."""
        return ()

    def shaping_options(self, plan: Plan) -> dict[str, object]:
        """Return what is said of the options in the survey: by default those that are given."""
        options = self.options
        given: dict[str, object] = {
            "classes_given": options.classes is not None,
            "exclude": [printable(pattern) for pattern in options.exclude],
            "include": [printable(pattern) for pattern in options.include],
            "key": options.key,
            "label_mode": None if options.label_mode is LabelMode.AUTO else options.label_mode.value,
            "limit": options.limit,
            "require_labels": options.require_labels,
            "split": options.split,
        }
        fields = {column.column.name: column.field for column in plan.columns}
        return {"fields": fields, **{name: value for name, value in given.items() if value}, **self.file_options()}

    def file_options(self) -> dict[str, object]:
        """Return those of the options about files that are given."""
        options = self.options
        given: dict[str, object] = {}
        if options.image_column is not None:
            given["image_column"] = list(options.image_column)
        if options.missing is not Missing.ERROR:
            given["missing"] = options.missing.value
        if options.fetch_urls:
            given["fetch_urls"] = True
        return given

    def survey(self) -> Survey:
        """Find tables, columns, classes and files."""
        options = self.options
        skips = Skips(self.reasons)
        splits = self.tables(skips)
        tables = self.all_tables(splits)
        if not tables:
            raise SourceError(f"no table in {', '.join(map(repr, options.paths))}: nothing would be packed")
        for table in tables:
            if not table.rows and not table.rejects:
                skips.add("empty", table.file.name)
        first = next((table for table in tables if table.rows), tables[0])
        if options.map is None and options.columns is None:
            check_alike(first, tables, None)
        files = file_fields(first, options)
        if options.root is not None and not files:
            raise UsageError("--root: no field holds paths. Say which one does: --image-column FIELD")
        plan = make_plan(first, tables, files, options)
        check_alike(first, tables, plan.fields)
        read = [self.narrowed(table, plan.fields) for members in splits.values() for table in members]
        roots = [self._roots(table, plan.files) for table in read]
        if options.places is not PlacesWanted.NONE:
            check_media_are_files(plan, (root for of in roots for root in of.values()))
        whole = options.limit is None and len(read) == len(tables) and self.takes_all
        counts = whole and (options.root is not None or first.facts.counts_unlisted)
        listed = {root.folder: Listed() for of in roots for root in of.values()} if counts else {}
        slices: list[Slice] = []
        at = 0
        for split, members in splits.items():
            number, left = 0, options.limit
            for index in range(at, at + len(members)):
                table = read[index]
                rows = table.rows if left is None else min(left, table.rows)
                found = scan(table, rows, plan, roots[index], skips, listed)
                if plan.key in roots[index] and listed:  # the keys of rejects are paths, too
                    listed[roots[index][plan.key].folder].add([reject.key for reject in table.rejects])
                parts = list(cut(split, number, index, table, found, options.slice_bytes, options.max_value_bytes))
                slices += parts
                number += len(parts)
                left = None if left is None else left - rows
            at += len(members)
        warnings = (*self.doubts(), *tell_unlisted(listed, options, skips))
        return _TableSurvey(
            columns=tuple(column.column for column in plan.columns),
            types={column.column.name: column.type for column in plan.columns},
            classes={c.column.name: c.classes for c in plan.columns if c.classes},
            splits=tuple(splits),
            slices=tuple(slices),
            skipped=skips.counts,
            skipped_names=skips.names,
            rejects=tuple(reject for table in read for reject in table.rejects),
            options={**self.shaping_options(plan), **first.facts.options},
            warnings=warnings,
            plan=plan,
            tables_read=tuple(read),
        )

    def read(self, survey: Survey, part: Slice) -> Iterator[Rows]:
        """Read the slice's rows, and the files that they name."""
        if not isinstance(survey, _TableSurvey):
            raise TypeError("the survey is of another source")
        payload = cast(TablePart, part.payload)
        table = survey.tables_read[payload.table]
        maker = RowMaker(survey.plan, rows_schema(survey), table)
        unread = unread_files(survey.plan, self.options.places)
        wanted = self.options.places is not PlacesWanted.NONE
        media = [column for column in survey.plan.columns if wanted and is_media(column)]
        pending: list[pa.RecordBatch] = []
        places: dict[str, list[Places]] = {column.column.name: [] for column in media}
        rejects: list[Reject] = []
        waiting = told = done = 0

        def taken(read: int) -> Rows:
            nonlocal pending, rejects, waiting, told
            joined = {name: joined_places(of) for name, of in places.items()}
            rows = Rows(pa.concat_batches(pending), tuple(rejects), read - told, joined)
            pending, rejects, waiting, told = [], [], 0, read
            for of in places.values():
                of.clear()
            return rows

        for batch, files, numbers, fetched in self._with_urls(self._pieces(table, survey.plan, payload, unread)):
            optional = table.facts.optional
            loaded = {
                name: self._listed(batch.column(name), of, name in optional)
                if name in unread
                else self._load(batch.column(name), of, fetched.get(name), name in optional)
                for name, of in files.items()
            }
            made, kept, found = maker.make(batch, numbers, loaded)
            if pending and waiting + made.nbytes > PIECE_BYTES:
                yield taken(part.bytes * done // payload.rows)
            for column in media:
                name, field = column.column.name, column.field
                places[name].append(places_of(loaded[field], files[field], kept))
                if self.options.places is PlacesWanted.ONLY:  # read for another column
                    made = without_values(made, name)
            pending.append(made)
            rejects += found
            waiting += made.nbytes
            done = int(numbers[-1]) + 1 - payload.row
        if pending:
            yield taken(part.bytes)
        table.check_unchanged()

    def place(self, part: Slice, key: str) -> str:
        """Return the path of the slice's table."""
        return printable(os.path.abspath(cast(TablePart, part.payload).path))

    def _roots(self, table: Table, files: Sequence[str]) -> dict[str, Root]:
        """Return the folder of each field of paths: --root, the one that the table says, or its own."""
        options = self.options
        own = os.path.dirname(os.path.abspath(table.file.path))
        folders = {name: options.root or table.facts.files.get(name, own) for name in files}
        made = {folder: _root(folder, follow_links=options.follow_links) for folder in folders.values()}
        return {name: made[folder] for name, folder in folders.items()}

    def _pieces(
        self, table: Table, plan: Plan, part: TablePart, unread: frozenset[str]
    ) -> Iterator[tuple[pa.RecordBatch, dict[str, Files], np.ndarray]]:
        """Yield the rows of a slice that aren't passed over, so many at a time that their files fill a piece.

        Those of the fields `unread` don't count.
        """
        before, left, row = part.start, part.rows, part.row
        dropped = np.frombuffer(part.dropped, np.bool_) if part.dropped else None
        for batch in table.read(plan.fields, part.first, part.count):
            skipped = min(before, batch.num_rows)
            before -= skipped
            batch = batch.slice(skipped, left)
            left -= batch.num_rows
            at = row - part.row
            here = slice(at, at + batch.num_rows)
            files = {name: of[here] for name, of in part.files}
            numbers = np.arange(row, row + batch.num_rows, dtype=np.int64)
            row += batch.num_rows
            if dropped is not None:
                kept = ~dropped[here]
                batch, numbers = batch.filter(bool_array(kept)), numbers[kept]
                files = {name: of[kept] for name, of in files.items()}
            if not batch.num_rows:
                continue
            of_read = [of for name, of in files.items() if name not in unread]
            spans = runs(of_read, self.options.max_value_bytes) if of_read else [(0, batch.num_rows)]
            for start, stop in spans:
                span = slice(start, stop)
                yield batch.slice(start, stop - start), {name: of[span] for name, of in files.items()}, numbers[span]
            if not left:
                break
        if left:
            raise SourceError(f"{table.shown} has fewer rows than before: pack again when nothing writes to it")

    def _with_urls(
        self, pieces: Iterator[tuple[pa.RecordBatch, dict[str, Files], np.ndarray]]
    ) -> Iterator[tuple[pa.RecordBatch, dict[str, Files], np.ndarray, dict[str, Fetched]]]:
        """Yield the same rows, with what their URLs name; cut where that fills a piece."""
        options = self.options
        if not options.fetch_urls:
            yield from ((*piece, {}) for piece in pieces)
            return
        with closing(Fetcher(options.fetch_hosts, options.max_value_bytes)) as fetcher:
            for batch, files, numbers in pieces:
                for start, stop, fetched in fetched_spans(batch, files, fetcher):
                    span = slice(start, stop)
                    cut_files = {name: of[span] for name, of in files.items()}
                    yield batch.slice(start, stop - start), cut_files, numbers[span], fetched

    def _load(self, array: pa.Array, files: Files, fetched: Fetched | None, is_optional: bool) -> LoadedFiles:
        """Read the files behind some rows' paths. Where those are optional, a row need not have one."""
        paths, reasons = self._found(array, files, is_optional)
        payloads, unread = load(paths.to_pylist(), files, self.options.max_value_bytes)
        there = valid_rows(payloads)
        if fetched is not None:
            payloads = fetched.put_into(payloads)
            unread |= fetched.reasons
        return LoadedFiles(paths, payloads, there, {**reasons, **unread})

    def _listed(self, array: pa.Array, files: Files, is_optional: bool) -> LoadedFiles:
        """Return what _load() does, without a look at what the files hold."""
        paths, reasons = self._found(array, files, is_optional)
        there, large = fitting(files, self.options.max_value_bytes)
        return LoadedFiles(paths, pa.nulls(len(files), pa.binary()), there, {**reasons, **large})

    def _found(self, array: pa.Array, files: Files, is_optional: bool) -> tuple[pa.Array, dict[int, str]]:
        """Return some rows' paths as keys have them, and why others lead to no file."""
        reasons: dict[int, str] = {}
        paths = safe_paths(array, reasons, fetches=self.options.fetch_urls)
        texts = paths_of(array)
        no_file = (MISSING, NO_PATH) if self.options.missing is Missing.NULL else ()
        nothing = (*no_file, NO_PATH) if is_optional else no_file
        for i, code in enumerate(files.codes.tolist()):
            if code not in (GOOD, FETCH) and code not in nothing:
                reasons.setdefault(i, why(code, texts[i]))
        return paths, reasons


def _root(folder: str, *, follow_links: bool) -> Root:
    if not os.path.isdir(folder):
        if os.path.exists(folder):
            raise UsageError(f"{folder!r} is a file; --root is the folder that paths are below")
        raise not_found(folder, "folder")
    return Root(folder, follow_links=follow_links)

"""What every kind of source must do: a class of tests that each kind's tests inherit."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa
import pytest

from toolkit.errors import SourceError, UsageError
from toolkit.format.arrays import valid_rows
from toolkit.format.kinds import Kind
from toolkit.format.media import stored_medium
from toolkit.format.schema import KEY
from toolkit.options.option import flag_of
from toolkit.pack.job import PackJob
from toolkit.pack.run import pack
from toolkit.sources import registry
from toolkit.sources.base import Slice, Source, Survey, rows_schema
from toolkit.sources.detect import find_kind
from toolkit.sources.make import make_source
from toolkit.sources.names import is_utf8
from toolkit.sources.options import InputOptions, LabelMode, Missing, PlacesWanted, SourceOptions, VerifyImages
from toolkit.sources.reject import Reject
from toolkit.sources.skips import WORDS
from toolkit.sources.spec import SourceSpec

# A value of each option that isn't its default.
OTHERS: dict[str, Any] = {
    "split": "val",
    "limit": 2,
    "label_mode": LabelMode.NONE,
    "require_labels": True,
    "classes": ("a", "b"),
    "map": {"x": "y"},
    "columns": ("x",),
    "rename": {"x": "y"},
    "kind": {"x": Kind.BYTES},
    "key": "x",
    "include": ("*",),
    "exclude": ("nothing",),
    "splits": {"train": ("a",)},
    "follow_links": True,
    "max_value_bytes": 1 << 20,
    "missing": Missing.SKIP,
    "image_column": ("x",),
    "root": ".",
    "delimiter": ";",
    "quote": "none",
    "encoding": "latin-1",
    "field_names": ("x",),
    "fetch_urls": True,
    "fetch_hosts": ("localhost",),
    "pair": {"image": ("images/{}.jpg",)},
    "tfrecord_raw": True,
    "verify_images": VerifyImages.OFF,
    "shuffle_seed": 1,
    "tokenizer": "bytes",
    "text_column": "text",
    "eos": True,
    "eos_token": "1",
}


class Bad(NamedTuple):
    """An input with a sample that is rejected: where it lies, how its file is called, and its key."""

    path: Path
    file: str
    key: str


class Placed(NamedTuple):
    """A row: its values but those of media, these, and where each of them lies and is called."""

    row: dict[str, Any]
    media: dict[str, Any]
    places: dict[str, tuple[Any, ...] | None]


class SourceContract:
    """A subclass names the kind, and writes inputs of it, each below the folder that it is given.

    Attributes:
        kind: What --source-kind is given.
        largest: Bytes that a slice may take, so that good() is cut into several.
        beside: How files end that lie beside the inputs and are none, as the pictures that a table names.
        always: Options without which there is no source of the kind.
        with_media: Options of inputs that media() writes.
    """

    kind: str
    largest = 1 << 12
    beside: tuple[str, ...] = ()
    always: ClassVar[dict[str, Any]] = {}
    with_media: ClassVar[dict[str, Any]] = {}

    def good(self, root: Path) -> Path:
        """Write a folder of at least 20 samples, none of them bad, in several files; return it."""
        raise NotImplementedError

    def bad(self, root: Path) -> Bad | None:
        """Write an input with one sample that is rejected, beside others; None where none is."""
        raise NotImplementedError

    def media(self, root: Path) -> Path:
        """Write what good() does, with a column of a medium: for kinds whose values can stay in place."""
        return self.good(root)

    def stranger(self, folder: Path) -> str:
        """Put a file into an input that isn't of this kind, and return its name."""
        (folder / "stranger.bin").write_bytes(b"of no kind")
        return "stranger.bin"

    def inputs(self, folder: Path) -> list[Path]:
        """The files below the folder that good() returned that are of this kind."""
        files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        return [path for path in files if not path.name.endswith(self.beside)]

    @property
    def spec(self) -> SourceSpec:
        return registry.named(self.kind)

    def source(self, path: Path, **options: Any) -> Source:
        kind, source = make_source(self.kind, self.options(path, **options))
        assert kind == self.kind
        return source

    def options(self, path: Path, **options: Any) -> SourceOptions:
        return SourceOptions(**{"paths": (str(path),), "slice_bytes": 1 << 30, **self.always, **options})

    def found(self, path: Path) -> str:
        """The kind that a path is found to be of, where none is given."""
        return make_source(None, self.options(path))[0]

    def test_it_is_found_by_its_name(self) -> None:
        assert self.kind in registry.known_names()
        assert self.spec is registry.named(self.kind)
        assert self.spec.name == self.kind
        for text in (self.spec.title, self.spec.sign, self.spec.survey_text):
            assert text
            assert not text.endswith(".")

    def test_inputs_are_known_for_what_they_are(self, tmp_path: Path) -> None:
        folder = self.good(tmp_path)
        assert self.found(folder) == self.kind
        files = self.inputs(folder)
        assert all(self.spec.looks_like(str(path)) is (self.spec.told_by is None) for path in files)
        if not self.spec.is_folder:
            assert find_kind([str(files[0])]) == self.kind

    def test_what_is_none_of_it_is_not_taken(self, tmp_path: Path) -> None:
        for i, content in enumerate((b"", b"\0", b"no input", b"\0" * 4096, bytes(range(256)) * 32)):
            path = tmp_path / f"{i}.bin"
            path.write_bytes(content)
            assert not self.spec.looks_like(str(path))
            assert not self.spec.is_named(path.name)

    def test_a_survey_and_its_rows_are_the_same_again(self, tmp_path: Path) -> None:
        folder = self.good(tmp_path)
        sources = [self.source(folder, slice_bytes=self.largest) for _ in range(2)]
        surveys = [source.survey() for source in sources]
        assert facts(surveys[0]) == facts(surveys[1])
        first, again = (read(*one) for one in zip(sources, surveys, strict=True))
        assert first == again
        # Any slice alone, and in any order: several threads read them.
        backwards = [rows_of(sources[0], surveys[0], part) for part in reversed(surveys[0].slices)]
        assert [row for rows in reversed(backwards) for row in rows] == first

    def test_slices_add_up(self, tmp_path: Path) -> None:
        folder = self.good(tmp_path)
        whole, cut = self.source(folder), self.source(folder, slice_bytes=self.largest)
        surveys = whole.survey(), cut.survey()
        assert len(surveys[1].slices) > 1
        assert read(cut, surveys[1]) == read(whole, surveys[0])
        for source, survey in zip((whole, cut), surveys, strict=True):
            keys = [row[1] for row in read(source, survey)]
            assert len(keys) >= 20
            assert len(set(keys)) == len(keys)
            assert tuple(dict.fromkeys(part.split for part in survey.slices)) == survey.splits
            for split in survey.splits:
                parts = [part for part in survey.slices if part.split == split]
                assert [part.number for part in parts] == list(range(len(parts)))
            for part in survey.slices:
                assert pickle.loads(pickle.dumps(part)).number == part.number
                rows = rows_of(source, survey, part)
                assert part.samples in (None, len(rows))
                for _, key, _ in rows:
                    assert is_utf8(source.place(part, key))
                    assert str(tmp_path) in source.place(part, key)

    def test_rows_are_what_the_survey_says(self, tmp_path: Path) -> None:
        source = self.source(self.good(tmp_path))
        survey = source.survey()
        assert survey.types.keys() >= {column.name for column in survey.columns}
        assert survey.classes.keys() <= {column.name for column in survey.columns}
        for part in survey.slices:
            for rows in source.read(survey, part):
                assert rows.batch.schema == rows_schema(survey)
                assert rows.batch.column(KEY).null_count == 0
                assert rows.read_bytes >= 0
                rows.batch.validate(full=True)

    def test_a_bad_sample_is_rejected_by_file_and_key(self, tmp_path: Path) -> None:
        bad = self.bad(tmp_path)
        if bad is None:
            return
        source = self.source(bad.path)
        survey = source.survey()
        rejects: list[Reject] = list(survey.rejects)
        kept = 0
        for part in survey.slices:
            for rows in source.read(survey, part):
                kept += rows.batch.num_rows
                rejects += rows.rejects
        assert kept
        (reject,) = rejects
        assert bad.file in reject.source
        assert reject.key == bad.key
        assert reject.reason
        assert not reject.reason.endswith(".")
        assert all(map(is_utf8, (reject.source, reject.key, reject.reason)))

    def test_what_is_passed_over_is_counted_and_named(self, tmp_path: Path) -> None:
        folder = self.good(tmp_path)
        before = self.source(folder).survey()
        name = self.stranger(folder)
        (folder / ".hidden").write_bytes(b"hidden")
        after = self.source(folder).survey()
        assert self.found(folder) == self.kind
        more = {why for why, count in after.skipped.items() if count != before.skipped.get(why, 0)}
        assert more
        assert more <= {*WORDS, *self.spec.skips}, "each reason has its words"
        names = [one for reason in more for one in after.skipped_names[reason]]
        assert name in names
        assert [part.samples for part in after.slices] == [part.samples for part in before.slices]

    def test_no_link_leads_out_unless_it_may(self, tmp_path: Path) -> None:
        folder = self.good(tmp_path)
        rows = read(source := self.source(folder), source.survey())
        files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        for path in {path.suffix: path for path in files}.values():  # one of each form
            away = path.rename(tmp_path / "away")
            path.symlink_to(away)
            try:
                source = self.source(folder)
                survey = source.survey()
                reasons = [one.reason for one in survey.rejects]
                made = [each for part in survey.slices for each in source.read(survey, part)]
                reasons += [one.reason for each in made for one in each.rejects]
            except SourceError as error:
                reasons = [str(error)]
            assert any("link that leads out" in reason for reason in reasons), path
            following = self.source(folder, follow_links=True)
            assert read(following, following.survey()) == rows, path
            away.replace(path)

    def test_options_that_it_does_not_accept_are_refused(self, tmp_path: Path) -> None:
        assert OTHERS.keys() == {field.name for field in fields(InputOptions)}
        for name, value in OTHERS.items():
            if name not in self.spec.accepts:
                with pytest.raises(UsageError, match=f"{flag_of(name)} means nothing for a source of kind {self.kind}"):
                    self.source(tmp_path, **{name: value})

    def test_a_limit_takes_the_first(self, tmp_path: Path) -> None:
        if "limit" not in self.spec.accepts:
            return
        folder = self.good(tmp_path)
        whole, few = self.source(folder), self.source(folder, limit=3)
        everything = read(whole, whole.survey())
        wanted = []
        for split in dict.fromkeys(row[0] for row in everything):
            wanted += [row for row in everything if row[0] == split][:3]
        assert read(few, few.survey()) == wanted

    def test_only_kinds_that_can_say_where_values_lie(self, tmp_path: Path) -> None:
        if self.spec.in_place:
            self.source(tmp_path, places=PlacesWanted.ONLY)
            return
        for wanted in (PlacesWanted.BESIDE, PlacesWanted.ONLY):
            with pytest.raises(UsageError, match=r"can't stay where they are, .*: pack it"):
                self.source(tmp_path, places=wanted)

    def test_places_are_where_the_values_lie(self, tmp_path: Path) -> None:
        if not self.spec.in_place:
            return
        folder = self.media(tmp_path)
        given = {"limit": 3, "split": "val", "shuffle_seed": 7, "include": ("*train*",), "exclude": ("*1.*",)}
        choices = ({}, *({name: value} for name, value in given.items() if name in self.spec.accepts))
        for options in ({**self.with_media, **choice} for choice in choices):
            plain, beside, only = (
                self.source(folder, slice_bytes=self.largest, places=wanted, **options) for wanted in PlacesWanted
            )
            surveys = [source.survey() for source in (plain, beside, only)]
            assert facts(surveys[0]) == facts(surveys[1]) == facts(surveys[2])
            rows, placed, listed = map(placed_rows, (plain, beside, only), surveys)
            assert rows or "include" in options
            assert [one[:2] for one in rows] == [one[:2] for one in placed]
            assert not any(one.places for one in rows)
            assert [one.row for one in rows] == [one.row for one in listed]
            assert [one.places for one in placed] == [one.places for one in listed]
            assert not any(value is not None for one in listed for value in one.media.values())
            assert any(one.media for one in placed) == bool(rows)
            for one in placed:
                assert one.places.keys() == one.media.keys()
                for column, value in one.media.items():
                    check_place(value, one.places[column])

    def test_rejects_are_the_same_beside_places_and_no_more_without_values(self, tmp_path: Path) -> None:
        bad = self.bad(tmp_path) if self.spec.in_place else None
        if bad is None:
            return
        rejects, kept = [], []
        for wanted in PlacesWanted:
            source = self.source(bad.path, places=wanted)
            survey = source.survey()
            made = [each for part in survey.slices for each in source.read(survey, part)]
            rejects.append([*survey.rejects, *(one for each in made for one in each.rejects)])
            kept.append(sum(each.batch.num_rows for each in made))
        assert rejects[0] == rejects[1]
        assert set(rejects[2]) <= set(rejects[1])
        assert kept[0] == kept[1] == kept[2] + len(rejects[2]) - len(rejects[1])

    def test_jobs_change_nothing(self, tmp_path: Path) -> None:
        folder = self.good(tmp_path)
        pins = set()
        for jobs in (1, 3):
            given = {"source": str(folder), "dataset": str(tmp_path / f"ds{jobs}"), "source_kind": self.kind}
            pins.add(pack(PackJob(**given, jobs=jobs, **self.always)).pin)
        assert len(pins) == 1


def facts(survey: Survey) -> list[Any]:
    """What a survey says, without what is the source's own."""
    plain = [getattr(survey, field.name) for field in fields(survey) if field.name != "slices"]
    return [*plain, [(one.split, one.number, one.samples, one.bytes, one.source) for one in survey.slices]]


def rows_of(source: Source, survey: Survey, part: Slice) -> list[tuple[str, str, dict[str, Any]]]:
    """The split, key and values of each sample of a slice."""
    return [(part.split, str(row[KEY]), row) for batch in batches(source, survey, part) for row in batch.to_pylist()]


def batches(source: Source, survey: Survey, part: Slice) -> Iterator[pa.RecordBatch]:
    for rows in source.read(survey, part):
        assert rows.rejects == ()
        yield rows.batch


def placed_rows(source: Source, survey: Survey) -> list[Placed]:
    """All rows, read by several threads; media and places apart."""
    with ThreadPoolExecutor(3) as pool:
        return [one for part in pool.map(lambda part: _placed(source, survey, part), survey.slices) for one in part]


def _placed(source: Source, survey: Survey, part: Slice) -> list[Placed]:
    media = [column.name for column in survey.columns if stored_medium(column.kind) is not None]
    found = []
    for rows in source.read(survey, part):
        assert rows.rejects == ()
        assert rows.places.keys() in (set(), set(media))
        columns: dict[str, list[Any]] = {}
        for name, places in rows.places.items():
            places.files.validate(full=True)
            places.names.validate(full=True)
            there = valid_rows(places.files).tolist()
            fields = (places.files, places.offsets, places.lengths, places.sizes, places.mtimes_ns, places.names)
            cells = zip(*(each.tolist() for each in fields), strict=True)
            columns[name] = [cell if known else None for cell, known in zip(cells, there, strict=True)]
            assert len(columns[name]) == rows.batch.num_rows
        for i, row in enumerate(rows.batch.to_pylist()):
            found.append(
                Placed(
                    {"split": part.split, **{name: value for name, value in row.items() if name not in media}},
                    {name: row[name] for name in media},
                    {name: column[i] for name, column in columns.items()},
                )
            )
    return found


def check_place(value: dict[str, Any] | None, place: tuple[Any, ...] | None) -> None:
    """What lies at a place is the value."""
    if value is None:
        assert place is None
        return
    assert place is not None
    path, offset, length, size, mtime_ns, name = place
    assert os.path.isabs(path)
    status = os.stat(path)
    assert (size, mtime_ns) == (status.st_size, status.st_mtime_ns)
    assert 0 <= offset <= offset + length <= size
    with open(path, "rb") as file:
        file.seek(offset)
        assert file.read(length) == value["bytes"]
    assert name == value["path"]


def read(source: Source, survey: Survey) -> list[tuple[str, str, dict[str, Any]]]:
    """The same of all slices."""
    assert survey.rejects == ()
    return [row for part in survey.slices for row in rows_of(source, survey, part)]

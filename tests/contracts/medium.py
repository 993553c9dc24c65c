"""What every medium must do: a class of tests that each medium's tests inherit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import toolkit
from toolkit.checks.inspect import inspect
from toolkit.checks.verify import verify
from toolkit.errors import SampleError
from toolkit.format.media import stored_medium
from toolkit.format.schema import medium_column
from toolkit.pipelines.media import media, medium_of
from toolkit.pipelines.medium import HEAD_BYTES, Header, Medium, Shaping, UnfitMediumError
from toolkit.sources.options import VerifyImages
from toolkit.sources.payloads import begun_as, check_payload, holds, named_as

MOST_PIXELS = 1 << 20


class MediumContract:
    """A subclass says what its medium is, and gives files of it; the fixture `commit_rows` is needed.

    Attributes:
        files: Files that can be decoded, by extension. What a header says of them is what they decode to.
        damaged: A file with a good header that can't be decoded.
        encoding: One that stores values decoded.
    """

    files: Mapping[str, bytes]
    damaged: bytes
    encoding: str

    @property
    def medium(self) -> Medium:
        """The medium."""
        raise NotImplementedError

    def slot(self, *, optional: bool = False) -> toolkit.Slot:
        """Return what decodes the column "x"."""
        raise NotImplementedError

    def commit(
        self, commit_rows: Callable[..., str], root: Path, payloads: Sequence[bytes | None], encoding: str = "keep"
    ) -> Path:
        """Commit a dataset of the column "x" with such values; return its place."""
        stored = self.medium.stored
        form = stored.source_form
        empty = dict.fromkeys(form.type.names)
        files = pa.array([None if one is None else {**empty, form.payload: one} for one in payloads], form.type)
        if encoding != "keep":
            encoder = self.medium.encoder(Shaping(encoding=encoding, short_side=None, max_pixels=MOST_PIXELS))
            made = [None if one is None else encoder.make(memoryview(one)) for one in payloads]
            files = encoder.array(made, files)
        keys = pa.array([f"k{i}" for i in range(len(payloads))])
        fields = [pa.field("__key__", pa.string(), nullable=False), pa.field("x", stored.form_in(encoding).type)]
        rows = pa.RecordBatch.from_arrays([keys, files], schema=pa.schema(fields))
        commit_rows(root, {"train": [[rows]]}, columns=(medium_column("x", stored, encoding),))
        return root

    def batch(self, dataset: Path, slot: toolkit.Slot | None) -> Any:
        """Return the one batch of a dataset."""
        ds = toolkit.open(dataset)
        pipeline = None if slot is None else toolkit.pipeline(slot)
        with ds.loader(pipeline, batch_size=len(ds), shuffle="none", threads=1) as loader:
            [batch] = loader
            return batch

    def test_it_is_found_by_its_kind(self) -> None:
        assert medium_of(self.medium.stored.kind) is self.medium
        assert self.medium in media()
        assert stored_medium(self.medium.stored.kind) is self.medium.stored

    def test_its_forms_hold_what_they_say(self) -> None:
        stored = self.medium.stored
        assert stored.form_in("keep") is stored.source_form
        assert stored.form_in(self.encoding).is_decoded
        for form in stored.forms:
            named = {form.payload, *form.sizes, *([] if form.path is None else [form.path])}
            assert named == set(form.type.names)
            assert (form.dtype is not None) is form.is_decoded
            assert stored.form_of(form.type) is form

    def test_its_files_are_known_for_what_they_are(self) -> None:
        kind = self.medium.stored.kind
        for extension, file in self.files.items():
            assert (named_as(extension), begun_as(file[:HEAD_BYTES]), holds(file)) == (kind, kind, kind)
            check_payload(self.medium, file, VerifyImages.HEADER)
        for nothing in (b"", b"\0", b"no file of any medium"):
            assert begun_as(nothing) is None
            assert self.medium.header(nothing) is None
            with pytest.raises(UnfitMediumError):
                check_payload(self.medium, nothing, VerifyImages.HEADER)

    def test_the_header_agrees_with_the_decoder(self, commit_rows: Callable[..., str], tmp_path: Path) -> None:
        dataset = self.commit(commit_rows, tmp_path / "dataset", list(self.files.values()))
        for file, array in zip(self.files.values(), self.batch(dataset, self.slot())["x"], strict=True):
            header = self.medium.header(file)
            assert header is not None
            assert header.numbers == self.medium.header_of(array.shape).numbers
            assert tuple(header.numbers) == self.medium.numbers
            assert header.marks <= self.medium.marks.keys()

    def test_its_facts_are_those_of_the_header(self) -> None:
        """What is derived of a column, in every form, whole and cut, is what the header of each value says."""
        stored = self.medium.stored
        files = [*self.files.values(), None, b"", b"no file of any medium", *self.files.values()]
        empty = dict.fromkeys(stored.source_form.type.names)
        rows = [None if one is None else {**empty, stored.source_form.payload: one} for one in files]
        column = pa.array([*rows, empty], stored.source_form.type)  # at last a struct without a payload
        headers = [None if one is None else self.medium.header(one) for one in [*files, None]]
        self.check_facts(column, headers)
        good = list(self.files.values())
        encoder = self.medium.encoder(Shaping(encoding=self.encoding, short_side=None, max_pixels=MOST_PIXELS))
        made = [None if one is None else encoder.make(memoryview(one)) for one in (*good, None, *good)]
        decoded = encoder.array(made, pa.array([*rows[: len(good)], None, *rows[: len(good)]], column.type))
        assert decoded.type == stored.form_in(self.encoding).type
        sizes = [None if one is None else one.values() for one in decoded.to_pylist()]
        order = [decoded.type.get_field_index(name) for name in stored.form_in(self.encoding).sizes]
        headers = [None if one is None else self.medium.header_of([list(one)[i] for i in order]) for one in sizes]
        self.check_facts(decoded, headers)

    def check_facts(self, column: pa.Array, headers: Sequence[Header | None]) -> None:
        facts = self.medium.stored.facts
        assert len({fact.what for fact in facts}) == len(facts)
        assert all(fact.version >= 1 for fact in facts)
        for start, stop in ((0, len(column)), (1, len(column) - 1), (len(column) - 2, len(column)), (1, 1)):
            arrays = self.medium.derive(column.slice(start, stop - start))
            assert [array.type for array in arrays] == [fact.type for fact in facts]
            assert [len(array) for array in arrays] == [stop - start] * len(facts)
            for array in arrays:
                array.validate(full=True)
            found = [self.medium.header_of_facts(row) for row in zip(*(a.to_pylist() for a in arrays), strict=True)]
            for one, wanted in zip(found, headers[start:stop] if facts else [], strict=True):
                assert (one is None) is (wanted is None)
                if one is not None and wanted is not None:
                    assert (one.numbers, one.format, one.marks) == (wanted.numbers, wanted.format, wanted.marks)
            missing = [i for i in range(start, stop) if headers[i] is None]
            assert all(array[i - start].as_py() is None for array in arrays for i in missing)

    def test_both_forms_give_the_same(self, commit_rows: Callable[..., str], tmp_path: Path) -> None:
        files = [*self.files.values(), None]
        kept = self.commit(commit_rows, tmp_path / "kept", files)
        raw = self.commit(commit_rows, tmp_path / "raw", files, self.encoding)
        assert [toolkit.open(kept)[i]["x"] for i in range(len(files))] == files
        assert list(self.batch(kept, None)["x"]) == files
        decoded = self.batch(kept, self.slot(optional=True))["x"]
        for stored in ([toolkit.open(raw)[i]["x"] for i in range(len(files))], self.batch(raw, None)["x"]):
            assert stored[-1] is None
            for array, wanted in zip(stored[:-1], decoded, strict=False):
                assert (array.dtype, array.flags.writeable) == (wanted.dtype, True)
                assert np.array_equal(array, wanted)
        for array, wanted in zip(self.batch(raw, self.slot(optional=True))["x"][:-1], decoded, strict=False):
            assert np.array_equal(array, wanted)
        facts, others = inspect(str(kept)).media["x"], inspect(str(raw)).media["x"]
        assert facts.numbers == others.numbers
        assert (facts.missing, others.missing, facts.unreadable) == (1, 1, 0)
        for dataset in (kept, raw):
            assert verify(dataset, decode=True, jobs=1).findings == ()

    def test_a_damaged_value_is_refused_by_name(self, commit_rows: Callable[..., str], tmp_path: Path) -> None:
        good = next(iter(self.files.values()))
        dataset = self.commit(commit_rows, tmp_path / "dataset", [good, self.damaged, good])
        with pytest.raises(SampleError, match=r"key 'k1'"):
            self.batch(dataset, self.slot())
        [finding] = verify(dataset, decode=True, jobs=1).findings
        assert (finding.kind, finding.key) == ("sample", "k1")
        assert "column x: " in finding.message
        assert self.medium.stored.plural in verify(dataset).not_checked[-1]
        encoder = self.medium.encoder(Shaping(encoding="keep", short_side=None, max_pixels=MOST_PIXELS))
        encoder.make(memoryview(good))
        with pytest.raises(UnfitMediumError):
            encoder.make(memoryview(self.damaged))

    def test_sizes_that_lie_are_refused(self) -> None:
        sizes = [2] * len(self.medium.stored.form_in(self.encoding).sizes)
        assert self.medium.sizes_fault(1, sizes) is not None
        assert self.medium.sizes_fault(0, [0] * len(sizes)) is not None

    def test_a_missing_value_is_filled(self, commit_rows: Callable[..., str], tmp_path: Path) -> None:
        good = next(iter(self.files.values()))
        for encoding in ("keep", self.encoding):
            dataset = self.commit(commit_rows, tmp_path / encoding, [None, good], encoding)
            batch = self.batch(dataset, self.slot(optional=True))
            assert batch.present["x"].tolist() == [False, True]
            assert batch["x"][0] is None or not np.asarray(batch["x"][0]).any()
            with pytest.raises(SampleError, match=r"key 'k0'.*missing"):
                self.batch(dataset, self.slot())

"""Text as a source: lines and files, compressed or cut, and what is wrong with them said by file and line."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from toolkit.errors import NotFoundError, SourceError, UsageError
from toolkit.sources.base import Rows
from toolkit.sources.detect import find_kind
from toolkit.sources.kinds.text.files import cut_lines, read_lines
from toolkit.sources.kinds.text.source import TextSource
from toolkit.sources.make import make_source
from toolkit.sources.options import SourceOptions
from toolkit.sources.reject import Reject

Found = dict[str, list[tuple[str, str]]]


def read(*paths: Path, slice_bytes: int = 1 << 20, **options: object) -> tuple[Found, list[Reject], int]:
    """Return (key, text) of each split, the rejects, and the number of slices."""
    source = TextSource(SourceOptions(paths=tuple(map(str, paths)), slice_bytes=slice_bytes, **options))  # type: ignore[arg-type]
    survey = source.survey()
    found: Found = {split: [] for split in survey.splits}
    rejects: list[Reject] = []
    for part in survey.slices:
        pieces: list[Rows] = list(source.read(survey, part))
        for rows in pieces:
            found[part.split] += zip(*(column.to_pylist() for column in rows.batch.columns), strict=True)
            rejects += rows.rejects
        assert sum(rows.read_bytes for rows in pieces) == part.bytes
    return found, rejects, len(survey.slices)


def lines(texts: Iterable[str]) -> bytes:
    return "".join(json.dumps({"text": text}) + "\n" for text in texts).encode()


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".zst": zstandard.ZstdCompressor().compress,
}


@pytest.mark.parametrize("suffix", PACKERS)
def test_lines_and_texts_plain_and_compressed(tmp_path: Path, suffix: str) -> None:
    pack = PACKERS[suffix]
    (tmp_path / f"b.jsonl{suffix}").write_bytes(pack(lines(["eins\n", "", "zwei 🐈"])))
    (tmp_path / f"a.txt{suffix}").write_bytes(pack("﻿whole\r\nfile".encode()))
    found, rejects, slices = read(tmp_path)
    assert found == {
        "train": [
            (f"a.txt{suffix}", "whole\r\nfile"),
            (f"b.jsonl{suffix}#1", "eins\n"),
            (f"b.jsonl{suffix}#2", ""),
            (f"b.jsonl{suffix}#3", "zwei 🐈"),
        ]
    }
    assert (rejects, slices) == ([], 1)


def test_blank_lines_ends_of_other_systems_and_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_bytes(b'\xef\xbb\xbf{"text":"a"}\r\n\r\n  \n{"text":"b","n":[1,{"deep":null}]}')
    assert read(tmp_path)[0]["train"] == [("x.jsonl#1", "a"), ("x.jsonl#4", "b")]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{", "not valid JSON"),
        (b'{"text": "a"} x', "not valid JSON"),
        (b'{"text": NaN}', "not valid JSON"),
        (b'{"text": "\\ud800"}', "not valid JSON"),
        (b'{"text": "\xff"}', "not valid UTF-8"),
        (b'{"txet": "a"}', "object missing required field `text`"),
        (b'{"text": 3}', "expected `str`, got `int`"),
        (b'{"text": null}', "expected `str`, got `null`"),
        (b'["text"]', "expected `object`, got `array`"),
        (b'{"text": "a", "deep": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply"),
    ],
)
def test_a_bad_line_is_rejected_alone_with_its_place(tmp_path: Path, line: bytes, reason: str) -> None:
    (tmp_path / "x.jsonl").write_bytes(lines(["good"]) + line + b"\n" + lines(["too"]))
    found, rejects, _ = read(tmp_path)
    assert found["train"] == [("x.jsonl#1", "good"), ("x.jsonl#3", "too")]
    (reject,) = rejects
    assert reject.source == f"{tmp_path}/x.jsonl#2"
    assert reason in reject.reason


def test_a_text_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_bytes(b"abc\xff")
    (tmp_path / "y.txt").write_bytes(b"")
    found, rejects, _ = read(tmp_path)
    assert found["train"] == [("y.txt", "")]
    assert rejects == [Reject(str(tmp_path / "x.txt"), "x.txt", "not UTF-8 text at byte 3")]


def test_keys_of_a_field(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_bytes(
        b'{"id":"one","body":"a"}\n{"id":2,"body":"b"}\n{"body":"c"}\n{"id":"","body":"d"}'
    )
    found, rejects, _ = read(tmp_path, key="id", text_column="body")
    assert found["train"] == [("one", "a"), ("2", "b"), ("x.jsonl#4", "d")]
    assert [reject.reason for reject in rejects] == ["object missing required field `id`"]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.binary(max_size=12).map(lambda data: data.replace(b"\n", b"").replace(b"\r", b"")), max_size=30),
    st.integers(1, 40),
    st.booleans(),
)
def test_cut_files_have_the_same_lines(
    tmp_path_factory: pytest.TempPathFactory, rows: list[bytes], most: int, ended: bool
) -> None:
    path = tmp_path_factory.mktemp("cut") / "x.jsonl"
    # The first line is text: a file that begins as compressed ones do is taken for one.
    data = b"\n".join([b"{}", *rows]) + (b"\n" if ended else b"")
    path.write_bytes(data)
    parts = list(cut_lines(str(path), "x.jsonl", most))
    assert parts[0].start == 0
    assert [part.end for part in parts[:-1]] == [part.start for part in parts[1:]]
    assert parts[-1].end is None
    found = [(line.number, line.data) for part in parts for line in read_lines(part, 1 << 30)]
    whole = data.split(b"\n")
    assert [row for row in found if row[1]] == [(n, row) for n, row in enumerate(whole, 1) if row]


def test_large_files_are_cut_small_ones_share_a_slice_and_a_limit_counts(tmp_path: Path) -> None:
    (tmp_path / "big.jsonl").write_bytes(lines(f"{i:05}" for i in range(1000)))
    for i in range(40):
        (tmp_path / f"small{i:02}.txt").write_text(f"text {i}")
    found, _, slices = read(tmp_path, slice_bytes=4000)
    assert 4 <= slices <= 8
    assert [key for key, _ in found["train"]] == [
        *(f"big.jsonl#{i}" for i in range(1, 1001)),
        *(f"small{i:02}.txt" for i in range(40)),
    ]
    assert read(tmp_path, slice_bytes=4000, limit=7) == ({"train": found["train"][:7]}, [], 1)


def test_splits_by_name(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_bytes(lines(["a"]))
    (tmp_path / "val.jsonl").write_bytes(lines(["b"]))
    assert read(tmp_path)[0] == {"train": [("train.jsonl#1", "a")], "val": [("val.jsonl#1", "b")]}


def test_what_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl.gz").write_bytes(gzip.compress(lines(["a"] * 1000))[:-20])
    with pytest.raises(SourceError, match="cut short"):
        read(tmp_path)
    (tmp_path / "x.jsonl.gz").write_bytes(b"\xfd7zXZ\0rest of it")
    with pytest.raises(SourceError, match="compressed data is damaged"):
        read(tmp_path)
    (tmp_path / "x.csv").write_bytes(b"a,b")
    with pytest.raises(SourceError, match="the name says what its lines are"):
        read(tmp_path / "x.csv")
    with pytest.raises(NotFoundError):
        read(tmp_path / "missing.jsonl")
    with pytest.raises(UsageError, match="--columns"):
        make_source("text", SourceOptions(paths=(str(tmp_path),), slice_bytes=1000, columns=("a",)))


def test_a_file_that_changes_meanwhile_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(lines(["a"]))
    source = TextSource(SourceOptions(paths=(str(path),), slice_bytes=1000))
    survey = source.survey()
    path.write_bytes(lines(["a", "b"]))
    with pytest.raises(SourceError, match="was changed during the pack"):
        list(source.read(survey, survey.slices[0]))


def test_text_beside_other_inputs_is_not_what_they_are(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("a")
    assert find_kind([str(tmp_path)]) == "text"
    (tmp_path / "a.jpg").write_bytes(b"")
    assert find_kind([str(tmp_path)]) == "imagefolder"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"eos": True}, "belong to tokens"),
        ({"eos_token": "</s>"}, "belong to tokens"),
        ({"tokenizer": "bytes", "columns": ("a",)}, "--columns means nothing with --tokenizer"),
        ({"tokenizer": "bytes", "map": {"a": "b"}}, "--map means nothing with --tokenizer"),
        ({"tokenizer": "bytes", "eos_token": "</s>"}, "bytes have no named tokens"),
    ],
)
def test_options_of_tokens(tmp_path: Path, options: dict[str, object], said: str) -> None:
    (tmp_path / "x.txt").write_text("a")
    with pytest.raises(UsageError, match=said):
        make_source(None, SourceOptions(paths=(str(tmp_path),), slice_bytes=1000, **options))  # type: ignore[arg-type]

"""A table of delimited text: every value as Python's csv module has it, the lines of rows, and what is refused."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import os
import pickle
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from delimited import CSV, csv_table, lines, rows
from waiting import tick

from toolkit.errors import SourceError
from toolkit.sources.make import make_source
from toolkit.sources.options import SourceOptions
from toolkit.sources.tables import stream
from toolkit.sources.tables.delimited import rows as rows_module


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.csv"


def test_values_and_lines(path: Path) -> None:
    table = csv_table(path, b'a,b\n1,2\n"x\n\xc3\xa9",\n\n"",4\r\n')
    assert rows(table) == [{"a": "1", "b": 2}, {"a": "x\né", "b": None}, {"a": "", "b": 4}]
    assert lines(table) == [2, 3, 6]
    assert table.place(1) == f"{path}, line 3"
    assert rows(pickle.loads(pickle.dumps(table))) == rows(table)


@pytest.mark.parametrize(
    ("texts", "dtype", "values"),
    [
        (["1", "-2", ""], pa.int64(), [1, -2, None]),
        (["007", "1"], pa.string(), ["007", "1"]),
        (["+1"], pa.string(), ["+1"]),
        (["-0"], pa.float64(), [-0.0]),
        (["0x1F"], pa.string(), ["0x1F"]),
        (["1 "], pa.string(), ["1 "]),
        (["1", "0.5", "1e3", ".5"], pa.float64(), [1.0, 0.5, 1000.0, 0.5]),
        (["9223372036854775807"], pa.int64(), [2**63 - 1]),
        (["9223372036854775808"], pa.string(), ["9223372036854775808"]),
        (["9007199254740993", "0.5"], pa.string(), ["9007199254740993", "0.5"]),
        (["0.5", "9007199254740993"], pa.string(), ["0.5", "9007199254740993"]),
        (["0.5", "9007199254740992"], pa.float64(), [0.5, 9007199254740992.0]),
        (["0.5", "1" * 5000], pa.string(), ["0.5", "1" * 5000]),
        (["9007199254740993.0"], pa.string(), ["9007199254740993.0"]),
        (["9007199254740994.0", "1e22"], pa.float64(), [9007199254740994.0, 1e22]),
        (["0.1000000000000000055511151231257827"], pa.float64(), [0.1]),
        (["1e999", "1.5"], pa.string(), ["1e999", "1.5"]),
        (["-1e-999", "1.5"], pa.string(), ["-1e-999", "1.5"]),
        (["0e-999", "5e-324"], pa.float64(), [0.0, 5e-324]),
        (["nan", "1.5", "-inf"], pa.float64(), [None, 1.5, float("-inf")]),
        (["nan", "inf"], pa.string(), ["nan", "inf"]),
        (["NA", "1"], pa.string(), ["NA", "1"]),
        (["true", "false", ""], pa.bool_(), [True, False, None]),
        (["True", "False"], pa.bool_(), [True, False]),
        (["true", "False"], pa.string(), ["true", "False"]),
        (["true", "1"], pa.string(), ["true", "1"]),
        (["2024-01-01"], pa.string(), ["2024-01-01"]),
        (["", ""], pa.string(), [None, None]),
        (["1"] * 200 + ["x"], pa.string(), ["1"] * 200 + ["x"]),
    ],
)
def test_a_type_is_taken_only_if_no_character_is_lost(path: Path, texts: list[str], dtype: Any, values: Any) -> None:
    table = csv_table(path, ("n,m\n" + "".join(f"{text},y\n" for text in texts)).encode())
    assert table.schema.field("n").type == dtype
    read = [row["n"] for row in rows(table)]
    assert [None if value != value else value for value in read] == values


def test_quoted_numbers_are_numbers_and_empty_ones_null(path: Path) -> None:
    assert rows(csv_table(path, b'"a","b"\n"1",""\n"","x"\n')) == [{"a": 1, "b": ""}, {"a": None, "b": "x"}]


@pytest.mark.parametrize("blocks", [7, 64, 4096])
def test_any_table_is_what_python_reads(path: Path, monkeypatch: pytest.MonkeyPatch, blocks: int) -> None:
    """However the file is cut into blocks; quoted line ends, delimiters and quotes wherever they may be."""
    monkeypatch.setattr(stream, "BLOCK_BYTES", blocks)
    monkeypatch.setattr(rows_module, "BLOCK_BYTES", blocks)
    generator = random.Random(blocks)
    for number in range(12):
        width = generator.randrange(2, 5)
        names = [f"f{i}" for i in range(width)]
        quoting = (csv.QUOTE_MINIMAL, csv.QUOTE_ALL)[number % 2]
        letters = 'aé",\n ;"' + "\r" * (quoting == csv.QUOTE_ALL)
        table = [
            ["x" + "".join(generator.choice(letters) for _ in range(generator.randrange(6))) for _ in names]
            for _ in range(40)
        ]
        out = io.StringIO(newline="")
        writer = csv.writer(out, lineterminator=("\n", "\r\n")[number // 2 % 2], quoting=quoting)
        writer.writerows([names, *table])
        data = (b"\xef\xbb\xbf" if number % 3 == 0 else b"") + out.getvalue().encode()
        read = csv_table(path, data)
        assert [list(row.values()) for row in rows(read)] == table
        assert lines(read) == _lines(out.getvalue(), len(table))
        # A few pieces alone give their rows.
        cut = len(read.pieces) // 2
        alone = [row for batch in read.read(["f1"], cut, len(read.pieces)) for row in batch.to_pylist()]
        assert [row["f1"] for row in alone] == [row[1] for row in table][sum(n for n, _ in read.pieces[:cut]) :]


def _lines(text: str, count: int) -> list[int]:
    """The line of each row, counted by line feeds, as Python's reader finds rows."""
    pieces = io.StringIO(text, newline="\n")
    at, found = 0, []

    def feed() -> Any:
        nonlocal at
        for line in pieces:
            at += 1
            yield line

    reader = csv.reader(feed(), strict=True)
    next(reader)
    for _ in range(count):
        found.append(at + 1)
        next(reader)
    return found


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_compressed_files(path: Path, pack: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "BLOCK_BYTES", 64)
    monkeypatch.setattr(rows_module, "BLOCK_BYTES", 64)
    content = b"a,b\n" + b"".join(b"%d,x%d\n" % (i, i) for i in range(100))
    table = csv_table(path, pack(content))
    assert rows(table) == [{"a": i, "b": f"x{i}"} for i in range(100)]
    assert len(table.pieces) == 1
    assert lines(table)[-1] == 101


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "latin-1", "cp1252", "utf-32"])
def test_other_encodings_are_read_when_they_are_said(path: Path, encoding: str) -> None:
    content = 'näme,b\n"ü\n",1\nß,2\n'.encode(encoding)
    table = csv_table(path, content, replace(CSV, encoding=encoding))
    assert rows(table) == [{"näme": "ü\n", "b": 1}, {"näme": "ß", "b": 2}]
    assert lines(table) == [2, 4]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"a;b\n1;2\n", "line 1: no ',' in the row of names, and 1 of ';'"),
        (b"a\tb\n1\t2\n", "--delimiter tab"),
        (b"a|b\n1|2\n", "--delimiter '|'"),
        (b"a,b\n1,\xe9t\xe9\n", r"line 2: byte 6 of the text \(0xe9\) is not UTF-8.*--encoding latin-1"),
        ("a,b\n".encode("utf-16"), "--encoding utf-16"),
        (b'a,b\n1,5" disk\n', "line 2: a quote within a field.*--quote none"),
        (b'a,b\n1,"x\n2,y\n', "line 2: a quote is opened here and never closed"),
        (b"a\rb\r", "line 1: a carriage return"),
        (b"a,b\n1,\0\n", "line 2: a NUL byte"),
        (b"a,b,a\n1,2,3\n", "line 1: 'a' names both column 1 and column 3"),
        (b"a,,c\n1,2,3\n", "line 1: column 2 has no name"),
        (b",a\nx,1\n", "column 1 has no name, and isn't the rows' numbers"),
        (b"1.jpg,cat\n2.jpg,dog\n", "line 1: '1.jpg' looks like a value.*--field-names"),
        (b"5.1,3.5\n4.9,3.0\n", "looks like a value"),
        (b"https://me:secret@host/a.jpg,1\n", "line 1: 'https://host/…' looks like a value"),
        (b"n,https://host/a?sig=secret\n1,2\n", "line 1: 'https://host/…' looks like a value"),
        (b"\n\na,a\n", "line 3: 'a' names both"),
        (b"a,b\n" + b"x" * 200 + b",1\n", "line 2: a row of more than 100 bytes"),
    ],
)
def test_what_can_be_read_in_several_ways_is_refused(path: Path, content: bytes, told: str) -> None:
    with pytest.raises(SourceError, match=told) as caught:
        csv_table(path, content, most=100)
    assert str(path) in str(caught.value)
    assert "secret" not in str(caught.value)


def test_rows_of_another_width_are_rejected(path: Path) -> None:
    table = csv_table(path, b'a,b\n1,2\n1,2,3\n"x\ny"\n\n5,6\n7')
    assert rows(table) == [{"a": 1, "b": 2}, {"a": 5, "b": 6}]
    assert lines(table) == [2, 7]
    told = [(one.source, one.key, one.reason) for one in table.rejects]
    assert told == [
        (f"{path}, line 3", "x.csv, line 3", "3 fields, and there are 2 columns"),
        (f"{path}, line 4", "x.csv, line 4", "1 fields, and there are 2 columns"),
        (f"{path}, line 8", "x.csv, line 8", "1 fields, and there are 2 columns"),
    ]


def test_one_column(path: Path) -> None:
    assert rows(csv_table(path, b'a\nx\n\n""\ny z\n')) == [{"a": "x"}, {"a": ""}, {"a": "y z"}]


@pytest.mark.parametrize("content", [b"", b"\n\n", b"a,b", b"a,b\n", b"a,b\n\n"])
def test_files_without_rows(path: Path, content: bytes) -> None:
    assert rows(csv_table(path, content)) == []


def test_names_may_be_given(path: Path) -> None:
    table = csv_table(path, b"1.jpg,cat\n2.jpg,dog\n", replace(CSV, names=("path", "label")))
    assert rows(table) == [{"path": "1.jpg", "label": "cat"}, {"path": "2.jpg", "label": "dog"}]
    assert lines(table) == [1, 2]
    with pytest.raises(SourceError, match="line 1: 2 fields, and --field-names names 3"):
        csv_table(path, None, replace(CSV, names=("a", "b", "c")))


def test_an_index_that_pandas_wrote_is_passed_over(path: Path) -> None:
    assert rows(csv_table(path, b",a\n0,x\n1,y\n")) == [{"a": "x"}, {"a": "y"}]


def test_columns_that_pandas_calls_by_numbers(path: Path) -> None:
    assert rows(csv_table(path, b"0,1\n5,6\n")) == [{"0": 5, "1": 6}]


def test_names_hold_any_characters(path: Path) -> None:
    assert rows(csv_table(path, b'"a\nb",c\x0bd\n1,2\n')) == [{"a\nb": 1, "c\x0bd": 2}]


def test_names_may_be_long(path: Path) -> None:
    name = "1" * 200_000 + "x"  # more than Python's csv takes, and many digits to look through
    assert rows(csv_table(path, f'a,"{name}"\n1,2\n'.encode())) == [{"a": 1, name: 2}]


def test_many_columns(path: Path) -> None:
    # Minutes, where each name is looked up in a list of them all.
    names = [f"c{i}" for i in range(10_000)]
    path.write_text(f"{','.join(names)}\n{','.join('1' for _ in names)}\n")
    survey = make_source("csv", SourceOptions(paths=(str(path),), slice_bytes=1 << 30))[1].survey()
    assert len(survey.columns) == 10_000


def test_quotes_may_mean_nothing(path: Path) -> None:
    table = csv_table(path, b'a\tb\n5" disk\t"x\n', replace(CSV, delimiter="\t", quote=None))
    assert rows(table) == [{"a": '5" disk', "b": '"x'}]


def test_a_mark_amid_the_text_is_text(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "BLOCK_BYTES", 4)
    monkeypatch.setattr(rows_module, "BLOCK_BYTES", 4)
    assert rows(csv_table(path, "a,b\nx,y\n\ufeffz,w\n".encode())) == [{"a": "x", "b": "y"}, {"a": "\ufeffz", "b": "w"}]


def test_a_changed_file_is_an_error(path: Path) -> None:
    table = csv_table(path, b"a,b\n1,2\n")
    before = table.fingerprint(0, 1)
    tick(path.parent)
    status = path.stat()
    path.write_bytes(b"a,b\n3,4\n")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(SourceError, match="was changed during the pack"):
        rows(table)
    assert csv_table(path).fingerprint(0, 1) != before

"""Rows are found where Python's csv module finds them in its strict mode; what it takes in another way is a fault."""

from __future__ import annotations

import csv
import io
import random

import numpy as np
import pytest
from delimited import CSV

from toolkit.sources.tables.delimited.dialect import fields_of
from toolkit.sources.tables.delimited.structure import find_rows


def found(data: bytes, *, final: bool = True, quote: int | None = ord('"')) -> tuple[list[int], list[int], str | None]:
    rows = find_rows(data, ord(","), quote, final=final)
    return rows.widths.tolist(), rows.lines.tolist(), None if rows.fault is None else rows.fault.reason.split(",")[0]


@pytest.mark.parametrize(
    ("data", "widths", "lines"),
    [
        (b"", [], []),
        (b"a", [1], [1]),
        (b"a,b\n", [2], [1]),
        (b"a,b\r\nc,d", [2, 2], [1, 1]),
        (b'"a,b",c\n', [2], [1]),
        (b'"a\nb",c\nd,e\n', [2, 2], [2, 1]),
        (b'"a\nb","c\n"', [2], [3]),
        (b'"a""b",""""\n', [2], [1]),
        (b'"",""\n', [2], [1]),
        (b"\na\n\r\n\n", [0, 1, 0, 0], [1, 1, 1, 1]),
        (b",,\n,", [3, 2], [1, 1]),
        (b'"a\r\nb"\r\n', [1], [2]),
    ],
)
def test_rows_are_found(data: bytes, widths: list[int], lines: list[int]) -> None:
    assert found(data) == (widths, lines, None)


@pytest.mark.parametrize(
    ("data", "line", "reason"),
    [
        (b'a\nb"c\n', 1, "a quote within a field"),
        (b'a\n"b"c\n', 1, "text behind the closing quote"),
        (b'a\n"b" ,c\n', 1, "text behind the closing quote"),
        (b'a, "b"\n', 0, "a quote within a field"),
        (b'a\n\n"b\nc\n', 2, "a quote is opened here and never closed"),
        (b"a\rb\r", 0, "a carriage return"),
        (b"a\nb\r", 1, "a carriage return"),
        (b"a\n\0b\n", 1, "a NUL byte"),
        (b'a\n"\0"\n', 1, "a NUL byte"),
        (b'"a"\rb\n', 0, "a carriage return"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(data: bytes, line: int, reason: str) -> None:
    fault = find_rows(data, ord(","), ord('"'), final=True).fault
    assert fault is not None
    assert (fault.line, fault.reason[: len(reason)]) == (line, reason)


def test_without_quotes_they_are_text() -> None:
    assert found(b'5" disk,"\n"a,b\n', quote=None) == ([2, 2], [1, 1], None)


def test_what_is_not_whole_waits() -> None:
    assert found(b"a,b\nc", final=False) == ([2], [1], None)
    assert found(b'a,b\n"c\nd', final=False) == ([2], [1], None)
    assert found(b'"a"', final=False) == ([], [], None), "another quote may follow"
    assert found(b"a\r", final=False) == ([], [], None), "a line feed may follow"


def test_any_text_is_read_as_python_reads_it_or_refused() -> None:
    generator = random.Random(4)
    refused = 0
    for _ in range(6000):
        text = "".join(generator.choice('ab",,\n"') for _ in range(generator.randrange(12)))
        rows = find_rows(text.encode(), ord(","), ord('"'), final=True)
        if rows.fault is not None:
            refused += 1
            continue
        read = list(csv.reader(io.StringIO(text, newline=""), strict=True))
        assert rows.widths.tolist() == [len(row) for row in read], text
        starts = [0, *rows.ends.tolist()]
        fields = [fields_of(text[i:j].encode(), CSV) for i, j in zip(starts, rows.ends.tolist(), strict=False)]
        assert [row for row, width in zip(fields, rows.widths.tolist(), strict=True) if width] == list(
            filter(None, read)
        )
    assert 1000 < refused < 5000


def test_what_a_writer_writes_is_taken() -> None:
    generator = random.Random(5)
    for _ in range(300):
        table = [["".join(generator.choice('a",\n\r ;') for _ in range(4)) for _ in range(3)] for _ in range(4)]
        out = io.StringIO(newline="")
        ends = generator.choice(["\n", "\r\n"])
        # Python leaves a carriage return without quotes, which other readers take for the end of a row.
        csv.writer(out, lineterminator=ends, quoting=csv.QUOTE_ALL).writerows(table)
        rows = find_rows(out.getvalue().encode(), ord(","), ord('"'), final=True)
        assert rows.fault is None
        assert rows.widths.tolist() == [3] * 4
        assert np.diff(rows.ends, prepend=0).min() > 0

"""A table of JSON lines: values as Python's json module has them, and what is refused."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from delimited import json_table, lines, rows

from toolkit.errors import SourceError
from toolkit.sources.tables import stream
from toolkit.sources.tables.json_lines.line import LineError, parse_line


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.jsonl"


def test_fields_are_those_of_all_rows(path: Path) -> None:
    table = json_table(path, b'\xef\xbb\xbf{"a":1}\r\n\n{"b":"x","a":null}\n{"c":[1.50, {"k" : 2}]}')
    assert table.schema.names == ["a", "b", "c"]
    assert rows(table) == [
        {"a": 1, "b": None, "c": None},
        {"a": None, "b": "x", "c": None},
        {"a": None, "b": None, "c": '[1.50, {"k" : 2}]'},
    ]
    assert lines(table) == [1, 3, 4]


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([1, None, -2], pa.int64()),
        ([1, 2.5], pa.float64()),
        ([2**63], pa.uint64()),
        ([True, None], pa.bool_()),
        (["x", "\0é𝄞"], pa.string()),
        ([None], pa.string()),
    ],
)
def test_values(path: Path, values: list[Any], dtype: pa.DataType) -> None:
    table = json_table(path, "\n".join(json.dumps({"v": value}) for value in values).encode())
    assert table.schema.field("v").type == dtype
    assert [row["v"] for row in rows(table)] == values


@pytest.mark.parametrize(
    ("values", "told"),
    [
        (["1", '"x"'], "field 'v' is an integer in .*, line 1 and text in .*, line 2"),
        (["null", "[]", "0.5"], "is a number in .*, line 3 and an array or object in .*, line 2"),
        (
            ["true", "1"],
            "a truth value in .*, line 1 and an integer in .*, line 2|an integer in .*, line 2 and a truth",
        ),
        ([str(2**64)], "is 18446744073709551616 in .*, line 1, which 64 bits don't hold"),
        (["-1", str(2**63)], "is 9223372036854775808 in .*, line 2"),
        (["0.5", str(2**53 + 1)], "is 9007199254740993 in .*, line 2, and fractions beside it .*, line 1"),
    ],
)
def test_values_of_no_one_type_are_refused_or_kept_as_written(path: Path, values: list[str], told: str) -> None:
    content = "\n".join(f'{{"v": {value} }}' for value in values).encode()
    with pytest.raises(SourceError, match=told) as caught:
        json_table(path, content)
    assert "--kind v=json" in str(caught.value)
    kept = [None if value == "null" else value for value in values]
    assert [row["v"] for row in rows(json_table(path, content, as_json=("v",)))] == kept
    as_text = [None if value is None else value.strip('"') for value in kept]
    assert [row["v"] for row in rows(json_table(path, content, as_text=("v",)))] == as_text


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b"{bad", "not valid JSON"),
        (b'{"a": 1', "not valid JSON"),
        (b'{"a": 1} {"a": 2}', "not valid JSON: Extra data"),
        (b'{"a": NaN}', "NaN is no JSON value"),
        (b'{"a": 1, "a": 2}', "'a' comes twice in an object"),
        (b'{"a": {"b": 1, "b": 2}}', "'b' comes twice in an object"),
        (b'{"a": "\\ud800"}', r"\\ud800 is a lone surrogate"),
        (b'{"a": {"\\udc00": 1}}', r"\\udc00 is a lone surrogate"),
        (b'{"a": "\xff"}', "not UTF-8 text at byte 7 of the line"),
        (b'{"a": 1e999}', "larger than a float64"),
        (b'{"a": 1e999, "b": []}', "larger than a float64"),
        (b"[1]", "an array, and each line is a JSON object"),
        (b"null", "null, and each"),
        (b"1", "a number, and each"),
        (b"[" * 100_000, "not valid JSON"),
        (b'{"a": ' + b"9" * 5000 + b"}", "not valid JSON"),
    ],
)
def test_a_line_that_is_no_row_is_rejected(path: Path, line: bytes, told: str) -> None:
    with pytest.raises(LineError, match=told):
        parse_line(line)
    table = json_table(path, b'{"z": 1}\n' + line + b'\n{"z": 2}\n')
    assert [row["z"] for row in rows(table)] == [1, 2]
    assert lines(table) == [1, 3]
    (reject,) = table.rejects
    assert (reject.source, reject.key) == (f"{path}, line 2", "x.jsonl, line 2")


def test_pairs_of_surrogates_are_characters() -> None:
    assert parse_line(b'{"a": "\\ud834\\udd1e"}') == {"a": "𝄞"}


@pytest.mark.parametrize("blocks", [5, 64, 1 << 20])
def test_any_rows_are_what_python_reads(path: Path, monkeypatch: pytest.MonkeyPatch, blocks: int) -> None:
    monkeypatch.setattr(stream, "BLOCK_BYTES", blocks)
    generator = random.Random(blocks)

    def value(depth: int = 0) -> Any:
        choices = [None, generator.randrange(9), generator.random(), 'é\n"\\ }{][,:', True, {}, []]
        if depth < 3:
            choices += [[value(depth + 1) for _ in range(2)], {f"k{i}": value(depth + 1) for i in range(2)}]
        return generator.choice(choices)

    table = [{"i": i, "v": value(), "w": [value()]} for i in range(60)]
    separators = [None, (",", ":"), (" , ", " : ")]
    content = "".join(json.dumps(row, separators=generator.choice(separators)) + "\n" for row in table).encode()
    read = json_table(path, content, as_json=("v", "w"))
    parsed = [
        {name: json.loads(text) if isinstance(text, str) else text for name, text in row.items()} for row in rows(read)
    ]
    assert parsed == table
    assert lines(read) == list(range(1, 61))
    cut = len(read.pieces) // 2
    before = sum(count for count, _ in read.pieces[:cut])
    alone = [row["i"] for batch in read.read(["i"], cut, len(read.pieces)) for row in batch.to_pylist()]
    assert alone == list(range(before, 60))


def test_compressed_files(path: Path) -> None:
    table = json_table(path, gzip.compress(b'{"a":1}\n{"a":2}\n'))
    assert rows(table) == [{"a": 1}, {"a": 2}]


def test_a_line_that_is_too_long_is_an_error(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = b'{"a":1}\n{"a":"' + b"x" * 200 + b'"}\n'
    for blocks in (16, 1 << 20):
        monkeypatch.setattr(stream, "BLOCK_BYTES", blocks)
        with pytest.raises(SourceError, match="line 2: a line of more than 100 bytes"):
            json_table(path, content, most=100)


def test_names_that_are_values_are_an_error(path: Path) -> None:
    content = "".join(f'{{"{i}": 1}}\n' for i in range(10_001)).encode()
    with pytest.raises(SourceError, match="more than 10000 different fields"):
        json_table(path, content)

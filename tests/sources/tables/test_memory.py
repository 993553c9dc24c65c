from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from toolkit.errors import SourceError
from toolkit.sources.base import PIECE_BYTES
from toolkit.sources.files import InputFile
from toolkit.sources.reject import Reject
from toolkit.sources.tables.memory import MemoryTable
from toolkit.sources.tables.table import TableFacts

FILE = InputFile("/in/x.csv", "x.csv", 10)
FACTS = TableFacts(key="n")


def rows(table: MemoryTable, fields: list[str]) -> list[dict[str, object]]:
    return [row for batch in table.read(fields, 0, len(table.pieces)) for row in batch.to_pylist()]


def test_it_is_cut_where_rows_fill_a_piece() -> None:
    sizes = [PIECE_BYTES // 3, PIECE_BYTES // 3, PIECE_BYTES // 2, 2 * PIECE_BYTES, 10, 10]
    data = pa.table({"b": pa.array([bytes(size) for size in sizes]), "n": range(6)})
    table = MemoryTable(FILE, data, FACTS)
    assert [count for count, _ in table.pieces] == [2, 1, 1, 2]
    assert rows(table, ["n"]) == [{"n": i} for i in range(6)]
    assert [batch.column("n").to_pylist() for batch in table.read(["n"], 1, 2)] == [[2], [3]]
    assert MemoryTable(FILE, pa.table({"n": range(200_000)}), FACTS).rows == 200_000
    assert len(MemoryTable(FILE, pa.table({"n": range(200_000)}), FACTS).pieces) == 4


def test_types_are_those_that_are_stored() -> None:
    views = pa.table({"s": pa.array(["a"], pa.string_view()), "d": pa.array(["x"]).dictionary_encode()})
    table = MemoryTable(FILE, views, FACTS)
    assert table.schema == pa.schema([("s", pa.string()), ("d", pa.string())])
    assert rows(table, ["d", "s"]) == [{"d": "x", "s": "a"}]
    union = pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])])
    with pytest.raises(SourceError, match=r"field 'u' of '/in/x\.csv': .* no unions"):
        MemoryTable(FILE, pa.table({"u": union}), FACTS)
    with pytest.raises(SourceError, match="several fields called 'a'"):
        MemoryTable(FILE, pa.table([[1], [2]], names=["a", "a"]), FACTS)


def test_places() -> None:
    data = pa.table({"n": [1, 2]})
    assert MemoryTable(FILE, data, FACTS).place(1) == "/in/x.csv, row 1"
    assert MemoryTable(FILE, data, FACTS, lines=np.array([2, 5])).place(1) == "/in/x.csv, line 5"


def test_equal_rows_have_one_fingerprint_in_every_process() -> None:
    values = ["a", None, "c" * 100, ""]
    data = pa.table({"s": values, "l": [[1], None, [], [2, 3]]})
    table = MemoryTable(FILE, data, FACTS, rejects=[Reject("x", "k", "r")])
    longer = pa.concat_tables([data, data]).combine_chunks().slice(4, 4)
    assert MemoryTable(FILE, longer, FACTS).fingerprint(0, 1) == table.fingerprint(0, 1)
    for i, other in enumerate(("b", "", "c" * 99 + "d", None)):
        changed = data.set_column(0, "s", [[*values[:i], other, *values[i + 1 :]]])
        assert MemoryTable(FILE, changed, FACTS).fingerprint(0, 1) != table.fingerprint(0, 1)
    again = pickle.loads(pickle.dumps(table))
    assert again == table
    assert again.rejects == table.rejects
    asked = "import pickle, sys; print(pickle.load(sys.stdin.buffer).fingerprint(0, 1))"
    root = str(Path(__file__).parents[3])
    told = subprocess.run([sys.executable, "-c", asked], input=pickle.dumps(table), capture_output=True, cwd=root)
    assert told.stdout.decode().strip() == table.fingerprint(0, 1)


def test_narrowed_to_nothing_but_some_fields() -> None:
    table = MemoryTable(FILE, pa.table({"a": [1, 2], "b": ["x" * 1000, "y"]}), FACTS, lines=np.array([1, 2]))
    narrow = table.narrowed(["a"])
    assert narrow.schema.names == ["a"]
    assert narrow.pieces[0][1] < table.pieces[0][1]
    assert narrow.place(1) == table.place(1)

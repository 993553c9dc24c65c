"""Delimited text against Python's csv module in its strict mode: the same fields, or a fault; never fields moved."""

from __future__ import annotations

import csv
import io

import numpy as np

from toolkit.sources.tables.delimited.dialect import Dialect, fields_of
from toolkit.sources.tables.delimited.rows import Block, parse
from toolkit.sources.tables.delimited.structure import find_rows

_DIALECT = Dialect(",", '"', None, None)


def fuzz(data: bytes) -> object:
    """Use one input."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return "no text"
    found = find_rows(data, ord(","), ord('"'), final=True)
    # A row that ends early may not be taken for a whole one.
    early = find_rows(data, ord(","), ord('"'), final=False)
    if found.fault is not None:
        assert found.fault.line <= data.count(b"\n")
        return found.fault.reason[:20]
    assert early.fault is None
    assert early.ends.tolist() in (found.ends.tolist(), found.ends.tolist()[:-1])
    wanted = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    assert found.widths.tolist() == [len(row) for row in wanted]
    assert int(found.lines.sum()) == data.count(b"\n") + (bool(data) and not data.endswith(b"\n"))
    width = int(found.widths.max(initial=0))
    if not width:
        return "blank"
    block = Block(data, found, 0, 1)
    keep = found.widths == width
    names = [f"f{i}" for i in range(width)]
    read = parse(block, keep, names, names, _DIALECT).to_pydict()
    rows = [wanted[number] for number in np.flatnonzero(keep).tolist()]
    assert [[column[i] or "" for column in read.values()] for i in range(len(rows))] == rows
    assert [fields_of(block.row(int(number)), _DIALECT) for number in np.flatnonzero(keep)] == rows
    return "rows", len(rows) > 1, b'"' in data


def seeds() -> list[bytes]:
    """Return texts, good and bad."""
    texts = [
        'a,b\n1,"x, y"\r\n"a\n""b""",\n',
        '"",""\n\n\r\n,,\n',
        'a,"b"c\n',
        'a,5" disk\n',
        '"never closed\n',
        "é,\ufeff\n\u2028,x",
        '"a"\r\n"b"\r\nc',
        "a\rb\r",
        "\0,\n",
        '"""","",""""""\n' * 3,
    ]
    return [text.encode() for text in texts]

from __future__ import annotations

import enum
import json
from dataclasses import dataclass

import pytest

from toolkit.report.documents import document
from toolkit.report.text import bytes_text, count, number, size_text


def test_numbers() -> None:
    assert [number(value) for value in (0, 3.0, 1234567, 460.04, 27765.5, 0.7071, 12.34)] == [
        *("0", "3", "1,234,567", "460.0", "27,765.5", "0.707", "12.3")
    ]
    assert [size_text(value) for value in (0, 1023, 1024, 1536, 268_435_456, 1 << 60)] == [
        *("0 bytes", "1023 bytes", "1 KiB", "1.5 KiB", "256 MiB", "1024 PiB")
    ]
    assert bytes_text(1) == "1 byte"
    assert bytes_text(100_000_000) == "100,000,000 bytes (95.4 MiB)"
    assert (count(1, "sample"), count(1200, "sample")) == ("1 sample", "1,200 samples")


def test_document() -> None:
    class Kind(enum.Enum):
        IMAGE = "image"

    @dataclass
    class Inner:
        kind: Kind
        sizes: tuple[int, ...]
        rate: float

    text = document("toolkit.x/1", {"inner": Inner(Kind.IMAGE, (1, 2), float("nan")), "none": None})
    assert json.loads(text) == {
        "schema": "toolkit.x/1",
        "inner": {"kind": "image", "sizes": [1, 2], "rate": None},
        "none": None,
    }
    assert "\n" not in text
    with pytest.raises(TypeError):
        document("toolkit.x/1", [1])

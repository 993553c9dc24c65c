"""What targets of sources share: an input as a file, its rows by way of the source, what a refusal may say."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from toolkit.errors import SourceError, ToolkitError, UsageError
from toolkit.format.arrays import valid_rows
from toolkit.sources.base import Rows, Slice, Source, Survey
from toolkit.sources.options import PlacesWanted, SourceOptions, VerifyImages

__all__ = ["File", "check_places", "pieces", "refused", "same"]

_FOLDER = Path(__file__).resolve().parents[2] / "build" / "fuzz" / "input"


class File:
    """A file of this process, written anew for each input."""

    def __init__(self, name: str) -> None:
        folder = _FOLDER / str(os.getpid())
        folder.mkdir(parents=True, exist_ok=True)
        self.path = str(folder / name)

    def write(self, data: bytes) -> str:
        """Write it; return its path."""
        with open(self.path, "wb") as file:
            file.write(data)
        return self.path


def pieces(source: Source) -> Iterator[tuple[Survey, Slice, Rows]]:
    """Yield what a source makes of its input, as a pack asks for it."""
    survey = source.survey()
    for part in survey.slices:
        for rows in source.read(survey, part):
            rows.batch.validate(full=True)
            yield survey, part, rows


def check_places(make: Callable[[SourceOptions], Source], options: SourceOptions, data: bytes) -> None:
    """Make sure that places lie inside the one file of an input, which holds `data`; and that values lie there."""
    for wanted in (PlacesWanted.BESIDE, PlacesWanted.ONLY):
        try:
            for _, _, rows in pieces(make(replace(options, places=wanted, verify_images=VerifyImages.OFF))):
                for column, places in rows.places.items():
                    values = rows.batch.column(column).to_pylist()
                    for i in valid_rows(places.files).nonzero()[0].tolist():
                        begin, length = int(places.offsets[i]), int(places.lengths[i])
                        assert 0 <= begin <= begin + length <= len(data), (begin, length, len(data))
                        if wanted is PlacesWanted.BESIDE:
                            assert values[i]["bytes"] == data[begin : begin + length], (i, begin, length)
        except ToolkitError as error:
            refused(error)


def refused(error: Exception, beginning: str = ".") -> str:
    """Return what an error says: something, that a report can hold; and it is one that bad input may lead to."""
    said = str(error)
    said.encode()
    assert re.match(beginning, said, re.DOTALL), said
    assert isinstance(error, SourceError | UsageError) or not isinstance(error, ToolkitError), said
    return said


def same(a: Any, b: Any) -> bool:
    """Tell whether two values are of one type and equal; NaN equals NaN."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b or (a != a and b != b)

"""Random tables over a folder with everything in it, against an oracle that knows pathlib and nothing of toolkit."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pictures import encode, picture
from sources.tables.listings import NAME

from toolkit.format.schema import KEY
from toolkit.sources.base import Slice, Source, Survey
from toolkit.sources.files import InputFile
from toolkit.sources.options import Missing, SourceOptions
from toolkit.sources.skips import Skips
from toolkit.sources.tables.memory import MemoryTable
from toolkit.sources.tables.source import TableSource
from toolkit.sources.tables.table import Table, TableFacts

MOST = 3000

GOOD = ["a.png", "b/c.png", "b/d d.png", "b/ü.png", "b/in.png", "b/e/f.jpg"]
PATHS = [
    *GOOD,
    *("./a.png", "b//c.png", "b/./c.png", "b/../a.png", "b/e/../../a.png", "b/e/../d d.png", "down/c.png"),
    *("empty.png", "bad.png", "large.png", "b", "b/", ".", "..", "../outside.png", "b/../../root/a.png", "nothing.png"),
    *("a.png/x", "out.png", "away/outside.png", "nowhere.png", "loop.png", "pipe.png", "/etc/passwd", "b\\c.png"),
    *("https://me:secret@host.example/a.png?token=secret", "s3://bucket/secret", "//me:secret@host/a.png"),
    *(
        " http://host/?secret",
        "data:image/png;base64,c2VjcmV0",
        "C:\\a.png",
        "x\0y.png",
        "x" * 5000,
        "~/a.png",
        " a.png",
    ),
    *("", None),
]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("tables")
    root = base / "root"
    (root / "b/e").mkdir(parents=True)
    for i, name in enumerate(("a.png", "b/c.png", "b/d d.png", "b/ü.png", "b/e/f.jpg")):
        (root / name).write_bytes(encode(picture(i, 9, 7), "JPEG" if name.endswith("jpg") else "PNG"))
    (root / "large.png").write_bytes(encode(picture(9, 64, 64), "BMP"))
    (root / "empty.png").touch()
    (root / "bad.png").write_bytes(b"no picture")
    (base / "outside.png").write_bytes((root / "a.png").read_bytes())
    (root / "b/in.png").symlink_to("../a.png")
    (root / "down").symlink_to("b")
    (root / "out.png").symlink_to(base / "outside.png")
    (root / "away").symlink_to(base)
    (root / "nowhere.png").symlink_to("nothing")
    (root / "loop.png").symlink_to("loop.png")
    os.mkfifo(root / "pipe.png")
    return root


class MadeSource(TableSource):
    kind = NAME

    def __init__(self, options: SourceOptions, made: dict[str, list[Table]]) -> None:
        super().__init__(options)
        self._made = made

    def tables(self, skips: Skips) -> dict[str, list[Table]]:
        return self._made


def found(root: Path, text: str | None, *, follow: bool) -> Path | str:
    """The file that a text names, or why it names none: "none", "missing", "refused"."""
    if not text:
        return "none"
    if text.startswith("/") or re.search("^[a-zA-Z]:[/\\\\]|://|^data:|\0", text):
        return "refused"
    norm = os.path.normpath(text)
    if norm == "." or norm.split("/")[0] == "..":
        return "refused"
    try:
        real = (root / norm).resolve(strict=True)
    except (OSError, RuntimeError):
        return "missing"
    if not real.is_file() or not (follow or real.is_relative_to(root.resolve())):
        return "refused"
    return root / norm


def expected(
    root: Path, rows: list[dict[str, Any]], fields: list[str], missing: Missing, *, follow: bool
) -> tuple[list[dict[str, Any]], list[int], int]:
    """Rows, numbers of rejects, and how many are passed over."""
    kept: list[dict[str, Any]] = []
    rejects, over = [], 0
    for number, row in enumerate(rows):
        files = {name: found(root, row[name], follow=follow) for name in fields}
        gone = [file for file in files.values() if file in ("none", "missing")]
        if gone and missing is Missing.SKIP:
            over += 1
            continue
        bad = (gone and missing is Missing.ERROR) or "refused" in files.values()
        made: dict[str, Any] = {}
        for name, file in files.items():
            made[name] = None
            if isinstance(file, Path):
                data = file.read_bytes()
                bad = bad or not data or data == b"no picture" or len(data) > MOST
                made[name] = {"bytes": data, "path": file.name}
        if bad:
            rejects.append(number)
            continue
        key = os.path.normpath(row[fields[0]]) if row[fields[0]] else f"x#{number}"
        kept.append({KEY: key, **made, "n": row["n"]})
    return kept, rejects, over


ROWS = st.lists(st.tuples(st.sampled_from(PATHS), st.sampled_from([*GOOD, "nothing.png", None])), max_size=25)


@given(
    rows=ROWS,
    two=st.booleans(),
    missing=st.sampled_from(Missing),
    follow=st.booleans(),
    size=st.sampled_from([1, 900, 5000, 1 << 30]),
    pieces=st.integers(1, 4),
    limit=st.sampled_from([None, 1, 7]),
)
@settings(max_examples=60, deadline=None)
def test_samples_are_what_an_oracle_says(
    root: Path,
    rows: list[tuple[str | None, str | None]],
    two: bool,
    missing: Missing,
    follow: bool,
    size: int,
    pieces: int,
    limit: int | None,
) -> None:
    columns = [{"p": p, "q": q, "n": i} for i, (p, q) in enumerate(rows)]
    fields = ["p", "q"] if two else ["p"]
    schema = pa.schema([*((name, pa.string()) for name in fields), ("n", pa.int64())])
    table = pa.Table.from_pylist(columns, schema=schema)
    cut = [table.slice(at, pieces) for at in range(0, len(rows), pieces)]
    made = MemoryTable(
        InputFile(str(root / "x"), "x", 0),
        pa.concat_tables(cut) if cut else table,
        TableFacts(files=dict.fromkeys(fields, str(root)), counts_unlisted=True),
    )
    options = SourceOptions(
        paths=("x",), slice_bytes=size, missing=missing, follow_links=follow, max_value_bytes=MOST, limit=limit
    )
    source = MadeSource(options, {"train": [made]})
    survey = source.survey()
    kept, rejects, over = expected(root, columns[:limit], fields, missing, follow=follow)
    got, refused = read(source, survey)
    assert got == kept
    assert [place for _, place, _ in refused] == [f"{root}/x, row {number}" for number in rejects]
    assert survey.skipped.get("missing_files", 0) == over
    assert not any("secret" in text for reject in refused for text in reject)
    assert not any("secret" in name for names in survey.skipped_names.values() for name in names)
    if limit is None:
        named = {os.path.normpath(row[name]) for row in columns for name in fields if row[name]}
        below = {str(path.relative_to(root)) for path in root.rglob("*") if path.suffix in (".png", ".jpg")}
        below |= {f"down/{name[2:]}" for name in below if name.startswith("b/")}
        below |= {"away/outside.png"} if follow else set()
        lost = below - named
        assert survey.skipped.get("unlisted", 0) >= len(lost)
        assert lost <= set(survey.skipped_names.get("unlisted", ()))
        assert bool(survey.warnings) == bool(lost)


def read(source: Source, survey: Survey) -> tuple[list[dict[str, Any]], list[tuple[str, str, str]]]:
    rows: list[dict[str, Any]] = []
    rejects: list[tuple[str, str, str]] = []
    for part in survey.slices:
        assert part.samples == sum(map(sum, counts(source, survey, part)))
        assert sum(some.read_bytes for some in source.read(survey, part)) in (part.bytes, 0)
        for some in source.read(survey, part):
            rows += some.batch.to_pylist()
            rejects += [(one.key, one.source, one.reason) for one in some.rejects]
    return rows, rejects


def counts(source: Source, survey: Survey, part: Slice) -> Iterator[tuple[int, int]]:
    for some in source.read(survey, part):
        yield some.batch.num_rows, len(some.rejects)

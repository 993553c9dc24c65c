"""What a kind of source costs: a folder in sources/kinds, and its tests."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import toolkit
from toolkit.errors import SourceError, UsageError
from toolkit.pack.job import PackJob
from toolkit.pack.run import pack
from toolkit.sources import registry
from toolkit.sources.base import Source
from toolkit.sources.detect import find_kind
from toolkit.sources.kinds.text.spec import TextSpec
from toolkit.sources.options import SourceOptions

SPEC = '''
"""What comma-separated files are."""

from __future__ import annotations

from toolkit.sources.base import Source
from toolkit.sources.options import SourceOptions
from toolkit.sources.spec import COMMON, SourceSpec


class AsvSpec(SourceSpec):
    """Files of lines whose fields lie between commas; the first line has their names."""

    name = "asv"
    title = "ASV files"
    sign = "ASV by name (.asv)"
    survey_text = "first lines are read, for the names of fields"
    accepts = COMMON | {"columns"}
    skips = {"without_fields": ("file without a field", "files without a field")}

    def looks_like(self, path: str) -> bool:
        """Tell whether a file is called *.asv."""
        return path.endswith(".asv")

    def make(self, options: SourceOptions) -> Source:
        """Return what reads them."""
        from toolkit.sources.kinds.asv.source import AsvSource

        return AsvSource(options)


SPEC = AsvSpec()
'''

SOURCE = '''
"""Comma-separated files as a source: a slice a file, every field a text."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from toolkit.format.schema import Column, Kind
from toolkit.sources.base import Rows, Slice, Source, Survey, rows_schema
from toolkit.sources.files import ends_with, find_files, group_by_split
from toolkit.sources.options import SourceOptions
from toolkit.sources.reject import Reject
from toolkit.sources.skips import FILE_REASONS, Skips


class AsvSource(Source):
    """Reads them."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def survey(self) -> Survey:
        """Read the first lines."""
        skips = Skips(FILE_REASONS)
        files = find_files(self._options, ends_with((".asv",)), None, skips)
        heads = {file.path: Path(file.path).read_text().partition("\\n")[0].strip() for file in files}
        for file in files:
            if not heads[file.path]:
                skips.add("without_fields", file.name)
        names = self._options.columns or tuple(next(head for head in heads.values() if head).split(","))
        groups = group_by_split([file for file in files if heads[file.path]], self._options.split)
        return Survey(
            columns=tuple(Column(name=name, kind=Kind.TEXT, arrow_type="string") for name in names),
            types={name: pa.string() for name in names},
            classes={},
            splits=tuple(groups),
            slices=tuple(
                Slice(split, number, None, file.bytes, (file.path, file.name), file.name)
                for split, members in groups.items()
                for number, file in enumerate(members)
            ),
            skipped=skips.counts,
            skipped_names=skips.names,
            options={"columns": list(names)},
        )

    def read(self, survey: Survey, part: Slice) -> Iterator[Rows]:
        """Read a file."""
        path, name = part.payload
        rows, rejects = [], []
        with open(path, newline="") as file:
            for number, line in enumerate(csv.DictReader(file), 1):
                key = f"{name}#{number}"
                if None in line.values():
                    rejects.append(Reject(path, key, "lacks a field"))
                else:
                    rows.append({"__key__": key, **{column.name: line[column.name] for column in survey.columns}})
        yield Rows(pa.RecordBatch.from_pylist(rows, schema=rows_schema(survey)), tuple(rejects), part.bytes)

    def place(self, part: Slice, key: str) -> str:
        """Return the path of the file."""
        return part.payload[0]
'''

PROGRAM = """
import sys
from toolkit.sources import kinds
kinds.__path__.append(sys.argv.pop(1))
from toolkit.cli.main import main
main()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the folder of one more kind lies, beside the input."""
    (tmp_path / "kinds/asv").mkdir(parents=True)
    (tmp_path / "kinds/asv/__init__.py").write_text('"""Comma-separated files."""\n')
    (tmp_path / "kinds/asv/spec.py").write_text(SPEC)
    (tmp_path / "kinds/asv/source.py").write_text(SOURCE)
    return tmp_path / "kinds"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/train.asv").write_text("word,meaning\none,1\ntwo,2\nthree\n")
    (tmp_path / "in/val.asv").write_text("word,meaning\nfour,4\n")
    (tmp_path / "in/test.asv").write_text("")
    (tmp_path / "in/README.md").write_text("about this")
    return tmp_path / "in"


def run(folder: Path, *args: object) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-c", PROGRAM, str(folder), *map(str, args)]
    return subprocess.run(words, capture_output=True, text=True, timeout=120)


def test_a_folder_is_all_that_a_kind_costs(folder: Path, table: Path, tmp_path: Path) -> None:
    done = run(folder, "pack", table, tmp_path / "ds", "--max-rejects", "1")
    assert done.returncode == 0, done.stderr
    assert "samples=3 " in done.stdout.splitlines()[-1]
    assert "passed over: 1 file of another kind (README.md), 1 file without a field (test.asv)" in done.stdout
    ds = toolkit.open(tmp_path / "ds", split="train")
    assert [(ds[i]["__key__"], ds[i]["word"], ds[i]["meaning"]) for i in range(len(ds))] == [
        ("train.asv#1", "one", "1"),
        ("train.asv#2", "two", "2"),
    ]
    assert ds.manifest.options["source_kind"] == "asv"
    assert run(folder, "verify", "--full", tmp_path / "ds").returncode == 0


def test_the_command_line_knows_it(folder: Path, table: Path, tmp_path: Path) -> None:
    plan = run(folder, "pack", table, tmp_path / "ds", "--dry-run", "--json")
    assert json.loads(plan.stdout)["source_kind"] == "asv", plan.stderr
    plan = run(folder, "pack", table, tmp_path / "ds", "--dry-run")
    assert plan.stdout.startswith("dry run: nothing is written; first lines are read, for the names of fields\n")
    told = run(folder, "pack", "--help").stdout
    assert "--source-kind asv|" in told
    assert "ASV files, COCO annotations" in " ".join(told.split())
    schema = json.loads(run(folder, "config", "schema").stdout)
    assert schema["properties"]["source_kind"]["enum"][0] == "asv"


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (
            ["--key", "word"],
            "--key means nothing for a source of kind asv: leave it out. Kinds that take it: ",
        ),
        (["--tokenizer", "bytes"], "--tokenizer means nothing for a source of kind asv"),
        (["--source-kind", "avs"], "Did you mean 'asv'?"),
        (["--source-kind", "imagefolder", "--columns", "a"], "Kinds that take it: asv, "),
    ],
)
def test_what_it_does_not_accept_is_refused(
    folder: Path, table: Path, tmp_path: Path, flags: list[str], says: str
) -> None:
    done = run(folder, "pack", table, tmp_path / "ds", *flags)
    assert done.returncode == 2
    assert says in done.stderr
    assert not (tmp_path / "ds").exists()


def test_it_is_gone_with_its_folder(table: Path, tmp_path: Path) -> None:
    assert "asv" not in registry.names()
    with pytest.raises(UsageError, match=r"source kind must be one of .*, got 'asv'"):
        pack(PackJob(source=str(table), dataset=str(tmp_path / "ds"), source_kind="asv"))


# --- one that a program registers ------------------------------------------------------------------------------------


class NotesSpec(TextSpec):
    """Text files of another name."""

    name = "notes"
    title = "notes"
    is_faint = False

    def looks_like(self, path: str) -> bool:
        return path.endswith(".notes.txt")

    def make(self, options: SourceOptions) -> Source:
        from toolkit.sources.kinds.text.source import TextSource

        return TextSource(options)


@pytest.fixture
def notes() -> Iterator[NotesSpec]:
    spec = NotesSpec()
    assert registry.register(spec) is spec
    yield spec
    registry.forget("notes")


def test_a_kind_is_registered_by_one_call(notes: NotesSpec, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.notes.txt").write_text("a text")
    assert registry.named("notes") is notes
    assert find_kind([str(tmp_path / "in")]) == "notes"
    result = pack(PackJob(source=str(tmp_path / "in"), dataset=str(tmp_path / "ds")))
    assert (result.samples, result.source_kind) == (1, "notes")
    with pytest.raises(ValueError, match="a source of kind 'notes' already"):
        registry.register(NotesSpec())
    (tmp_path / "in/b.tar").write_bytes(b"")
    (tmp_path / "in/x.parquet").write_bytes(b"")
    assert find_kind([str(tmp_path / "in")]) == "notes"


def test_a_name_of_toolkit_is_taken() -> None:
    with pytest.raises(ValueError, match="a source of kind 'text' already"):
        registry.register(TextSpec())


def test_several_kinds_are_not_guessed_at(notes: NotesSpec, tmp_path: Path) -> None:
    (tmp_path / "a.notes.txt").write_text("a text")
    (tmp_path / "b.jpg").write_bytes(b"")
    with pytest.raises(SourceError, match=r"several kinds \(imagefolder and notes\): say which with --source-kind"):
        find_kind([str(tmp_path)])

"""Columns of lists whose ids have names: packed, read, verified, appended to, and as other tools see them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from command import program
from crafted import Batch, Crafted
from format.pure_arrow import Damaged
from format.pure_reader import PureReader

import toolkit
from toolkit.checks.inspect import inspect
from toolkit.checks.labels import inspect_labels
from toolkit.checks.verify import verify
from toolkit.errors import CorruptTableError, SourceError, UsageError
from toolkit.format.kinds import Kind
from toolkit.format.schema import Column
from toolkit.pack.job import OnExisting, PackJob, PackResult
from toolkit.pack.run import pack
from toolkit.sources import registry
from toolkit.sources.base import Rows, Slice, Source, Survey, rows_schema
from toolkit.sources.options import SourceOptions
from toolkit.sources.spec import COMMON, SourceSpec

ROWS = {"a": [1, 0, 1], "b": [], "c": None, "d": [2]}
NAMES = ("cat", "dog", "emu")


class ListSource(Source):
    """A JSON file of names, and of a list of names for each key; ids are those of `classes` where they are given."""

    def __init__(self, options: SourceOptions) -> None:
        self._document = json.loads(Path(options.paths[0]).read_text())
        self._names = options.classes or tuple(self._document["names"])

    def survey(self) -> Survey:
        dtype = {"list": pa.list_, "large": pa.large_list}[self._document.get("type", "list")](pa.int64())
        return Survey(
            columns=(Column(name="labels", kind=Kind.VALUE, arrow_type=str(dtype)),),
            types={"labels": dtype},
            classes={"labels": self._names} if self._document["names"] else {},
            splits=("train",),
            slices=(Slice("train", 0, None, 0, None),),
        )

    def read(self, survey: Survey, part: Slice) -> Iterator[Rows]:
        names, rows = self._document["names"], self._document["rows"]
        if names:
            rows = {key: one and [self._names.index(names[i]) for i in one] for key, one in rows.items()}
        made = [{"__key__": key, "labels": one} for key, one in rows.items()]
        yield Rows(pa.RecordBatch.from_pylist(made, schema=rows_schema(survey)), (), 0)

    def place(self, part: Slice, key: str) -> str:
        return key


class ListSpec(SourceSpec):
    name = "lists"
    title = "lists"
    sign = "lists by name"
    survey_text = "all is read"
    accepts = COMMON | {"classes"}
    has_images = False

    def looks_like(self, path: str) -> bool:
        return path.endswith(".lists")

    def make(self, options: SourceOptions) -> Source:
        return ListSource(options)


@pytest.fixture(autouse=True)
def _kind() -> Iterator[None]:
    registry.register(ListSpec())
    yield
    registry.forget("lists")


def pack_lists(root: Path, rows: dict[str, Any], names: tuple[str, ...] = NAMES, **options: Any) -> PackResult:
    document = {"names": names, "rows": rows, "type": options.pop("type", "list")}
    source = root / "input.lists"
    source.write_text(json.dumps(document))
    return pack(PackJob(source=str(source), dataset=str(root / "ds"), **options))


@pytest.mark.parametrize("form", ["list", "large"])
def test_what_is_packed_is_read_with_its_names(tmp_path: Path, form: str) -> None:
    assert pack_lists(tmp_path, ROWS, type=form).classes == 3
    ds = toolkit.open(tmp_path / "ds", split="train")
    assert {sample["__key__"]: sample["labels"] for sample in ds} == ROWS
    assert ds.classes == NAMES
    assert ds.class_names == {"labels": NAMES}
    assert [batch["labels"] for batch in ds.loader(batch_size=4)] == [list(ROWS.values())]
    assert ds.manifest.splits["train"].labels == {}  # counts are of labels, one a sample
    assert verify(tmp_path / "ds", full=True).findings == ()
    assert any("classes of their tables" in what for what in verify(tmp_path / "ds").not_checked)
    pure = PureReader(tmp_path / "ds")
    assert pure.classes == {"labels": list(NAMES)}
    assert [one["labels"] for one in pure.samples("train")] == list(ROWS.values())


def test_what_commands_show(tmp_path: Path) -> None:
    pack_lists(tmp_path, ROWS)
    shown = inspect(tmp_path / "ds")
    assert (shown.columns[0].classes, shown.labels) == (3, {})
    assert inspect_labels(tmp_path / "ds").columns == {}
    line = json.loads(program("head", tmp_path / "ds", "-n", "1").out)
    assert line["labels"] == [{"id": 1, "name": "dog"}, {"id": 0, "name": "cat"}, {"id": 1, "name": "dog"}]


@pytest.mark.parametrize("form", ["list", "large"])
def test_names_are_those_that_datasets_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_DATASETS_OFFLINE", "1")
    datasets = pytest.importorskip("datasets")
    datasets.disable_progress_bars()
    pack_lists(tmp_path, ROWS, type=form)
    files = toolkit.open(tmp_path / "ds", split="train").files
    cache = str(tmp_path / "cache")
    kind = datasets.LargeList if form == "large" else datasets.List
    loaded = datasets.load_dataset("arrow", data_files=files, split="train", cache_dir=cache)
    assert loaded.features["labels"] == kind(datasets.ClassLabel(names=list(NAMES)))
    assert loaded["labels"][:] == list(ROWS.values())


@pytest.mark.parametrize(
    ("bad", "says"),
    [([0, 3], "the id 3"), ([-1], "the id -1"), ([0, None], "a null"), ([2**63 - 1, 0], "the id 9223372036854775807")],
)
def test_ids_without_a_name_are_findings(tmp_path: Path, bad: list[int | None], says: str) -> None:
    pack_lists(tmp_path, ROWS)
    crafted = Crafted.of(tmp_path / "ds")
    rows = crafted.batch("train").records(crafted.schema)
    at = rows.schema.get_field_index("labels")
    array = pa.array([[0], [], None, bad], rows.schema.types[at])
    crafted.shard("train").batches[0] = Batch.of(rows.set_column(at, rows.schema.field(at), array))
    crafted.write(tmp_path / "bad")
    (finding,) = verify(tmp_path / "bad", full=True).findings
    assert (finding.row, finding.kind, finding.place) == (3, "integrity", "sample")
    assert f"column labels has {says} in its list, and its label table 3 names" in finding.message
    assert verify(tmp_path / "bad").findings == ()
    line = program("head", tmp_path / "bad", "-n", "4").out.splitlines()[3]
    names = dict(enumerate(NAMES))
    assert json.loads(line)["labels"] == [None if one is None else {"id": one, "name": names.get(one)} for one in bad]


def test_other_types_have_no_label_table(tmp_path: Path) -> None:
    pack_lists(tmp_path, ROWS)
    crafted = Crafted.of(tmp_path / "ds")
    table = crafted.manifest["columns"][0]["label_table"]
    rows = crafted.batch("train").records(crafted.schema)
    for dtype in (pa.list_(pa.int32()), pa.list_(pa.int64(), 0), pa.int64(), pa.list_(pa.list_(pa.int64()))):
        crafted = Crafted.of(tmp_path / "ds")
        schema = crafted.schema.set(2, pa.field("labels", dtype))
        made = [rows.column(0), rows.column(1), pa.nulls(4, dtype)]
        crafted.shard("train").batches[0] = Batch.of(pa.RecordBatch.from_arrays(made, schema=schema))
        crafted.set_schema(schema)
        crafted.write(tmp_path / "bad")
        with pytest.raises(CorruptTableError, match="column 'labels' is of kind value with class names, and its type"):
            toolkit.open(tmp_path / "bad", split="train")
        with pytest.raises(Damaged, match="column labels has a label table, its type is"):
            PureReader(tmp_path / "bad")
        del crafted.manifest["columns"][0]["label_table"]
        crafted.write(tmp_path / "bad")
        assert len(toolkit.open(tmp_path / "bad", split="train")) == 4
    crafted = Crafted.of(tmp_path / "ds")
    crafted.say("columns", 0, value={"name": "labels", "kind": "json", "arrow_type": "x", "label_table": table})
    crafted.write(tmp_path / "bad")
    with pytest.raises(CorruptTableError, match="a column of kind json has a label table"):
        toolkit.open(tmp_path / "bad", split="train")


def test_an_append_moves_no_id(tmp_path: Path) -> None:
    pack_lists(tmp_path, ROWS)
    more, append = {"e": [0, 1], "f": [1]}, {"on_existing": OnExisting.APPEND}
    with pytest.raises(SourceError, match="1 classes of 'labels' are not in the dataset, 'auk' the first"):
        pack_lists(tmp_path, more, ("auk", "dog"), **append)
    assert pack_lists(tmp_path, more, ("auk", "dog"), extend_classes=True, **append).classes == 4
    ds = toolkit.open(tmp_path / "ds", split="train")
    assert ds.classes == (*NAMES, "auk")
    assert {sample["__key__"]: sample["labels"] for sample in ds} == {**ROWS, "e": [3, 1], "f": [1]}
    assert pack_lists(tmp_path, {"g": [0]}, ("emu",), **append).added == 1
    ds = toolkit.open(tmp_path / "ds", split="train")
    assert (ds[6]["labels"], ds.classes) == ([2], (*NAMES, "auk"))
    assert verify(tmp_path / "ds", full=True).findings == ()
    assert list(PureReader(tmp_path / "ds").classes.values()) == [[*NAMES, "auk"]]


def test_ids_are_not_appended_to_names_nor_names_to_ids(tmp_path: Path) -> None:
    pack_lists(tmp_path, ROWS)
    says = r"column 'labels' is value \(list<item: int64>, with class names\) in the dataset and value \(list<item: int"
    with pytest.raises(UsageError, match=says):
        pack_lists(tmp_path, {"e": [0]}, (), on_existing=OnExisting.APPEND)
    (tmp_path / "ids").mkdir()
    pack_lists(tmp_path / "ids", ROWS, ())
    assert toolkit.open(tmp_path / "ids/ds", split="train").classes is None
    with pytest.raises(UsageError, match="with class names\\) in the input"):
        pack_lists(tmp_path / "ids", {"e": [0]}, on_existing=OnExisting.APPEND)


def test_datasets_with_other_names_are_not_joined(tmp_path: Path) -> None:
    opened = []
    for number, names in enumerate((NAMES, NAMES[::-1], ())):
        (tmp_path / str(number)).mkdir()
        pack_lists(tmp_path / str(number), ROWS, names)
        opened.append(toolkit.open(tmp_path / str(number) / "ds", split="train"))
    named, other, ids = opened
    assert toolkit.concat([named, named]).classes == NAMES
    with pytest.raises(UsageError, match="id 0 of labels is 'cat' in one dataset and 'emu' in the other"):
        toolkit.concat([named, other])
    for pair in ([named, ids], [ids, named]):
        with pytest.raises(UsageError, match="the datasets have class names in the columns"):
            toolkit.concat(pair)


def test_names_that_no_lists_of_ids_have_are_not_packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    surveyed = ListSource.survey

    def survey(source: ListSource) -> Survey:
        found = surveyed(source)
        dtype = pa.list_(pa.int32())
        return Survey(**{**vars(found), "types": {"labels": dtype}})

    monkeypatch.setattr(ListSource, "survey", survey)
    with pytest.raises(UsageError, match="these columns can't be packed: column 'labels' is of kind value with class"):
        pack_lists(tmp_path, ROWS)

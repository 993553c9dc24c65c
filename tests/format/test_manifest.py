"""Manifests: canonical bytes, round trips, and what an unknown one is refused for."""

from __future__ import annotations

import contextlib
import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import toolkit
from toolkit.errors import CorruptTableError, FormatError
from toolkit.format.contract import MOST_BYTES, MOST_ROWS
from toolkit.format.manifest import (
    MOST_SHARDS,
    LabelCounts,
    Manifest,
    Split,
    TableRef,
    encode_manifest,
    parse_manifest,
    unknown_part,
)
from toolkit.format.schema import Derived, Kind, derived_of, image_column, label_column

HASH = "ab" * 32
COUNT = st.integers(0, MOST_ROWS)
COLUMNS = (image_column("image"), label_column("été", HASH))
REFS = st.builds(
    TableRef,
    sha256=st.just(HASH),
    shards=st.integers(1, MOST_SHARDS),
    batches=st.integers(0, MOST_ROWS >> 2),
    rows=st.integers(0, MOST_ROWS >> 2),
    bytes=st.integers(0, MOST_BYTES >> 2),
    tokens=st.integers(0, MOST_ROWS >> 2),
)
EMPTY = Manifest(
    format=1, requires=(), columns=(), derived=(), schema=HASH, splits={}, options={}, parent=None, user={}
)


@st.composite
def manifests(draw: st.DrawFn) -> Manifest:
    columns = draw(st.sampled_from([(), COLUMNS]))
    splits = {}
    for name in draw(st.lists(st.text(), max_size=3, unique=True)):
        tables = draw(st.lists(REFS, max_size=3))
        rows, nbytes = (sum(getattr(table, what) for table in tables) for what in ("rows", "bytes"))
        missing = draw(st.integers(0, rows))
        labels = {"été": LabelCounts(counts=(rows - missing, 0), missing=missing)} if columns else {}
        splits[name] = Split(rows=rows, bytes=nbytes, labels=labels, tables=tuple(tables))
    return Manifest(
        format=1,
        requires=(),
        columns=columns,
        derived=draw(st.sampled_from([(), derived_of(columns)])),
        schema=HASH,
        splits=splits,
        options=draw(st.dictionaries(st.text(), st.none() | st.booleans() | COUNT | st.text(), max_size=3)),
        parent=draw(st.none() | st.just(HASH)),
        user=draw(st.dictionaries(st.text(), st.text(), max_size=3)),
    )


@settings(deadline=None)
@given(manifests())
def test_round_trip_and_canonical_bytes(manifest: Manifest) -> None:
    data, pin = encode_manifest(manifest)
    assert parse_manifest(data, "m") == manifest
    assert pin == hashlib.sha256(data).hexdigest()
    assert data == (json.dumps(json.loads(data), ensure_ascii=False, sort_keys=True, indent=1) + "\n").encode()


def test_order_of_keys_does_not_matter() -> None:
    one, other = (msgspec.structs.replace(EMPTY, user=user) for user in ({"b": "1", "a": "2"}, {"a": "2", "b": "1"}))
    assert encode_manifest(one) == encode_manifest(other)


# --- refused ----------------------------------------------------------------------------------------------------


def changed(**changes: Any) -> bytes:
    manifest = msgspec.structs.replace(EMPTY, columns=(image_column("image"),))
    return json.dumps({**json.loads(encode_manifest(manifest)[0]), **changes}).encode()


REF: dict[str, Any] = {"sha256": HASH, "shards": 1, "batches": 2, "rows": 3, "bytes": 400, "tokens": 5}


def split_of(**changes: Any) -> dict[str, Any]:
    return {"rows": 3, "bytes": 400, "labels": {}, "tables": [REF], **changes}


@pytest.mark.parametrize("number", [0, 2, 99, -1])
def test_another_format_is_refused_by_its_number(number: int) -> None:
    with pytest.raises(FormatError, match=f"m has format {number}; .* reads format 1: install a newer toolkit"):
        parse_manifest(changed(format=number, what="a newer field", columns="unreadable"), "m")


def test_unknown_features_are_refused_by_name() -> None:
    with pytest.raises(FormatError, match="m requires warp, zstd, unknown here"):
        parse_manifest(changed(requires=["zstd", "warp", "references"]), "m")
    with pytest.raises(FormatError, match=r"requires warp\\n\\x1b\[31m, unknown"):
        parse_manifest(changed(requires=["warp\n\x1b[31m"]), "m")


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"columns": [{"kind": "image", "arrow_type": "?"}]}, "name"),
        ({"columns": [{"name": "x", "kind": 5, "arrow_type": "?"}]}, "kind"),
        ({"columns": [{"name": "x", "kind": None, "arrow_type": "?"}]}, "kind"),
        ({"derived": [{"of": "x", "what": "height", "version": 1}]}, "arrow_type"),
        ({"derived": [{"of": "x", "what": "height", "version": 0, "arrow_type": "int32"}]}, "version"),
        ({"derived": "x"}, "derived"),
        ({"splits": {"train": {"rows": 1}}}, "bytes"),
        ({"splits": {"train": split_of(tables=[{"sha256": HASH, "shards": 1, "rows": 1}])}}, "batches"),
        ({"splits": {"train": split_of(tables=[REF | {"tokens": -1}])}}, "tokens"),
        ({"splits": {"train": split_of(tables=[REF | {"bytes": MOST_BYTES + 1}])}}, "bytes"),
        ({"splits": {"train": {"rows": "1", "bytes": 0, "labels": {}, "tables": []}}}, "rows"),
        ({"schema": None}, "schema"),
        ({"parent": 5}, "parent"),
        ({"user": {"a": 1}}, "user"),
        ({"format": "1"}, "format"),
        ({"format": None}, "format"),
        ({"requires": "warp"}, "requires"),
    ],
)
def test_missing_fields_and_wrong_types_are_named(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(CorruptTableError, match=f"m isn't a manifest of format 1: .*{named}"):
        parse_manifest(changed(**changes), "m")


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b"\xff", b'"\xff"', b"{}", b"1" * 5000])
def test_what_is_no_manifest(data: bytes) -> None:
    with pytest.raises(CorruptTableError, match="m isn't a manifest"):
        parse_manifest(data, "m")


@pytest.mark.parametrize(
    "changes",
    [
        {"splits": {"train": split_of(rows=4)}},
        {"splits": {"train": split_of(bytes=401)}},
        {"splits": {"train": split_of(tables=[REF, REF])}},
        {"splits": {"train": split_of(tables=[])}},
        {"splits": {"train": split_of(tables=[REF | {"shards": MOST_SHARDS + 1}])}},
        {"splits": {"train": split_of(labels={"label": {"counts": [3], "missing": 0}})}},
        {"derived": [{"of": "none", "what": "height", "version": 1, "arrow_type": "int32"}]},
        {"derived": [{"of": "image", "what": "", "version": 1, "arrow_type": "int32"}]},
        {"derived": [{"of": "image", "what": "a\0b", "version": 1, "arrow_type": "int32"}]},
        {"derived": [{"of": "image", "what": "height", "version": 1, "arrow_type": "int32"}] * 2},
    ],
)
def test_what_contradicts_itself_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(CorruptTableError, match="m contradicts itself: "):
        parse_manifest(changed(**changes), "m")


def test_sums_are_those_of_all_tables() -> None:
    manifest = parse_manifest(changed(splits={"train": split_of(rows=6, bytes=800, tables=[REF, REF])}), "m")
    assert [table.tokens for table in manifest.splits["train"].tables] == [5, 5]


def test_one_from_before_the_format_was_settled_is_refused_in_words() -> None:
    before = json.loads(changed())
    del before["derived"]
    for data in (before, {"format": 1}, {**before, "columns": "of another form"}):
        with pytest.raises(
            FormatError, match="m is of a toolkit from before format 1 was settled: pack the dataset ag"
        ):
            parse_manifest(json.dumps(data).encode(), "m")


def test_what_is_not_known_is_ignored() -> None:
    """At every place of a manifest; what changes how a value is read stands in `requires`."""
    known = {"splits": {"train": split_of()}, "derived": [msgspec.to_builtins(one) for one in HEIGHT]}
    more = json.loads(changed(**known))
    more["surprise"] = {"deep": [1]}
    more["columns"][0]["smell"] = "sweet"
    more["derived"][0]["unit"] = "pixels"
    more["splits"]["train"]["median"] = 5
    more["splits"]["train"]["tables"][0]["keys"] = HASH
    assert parse_manifest(json.dumps(more).encode(), "m") == parse_manifest(changed(**known), "m")


HEIGHT = (Derived(of="image", what="height", version=1, arrow_type="int32"),)


def test_any_other_kind_is_unknown_and_may_say_anything_of_itself() -> None:
    column = {"name": "nose", "kind": "smell", "arrow_type": "int8", "encoding": "sweet", "label_table": HASH}
    manifest = parse_manifest(changed(columns=[column]), "m")
    assert manifest.columns[0].kind is Kind.UNKNOWN
    assert unknown_part(changed(columns=[column]), manifest) == "columns[0].kind"
    derived = [{"of": "nose", "what": "volume", "version": 3, "arrow_type": "double"}]
    assert parse_manifest(changed(columns=[column], derived=derived), "m").derived[0].name == "__nose.volume__"


@settings(deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 255))
def test_any_byte_replaced(at: int, byte: int) -> None:
    data = bytearray(changed(user={"é": "ü"}))
    data[at % len(data)] = byte
    with contextlib.suppress(CorruptTableError, FormatError):
        assert isinstance(parse_manifest(bytes(data), "m"), Manifest)


@pytest.mark.parametrize(("changes", "message"), [({"format": 7}, "format 7"), ({"requires": ("warp",)}, "warp")])
def test_a_dataset_of_the_future(
    tmp_path: Path, commit_samples: Callable[..., str], changes: dict[str, Any], message: str
) -> None:
    commit_samples(tmp_path / "d", {"train": []}, **changes)
    with pytest.raises(FormatError, match=message) as caught:
        toolkit.open(tmp_path / "d")
    assert caught.value.exit_code == 4


FIRST_USE = """
import sys, threading
sys.setswitchinterval(1e-6)
from toolkit.format.manifest import parse_manifest
from toolkit.format.schema import columns_of
from toolkit.format.tables import parse_schema_table
manifest, table = (open(name, "rb").read() for name in sys.argv[1:])
schema = parse_schema_table(table, "schema")
barrier = threading.Barrier(32)
def use(number):
    barrier.wait()
    columns_of(schema) if number % 2 else parse_manifest(manifest, "manifest")
threads = [threading.Thread(target=use, args=[number]) for number in range(32)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""


def test_threads_that_meet_a_manifest_for_the_first_time(dataset: Path) -> None:
    """msgspec ended the process in a third of such runs: `toolkit.open` on threads, and a pack's packing threads."""
    schema = json.loads((dataset / "manifest.json").read_bytes())["schema"]
    names = [str(dataset / "manifest.json"), str(dataset / "tables" / f"{schema}.arrow")]
    for _ in range(6):
        subprocess.run([sys.executable, "-c", FIRST_USE, *names], check=True, timeout=60)


# --- what only a newer toolkit knows ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (lambda m: m.update(index="x"), "index"),
        (lambda m: m["columns"][0].update(kind="point_cloud"), "columns[0].kind"),
        (lambda m: m["columns"][0].update(bits=12), "columns[0].bits"),
        (lambda m: m["splits"]["train"].update(index={"a": [1]}), "splits.train.index"),
        (lambda m: m["splits"]["train"]["tables"][0].update(zones="x"), "splits.train.tables[0].zones"),
        (lambda m: m["splits"]["train"]["labels"]["label"].update(soft=None), "splits.train.labels.label.soft"),
    ],
)
def test_it_is_found(dataset: Path, change: Callable[[Any], None], place: str) -> None:
    data = (dataset / "manifest.json").read_bytes()
    assert unknown_part(data, parse_manifest(data, "M")) is None
    document = json.loads(data)
    change(document)
    changed = json.dumps(document).encode()
    assert unknown_part(changed, parse_manifest(changed, "M")) == place


# --- sums ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["batches", "tokens"])
def test_sums_of_references_stay_in_their_range(dataset: Path, what: str) -> None:
    document = json.loads((dataset / "manifest.json").read_bytes())
    ref = {"sha256": HASH, "shards": 1, "batches": 1, "rows": 0, "bytes": 0, "tokens": 0}
    document["splits"]["train"]["tables"] += [ref | {what: 1 << 48}] * 2
    with pytest.raises(CorruptTableError, match=f"split 'train' has [0-9]+ {what}, and {1 << 48} are the most"):
        parse_manifest(json.dumps(document).encode(), "M")


@pytest.mark.parametrize("what", ["batches", "tokens"])
def test_a_table_of_no_shards_has_nothing(dataset: Path, what: str) -> None:
    document = json.loads((dataset / "manifest.json").read_bytes())
    ref = {"sha256": HASH, "shards": 0, "batches": 0, "rows": 0, "bytes": 0, "tokens": 0}
    document["splits"]["train"]["tables"].append(ref | {what: 1})
    with pytest.raises(CorruptTableError, match=f"table {HASH} of no shards, and yet rows, bytes or tokens"):
        parse_manifest(json.dumps(document).encode(), "M")

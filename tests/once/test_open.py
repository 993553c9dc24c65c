"""What is no dataset yet, opened at once: the same samples as its pack gives, or an error that says what to do."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from forks import forked
from pictures import encode, make_folder, picture
from sources import tars

import toolkit
from toolkit import slot
from toolkit.errors import (
    ExistsError,
    NotFoundError,
    RejectsError,
    SourceError,
    ToolkitError,
    UsageError,
)

COUNT = 11


def photographs() -> list[bytes]:
    return [encode(picture(seed, 40 + seed, 32), quality=90) for seed in range(COUNT)]


def folder(root: Path) -> Path:
    return make_folder(root / "photos", {"cat": 6, "dog": COUNT - 6}, width=40, height=32)


def tar(root: Path) -> Path:
    items = [
        (f"{i:03d}.{name}", data)
        for i, photo in enumerate(photographs())
        for name, data in (("cls", str(i % 3).encode()), ("jpg", photo))
    ]
    return tars.write(root / "photos.tar", tars.tar_bytes(items))


def parquet(root: Path) -> str:
    for number in range(2):
        rows = [{"image": {"bytes": one, "path": None}, "label": "ab"[i % 2]} for i, one in enumerate(photographs())]
        write_rows(root / f"part-{number}.parquet", rows[number::2])
    return str(root / "part-*.parquet")


def write_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    fields = [("image", pa.struct([("bytes", pa.binary()), ("path", pa.string())]))]
    schema = pa.schema([*fields, *([("label", pa.string())] if "label" in rows[0] else [])])
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), path, row_group_size=3)


def texts(root: Path) -> str:
    for number in range(3):
        lines = [json.dumps({"text": f"text {number} {i}", "score": i / 3}) for i in range(5)]
        (root / f"part-{number:02d}.jsonl").write_text("\n".join(lines))
    return str(root / "part-{00..02}.jsonl")


def records(root: Path) -> list[dict[str, Any]]:
    return [{"image": one, "label": ["cat", "dog"][i % 2], "n": i} for i, one in enumerate(photographs())]


def frame(root: Path) -> pl.DataFrame:
    return pl.DataFrame({"label": ["b", "a", "b"], "x": [1.5, None, 2.5], "text": ["", "é", "z"]})


SOURCES = [folder, tar, parquet, texts, records, frame]


@pytest.mark.parametrize("source", SOURCES, ids=lambda make: make.__name__)
def test_at_once_is_as_packed(source: Callable[[Path], Any], tmp_path: Path) -> None:
    given = source(tmp_path)
    options = {"missing": "null"} if source is frame else {}
    toolkit.pack(given, tmp_path / "packed", **options)
    packed, once = toolkit.open(tmp_path / "packed"), toolkit.open(given, **options)
    assert once.keys() == packed.keys()
    assert [one.name for one in once.columns] == [one.name for one in packed.columns]
    assert once.class_names == packed.class_names
    assert [once[i] for i in range(len(once))] == [packed[i] for i in range(len(packed))]
    assert len(once) == len(packed) > 2
    if "image" in packed.schema.names:
        steps = toolkit.pipeline(slot("image").decode_image().resize_short(24).center_crop(24))
        batches = [
            [batch.copy() for batch in ds.loader(steps, batch_size=4, shuffle="full", seed=3)] for ds in (once, packed)
        ]
        for mine, theirs in zip(*batches, strict=True):
            assert mine.sample_keys == theirs.sample_keys
            np.testing.assert_array_equal(mine["image"], theirs["image"])


@pytest.mark.parametrize("source", SOURCES, ids=lambda make: make.__name__)
def test_what_was_opened_at_once_is_packed(source: Callable[[Path], Any], tmp_path: Path) -> None:
    given = source(tmp_path)
    options = {"missing": "null"} if source is frame else {}
    done = toolkit.open(given, **options).pack(tmp_path / "lasting", shard_size="64KiB")
    toolkit.pack(given, tmp_path / "packed", shard_size="64KiB", **options)
    lasting, packed = toolkit.open(tmp_path / "lasting"), toolkit.open(tmp_path / "packed")
    assert done.pin == lasting.pin
    assert [*lasting] == [*packed]
    assert lasting.class_names == packed.class_names
    assert digests(lasting) == digests(packed)
    with pytest.raises(UsageError, match="is packed already: copy its folder"):
        lasting.pack(tmp_path / "again")


def digests(ds: toolkit.Dataset) -> list[bytes]:
    found: list[bytes] = []
    for path in ds.files:
        found += pa.ipc.open_file(path).read_all()["__digest__"].to_pylist()
    return found


def test_any_iterable_of_samples(tmp_path: Path) -> None:
    made = toolkit.open({"n": i, "text": str(i)} for i in range(5))
    assert [sample["n"] for sample in made] == [0, 1, 2, 3, 4]
    pairs = toolkit.open([(b"\x89", 1), (b"\x88", 0)], columns=["data", "label"], classes=["a", "b"])
    assert (pairs[0]["label"], pairs.classes) == (1, ("a", "b"))
    both = toolkit.open({"train": [{"n": 1}], "val": [{"n": 2}]}, split="val")
    assert ([*both], [*both.open_split("train")]) == (
        [{"__key__": "1", "n": 2}],
        [{"__key__": "0", "n": 1}],
    )
    assert toolkit.open(pa.table({"a": [1, 2]}), columns=["a"])[1]["a"] == 2
    assert "in memory, of a list of 1" in repr(toolkit.open([{"n": 1}]))


# --- paths ------------------------------------------------------------------------------------------------------------


def test_a_list_of_paths_and_a_pattern_over_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a/x", "a/b/y", "z"):
        path = tmp_path / f"{name}.jsonl"
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(json.dumps({"n": name}))
    assert [one["n"] for one in toolkit.open(tmp_path / "**/*.jsonl")] == ["a/x", "a/b/y", "z"]
    assert [one["n"] for one in toolkit.open([tmp_path / "z.jsonl", tmp_path / "a/x.jsonl"])] == ["a/x", "z"]
    ds = toolkit.open(tmp_path / "a")
    assert len(ds) == 2
    monkeypatch.chdir(tmp_path / "a")
    assert "a/x.jsonl" in repr(toolkit.open("x.jsonl"))


def test_each_file_of_a_list_must_be_there(tmp_path: Path) -> None:
    texts(tmp_path)
    with pytest.raises(NotFoundError, match=r"part-03.jsonl'\. Did you mean"):
        toolkit.open(tmp_path / "part-{00..03}.jsonl")
    with pytest.raises(NotFoundError, match=r"no input at .*\*\.tar"):
        toolkit.open(tmp_path / "*.tar")


def test_a_mistyped_path_names_what_is_near(tmp_path: Path) -> None:
    folder(tmp_path)
    with pytest.raises(NotFoundError, match=r"no dataset at .*/photo'\. Did you mean 'photos'\?"):
        toolkit.open(tmp_path / "photo")
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotFoundError, match=r"is no dataset, having no manifest\.json; and nothing to pack in"):
        toolkit.open(tmp_path / "empty")
    (tmp_path / "strange").write_bytes(b"of no kind")
    with pytest.raises(SourceError, match="is of no kind that is known"):
        toolkit.open(tmp_path / "strange")
    for nothing in (3, None, b"photos"):
        with pytest.raises(UsageError, match="a dataset is a path"):
            toolkit.open(nothing)
    with pytest.raises(UsageError, match="source is an empty list"):
        toolkit.open([])
    with pytest.raises(UsageError, match="only local files"):
        toolkit.open("s3://bucket/photos")


def test_a_dataset_is_a_dataset_whatever_became_of_it(tmp_path: Path) -> None:
    pack = toolkit.pack(folder(tmp_path), tmp_path / "ds")
    assert toolkit.open(tmp_path / "ds/manifest.json").pin == pack.pin
    assert toolkit.open(tmp_path / f"ds/manifests/{pack.pin}.json").pin == pack.pin
    with pytest.raises(UsageError, match=r"label_mode= is for what isn't packed yet, and .*ds' is a dataset"):
        toolkit.open(tmp_path / "ds", label_mode="none")
    with pytest.raises(UsageError, match="pack= is for what isn't packed yet"):
        toolkit.open(tmp_path / "ds", pack=tmp_path / "other")
    with pytest.raises(UsageError, match=r"ds' is a dataset: open each by itself"):
        toolkit.open([tmp_path / "ds", tmp_path / "photos"])
    for lost in ("shards", "tables", "manifests"):
        (tmp_path / "ds" / lost).rename(tmp_path / lost)
        with pytest.raises(ToolkitError, match=r"shards|missing|no committed version") as caught:
            toolkit.open(tmp_path / "ds")[0]
        assert "nothing to pack" not in str(caught.value)
        (tmp_path / lost).rename(tmp_path / "ds" / lost)
    (tmp_path / "ds/manifest.json").unlink()
    (tmp_path / "ds/.journal").mkdir()
    (tmp_path / "ds/.journal/job.json").write_text("{}")
    with pytest.raises(NotFoundError, match="its pack did not finish"):
        toolkit.open(tmp_path / "ds")


@pytest.mark.parametrize("name", ["a b", "ü", "{1..2}", "*", "a@sha256", "'\"", "-x", "[a]", "\n"])
def test_names_of_folders_mean_nothing(name: str, tmp_path: Path) -> None:
    (tmp_path / name).mkdir()
    photos = make_folder(tmp_path / name / "photos", {f"{name}1": 2, "z": 1})
    (photos / "z" / f"{name}.jpg").write_bytes(photographs()[0])
    ds = toolkit.open(photos)
    assert len(ds) == 4
    assert f"{name}1" in (ds.classes or ())
    assert ds[-1]["image"] == (photos / ds.keys()[-1]).read_bytes()


# --- options ----------------------------------------------------------------------------------------------------------


def test_options_of_sources(tmp_path: Path) -> None:
    photos = folder(tmp_path)
    ds = toolkit.open(photos, label_mode="none", exclude=["dog/*"], columns=["image"])
    assert (len(ds), [one.name for one in ds.columns]) == (6, ["image"])
    with pytest.raises(UsageError, match="label_mode"):
        toolkit.open(photos, label_mode="sometimes")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="delimiter means nothing for a source of kind imagefolder"):
        toolkit.open(photos, delimiter=";")
    with pytest.raises(UsageError, match="columns takes a list of names"):
        toolkit.open(photos, columns="image")
    with pytest.raises(NotFoundError, match=r"photos' has no split 'val'; it has train"):
        toolkit.open(photos, split="val")
    for option in ("shuffle_seed", "jobs", "nonsense"):
        with pytest.raises(UsageError, match=f"toolkit.open\\(\\) takes no {option!r}"):
            toolkit.open(photos, **{option: 1})


def test_splits_are_those_of_the_pack(tmp_path: Path) -> None:
    make_folder(tmp_path / "photos", {"train/cat": 3, "val/cat": 2})
    with pytest.raises(UsageError, match=r"photos' has the splits train, val: say split="):
        toolkit.open(tmp_path / "photos")
    ds = toolkit.open(tmp_path / "photos", split="val")
    assert (len(ds), len(ds.open_split("train"))) == (2, 3)


def test_keys_that_come_twice(tmp_path: Path) -> None:
    rows = [{"__key__": "a", "n": 1}, {"__key__": "b", "n": 2}, {"__key__": "a", "n": 3}]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(SourceError, match=r"the key 'a' occurs twice: .*sample 0.*sample 2"):
        toolkit.open(tmp_path / "rows.jsonl", key="__key__")
    ds = toolkit.open(tmp_path / "rows.jsonl", key="__key__", key_conflict="suffix")
    assert ds.keys() == ["a", "b", "a#1"]


def test_no_more_than_the_bound_is_read(tmp_path: Path) -> None:
    rows = [{"text": os.urandom(500).hex()} for _ in range(2000)]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert len(toolkit.open(tmp_path / "rows.jsonl", memory="4MiB")) == 2000
    with pytest.raises(SourceError, match=r"more than 1048576 bytes .* pack=") as caught:
        toolkit.open(tmp_path / "rows.jsonl", memory="1MiB")
    assert "toolkit pack SOURCE DATASET" in str(caught.value)
    with pytest.raises(SourceError, match=r"more than 1048576 bytes.*toolkit\.pack\(source, DATASET\)"):
        toolkit.open(rows, memory="1MiB")
    with pytest.raises(UsageError, match="memory: expected"):
        toolkit.open(rows, memory="much")
    assert len(toolkit.open(tmp_path / "rows.jsonl", memory="1MiB", pack=tmp_path / "ds")) == 2000


def test_rows_that_cannot_be_packed(tmp_path: Path) -> None:
    good, bad = photographs()[:2], b"no picture"
    rows = [{"image": {"bytes": one, "path": None}} for one in (*good, bad)]
    write_rows(tmp_path / "rows.parquet", rows)
    with pytest.raises(RejectsError, match=r"1 sample rejected, 0 allowed:\n.*not an image.*\n.*max_rejects=1"):
        toolkit.open(tmp_path / "rows.parquet")
    assert len(toolkit.open(tmp_path / "rows.parquet", max_rejects=1)) == 2


# --- life -------------------------------------------------------------------------------------------------------------


def test_the_state_names_the_listing(tmp_path: Path) -> None:
    photos = folder(tmp_path)
    ds = toolkit.open(photos)
    assert ds.pin == toolkit.open(photos).pin
    with ds.loader(batch_size=2, shuffle="full") as loader:
        next(iter(loader))
        state = loader.state_dict()
    with toolkit.open(photos).loader(batch_size=2, shuffle="full") as loader:
        loader.load_state_dict(state)
    (photos / "cat/new.jpg").write_bytes(photographs()[0])
    changed = toolkit.open(photos)
    assert changed.pin != ds.pin
    with changed.loader(batch_size=2, shuffle="full") as loader, pytest.raises(ToolkitError, match=r"pin|dataset"):
        loader.load_state_dict(state)
    os.utime(photos / "cat/0000.jpg", (1, 1))
    assert toolkit.open(photos).pin != changed.pin


ELSEWHERE = """
import pickle, sys
try:
    ds = pickle.load(open(sys.argv[1], "rb"))
    print(ds.pin, len(ds), ds.keys()[0], len(str(ds[1])))
except Exception as error:
    print(type(error).__name__, error)
"""


def elsewhere(ds: toolkit.Dataset, tmp_path: Path) -> str:
    (tmp_path / "pickled").write_bytes(pickle.dumps(ds))
    command = [sys.executable, "-c", ELSEWHERE, str(tmp_path / "pickled")]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, cwd="/")
    return ran.stdout.strip()


def test_files_are_listed_again_where_a_pickle_arrives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    photos = folder(tmp_path)
    monkeypatch.chdir(tmp_path)
    ds = toolkit.open("photos")[2:]
    assert pickle.loads(pickle.dumps(ds)).stored.parts[0].version.store is ds.stored.parts[0].version.store
    assert len(pickle.dumps(ds)) < 5000
    assert elsewhere(ds, tmp_path) == f"{ds.pin} {len(ds)} {ds.keys()[0]} {len(str(ds[1]))}"
    (photos / "cat/new.jpg").write_bytes(photographs()[0])
    said = elsewhere(ds, tmp_path)
    assert said.startswith("PinMismatchError")
    assert "photos' isn't what it was when the dataset was opened: files were added" in said


def test_records_travel_as_bytes(tmp_path: Path) -> None:
    ds = toolkit.open(records(tmp_path))[2:]
    assert elsewhere(ds, tmp_path) == f"{ds.pin} {len(ds)} {ds.keys()[0]} {len(str(ds[1]))}"


KILLED = """
import os, sys, toolkit
kept = [toolkit.open(sys.argv[1]), toolkit.open([{"text": "x" * 1000, "n": i} for i in range(1000)])]
print(sum(len(ds) for ds in kept), flush=True)
os.kill(os.getpid(), 9)
"""


def test_a_kill_leaves_nothing_behind(tmp_path: Path) -> None:
    photos = folder(tmp_path)
    (tmp_path / "home").mkdir()
    before = sorted(tmp_path.rglob("*"))
    places = {name: str(tmp_path / "home") for name in ("TMPDIR", "HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")}
    ran = subprocess.run(
        [sys.executable, "-B", "-c", KILLED, photos],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path / "home",
        env={**os.environ, **places},
    )
    assert (ran.returncode, ran.stdout) == (-9, f"{COUNT + 1000}\n")
    assert sorted(tmp_path.rglob("*")) == before


def test_a_forked_child_goes_on(tmp_path: Path) -> None:
    ds = toolkit.open(folder(tmp_path))

    def load() -> None:
        assert [*ds.loader(batch_size=3)][1]["label"].tolist() == [0, 0, 0]

    child = forked(load)
    child.join()
    assert child.exitcode == 0


def test_views_and_joined_datasets(tmp_path: Path) -> None:
    ds = toolkit.open(folder(tmp_path))
    with pytest.raises(UsageError, match="this is a view, and what is packed is all of"):
        ds[1:].pack(tmp_path / "ds")
    both = toolkit.concat([ds, ds.take([1, 2])])
    assert len(both) == COUNT + 2
    assert "in memory, of" in repr(both)
    with pytest.raises(UsageError, match="no source in common"):
        both.pack(tmp_path / "ds")


# --- packed at first use ----------------------------------------------------------------------------------------------


def test_packed_at_first_use(tmp_path: Path) -> None:
    photos = folder(tmp_path)
    ds = toolkit.open(photos, pack=tmp_path / "flowers")
    assert ds.root == str(tmp_path / "flowers")
    again = toolkit.open(str(photos), pack=tmp_path / "flowers")
    assert (again.pin, [*again]) == (ds.pin, [*ds])
    assert toolkit.open(photos, pack=tmp_path / "flowers", columns=["label"])[0].keys() == {"__key__", "label"}
    with pytest.raises(ExistsError, match="or with other options: label_mode was 'auto', now 'none'"):
        toolkit.open(photos, pack=tmp_path / "flowers", label_mode="none")
    (photos / "cat/new.jpg").write_bytes(photographs()[0])
    with pytest.raises(ExistsError, match=r"files were added, removed or changed since.*on_existing=\"overwrite\""):
        toolkit.open(photos, pack=tmp_path / "flowers")
    assert toolkit.open(tmp_path / "flowers").pin == ds.pin
    toolkit.pack(photos, tmp_path / "flowers", on_existing="overwrite")
    assert len(toolkit.open(photos, pack=tmp_path / "flowers")) == COUNT + 1


def test_a_folder_that_holds_something_else_is_refused(tmp_path: Path) -> None:
    photos = folder(tmp_path)
    toolkit.pack(texts(tmp_path), tmp_path / "ds")
    with pytest.raises(ExistsError, match="was packed of something else than"):
        toolkit.open(photos, pack=tmp_path / "ds")
    other = make_folder(tmp_path / "other", {"cat": 6, "dog": 5}, width=40, height=32)
    toolkit.pack(other, tmp_path / "same-names")
    with pytest.raises(ExistsError, match=r"isn't what .* was packed of"):
        toolkit.open(photos, pack=tmp_path / "same-names")
    with pytest.raises(UsageError, match="holds other files"):
        toolkit.open(photos, pack=other)
    with pytest.raises(UsageError, match="pack= is for files"):
        toolkit.open([{"n": 1}], pack=tmp_path / "records")


def test_two_processes_pack_once(tmp_path: Path) -> None:
    photos = folder(tmp_path)
    program = "import sys, toolkit; print(toolkit.open(sys.argv[1], pack=sys.argv[2]).pin)"
    command = [sys.executable, "-c", program, str(photos), str(tmp_path / "ds")]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    said = {process.communicate()[0] for process in running}
    assert [process.returncode for process in running] == [0, 0, 0]
    assert said == {toolkit.open(tmp_path / "ds").pin + "\n"}
    assert len(os.listdir(tmp_path / "ds/manifests")) == 1


def test_whoever_comes_while_another_packs_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    photos = folder(tmp_path)
    (tmp_path / "ds").mkdir()
    held = toolkit.pack.__globals__["run"].__globals__["LocalStore"](str(tmp_path / "ds")).lock(".lock")
    monkeypatch.setattr("toolkit.once.kept.time.sleep", lambda _: held.release())
    assert len(toolkit.open(photos, pack=tmp_path / "ds")) == COUNT


def test_what_a_killed_pack_left_is_gone_on_with(tmp_path: Path) -> None:
    photos = folder(tmp_path)
    toolkit.pack(photos, tmp_path / "ds")
    pin = toolkit.open(tmp_path / "ds").pin
    (tmp_path / "ds/manifest.json").unlink()
    assert toolkit.open(photos, pack=tmp_path / "ds").pin == pin

"""Parallel writers: each writes a part, and merge_parts() makes one version of them, whatever stopped whom."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pictures import encode, picture

import toolkit
from toolkit.errors import ExistsError, RejectsError, SourceError, UsageError
from toolkit.pack.abort import abort

OPTIONS: dict[str, Any] = {
    "columns": {"image": "image", "label": "label"},
    "classes": ["ant", "bee"],
    "shard_size": "64KiB",
}


def add(w: toolkit.Writer, numbers: range) -> None:
    for number in numbers:
        image = encode(picture(number, 8, 8)) + np.random.default_rng(number).bytes(20_000)
        w.add(image=image, label=number % 2, key=f"k{number}", split="val" if number % 4 == 3 else None)


def write_part(dataset: Path, part: int, **options: Any) -> None:
    with toolkit.writer(dataset, part=part, parts=3, **{**OPTIONS, **options}) as w:
        add(w, range(part * 10 + w.done, part * 10 + 10))
        assert w.result is None


def keys(dataset: Path, split: str) -> list[str]:
    ds = toolkit.open(dataset, split=split)
    return [ds[number]["__key__"] for number in range(len(ds))]


def test_parts_are_merged_in_their_order_whatever_order_they_were_written_in(tmp_path: Path) -> None:
    for name, order in {"a": (0, 1, 2), "b": (2, 0, 1)}.items():
        for part in order:
            write_part(tmp_path / name, part)
    merged = [toolkit.merge_parts(tmp_path / name, parts=3, user_metadata={"by": "us"}) for name in "ab"]
    assert merged[0].pin == merged[1].pin
    ds = tmp_path / "a"
    assert keys(ds, "train") == [f"k{number}" for number in range(30) if number % 4 != 3]
    assert keys(ds, "val") == [f"k{number}" for number in range(30) if number % 4 == 3]
    assert (merged[0].splits, merged[0].source_kind, merged[0].classes) == ({"train": 23, "val": 7}, "records", 2)
    assert toolkit.verify(ds, full=True, decode=True).ok
    assert sorted(path.name for path in ds.iterdir()) == [
        ".lock",
        "manifest.json",
        "manifests",
        "reports",
        "shards",
        "tables",
    ]
    with toolkit.writer(tmp_path / "one", **OPTIONS, user_metadata={"by": "us"}) as w:
        add(w, range(30))
    one = toolkit.open(tmp_path / "one", split="train")
    other = toolkit.open(ds, split="train")
    assert (one.manifest.columns, one.manifest.schema) == (other.manifest.columns, other.manifest.schema)
    assert [one[i] for i in range(len(one))] == [other[i] for i in range(len(other))]


def test_processes_write_at_the_same_time(tmp_path: Path) -> None:
    program = (
        "import sys, toolkit\n"
        "part = int(sys.argv[1])\n"
        f"with toolkit.writer({str(tmp_path / 'ds')!r}, columns={{'a': 'int64'}}, part=part, parts=3) as w:\n"
        "    for number in range(5):\n"
        "        w.add(a=part * 10 + number)\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", program, str(part)]) for part in range(3)]
    assert [one.wait(120) for one in running] == [0, 0, 0]
    toolkit.merge_parts(tmp_path / "ds", parts=3)
    ds = toolkit.open(tmp_path / "ds")
    assert [ds[i]["a"] for i in range(15)] == [part * 10 + number for part in range(3) for number in range(5)]
    assert keys(tmp_path / "ds", "train")[:6] == ["0-0", "0-1", "0-2", "0-3", "0-4", "1-0"]


def test_missing_and_unfinished_parts_are_named_and_redone_alone(tmp_path: Path) -> None:
    ds = tmp_path / "ds"
    write_part(ds, 0)
    with pytest.raises(SourceError, match="parts 1, 2 are missing of 3 parts: write these"):
        toolkit.merge_parts(ds, parts=3)
    with pytest.raises(SourceError, match=r"parts 0, 1 are missing of 2 parts.*There are parts of parts=3"):
        toolkit.merge_parts(ds, parts=2)
    try:
        with toolkit.writer(ds, part=1, parts=3, **OPTIONS) as w:
            add(w, range(10, 18))
            raise ZeroDivisionError
    except ZeroDivisionError:
        pass
    write_part(ds, 2)
    with pytest.raises(SourceError, match="part 1 is unfinished of 3 parts"):
        toolkit.merge_parts(ds, parts=3)
    with pytest.raises(ExistsError, match="unfinished pack of records"):
        write_part(ds, 1)
    with pytest.raises(ExistsError, match="has all its records: merge it"):
        write_part(ds, 2)
    with toolkit.writer(ds, part=1, parts=3, on_existing="resume", **OPTIONS) as w:
        assert 0 < w.done < 8
        add(w, range(10 + w.done, 20))
    with toolkit.writer(ds, part=2, parts=3, on_existing="resume", **OPTIONS) as w:
        assert w.done == 10
        with pytest.raises(UsageError, match="nothing to add"):
            add(w, range(1))
    write_part(ds, 0, on_existing="overwrite")
    result = toolkit.merge_parts(ds, parts=3)
    for part in range(3):
        write_part(tmp_path / "whole", part)
    assert result.pin == toolkit.merge_parts(tmp_path / "whole", parts=3).pin


def test_parts_that_do_not_fit(tmp_path: Path) -> None:
    columns = {"a": "int64"}
    for part, options in enumerate([{"columns": columns}, {"columns": {"a": "int32"}}]):
        with toolkit.writer(tmp_path / "ds", part=part, parts=2, **options) as w:
            w.add(a=1, key="same")
    with pytest.raises(SourceError, match="part 1 was written with other columns than part 0"):
        toolkit.merge_parts(tmp_path / "ds", parts=2)
    with toolkit.writer(tmp_path / "ds", part=1, parts=2, columns=columns, on_existing="overwrite") as w:
        w.add(a=1, key="same")
    with pytest.raises(SourceError, match=r"the key 'same' occurs twice: in part 0, records 0 to 0 .*and in part 1"):
        toolkit.merge_parts(tmp_path / "ds", parts=2)
    with pytest.raises(Exception, match=r"parts|dataset"):
        toolkit.gc(tmp_path / "ds")
    with toolkit.writer(tmp_path / "ds", part=1, parts=2, columns=columns, on_existing="overwrite") as w:
        w.add(a=1, key="other")
    assert toolkit.merge_parts(tmp_path / "ds", parts=2).samples == 2
    with toolkit.writer(tmp_path / "ds", part=0, parts=1, columns=columns, max_rejects=1) as w:
        w.add(a=2)
        w.add(a="x")
    with pytest.raises(ExistsError, match="parts that aren't merged"):
        toolkit.gc(tmp_path / "ds")
    with pytest.raises(ExistsError, match="already holds a dataset"):
        toolkit.merge_parts(tmp_path / "ds", parts=1)
    with pytest.raises(RejectsError, match="1 sample rejected, 0 allowed"):
        toolkit.merge_parts(tmp_path / "ds", parts=1, on_existing="append")
    result = toolkit.merge_parts(tmp_path / "ds", parts=1, on_existing="append", max_rejects=1)
    assert (result.samples, result.added) == (3, 1)
    assert not any(name.startswith("shards/") for name in toolkit.gc(tmp_path / "ds").files)


def test_options_of_parts(tmp_path: Path) -> None:
    for options, says in [
        ({"part": 0}, "parts must be a whole number"),
        ({"part": 2, "parts": 2}, "parts are numbered from 0"),
        ({"part": 0, "parts": 1, "columns": None}, "a part needs columns="),
        ({"part": 0, "parts": 1, "shuffle_seed": 1}, "shuffle_seed means nothing for a part"),
        ({"part": 0, "parts": 1, "on_existing": "append"}, "on_existing='append' means nothing for a part"),
        ({"part": 0, "parts": 1, "key_conflict": "suffix"}, "key_conflict='suffix' means nothing for a part"),
    ]:
        with pytest.raises(UsageError, match=says):
            toolkit.writer(tmp_path / "ds", **{"columns": {"a": "int64"}, **options})  # type: ignore[arg-type]
    with (
        pytest.raises(UsageError, match="parts need the names of all classes of 'label'"),
        toolkit.writer(tmp_path / "ds", part=0, parts=1, columns={"label": "label"}),
    ):
        pass
    assert not list(tmp_path.iterdir())


def test_parts_can_be_given_up(tmp_path: Path) -> None:
    write_part(tmp_path / "ds", 0)
    write_part(tmp_path / "ds", 1)
    assert abort(str(tmp_path / "ds")).shards > 3
    assert not list(tmp_path.iterdir())
    write_part(tmp_path / "ds", 0)
    lost = next((tmp_path / "ds/.parts").glob("*/shards/*"))
    lost.unlink()
    write_part(tmp_path / "ds", 1)
    write_part(tmp_path / "ds", 2)
    with pytest.raises(SourceError, match="part 0 has lost"):
        toolkit.merge_parts(tmp_path / "ds", parts=3)
    shutil.rmtree(tmp_path / "ds/.parts/000000-of-000003")
    write_part(tmp_path / "ds", 0)
    assert toolkit.merge_parts(tmp_path / "ds", parts=3).samples == 30


@pytest.mark.parametrize("name", ["complete", "records-000000000"])
@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff"])
def test_a_damaged_part_is_named_and_written_anew(tmp_path: Path, name: str, data: bytes) -> None:
    for part in range(3):
        write_part(tmp_path / "ds", part)
    (file,) = tmp_path.glob(f"ds/.parts/000001-of-000003/.journal/{name}")
    file.write_bytes(data)
    with pytest.raises(SourceError, match=r"part 1 is damaged.*: write it anew"):
        toolkit.merge_parts(tmp_path / "ds", parts=3)
    write_part(tmp_path / "ds", 1, on_existing="overwrite")
    assert toolkit.merge_parts(tmp_path / "ds", parts=3).pin

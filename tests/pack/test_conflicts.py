"""Keys that occur twice: refused with both places, or the later samples renamed, whatever stops the pack."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kills import contents, killed
from pictures import make_folder

import toolkit
from toolkit.checks.verify import verify
from toolkit.errors import SourceError
from toolkit.format.contents import read_index
from toolkit.format.digest import sample_digests
from toolkit.format.pin import resolve
from toolkit.pack.conflicts import KeyConflicts
from toolkit.pack.job import KeyConflict, OnExisting, PackJob
from toolkit.pack.journal import Journal
from toolkit.pack.run import pack
from toolkit.storage.local import LocalStore

SHARD_BYTES = 64 * 1024


def job(source: Path, dataset: Path, **options: object) -> PackJob:
    options = {"shard_size": SHARD_BYTES, "key": "id", "key_conflict": KeyConflict.SUFFIX, **options}
    return PackJob(source=str(source), dataset=str(dataset), **options)  # type: ignore[arg-type]


def write(folder: Path, files: dict[str, Sequence[str]], size: int = 10) -> Path:
    """Write a file of each list of keys; column n counts the rows of all of them."""
    folder.mkdir(parents=True, exist_ok=True)
    number = 0
    for name, keys in files.items():
        numbers = list(range(number, number + len(keys)))
        number += len(keys)
        table = {"id": list(keys), "n": numbers, "x": [b"%d" % n * size for n in numbers]}
        pq.write_table(pa.table(table), folder / f"{name}.parquet", row_group_size=20)
    return folder


def keys(dataset: Path) -> list[str]:
    ds = toolkit.open(dataset, split="train")
    return list(ds.keys(range(len(ds))))


def numbers(dataset: Path) -> dict[str, int]:
    ds = toolkit.open(dataset, split="train")
    return {ds[i]["__key__"]: ds[i]["n"] for i in range(len(ds))}


def suffixed(given: Sequence[str], existing: Sequence[str] = ()) -> list[str]:
    """The oracle: one key after the other."""
    taken, seen, result = {*given, *existing}, set(existing), []
    for key in given:
        new, number = key, 0
        if key in seen:
            while new in taken:
                number += 1
                new = f"{key}#{number}"
        taken.add(new)
        seen.add(key)
        result.append(new)
    return result


# --- refused ----------------------------------------------------------------------------------------------------


def test_the_default_names_both_places_and_the_way_out(tmp_path: Path) -> None:
    source = write(tmp_path / "in", {"a": ["k1", "k2", "k3"], "b": ["k9", "k2"]})
    with pytest.raises(SourceError) as caught:
        pack(job(source, tmp_path / "ds", key_conflict=KeyConflict.ERROR))
    assert str(caught.value).startswith(
        "the key 'k2' occurs twice: in a.parquet (split train, slice 0, sample 1), "
        "and in b.parquet (split train, slice 1, sample 1)."
    )
    assert "--key-conflict suffix" in str(caught.value)
    assert not (tmp_path / "ds/manifest.json").exists()


def test_a_shuffled_pack_names_them_as_the_input_has_them(tmp_path: Path) -> None:
    source = write(tmp_path / "in", {"a": ["k1", "k2", "k3"], "b": ["k9", "k2"]})
    with pytest.raises(SourceError, match=r"'k2' occurs twice: in a.parquet .*sample 1.*b.parquet .*sample 1"):
        pack(job(source, tmp_path / "ds", key_conflict=KeyConflict.ERROR, shuffle_seed=1))


# --- renamed ----------------------------------------------------------------------------------------------------


def test_later_samples_are_renamed_and_nothing_else_changes(tmp_path: Path) -> None:
    source = write(tmp_path / "in", {"a": ["x", "y", "x", "z"], "b": ["x", "q", "y"]})
    result = pack(job(source, tmp_path / "ds"))
    assert numbers(tmp_path / "ds") == {"x": 0, "y": 1, "x#1": 2, "z": 3, "x#2": 4, "q": 5, "y#1": 6}
    assert result.renamed == 3
    assert json.loads((tmp_path / "ds/reports" / f"{result.pin}.provenance.json").read_bytes())["renamed"] == 3
    assert toolkit.open(tmp_path / "ds", split="train").manifest.options["key_conflict"] == "suffix"
    assert verify(tmp_path / "ds", full=True).findings == ()
    assert not (tmp_path / "ds/.journal").exists()
    check_digests(tmp_path / "ds")


def check_digests(dataset: Path) -> None:
    """The digest covers the key: of the new one."""
    version = resolve(str(dataset))
    for path in read_index(version, "train").paths():
        with pa.memory_map(str(dataset / path)) as file:
            for batch in pa.ipc.open_file(file).read_all().to_batches():
                assert batch.column("__digest__").to_pylist() == sample_digests(batch)


KEYS = st.sampled_from(["a", "b", "a#1", "a#2", "a#1#1", "b#2", "a#", "#1", "é#01", "c"])


@given(st.lists(st.lists(KEYS, min_size=1, max_size=12), min_size=1, max_size=3), st.lists(KEYS, unique=True))
@settings(max_examples=25, deadline=None)
def test_new_keys_are_those_of_the_oracle(
    tmp_path_factory: pytest.TempPathFactory, files: list[list[str]], existing: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("x")
    source = write(folder / "in", {f"f{i}": names for i, names in enumerate(files)})
    options: dict[str, Any] = {}
    if existing:
        pack(job(write(folder / "old", {"old": existing}), folder / "ds"))
        options = {"on_existing": OnExisting.APPEND}
    result = pack(job(source, folder / "ds", **options))
    given_keys = [key for names in files for key in names]
    expected = suffixed(given_keys, existing)
    assert keys(folder / "ds") == [*existing, *expected]
    assert len(set(keys(folder / "ds"))) == len(existing) + len(expected)
    assert result.renamed == sum(new != old for new, old in zip(expected, given_keys, strict=True))


def test_without_conflicts_the_shards_are_those_of_a_plain_pack(tmp_path: Path) -> None:
    source = write(tmp_path / "in", {"a": [f"k{i}" for i in range(100)]}, size=700)
    plain = pack(job(source, tmp_path / "plain", key_conflict=KeyConflict.ERROR))
    result = pack(job(source, tmp_path / "ds"))
    assert (result.renamed, result.samples) == (0, plain.samples)
    names = [sorted(path.name for path in (tmp_path / name / "shards").iterdir()) for name in ("plain", "ds")]
    assert names[0] == names[1]
    assert len(names[0]) > 2


MANY = {name: [f"{name}{i % 40}" if i % 7 else f"k{i % 20}" for i in range(60)] for name in ("a", "b", "c")}


def test_one_pin_however_many_work_and_shuffled_too(tmp_path: Path) -> None:
    source = write(tmp_path / "in", MANY, size=400)
    given_keys = [key for names in MANY.values() for key in names]
    for seed in (None, 3):
        pins = {pack(job(source, tmp_path / f"{seed}-{jobs}", jobs=jobs, shuffle_seed=seed)).pin for jobs in (1, 2, 4)}
        assert len(pins) == 1
        assert contents(tmp_path / f"{seed}-1") == contents(tmp_path / f"{seed}-4")
        # Which sample gets which key is the input's business, not the seed's.
        assert numbers(tmp_path / f"{seed}-1") == {key: n for n, key in enumerate(suffixed(given_keys))}
        assert verify(tmp_path / f"{seed}-1", full=True).findings == ()
    check_digests(tmp_path / "3-1")


def test_an_image_folder_appended_again(tmp_path: Path) -> None:
    source = make_folder(tmp_path / "in", {"ant": 3, "bee": 2})
    options: dict[str, Any] = {"key": None, "on_existing": OnExisting.APPEND}
    pack(job(source, tmp_path / "ds", key=None))
    assert [pack(job(source, tmp_path / "ds", **options)).renamed for _ in range(2)] == [5, 5]
    names = [f"{c}/{i:04d}.jpg" for c, i in (("ant", 0), ("ant", 1), ("ant", 2), ("bee", 0), ("bee", 1))]
    assert keys(tmp_path / "ds") == [*names, *(f"{n}#1" for n in names), *(f"{n}#2" for n in names)]
    with pytest.raises(SourceError, match="occurs twice: in the dataset already"):
        pack(job(source, tmp_path / "ds", **options | {"key_conflict": KeyConflict.ERROR}))


def test_older_versions_keep_their_shards(tmp_path: Path) -> None:
    source = write(tmp_path / "in", {"a": ["x", "y"], "b": ["z", "q"]})
    first = pack(job(source, tmp_path / "ds", key_conflict=KeyConflict.ERROR))
    write(source, {"a": ["x", "y"], "b": ["z", "x"]})
    pack(job(source, tmp_path / "ds", on_existing=OnExisting.OVERWRITE))
    assert keys(tmp_path / "ds") == ["x", "y", "z", "x#1"]
    assert verify(f"{tmp_path / 'ds'}@sha256:{first.pin}", full=True).findings == ()


# --- kills ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "at", "seed"),
    [("replace", 6, None), ("replace", 17, None), ("replace", 29, None), ("fsync", 70, None), ("replace", 30, 3)],
)
def test_a_killed_pack_goes_on_where_it_was(tmp_path: Path, step: str, at: int, seed: int | None) -> None:
    source = write(tmp_path / "in", MANY, size=400)
    whole = pack(job(source, tmp_path / "whole", shuffle_seed=seed))
    assert killed(step, at, job(source, tmp_path / "ds", shuffle_seed=seed))
    again = pack(job(source, tmp_path / "ds", shuffle_seed=seed, jobs=2))
    assert (again.pin, again.renamed) == (whole.pin, whole.renamed)
    assert again.resumed > 0 or at < 9
    assert contents(tmp_path / "ds") == contents(tmp_path / "whole")


def test_renames_are_found_anew_when_a_file_changed(tmp_path: Path) -> None:
    source = write(tmp_path / "in", {"a": ["x", "y"], "b": ["x", "z"], "c": ["y", "x"]})
    assert killed("replace", 20, job(source, tmp_path / "ds"))
    entries = [json.loads(path.read_bytes()) for path in (tmp_path / "ds/.journal/stage").glob("train-*.json")]
    assert Counter(entry["renamed"] for entry in entries)[0] < 3, "some are renamed already"
    pq.write_table(pa.table({"id": ["new"], "n": [0], "x": [b"0"]}), source / "a.parquet")
    result = pack(job(source, tmp_path / "ds"))
    assert keys(tmp_path / "ds") == ["new", "x", "z", "y", "x#1"]
    assert result.pin == pack(job(source, tmp_path / "whole")).pin


def test_the_other_way_may_follow_a_refusal(tmp_path: Path) -> None:
    source = write(tmp_path / "in", {"a": ["x", "x"]})
    with pytest.raises(SourceError, match="occurs twice"):
        pack(job(source, tmp_path / "ds", key_conflict=KeyConflict.ERROR))
    pack(job(source, tmp_path / "ds"))
    assert keys(tmp_path / "ds") == ["x", "x#1"]


def test_a_source_that_changes_between_the_passes_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = make_folder(tmp_path / "in", {"ant": 3})
    pack(job(source, tmp_path / "ds", key=None))
    real = KeyConflicts.renames

    def renames(self: KeyConflicts) -> object:
        (source / "ant/0001.jpg").write_bytes(b"no picture any more")
        return real(self)

    monkeypatch.setattr(KeyConflicts, "renames", renames)
    with pytest.raises(SourceError, match="changed during the pack: run it again"):
        pack(job(source, tmp_path / "ds", key=None, on_existing=OnExisting.APPEND))
    assert keys(tmp_path / "ds") == [f"ant/{i:04d}.jpg" for i in range(3)]
    assert Journal(LocalStore(str(tmp_path / "ds")), stage=True).finished()

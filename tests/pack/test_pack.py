from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow as pa
import pytest
from pictures import encode, make_folder, picture

import toolkit
from toolkit.errors import ExistsError, RejectsError, SourceError, UsageError
from toolkit.format.tables import sha256
from toolkit.pack.job import OnExisting, PackJob, PackResult
from toolkit.pack.run import pack, plan
from toolkit.sources.kinds.imagefolder import source as imagefolder_source
from toolkit.sources.kinds.imagefolder.entries import Entries
from toolkit.sources.options import VerifyImages
from toolkit.sources.reject import Reject


def job(source: Path, dataset: Path, **options: object) -> PackJob:
    return PackJob(source=str(source), dataset=str(dataset), **options)  # type: ignore[arg-type]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_folder(tmp_path / "src", {"train/ant": 12, "train/bee": 9, "val/bee": 5})


def tree(root: Path) -> dict[str, str]:
    """Every file of a dataset but its reports and lock, with its hash."""
    return {
        str(path.relative_to(root)): sha256(path.read_bytes())
        for path in sorted(root.rglob("*"))
        if path.is_file() and "reports" not in path.parts and path.name != ".lock"
    }


def test_jobs_and_place_never_change_a_byte(folder: Path, tmp_path: Path) -> None:
    results: list[PackResult] = []
    for jobs, place in ((1, "one"), (2, "two"), (5, "deep/er/three")):
        results.append(pack(job(folder, tmp_path / place, jobs=jobs, shard_size=65536)))
    assert len({result.pin for result in results}) == 1
    assert results[0].shards == len(list((tmp_path / "one" / "shards").iterdir()))
    assert tree(tmp_path / "one") == tree(tmp_path / "two") == tree(tmp_path / "deep/er/three")


def test_result_counts_are_true(folder: Path, tmp_path: Path) -> None:
    (folder / "train/ant/notes.txt").write_text("x")
    (folder / "train/ant/.hidden.jpg").write_text("x")
    result = pack(job(folder, tmp_path / "ds"))
    assert result.samples == 26
    assert result.splits == {"train": 21, "val": 5}
    assert result.classes == 2
    assert result.skipped == {"hidden": 1, "loops": 0, "annotations": 0, "not_images": 1}
    files = list((tmp_path / "ds/shards").iterdir())
    assert result.shards == len(files) == 2
    assert result.bytes == sum(file.stat().st_size for file in files)
    manifest = toolkit.open(tmp_path / "ds", split="train").manifest
    assert manifest.splits["train"].labels["label"].counts == (12, 9)
    assert manifest.splits["val"].labels["label"].counts == (0, 5)


def test_shards_stay_below_the_size_asked(tmp_path: Path) -> None:
    make_folder(tmp_path / "src", {"a": 120})
    result = pack(job(tmp_path / "src", tmp_path / "ds", shard_size=70_000))
    sizes = [path.stat().st_size for path in (tmp_path / "ds/shards").iterdir()]
    assert result.shards == len(sizes) > 3
    assert max(sizes) <= 70_000 + 4096  # the schema, batch metadata and footer come on top of the samples


def test_a_plan_reads_and_writes_nothing(folder: Path, tmp_path: Path) -> None:
    planned = plan(job(folder, tmp_path / "ds", shard_size=65536))
    assert {name: split.samples for name, split in planned.splits.items()} == {"train": 21, "val": 5}
    assert planned.columns == {"image": "image", "label": "label"}
    assert planned.classes == ("ant", "bee")
    assert not (tmp_path / "ds").exists()


def test_rejects_over_the_budget_commit_nothing(folder: Path, tmp_path: Path) -> None:
    (folder / "train/ant/bad.jpg").write_bytes(b"this is no picture")
    (folder / "train/bee/empty.png").write_bytes(b"")
    (folder / "train/bee/cut.jpg").write_bytes(b"\xff\xd8\xff\xe0\x00\x10JF")
    with pytest.raises(RejectsError) as caught:
        pack(job(folder, tmp_path / "ds", max_rejects=2))
    assert "3 samples rejected, 2 allowed" in str(caught.value)
    assert "train/ant/bad.jpg" in str(caught.value)
    assert not (tmp_path / "ds/manifest.json").exists()
    assert not any((tmp_path / "ds/tables").glob("*"))
    assert not any((tmp_path / "ds/manifests").glob("*"))
    report = [json.loads(line) for line in (tmp_path / "ds/reports/failed.rejects.jsonl").read_text().splitlines()]
    assert sorted(line["key"] for line in report) == ["train/ant/bad.jpg", "train/bee/cut.jpg", "train/bee/empty.png"]
    result = pack(job(folder, tmp_path / "ds", max_rejects=3))
    assert result.samples == 26
    rejects = (tmp_path / "ds/reports" / f"{result.pin}.rejects.jsonl").read_text().splitlines()
    assert len(rejects) == 3


def test_nothing_but_rejects_is_no_dataset(tmp_path: Path) -> None:
    (tmp_path / "src/a").mkdir(parents=True)
    (tmp_path / "src/a/x.jpg").write_bytes(b"nothing")
    with pytest.raises(SourceError, match="not one sample"):
        pack(job(tmp_path / "src", tmp_path / "ds", max_rejects=5))
    assert not (tmp_path / "ds").exists()


@pytest.mark.parametrize(("how", "reason"), [("unlinked", "vanished"), ("longer", "changed"), ("replaced", "changed")])
def test_a_file_that_is_another_than_was_listed_is_a_reject(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, reason: str
) -> None:
    victim = folder / "train/ant/0003.jpg"
    real = imagefolder_source.read_images

    def read(entries: Entries, check: VerifyImages, most: int) -> tuple[Entries, pa.Array, tuple[Reject, ...]]:
        before, data = victim.stat(), victim.read_bytes()
        if how == "longer":
            victim.write_bytes(data + b"more")
        else:
            victim.rename(tmp_path / "elsewhere")
        if how == "replaced":  # by one of the same size and time
            victim.write_bytes(data)
        if how != "unlinked":
            os.utime(victim, ns=(before.st_atime_ns, before.st_mtime_ns))
        monkeypatch.setattr(imagefolder_source, "read_images", real)
        return real(entries, check, most)

    monkeypatch.setattr(imagefolder_source, "read_images", read)
    result = pack(job(folder, tmp_path / "ds", max_rejects=1))
    assert [(reject.key, reject.reason) for reject in result.rejects] == [
        ("train/ant/0003.jpg", f"{reason} during the pack")
    ]
    assert result.samples == 25


def test_an_existing_dataset_is_refused_or_replaced_and_old_pins_keep_working(folder: Path, tmp_path: Path) -> None:
    first = pack(job(folder, tmp_path / "ds"))
    with pytest.raises(ExistsError, match="--on-existing overwrite"):
        pack(job(folder, tmp_path / "ds"))
    (folder / "train/ant/more.jpg").write_bytes(encode(picture(99)))
    second = pack(job(folder, tmp_path / "ds", on_existing=OnExisting.OVERWRITE))
    assert second.pin != first.pin
    assert toolkit.open(tmp_path / "ds", split="train").pin == second.pin
    old = toolkit.open(f"{tmp_path / 'ds'}@sha256:{first.pin}", split="train")
    assert (len(old), len(toolkit.open(tmp_path / "ds", split="train"))) == (21, 22)
    assert old[20]["__key__"]


def test_places_that_cannot_hold_a_dataset(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="inside its source"):
        pack(job(folder, folder / "ds"))
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError, match="is a file"):
        pack(job(folder, tmp_path / "file"))
    (tmp_path / "home").mkdir()
    (tmp_path / "home/thesis.tex").write_text("x")
    with pytest.raises(UsageError, match="holds other files"):
        pack(job(folder, tmp_path / "home"))
    assert [path.name for path in (tmp_path / "home").iterdir()] == ["thesis.tex"]


def test_an_empty_split_is_packed_as_one(tmp_path: Path) -> None:
    make_folder(tmp_path / "src", {"train/a": 2})
    (tmp_path / "src/val").mkdir()
    pack(job(tmp_path / "src", tmp_path / "ds"))
    val = toolkit.open(tmp_path / "ds", split="val")
    assert len(val) == 0
    assert list(val.loader(batch_size=2)) == []


def test_odd_names_come_back_as_they_were(tmp_path: Path) -> None:
    names = ["shards", "labels", "été", "two words", "tab\there", "new\nline", "-dash", "日本", "emoji😀", "'quote\""]
    make_folder(tmp_path / "src", dict.fromkeys(names, 1))
    pack(job(tmp_path / "src", tmp_path / "ds"))
    ds = toolkit.open(tmp_path / "ds")
    assert ds.classes == tuple(sorted(names))
    assert sorted(ds.keys(range(len(ds)))) == sorted(f"{name}/0000.jpg" for name in names)


@pytest.mark.parametrize("options", [{"shard_size": 10}, {"jobs": 0}, {"max_rejects": -1}, {"limit": 0}])
def test_bad_options(tmp_path: Path, options: dict[str, int]) -> None:
    with pytest.raises(UsageError):
        job(tmp_path, tmp_path / "ds", **options)


def test_an_empty_path_is_no_dataset(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(UsageError, match="dataset is empty"):
        pack(PackJob(source=str(folder), dataset=""))
    assert list(Path().iterdir()) == []


def test_an_image_folder_is_one_source(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="an image folder is one SOURCE, and there are 2"):
        pack(job(folder, tmp_path / "ds", more_sources=(str(folder),)))
    assert not (tmp_path / "ds").exists()

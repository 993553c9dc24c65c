"""The journal: a killed or failed pack goes on where it was, with the result that it would have had."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pytest
from pictures import encode, make_folder, picture

import toolkit
from toolkit.checks.gc import gc
from toolkit.checks.verify import verify
from toolkit.errors import ExistsError, NotFoundError, RejectsError, SourceError
from toolkit.format.encodings import ImageEncoding
from toolkit.format.tables import sha256
from toolkit.pack.job import OnExisting, PackJob, PackResult
from toolkit.pack.run import pack, packing
from toolkit.sources.kinds.imagefolder import source as imagefolder_source
from toolkit.sources.kinds.imagefolder.entries import Entries
from toolkit.sources.options import VerifyImages
from toolkit.sources.reject import Reject

SHARD_BYTES = 64 * 1024


def job(source: Path, dataset: Path, **options: object) -> PackJob:
    options = {"shard_size": SHARD_BYTES, **options}
    return PackJob(source=str(source), dataset=str(dataset), **options)  # type: ignore[arg-type]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Four slices of train and one of val."""
    return make_folder(tmp_path / "src", {"train/ant": 60, "train/bee": 60, "val/bee": 5})


def contents(root: Path) -> dict[str, str]:
    """Every file of a version, with its hash: no reports, which are hashed nowhere, and no lock."""
    return {
        str(path.relative_to(root)): sha256(path.read_bytes())
        for path in sorted(root.rglob("*"))
        if path.is_file() and "reports" not in path.parts and path.name != ".lock"
    }


class Reads:
    """Counts which source files a pack reads; calls `before` with the number of each read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, before: Callable[[int], None] = lambda number: None) -> None:
        self.keys: list[str] = []
        real = imagefolder_source.read_images

        def read(entries: Entries, check: VerifyImages, most: int) -> tuple[Entries, pa.Array, tuple[Reject, ...]]:
            for entry in entries:
                self.keys.append(entry.key)
                before(len(self.keys))
            return real(entries, check, most)

        monkeypatch.setattr(imagefolder_source, "read_images", read)


def stop_after(reads: int) -> Callable[[int], None]:
    def before(number: int) -> None:
        if number > reads:
            raise KeyboardInterrupt

    return before


def stopped(source: Path, root: Path, reads: int = 80, **options: object) -> int:
    """Pack until so many files were read; return how many slices are finished."""
    with pytest.MonkeyPatch.context() as patch:
        Reads(patch, stop_after(reads))
        with pytest.raises(KeyboardInterrupt):
            pack(job(source, root, **options))
    assert not (root / "manifest.json").exists() or "on_existing" in options
    return len(list((root / ".journal").glob("[!.]*-*.json")))


def not_said(asked: PackJob) -> PackResult:
    """Pack, and be stopped behind the commit, before anybody was told the pin."""
    with contextlib.suppress(BrokenPipeError), packing(asked) as result:
        raise BrokenPipeError
    return result


# --- kills ------------------------------------------------------------------------------------------------------

KILLED = textwrap.dedent(
    """
    import os, signal, sys
    from toolkit.pack.job import PackJob
    from toolkit.pack.run import pack

    source, root, step, at, jobs = sys.argv[1:]
    real, calls = getattr(os, step), 0

    def call(*args, **kwargs):
        global calls
        calls += 1
        if calls == int(at):
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*args, **kwargs)

    setattr(os, step, call)
    pack(PackJob(source=source, dataset=root, shard_size=65536, jobs=int(jobs)))
    """
)


@pytest.mark.parametrize(
    ("step", "at", "jobs"),
    [("replace", 1, 1), ("replace", 12, 1), ("fsync", 16, 1), ("replace", 11, 3)],
)
def test_a_killed_pack_goes_on_where_it_was(folder: Path, tmp_path: Path, step: str, at: int, jobs: int) -> None:
    whole = pack(job(folder, tmp_path / "whole"))
    command = [sys.executable, "-c", KILLED, str(folder), str(tmp_path / "ds"), step, str(at), str(jobs)]
    assert subprocess.run(command, timeout=60).returncode == -9
    finished = len(list((tmp_path / "ds/.journal").glob("[!.]*-*.json")))
    again = pack(job(folder, tmp_path / "ds", jobs=jobs))
    assert again.pin == whole.pin
    assert again.resumed == finished
    assert finished > 0 or at < 9
    assert contents(tmp_path / "ds") == contents(tmp_path / "whole")
    assert verify(tmp_path / "ds", full=True).findings == ()


def test_a_kill_between_the_commit_and_the_end_of_the_journal(folder: Path, tmp_path: Path) -> None:
    first = not_said(job(folder, tmp_path / "ds"))
    assert (tmp_path / "ds/.journal/job.json").exists()
    assert len(toolkit.open(tmp_path / "ds", split="train")) == 120
    assert gc(str(tmp_path / "ds")).files == ()  # nothing is unfinished
    again = pack(job(folder, tmp_path / "ds"))
    assert (again.pin, again.resumed) == (first.pin, 5)
    assert not (tmp_path / "ds/.journal").exists()
    with pytest.raises(ExistsError, match="already holds a dataset"):
        pack(job(folder, tmp_path / "ds"))


@pytest.mark.parametrize("change", ["source", "options", "metadata"])
def test_a_journal_that_outlived_its_commit_is_no_leave_to_replace_it(
    folder: Path, tmp_path: Path, change: str
) -> None:
    first = not_said(job(folder, tmp_path / "ds"))
    options: dict[str, object] = {}
    match change:
        case "source":
            (folder / "val/bee/0000.jpg").unlink()
        case "options":
            options["limit"] = 3
        case "metadata":
            options["user_metadata"] = {"owner": "me"}
    with pytest.raises(ExistsError, match="already holds a dataset"):
        pack(job(folder, tmp_path / "ds", **options))
    assert toolkit.open(tmp_path / "ds", split="val").pin == first.pin
    assert not (tmp_path / "ds/.journal").exists()


@pytest.mark.parametrize("jobs", [1, 2, 4])
@pytest.mark.parametrize("reads", [0, 40, 100, 122])
def test_one_pin_whatever_stopped_it_and_however_many_work(folder: Path, tmp_path: Path, jobs: int, reads: int) -> None:
    whole = pack(job(folder, tmp_path / "whole", jobs=jobs))
    finished = stopped(folder, tmp_path / "ds", reads, jobs=jobs)
    again = pack(job(folder, tmp_path / "ds", jobs=5 - jobs))
    assert again.pin == whole.pin
    assert again.resumed == finished
    assert jobs > 1 or bool(finished) == (reads > 39)
    assert contents(tmp_path / "ds") == contents(tmp_path / "whole")


def test_what_is_finished_is_not_read_again(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finished = stopped(folder, tmp_path / "ds")
    assert finished >= 2
    rows = sum(json.loads(path.read_bytes())["rows"] for path in (tmp_path / "ds/.journal").glob("[!.]*-*.json"))
    seen: list[tuple[int, int | None, int, int]] = []
    reads = Reads(monkeypatch)
    result = pack(job(folder, tmp_path / "ds"), lambda *now: seen.append(now))
    assert len(reads.keys) == 125 - rows
    assert result.resumed == finished
    assert seen[-1][0] == seen[-1][1] == result.samples == 125
    assert seen[-1][2] == seen[-1][3]


# --- another job ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"shard_size": 70_000}, r"shard_size: then 65536, now 70000"),
        ({"limit": 50}, r"limit: then null, now 50"),
        ({"classes": ("ant", "bee")}, r"classes: then not given, now given"),
        ({"split": "train"}, r'split: then null, now "train"'),
        ({"verify_images": VerifyImages.OFF}, r'verify_images: then "header", now "off"'),
        ({"image_encoding": ImageEncoding.parse("jpeg:90")}, r'image_encoding: then "keep", now "jpeg:90"'),
    ],
)
def test_other_options_are_named_with_both_values(
    folder: Path, tmp_path: Path, options: dict[str, object], says: str
) -> None:
    finished = stopped(folder, tmp_path / "ds")
    before = contents(tmp_path / "ds")
    with pytest.raises(ExistsError, match=says) as caught:
        pack(job(folder, tmp_path / "ds", **options))
    assert str(caught.value).count(": then ") == 1 + ("image_encoding" in options)  # and what it is made with
    assert "toolkit pack --abort" in str(caught.value)
    assert contents(tmp_path / "ds") == before, "what is finished stays"
    assert pack(job(folder, tmp_path / "ds")).resumed == finished


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ("toolkit.pack.versions.pa.__version__", '"pyarrow":"0.1"'),
        ("toolkit.pack.versions.__version__", '"toolkit":"0.1"'),
    ],
)
def test_another_version_is_named(folder: Path, tmp_path: Path, where: str, says: str) -> None:
    finished = stopped(folder, tmp_path / "ds")
    differs = rf"versions: then .*, now .*{says}"
    with mock.patch(where, "0.1"), pytest.raises(ExistsError, match=differs) as caught:
        pack(job(folder, tmp_path / "ds"))
    assert str(caught.value).count(": then ") == 1
    assert "the same options and versions" in str(caught.value)
    assert pack(job(folder, tmp_path / "ds")).resumed == finished


@pytest.mark.parametrize(
    ("where", "there", "says"),
    [
        ("toolkit.pack.versions.PIL.__version__", "0.1", '"pillow":"0.1"'),
        ("toolkit.pack.versions.libjpeg_turbo", lambda module: ("0.1", ""), '"libjpeg-turbo":"0.1"'),
    ],
)
def test_another_version_of_what_makes_images_is_named_where_it_does(
    folder: Path, tmp_path: Path, request: pytest.FixtureRequest, where: str, there: object, says: str
) -> None:
    made: dict[str, object] = {"image_encoding": ImageEncoding.parse("jpeg:90")}
    stopped(folder, tmp_path / "made", **made)
    finished = stopped(folder, tmp_path / "kept")
    patch = mock.patch(where, there)
    patch.start()
    request.addfinalizer(patch.stop)
    with pytest.raises(ExistsError, match=rf"versions: then .*, now .*{says}"):
        pack(job(folder, tmp_path / "made", **made))
    result = pack(job(folder, tmp_path / "kept"))
    assert result.resumed == finished > 0
    for name, options in {"kept": {}, "made": {**made, "on_existing": OnExisting.OVERWRITE}}.items():
        result = pack(job(folder, tmp_path / name, **{"on_existing": OnExisting.OVERWRITE, **options}))
        facts = json.loads((tmp_path / name / "reports" / f"{result.pin}.provenance.json").read_bytes())
        assert (facts.get("pillow") is not None, facts.get("libjpeg-turbo") is not None) == (name == "made",) * 2


def test_a_pack_that_shapes_images_goes_on_with_its_own_sizes_only(folder: Path, tmp_path: Path) -> None:
    options: dict[str, object] = {"image_encoding": ImageEncoding.parse("raw"), "short_side": 20}
    finished = stopped(folder, tmp_path / "ds", **options)
    with pytest.raises(ExistsError, match=r"short_side: then 20, now 21"):
        pack(job(folder, tmp_path / "ds", **{**options, "short_side": 21}))
    result = pack(job(folder, tmp_path / "ds", **options))
    assert result.resumed == finished > 0
    assert result.pin == pack(job(folder, tmp_path / "whole", jobs=2, **options)).pin


def test_another_source_is_named(folder: Path, tmp_path: Path) -> None:
    stopped(folder, tmp_path / "ds")
    shutil.copytree(folder, tmp_path / "other")
    with pytest.raises(ExistsError, match=r"source: then .*src.*, now .*other"):
        pack(job(tmp_path / "other", tmp_path / "ds"))


def test_overwrite_discards_what_another_job_had_finished(folder: Path, tmp_path: Path) -> None:
    stopped(folder, tmp_path / "ds")
    result = pack(job(folder, tmp_path / "ds", shard_size=100_000, on_existing=OnExisting.OVERWRITE))
    assert result.resumed == 0
    assert result.pin == pack(job(folder, tmp_path / "whole", shard_size=100_000)).pin
    assert not (tmp_path / "ds/.journal").exists()
    assert verify(tmp_path / "ds", full=True).findings == ()


def test_overwrite_goes_on_with_its_own_job(folder: Path, tmp_path: Path) -> None:
    pack(job(folder, tmp_path / "ds", limit=3))
    options: dict[str, object] = {"on_existing": OnExisting.OVERWRITE}
    finished = stopped(folder, tmp_path / "ds", **options)
    assert len(toolkit.open(tmp_path / "ds", split="train")) == 3
    result = pack(job(folder, tmp_path / "ds", **options))
    assert result.resumed == finished > 0
    assert result.pin == pack(job(folder, tmp_path / "whole")).pin


# --- what changed in between ------------------------------------------------------------------------------------


def test_only_the_slice_of_a_changed_file_is_packed_again(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finished = stopped(folder, tmp_path / "ds", 122)
    assert finished == 4
    victim = folder / "train/ant/0010.jpg"
    data = bytearray(victim.read_bytes())
    data[-10] ^= 1  # of the same size: only its time tells
    victim.write_bytes(data)
    os.utime(victim, ns=(1, 1))
    reads = Reads(monkeypatch)
    result = pack(job(folder, tmp_path / "ds"))
    assert result.resumed == 3
    assert "train/ant/0010.jpg" in reads.keys
    changed = [path for path in reads.keys if path.startswith("train/")]
    assert len(changed) < 60
    assert changed == sorted(changed)
    ds = toolkit.open(tmp_path / "ds", split="train")
    assert ds[10]["image"] == bytes(data)
    assert result.pin == pack(job(folder, tmp_path / "whole")).pin
    assert verify(tmp_path / "ds", full=True).findings == ()


def test_a_new_class_changes_every_slice(folder: Path, tmp_path: Path) -> None:
    stopped(folder, tmp_path / "ds")
    (folder / "train/aardvark").mkdir()
    (folder / "train/aardvark/0.jpg").write_bytes(encode(picture(7)))
    result = pack(job(folder, tmp_path / "ds"))
    assert result.resumed == 0
    assert result.pin == pack(job(folder, tmp_path / "whole")).pin


def test_files_that_went_away(folder: Path, tmp_path: Path) -> None:
    stopped(folder, tmp_path / "ds")
    for number in range(20, 60):
        (folder / f"train/bee/{number:04d}.jpg").unlink()
    result = pack(job(folder, tmp_path / "ds"))
    assert result.resumed > 0
    assert result.pin == pack(job(folder, tmp_path / "whole")).pin


# --- rejects ----------------------------------------------------------------------------------------------------


def test_a_larger_budget_commits_without_reading_anything_again(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("train/ant/bad.jpg", "val/bee/bad.png"):
        (folder / name).write_bytes(b"this is no picture")
    with pytest.raises(RejectsError, match="2 samples rejected, 1 allowed"):
        pack(job(folder, tmp_path / "ds", max_rejects=1))
    assert not (tmp_path / "ds/manifest.json").exists()
    reads = Reads(monkeypatch)
    result = pack(job(folder, tmp_path / "ds", max_rejects=2))
    assert reads.keys == []
    assert (result.samples, result.resumed) == (125, 5)
    assert [reject.key for reject in result.rejects] == ["train/ant/bad.jpg", "val/bee/bad.png"]
    assert result.pin == pack(job(folder, tmp_path / "whole", max_rejects=2)).pin
    lines = (tmp_path / "ds/reports" / f"{result.pin}.rejects.jsonl").read_text().splitlines()
    assert [json.loads(line)["key"] for line in lines] == ["train/ant/bad.jpg", "val/bee/bad.png"]


def test_a_mended_file_is_read_and_its_slice_alone(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "val/bee/bad.jpg").write_bytes(b"this is no picture")
    with pytest.raises(RejectsError):
        pack(job(folder, tmp_path / "ds"))
    (folder / "val/bee/bad.jpg").write_bytes(encode(picture(5)))
    reads = Reads(monkeypatch)
    result = pack(job(folder, tmp_path / "ds"))
    assert {key.split("/")[0] for key in reads.keys} == {"val"}
    assert (result.resumed, result.samples) == (4, 126)


# --- a damaged journal ------------------------------------------------------------------------------------------


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.parametrize("suffix", ["json", "keys"])
@pytest.mark.parametrize("how", ["cut", "empty", "gone", "rubbish"])
def test_a_damaged_entry_is_packed_again(folder: Path, tmp_path: Path, suffix: str, how: str) -> None:
    finished = stopped(folder, tmp_path / "ds")
    path = tmp_path / "ds/.journal" / f"train-000000.{suffix}"
    match how:
        case "cut":
            cut_short(path)
        case "empty":
            path.write_bytes(b"")
        case "gone":
            path.unlink()
        case "rubbish":
            path.write_bytes(b'{"split": 5, "rows": []}\xff')
    result = pack(job(folder, tmp_path / "ds"))
    assert result.resumed == finished - 1
    assert result.pin == pack(job(folder, tmp_path / "whole")).pin


@pytest.mark.parametrize("data", [b"", b'{"limit": nu', b"[]", b"\xff\xff", b"5"])
def test_a_damaged_job_is_begun_anew(folder: Path, tmp_path: Path, data: bytes) -> None:
    stopped(folder, tmp_path / "ds")
    (tmp_path / "ds/.journal/job.json").write_bytes(data)
    result = pack(job(folder, tmp_path / "ds"))
    assert result.resumed == 0
    assert result.pin == pack(job(folder, tmp_path / "whole")).pin
    assert not (tmp_path / "ds/.journal").exists()


@pytest.mark.parametrize("how", ["gone", "short", "elsewhere"])
def test_an_entry_whose_shard_is_not_there_is_packed_again(folder: Path, tmp_path: Path, how: str) -> None:
    finished = stopped(folder, tmp_path / "ds")
    entry = tmp_path / "ds/.journal/train-000001.json"
    record = json.loads(entry.read_bytes())
    shard = tmp_path / "ds" / record["records"][0]["path"]
    match how:
        case "gone":
            shard.unlink()
        case "short":
            cut_short(shard)
        case "elsewhere":
            record["records"][0]["path"] = "shards/../../outside.arrow"
            shutil.copy(shard, tmp_path / "outside.arrow")
            entry.write_text(json.dumps(record))
    result = pack(job(folder, tmp_path / "ds"))
    assert result.resumed == finished - 1
    assert result.pin == pack(job(folder, tmp_path / "whole")).pin
    assert verify(tmp_path / "ds", full=True).findings == ()


def test_no_journal_is_left_where_there_is_nothing_to_pack(tmp_path: Path) -> None:
    (tmp_path / "src/a").mkdir(parents=True)
    (tmp_path / "src/a/x.jpg").write_bytes(b"nothing")
    with pytest.raises(SourceError, match="not one sample"):
        pack(job(tmp_path / "src", tmp_path / "ds", max_rejects=5))
    assert not (tmp_path / "ds").exists()


# --- resume -----------------------------------------------------------------------------------------------------


def resume(source: Path, dataset: Path, **options: object) -> PackJob:
    return job(source, dataset, on_existing=OnExisting.RESUME, **options)


def test_resume_goes_on_with_what_is_there(folder: Path, tmp_path: Path) -> None:
    finished = stopped(folder, tmp_path / "ds")
    with pytest.raises(ExistsError, match="limit: then null, now 50"):
        pack(resume(folder, tmp_path / "ds", limit=50))
    result = pack(resume(folder, tmp_path / "ds"))
    assert result.resumed == finished > 0
    assert result.pin == pack(job(folder, tmp_path / "whole")).pin


def test_resume_refuses_when_there_is_nothing_to_go_on_with(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no unfinished pack to resume"):
        pack(resume(folder, tmp_path / "ds"))
    assert not (tmp_path / "ds").exists()
    pack(job(folder, tmp_path / "ds"))
    before = contents(tmp_path / "ds")
    with pytest.raises(NotFoundError, match="no unfinished pack to resume"):
        pack(resume(folder, tmp_path / "ds"))
    assert contents(tmp_path / "ds") == before


@pytest.mark.parametrize("how", ["overwrite", "append"])
@pytest.mark.parametrize("committed", [False, True])
def test_resume_of_an_overwrite_and_an_append(folder: Path, tmp_path: Path, how: str, committed: bool) -> None:
    """Killed in the middle, or behind the commit and before the end of the journal."""
    source = make_folder(tmp_path / "more", {"train/new": 60, "val/new": 1})
    options = {"on_existing": OnExisting(how), "extend_classes": how == "append"}
    for name in ("whole", "ds"):
        pack(job(folder, tmp_path / name))
    whole = pack(job(source, tmp_path / "whole", **options))
    if committed:
        not_said(job(source, tmp_path / "ds", **options))
    else:
        assert stopped(source, tmp_path / "ds", 45, **options)
    result = pack(resume(source, tmp_path / "ds", extend_classes=how == "append"))
    assert (result.pin, result.added) == (whole.pin, 61)
    assert contents(tmp_path / "ds") == contents(tmp_path / "whole")

from __future__ import annotations

import hashlib
import json
import os
import pty
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from command import PROGRAM, Cli, encoded, program, put, unprivileged

import toolkit

LAST_LINE = re.compile(r"samples=(\d+) shards=(\d+) bytes=(\d+) seconds=(\d+\.\d\d) pin=([0-9a-f]{64})")


def read_last(line: str) -> tuple[int, int, int, str]:
    match = LAST_LINE.fullmatch(line)
    assert match, line
    return int(match[1]), int(match[2]), int(match[3]), match[5]


def shard_bytes(dataset: Path) -> int:
    return sum(path.stat().st_size for path in (dataset / "shards").iterdir())


def test_last_line(cli: Cli, flowers: Path, tmp_path: Path) -> None:
    ended = cli("pack", flowers, tmp_path / "ds", "--shard-size", "64KiB")
    assert (ended.code, ended.err) == (0, "")
    samples, shards, nbytes, pin = read_last(ended.last_line)
    assert samples == 14
    assert shards == len(list((tmp_path / "ds/shards").iterdir()))
    assert nbytes == shard_bytes(tmp_path / "ds")
    assert pin == hashlib.sha256((tmp_path / "ds/manifest.json").read_bytes()).hexdigest()
    assert "shard size 65,536 bytes (64 KiB)" in ended.out
    assert "packed 14 samples (train 10, val 4)" in ended.out
    assert "classes: 3" in ended.out
    assert len(toolkit.open(f"{tmp_path / 'ds'}@sha256:{pin[:12]}", split="train")) == 10


def test_quiet(cli: Cli, flowers: Path, tmp_path: Path) -> None:
    ended = cli("pack", flowers, tmp_path / "ds", "-q")
    assert ended.err == ""
    assert ended.out == f"{ended.last_line}\n"
    read_last(ended.last_line)


def test_json(cli: Cli, flowers: Path, tmp_path: Path) -> None:
    ended = cli("pack", flowers, tmp_path / "ds", "--json", "--jobs", "2", "--shard-size", "1MB")
    assert (ended.code, ended.err) == (0, "")
    document = json.loads(ended.out)
    assert list(document) == [
        *("schema", "pin", "dataset", "source_kind", "samples", "shards", "bytes", "seconds", "splits", "classes"),
        *(
            "skipped",
            "skipped_names",
            "left_out",
            "warnings",
            "rejects",
            "added",
            "resumed",
            "renamed",
            "rejects_report",
            "options",
        ),
    ]
    assert document["schema"] == "toolkit.pack/1"
    assert document["splits"] == {"train": 10, "val": 4}
    assert document["classes"] == 3
    assert document["skipped"] == {"hidden": 0, "loops": 0, "annotations": 0, "not_images": 0}
    assert (document["rejects"], document["rejects_report"]) == ([], None)
    assert document["options"]["shard_size"] == 1_000_000
    assert document["options"]["jobs"] == 2
    assert document["bytes"] == shard_bytes(tmp_path / "ds")


def test_a_split_folder_packed_alone_is_called_train_unless_it_is_named(
    cli: Cli, flowers: Path, tmp_path: Path
) -> None:
    for flags in (["--dry-run"], []):
        ended = cli("pack", flowers / "val", tmp_path / "a", *flags)
        assert (ended.code, ended.err) == (
            0,
            "note: the samples of 'val' became the split 'train': give --split val to name it so\n",
        )
    assert cli("pack", flowers / "val", tmp_path / "b", "--split", "val").err == ""
    assert toolkit.open(tmp_path / "b").split == "val"
    assert cli("pack", flowers / "train", tmp_path / "c").err == ""


def test_shuffle_and_suffix_from_the_command_line(cli: Cli, flowers: Path, tmp_path: Path) -> None:
    assert cli("pack", flowers, tmp_path / "ds", "--shuffle-seed", "3").code == 0
    flags = ("--on-existing", "append", "--shuffle-seed", "3")
    refused = cli("pack", flowers, tmp_path / "ds", *flags)
    assert refused.code == 2
    assert "occurs twice: in the dataset already" in refused.err
    assert "overwrite" not in refused.err
    ended = cli("pack", flowers, tmp_path / "ds", *flags, "--key-conflict", "suffix")
    assert ended.code == 0
    assert "renamed: 14 samples whose key an earlier one has" in ended.out
    assert read_last(ended.last_line)[0] == 28
    keys = toolkit.open(tmp_path / "ds", split="train").keys(range(20))
    assert keys[10:] == [f"{key}#1" for key in keys[:10]]
    assert keys[:10] != sorted(keys[:10])


def test_flags_shape_the_dataset(cli: Cli, flowers: Path, tmp_path: Path) -> None:
    assert cli("pack", flowers / "train", tmp_path / "a", "--split", "mine", "--limit", "3").code == 0
    dataset = toolkit.open(tmp_path / "a")
    assert (dataset.split, len(dataset), dataset.classes) == ("mine", 3, ("daisy", "rose", "tulip"))

    (tmp_path / "classes.txt").write_text("tulip\nrose\ndaisy\n")
    assert cli("pack", flowers, tmp_path / "b", "--split", "val", "--classes", tmp_path / "classes.txt").code == 0
    dataset = toolkit.open(tmp_path / "b")
    assert (len(dataset), dataset.classes, dataset[0]["label"]) == (4, ("tulip", "rose", "daisy"), 2)

    assert cli("pack", flowers, tmp_path / "c", "--label-mode", "none").code == 0
    assert toolkit.open(tmp_path / "c", split="val").classes is None


def test_environment_twins(cli: Cli, flowers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "SPLIT": "train",
        "SHARD_SIZE": "70KB",
        "LABEL_MODE": "none",
        "JOBS": "2",
        "LIMIT": "3",
        "JSON": "1",
    }.items():
        monkeypatch.setenv(f"TOOLKIT_{name}", value)
    options = json.loads(cli("pack", flowers, tmp_path / "ds").out)["options"]
    assert options["split"] == "train"
    assert options["shard_size"] == 70_000
    assert options["label_mode"] == "none"
    assert options["jobs"] == 2
    assert options["limit"] == 3
    flag_wins = cli("pack", flowers, tmp_path / "ds2", "--limit", "2")
    assert json.loads(flag_wins.out)["samples"] == 2
    monkeypatch.setenv("TOOLKIT_SHARD_SIZE", "lots")
    ended = cli("pack", flowers, tmp_path / "ds3")
    assert ended.code == 2
    assert "'lots' is not a size" in ended.err
    assert json.loads(ended.out)["error"]["type"] == "UsageError"


def test_existing(cli: Cli, flowers: Path, packed: Path) -> None:
    before = (packed / "manifest.json").read_bytes()
    ended = cli("pack", flowers, packed)
    assert (ended.code, ended.out) == (2, "")
    assert "already holds a dataset" in ended.err
    assert (packed / "manifest.json").read_bytes() == before
    ended = cli("pack", flowers, packed, "--on-existing", "overwrite", "--limit", "1")
    assert ended.code == 0
    assert read_last(ended.last_line)[0] == 2
    assert len(toolkit.open(packed, split="train")) == 1
    old = hashlib.sha256(before).hexdigest()
    assert len(toolkit.open(f"{packed}@sha256:{old}", split="train")) == 10


def test_sources_that_cannot_be_packed(cli: Cli, flowers: Path, tmp_path: Path) -> None:
    ended = cli("pack", flowers.parent / "flower", tmp_path / "ds")
    assert ended.code == 2
    assert "Did you mean 'flowers'?" in ended.err
    (tmp_path / "empty").mkdir()
    ended = cli("pack", tmp_path / "empty", tmp_path / "ds")
    assert ended.code == 2
    assert "nothing to pack in" in ended.err
    assert cli("pack", flowers, flowers / "ds").code == 2
    assert cli("pack", flowers, tmp_path / "ds", "--split", "vall").code == 2
    assert cli("pack", flowers, tmp_path / "ds", "--classes", tmp_path / "none.txt").code == 2
    assert not (tmp_path / "ds").exists()


def with_rejects(root: Path) -> Path:
    for i in range(3):
        put(root, f"a/{i}.jpg", encoded(20, 20))
    put(root, "a/bad.jpg", b"no image at all")
    put(root, "b/empty.png", b"")
    return root


def test_rejects(cli: Cli, tmp_path: Path) -> None:
    source = with_rejects(tmp_path / "source")
    ended = cli("pack", source, tmp_path / "ds", "--max-rejects", "1")
    assert (ended.code, ended.out) == (3, "")
    assert ended.err.startswith("error: 2 samples rejected, 1 allowed; nothing was committed:\n")
    assert "a/bad.jpg" in ended.err
    assert cli("inspect", tmp_path / "ds").code == 2
    document = json.loads(cli("pack", source, tmp_path / "ds", "--json").out)
    assert (document["error"]["type"], document["error"]["exit_code"]) == ("RejectsError", 3)

    ended = cli("pack", source, tmp_path / "ds", "--max-rejects", "2")
    assert ended.code == 0
    samples, _, _, pin = read_last(ended.last_line)
    assert samples == 3
    report = tmp_path / "ds/reports" / f"{pin}.rejects.jsonl"
    assert f"rejected: 2 samples, listed in {report}" in ended.out
    keys = [json.loads(line)["key"] for line in report.read_text().splitlines()]
    assert sorted(keys) == ["a/bad.jpg", "b/empty.png"]

    document = json.loads(cli("pack", source, tmp_path / "ds2", "--max-rejects", "2", "--json").out)
    assert document["rejects_report"] == str(tmp_path / "ds2/reports" / f"{pin}.rejects.jsonl")
    assert sorted(reject["key"] for reject in document["rejects"]) == sorted(keys)


def test_dry_run(cli: Cli, flowers: Path, packed: Path, tmp_path: Path) -> None:
    ended = cli("pack", flowers, tmp_path / "new", "--dry-run", "--shard-size", "64KiB")
    assert (ended.code, ended.err) == (0, "")
    nbytes = sum(path.stat().st_size for path in flowers.rglob("*.*") if path.is_file())
    assert ended.last_line == f"dry_run=true samples=14 shards=2 source_bytes={nbytes}"
    assert not (tmp_path / "new").exists()
    document = json.loads(cli("pack", flowers, tmp_path / "new", "--dry-run", "--json").out)
    assert document["schema"] == "toolkit.pack-plan/1"
    assert document["splits"]["train"]["samples"] == 10
    assert document["columns"] == {"image": "image", "label": "label"}
    assert document["classes"] == ["daisy", "rose", "tulip"]
    assert document["dataset_exists"] is False

    ended = cli("pack", flowers, packed, "--dry-run")
    assert ended.code == 0
    assert "note:" in ended.err
    assert "--on-existing overwrite" in ended.err
    assert cli("pack", flowers, packed, "--dry-run", "--on-existing", "overwrite").err == ""

    put(tmp_path, "source/a/empty.jpg", b"")
    put(tmp_path, "source/a/full.jpg", b"never read")
    ended = cli("pack", tmp_path / "source", tmp_path / "new", "--dry-run")
    assert ended.code == 3
    assert "a/empty.jpg: empty file" in ended.out
    assert "1 sample would be rejected, 0 allowed" in ended.err
    assert cli("pack", tmp_path / "source", tmp_path / "new", "--dry-run", "--max-rejects", "1").code == 0


@pytest.mark.parametrize(
    ("folders", "said"),
    [
        (["Val"], "'Val' became class names, not splits: split folders are written in lower case"),
        (["train", "extra"], "'train' became class names, not splits: beside 'extra'"),
        (["images", "masks"], "'images', 'masks' became class names"),
        (["cat", "dog"], None),
        (["train", "val"], None),
    ],
)
def test_warning_of_doubtful_class_folders(cli: Cli, tmp_path: Path, folders: list[str], said: str | None) -> None:
    for name in folders:
        put(tmp_path, f"source/{name}/x.jpg", encoded(9, 9))
    for extra in (["-q"], ["--dry-run", "-q"], ["--json", "-q"]):
        shutil.rmtree(tmp_path / "ds", ignore_errors=True)
        ended = cli("pack", tmp_path / "source", tmp_path / "ds", *extra)
        assert ended.code == 0
        assert (f"warning: {said}" in ended.err and ended.err.count("\n") == 1) if said else ended.err == ""
    assert [text[: len(said or "")] for text in json.loads(ended.out)["warnings"]] == ([said] if said else [])


def test_splits_from_the_command_line_the_environment_and_a_config(cli: Cli, tmp_path: Path) -> None:
    for name in ("Train/cat/1.jpg", "Test/cat/2.jpg", "dev/cat/3.jpg", "annotations/x.jpg"):
        put(tmp_path, f"source/{name}", encoded(9, 9))
    source = tmp_path / "source"
    ended = cli("pack", source, tmp_path / "ds", "-q", "--require-labels")
    assert ended.code == 2
    assert "--splits train=Train,test=Test,dev=dev" in ended.err
    assert not (tmp_path / "ds").exists()

    ended = cli("pack", source, tmp_path / "a", "--splits", "train=Train,val=Test,dev")
    assert (ended.code, ended.err) == (0, "")
    assert "left out, in no split: annotations/" in ended.out
    (tmp_path / "pack.yaml").write_text("source: source\ndataset: b\nsplits: {train: Train, val: [Test, ./dev/]}\n")
    assert cli("config", "check", tmp_path / "pack.yaml").code == 0
    ended = cli("pack", "--config", tmp_path / "pack.yaml", "--json")
    document = json.loads(ended.out)
    assert document["splits"] == {"train": 1, "val": 2}
    assert document["left_out"] == ["annotations/"]
    assert document["options"]["splits"] == {"train": ["Train"], "val": ["Test", "dev"]}
    done = program("pack", source, tmp_path / "c", env={"TOOLKIT_SPLITS": "train=Train,val=Test,dev"})
    pins = {toolkit.open(tmp_path / name, split="val").pin for name in "abc"}
    assert (done.code, len(pins)) == (0, 1)
    provenance = next((tmp_path / "a/reports").glob("*.provenance.json"))
    assert json.loads(provenance.read_text())["left_out"] == ["annotations/"]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("train=Train,Test", "'Test' would be a part of the split 'train': give test=Test"),
        ("Train,Test", "'Train' stands behind no split: give Train=Train"),
        ("train=", "'train=' is not SPLIT=FOLDER"),
        ("=Train", "'=Train' is not SPLIT=FOLDER"),
        ("train=/etc", "'/etc' is no folder below the source"),
    ],
)
def test_splits_that_can_not_be_read(cli: Cli, flowers: Path, tmp_path: Path, given: str, says: str) -> None:
    ended = cli("pack", flowers, tmp_path / "ds", "--splits", given)
    assert ended.code == 2
    assert says in ended.err
    assert not (tmp_path / "ds").exists()


def test_splits_are_for_image_folders(cli: Cli, tmp_path: Path) -> None:
    put(tmp_path, "source/x.txt", b"text")
    ended = cli("pack", tmp_path / "source", tmp_path / "ds", "--splits", "train=x")
    assert ended.code == 2
    assert "--splits means nothing for a source of kind text" in ended.err


def test_images_left_out_are_counted(cli: Cli, flowers: Path, tmp_path: Path) -> None:
    ended = cli("pack", flowers, tmp_path / "ds", "--exclude", "*/rose/*")
    assert (ended.code, ended.err) == (0, "")
    assert "4 files left out by --include or --exclude" in ended.out
    assert toolkit.open(tmp_path / "ds", split="train").classes == ("daisy", "tulip")


def test_permission_denied(cli: Cli) -> None:
    with unprivileged() as root:
        put(root, "source/a/1.jpg", encoded(9, 9))
        (root / "closed").mkdir(mode=0o500)
        ended = cli("pack", root / "source", root / "closed/ds")
        assert ended.code == 5
        assert "permission denied" in ended.err
        assert str(root / "closed") in ended.err
        (root / "source/a").chmod(0)
        ended = cli("pack", root / "source", root / "ds", "--json")
        assert ended.code == 5
        assert json.loads(ended.out)["error"]["type"] == "StorageError"


def test_file_size_limit(flowers: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        ["bash", "-c", 'ulimit -f 8; exec "$@"', "bash", *PROGRAM, "pack", str(flowers), str(tmp_path / "ds")],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (5, "")
    assert "ulimit -f" in done.stderr
    assert not (tmp_path / "ds").exists()


def test_names_of_any_bytes(flowers: Path, tmp_path: Path) -> None:
    put(tmp_path, "source/a/\udcff.jpg", encoded(9, 9))
    put(tmp_path, "source/a/\x1b[31m.jpg", encoded(9, 9))
    ended = program("pack", tmp_path / "source", tmp_path / "ds", "--max-rejects", "1")
    assert ended.code == 0
    assert read_last(ended.last_line)[0] == 1
    shown = program("inspect", tmp_path / "ds").out
    assert "\x1b" not in shown
    assert "a/\\x1b[31m.jpg" in shown
    assert program("pack", tmp_path / "\udcff", tmp_path / "ds").code == 2
    put(tmp_path, "source/a/\x1b[32m.jpg", b"no image")
    ended = program("pack", tmp_path / "source", tmp_path / "ds2")
    assert ended.code == 3
    assert "a/\\x1b[32m.jpg" in ended.err
    assert "\x1b" not in ended.err


def on_terminal(*args: object) -> tuple[int, str]:
    """Run the program with stderr on a terminal; return its exit code and what the terminal got."""
    master, slave = pty.openpty()
    with subprocess.Popen([*PROGRAM, *map(str, args)], stdout=subprocess.DEVNULL, stderr=slave) as process:
        os.close(slave)
        shown = b""
        while True:
            try:
                piece = os.read(master, 4096)
            except OSError:  # how Linux says that the other side is closed
                break
            if not piece:
                break
            shown += piece
        code = process.wait(60)
    os.close(master)
    return code, shown.decode()


def test_progress(flowers: Path, tmp_path: Path) -> None:
    code, shown = on_terminal("pack", flowers, tmp_path / "a")
    assert code == 0
    assert "packing" in shown
    code, shown = on_terminal("verify", tmp_path / "a", "--full")
    assert code == 0
    assert "verifying" in shown
    for number, flag in enumerate(["--no-progress", "--quiet"]):
        assert on_terminal("pack", flowers, tmp_path / f"b{number}", flag) == (0, "")
    assert program("pack", flowers, tmp_path / "c").err == ""
    size = sum(path.stat().st_size for path in flowers.rglob("*.*"))
    said = program("pack", flowers, tmp_path / "d", "--progress").err.splitlines()
    assert said[-1] == f"packing: {size:,} of {size:,} bytes"  # there is another each five seconds
    assert program("pack", flowers, tmp_path / "e", env={"TOOLKIT_PROGRESS": "1"}).err != ""


def test_same_pin_for_any_jobs(cli: Cli, flowers: Path, tmp_path: Path) -> None:
    pins = {
        read_last(cli("pack", flowers, tmp_path / jobs, "--jobs", jobs, "--shard-size", "64KiB").last_line)[3]
        for jobs in ("1", "2", "auto")
    }
    assert len(pins) == 1

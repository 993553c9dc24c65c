"""Every file in configs/ is run: packs on small inputs of their kind, the workflow's steps with bash."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tfrecords
import yaml
from pictures import encode, make_folder, picture

import toolkit
from toolkit.cli.main import run

ROOT = Path(__file__).parents[2]
CLASSES = "cat\ndog\n"
TESTED = {
    "ci_pack.yaml",
    "github_workflow.yaml",
    "pack_imagefolder.yaml",
    "pack_parquet.yaml",
    "pack_tfrecord.yaml",
    "pack_tokens.yaml",
    "pack_webdataset.yaml",
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of configs/ with a folder for data beside it; elsewhere is the current folder."""
    for name in [name for name in os.environ if name.startswith("TOOLKIT_")]:
        monkeypatch.delenv(name)
    shutil.copytree(ROOT / "configs", tmp_path / "project/configs")
    (tmp_path / "project/data").mkdir()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    return tmp_path / "project"


def packed(project: Path, config: str, capsys: pytest.CaptureFixture[str]) -> tuple[Path, str]:
    """Pack with a config; return the dataset and what was said."""
    assert run(["config", "check", str(project / "configs" / config)]) == 0
    capsys.readouterr()
    code = run(["pack", "--config", str(project / "configs" / config)])
    out, err = capsys.readouterr()
    assert code == 0, err
    dataset = project / "build"
    assert run(["verify", str(next(dataset.iterdir())), "--full", "--quiet"]) == 0
    return next(dataset.iterdir()), out


def samples(dataset: Path) -> list[dict[str, Any]]:
    opened = toolkit.open(dataset)
    return [opened[i] for i in range(len(opened))]


def photos(project: Path) -> None:
    make_folder(project / "data/photos", {"train/cat": 3, "train/dog": 2, "val/cat": 1, "val/dog": 1})


def test_every_config_has_its_test() -> None:
    assert {path.name for path in (ROOT / "configs").iterdir()} == TESTED


@pytest.mark.parametrize("config", ["pack_imagefolder.yaml", "ci_pack.yaml"])
def test_imagefolder(project: Path, config: str, capsys: pytest.CaptureFixture[str]) -> None:
    photos(project)
    dataset, out = packed(project, config, capsys)
    assert "samples=7" in out
    opened = toolkit.open(dataset, split="train")
    assert (len(opened), opened.classes) == (5, ("cat", "dog"))


def test_parquet(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = project / "data/captions"
    folder.mkdir()
    (folder / "classes.txt").write_text(CLASSES)
    table = {
        "id": ["a", "b", "c"],
        "image": [encode(picture(i)) for i in range(3)],
        "category": pa.array([0, 1, 0], pa.int64()),
        "text": ["one", "two", "three"],
        "unused": [1, 2, 3],
    }
    pq.write_table(pa.table(table), folder / "part-0.parquet")
    (folder / "part-1-draft.parquet").write_bytes(b"left out, so never read")
    dataset, out = packed(project, "pack_parquet.yaml", capsys)
    assert "samples=3" in out
    assert toolkit.open(dataset).classes == ("cat", "dog")
    assert [(sample["__key__"], sample["label"], sample["caption"]) for sample in samples(dataset)] == [
        ("a", 0, "one"),
        ("b", 1, "two"),
        ("c", 0, "three"),
    ]
    assert sorted(samples(dataset)[0]) == ["__key__", "caption", "image", "label"]


def test_tfrecord(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "data/records").mkdir()
    (project / "data/records/classes.txt").write_text(CLASSES)
    payloads = [
        tfrecords.example(
            **{"image/encoded": [encode(picture(i))], "image/class/label": [i % 2], "image/filename": [b"x.jpg"]}
        )
        for i in range(4)
    ]
    tfrecords.write(project / "data/records/train-00000-of-00001.tfrecord", payloads)
    dataset, out = packed(project, "pack_tfrecord.yaml", capsys)
    assert "samples=4" in out
    assert toolkit.open(dataset).classes == ("cat", "dog")
    assert [sample["label"] for sample in samples(dataset)] == [0, 1, 0, 1]
    assert sorted(samples(dataset)[0]) == ["__key__", "image", "label"]


def tar(path: Path, members: dict[str, bytes]) -> None:
    import io
    import tarfile

    path.parent.mkdir(exist_ok=True)
    with tarfile.open(path, "w") as file:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            file.addfile(info, io.BytesIO(data))


def test_webdataset(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(2):
        whole = {"x.jpg": encode(picture(number)), "x.cls": b"%d" % number, "x.json": b'{"n": 1}', "x.txt": b"unused"}
        members = {f"{number}{name}": data for name, data in whole.items()}
        tar(project / f"data/tars/train-00{number}.tar", {**members, f"{number}y.jpg": encode(picture(9))})
    (project / "data/tars/classes.txt").write_text(CLASSES)
    dataset, out = packed(project, "pack_webdataset.yaml", capsys)
    assert "samples=2" in out
    assert toolkit.open(dataset).classes == ("cat", "dog")
    assert [(sample["label"], sorted(sample)) for sample in samples(dataset)] == [
        (0, ["__key__", "image", "info", "label"]),
        (1, ["__key__", "image", "info", "label"]),
    ]


def test_tokens(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "data/corpus").mkdir()
    lines = ['{"id": "a", "text": "one"}', '{"id": "b", "text": ""}', '{"text": "zwei", "id": 7}']
    (project / "data/corpus/part.jsonl").write_text("\n".join(lines))
    dataset, out = packed(project, "pack_tokens.yaml", capsys)
    assert "samples=3" in out
    assert [(sample["__key__"], sample["tokens"]) for sample in samples(dataset)] == [
        ("a", [*b"one", 256]),
        ("b", []),
        ("7", [*b"zwei", 256]),
    ]


# --- the workflow ------------------------------------------------------------------------------------------------


def steps() -> dict[str, str]:
    """Return the commands of each step, without installing."""
    workflow = yaml.safe_load((ROOT / "configs/github_workflow.yaml").read_text())
    assert workflow["defaults"]["run"]["shell"] == "bash"
    found = workflow["jobs"]["pin"]["steps"]
    return {step["name"]: step["run"] for step in found if "run" in step and step["name"] != "Install toolkit"}


def run_workflow(project: Path) -> tuple[str | None, str]:
    """Run the steps as GitHub does; return the name of the one that failed, and what was said."""
    programs = project / "programs"
    programs.mkdir(exist_ok=True)
    (programs / "toolkit").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m toolkit.cli.main "$@"\n')
    (programs / "toolkit").chmod(0o755)
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    said = ""
    for name, commands in steps().items():
        words = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", commands]
        done = subprocess.run(words, cwd=project, env=environment, capture_output=True, text=True, timeout=120)
        said += done.stdout + done.stderr
        if done.returncode != 0:
            return name, said
    return None, said


def test_workflow(project: Path) -> None:
    photos(project)
    failed, said = run_workflow(project)
    assert failed == "Compare the pin", said
    assert "commit build/ci_pack.pin as configs/ci_pack.pin" in said
    shutil.copy(project / "build/ci_pack.pin", project / "configs/ci_pack.pin")
    shutil.rmtree(project / "build")
    assert run_workflow(project)[0] is None
    assert run_workflow(project)[0] is None  # over the dataset of the run before

    (project / "data/photos/train/cat/0000.jpg").write_bytes(encode(picture(77)))
    failed, said = run_workflow(project)
    assert failed == "Compare the pin"
    assert (project / "configs/ci_pack.pin").read_text() in said.replace("\n-", "\n")
    (project / "data/photos/train/cat/0000.jpg").write_bytes(b"no image")
    assert run_workflow(project)[0] == "Pack"
    (project / "configs/ci_pack.yaml").write_text("limt: 3\n")
    assert run_workflow(project)[0] == "Check the config"

"""`toolkit.pack`: what the command does, with typed keywords, and what it returns."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pictures import make_folder

import toolkit
from toolkit.cli.main import run
from toolkit.errors import ExistsError, NotFoundError, RejectsError, UsageError
from toolkit.options.option import options_of
from toolkit.pack.job import PackJob

ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_folder(tmp_path / "photos", {"train/cat": 6, "train/dog": 4, "val/cat": 2})


def test_it_is_the_function_whatever_was_imported_before() -> None:
    script = (
        "import sys\n"
        "{}\n"
        "import toolkit\n"
        "assert toolkit.pack.__name__ == 'pack' and callable(toolkit.pack), toolkit.pack\n"
        "from toolkit.pack.job import PackJob\n"
        "from toolkit.pack import run\n"
        "assert callable(toolkit.pack) and run.pack is not toolkit.pack\n"
    )
    for before in ("", "from toolkit.pack.job import PackJob", "import toolkit; toolkit.pack_tokens"):
        subprocess.run([sys.executable, "-c", script.format(before)], check=True, cwd=ROOT)


def test_the_signature_is_that_of_the_declarations() -> None:
    done = subprocess.run([sys.executable, ROOT / "scripts/make_pack.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    parameters = inspect.signature(toolkit.pack).parameters
    assert list(parameters) == ["source", "dataset", *options_of(PackJob), "progress"]
    assert all(f"\n    {name}: " in (toolkit.pack.__doc__ or "").replace("\n        ", "\n    ") for name in parameters)


def test_it_packs_what_the_command_packs(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = toolkit.pack(
        folder, tmp_path / "a", shard_size="64KiB", user_metadata={"owner": "me"}, exclude=("*3.jpg",), jobs="auto"
    )
    assert capsys.readouterr() == ("", "")
    flags = ["--shard-size", "64KiB", "--user-metadata", "owner=me", "--exclude", "*3.jpg", "--jobs", "auto"]
    assert run(["pack", str(folder), str(tmp_path / "b"), *flags, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (result.pin, result.samples, result.splits) == (document["pin"], 10, {"train": 8, "val": 2})
    theirs = {"seconds", "dataset", "schema"}
    ours = json.loads(json.dumps({name: getattr(result, name) for name in document.keys() - theirs}))
    assert ours == {name: value for name, value in document.items() if name not in theirs}
    assert len(toolkit.open(f"{result.dataset}@sha256:{result.pin}", split="train")) == 8


def test_several_sources_and_progress(tmp_path: Path) -> None:
    files = []
    for name in "ab":
        files.append(tmp_path / f"{name}.jsonl")
        files[-1].write_text('{"text": "one"}\n{"text": "two"}\n')
    seen: list[tuple[Any, ...]] = []
    result = toolkit.pack(files, tmp_path / "ds", tokenizer="bytes", progress=lambda *done: seen.append(done))
    assert (result.samples, result.options["more_sources"]) == (4, [str(files[1])])
    assert seen[-1][0] == 4
    with pytest.raises(UsageError, match="source is an empty list"):
        toolkit.pack([], tmp_path / "none")


def test_class_names_are_a_file_or_a_list(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "classes.txt").write_text("dog\ncat\n")
    by_file = toolkit.pack(folder, tmp_path / "a", classes=tmp_path / "classes.txt")
    by_list = toolkit.pack(folder, tmp_path / "b", classes=["dog", "cat"])
    assert by_file.pin == by_list.pin
    assert by_file.options["classes"] == ["dog", "cat"]
    assert toolkit.open(tmp_path / "b", split="train").classes == ("dog", "cat")


def test_errors_are_those_of_the_command(folder: Path, tmp_path: Path) -> None:
    pack: Any = toolkit.pack
    with pytest.raises(NotFoundError):
        pack(tmp_path / "nowhere", tmp_path / "ds")
    for wrong, said in (
        ({"limit": "ten"}, "limit: expected a whole number of at least 1, got 'ten'"),
        ({"limit": 0}, "limit: expected a whole number of at least 1, got 0"),
        (
            {"label_mode": "atuo"},
            "imagefolder, got 'atuo'. Did you mean 'auto'?",
        ),
        ({"shard_size": "10M"}, "shard_size: '10M' can mean two sizes"),
        ({"shard_size": 1000}, "a shard size of 1000 bytes is too small"),
        ({"columns": "a,b"}, "columns: expected a list of texts"),
        ({"map": {"a": 1}}, "map.a: expected text, got 1"),
        ({"eos": True}, "--eos means nothing for a source of kind imagefolder"),
        ({"extend_classes": True}, "--extend-classes means nothing without --on-existing append"),
        ({"key": "id"}, "--key means nothing for a source of kind imagefolder"),
    ):
        with pytest.raises(UsageError) as caught:
            pack(folder, tmp_path / "ds", **wrong)
        assert said in str(caught.value)
    with pytest.raises(TypeError, match="shrad_size"):
        pack(folder, tmp_path / "ds", shrad_size=1)
    assert not (tmp_path / "ds").exists()
    toolkit.pack(folder, tmp_path / "ds")
    with pytest.raises(ExistsError):
        toolkit.pack(folder, tmp_path / "ds")
    (folder / "train/cat/bad.jpg").write_bytes(b"nothing")
    with pytest.raises(RejectsError):
        toolkit.pack(folder, tmp_path / "ds", on_existing="overwrite")
    result = toolkit.pack(folder, tmp_path / "ds", on_existing="overwrite", max_rejects="10%")
    assert [reject.key for reject in result.rejects] == ["train/cat/bad.jpg"]
    assert result.rejects_report is not None
    assert Path(result.rejects_report).is_file()


def test_what_is_no_path_is_refused(tmp_path: Path) -> None:
    pack: Any = toolkit.pack
    for source, dataset, said in (
        (5, "d", "source: expected a path, or a list of paths, got 5"),
        (None, "d", "source: expected a path, or a list of paths, got nothing"),
        (b"photos", "d", "source: expected a path, or a list of paths, got b'photos'"),
        ({"a": 1}, "d", "an object of type int can't be packed"),
        ({"a", "b"}, "d", "source is a set"),
        (["a", 5], "d", "source[1]: expected a path, got 5"),
        ("photos", 5, "dataset: expected a path, got 5"),
        ([{"a": 1}], 5, "dataset: expected a path, got 5"),
        (pa.table({"a": [1]}), None, "dataset: expected a path, got nothing"),
        ("photos", None, "dataset: expected a path, got nothing"),
        ("photos", b"d", "dataset: expected a path, got b'd'"),
        ("", "d", "source is empty"),
        ("photos", "", "dataset is empty"),
        ("a\0b", "d", "has a NUL character"),
    ):
        with pytest.raises(UsageError) as caught:
            pack(source, dataset)
        assert said in str(caught.value)
    for make in (lambda: toolkit.writer(5), lambda: toolkit.merge_parts(5, parts=1)):  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="dataset: expected a path, got 5"):
            make()


def test_numbers_of_numpy(folder: Path, tmp_path: Path) -> None:
    pack: Any = toolkit.pack
    assert pack(folder, tmp_path / "a", limit=np.int64(1)).samples == 2
    with pytest.raises(UsageError, match=r"limit: expected a whole number.*, got 3\.0 of type numpy\.float32"):
        pack(folder, tmp_path / "b", limit=np.float32(3))


def test_texts_that_are_no_unicode(folder: Path, tmp_path: Path) -> None:
    pack: Any = toolkit.pack
    for wrong in ({"user_metadata": {"a": "\ud800"}}, {"key": "\ud800"}, {"splits": {"\ud800": "a"}}):
        with pytest.raises(UsageError, match=r"ud800' is not valid UTF-8"):
            pack(folder, tmp_path / "a", **wrong)


SNIPPET = """\
from pathlib import Path
import toolkit
result = toolkit.pack(Path("a"), "b", label_mode="none", shard_size="1MiB", kind={"x": "image"}, splits={"a": ["b"]})
pin: str = result.pin
toolkit.pack("a", "b", shrad_size=1)
toolkit.pack("a", "b", label_mode="ful")
toolkit.pack("a", "b", limit="ten")
toolkit.pack("a", "b", kind={"x": "imag"})
toolkit.pack(["a"], "b").pinn
toolkit.pack("a", "b", progress=print)
"""


def test_a_type_checker_finds_mistakes(tmp_path: Path) -> None:
    api = pytest.importorskip("mypy.api")
    (tmp_path / "snippet.py").write_text(SNIPPET)
    # Only these files: what they import counts as Any, and the check takes seconds.
    files = [ROOT / "toolkit" / name for name in ("__init__.py", "pack/__init__.py", "pack/front.py", "pack/job.py")]
    out, err, _ = api.run(
        [
            *("--follow-imports=skip", "--ignore-missing-imports", "--strict", "--config-file="),
            *("--cache-dir", str(tmp_path / "cache")),
            *(str(path) for path in [tmp_path / "snippet.py", *files]),
        ]
    )
    assert not err
    found = {int(line.split(":")[1]): line for line in out.splitlines() if "snippet.py" in line and ": error: " in line}
    assert sorted(found) == [5, 6, 7, 8, 9], out
    for number, said in ((5, "shrad_size"), (6, "label_mode"), (7, "limit"), (8, "imag"), (9, "pinn")):
        assert said in found[number]

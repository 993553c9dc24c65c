"""`toolkit pack - DATASET`: what is piped in is packed as a file called stdin."""

from __future__ import annotations

import gzip
import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tfrecords
from command import PROGRAM, Cli, Ended
from pictures import make_folder
from sources import tars

import toolkit

Piped = Callable[..., Ended]


@pytest.fixture
def piped(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Piped:
    def run(data: bytes, *args: object) -> Ended:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        return cli("pack", "-", *args)

    return run


def samples(dataset: Path) -> list[dict[str, Any]]:
    ds = toolkit.open(dataset)
    return [ds[i] for i in range(len(ds))]


def test_a_table(piped: Piped, tmp_path: Path) -> None:
    data = b"a,b\n1,x\n2,y\n"
    pins = set()
    for name in ("one", "two"):
        done = piped(data, tmp_path / name, "--source-kind", "csv")
        assert (done.code, done.err) == (0, "")
        pins.add(done.out.rpartition("pin=")[2])
    assert len(pins) == 1
    assert samples(tmp_path / "one") == [
        {"__key__": "stdin#0", "a": 1, "b": "x"},
        {"__key__": "stdin#1", "a": 2, "b": "y"},
    ]
    assert piped(gzip.compress(data), tmp_path / "three", "--source-kind", "csv").code == 0
    assert samples(tmp_path / "three") == samples(tmp_path / "one")


def test_json_lines(piped: Piped, tmp_path: Path) -> None:
    assert piped(b'{"a": [1]}\n', tmp_path / "ds", "--source-kind", "jsonl").code == 0
    assert samples(tmp_path / "ds") == [{"__key__": "stdin#0", "a": "[1]"}]


def test_kinds_that_content_tells(piped: Piped, tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": [5]}), tmp_path / "x.parquet")
    tfrecords.write(tmp_path / "x.tfrecord", tfrecords.many(3))
    inputs = {
        "parquet": (tmp_path / "x.parquet").read_bytes(),
        "tfrecord": (tmp_path / "x.tfrecord").read_bytes(),
        "webdataset": tars.tar_bytes(tars.samples(2)),
    }
    for kind, data in inputs.items():
        done = piped(data, tmp_path / kind)
        assert (done.code, done.err) == (0, "")
        assert toolkit.open(tmp_path / kind).manifest.options["source_kind"] == kind


def test_paths_are_below_a_root_that_is_said(piped: Piped, tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "photos", {"cat": 1})
    path = next(folder.rglob("*.jpg")).relative_to(folder)
    flags = ["--source-kind", "csv", "--image-column", "path"]
    data = f"path\n{path}\n".encode()
    done = piped(data, tmp_path / "ds", *flags)
    assert done.code == 2
    assert "say with --root what its paths are below" in done.err
    assert piped(data, tmp_path / "ds", *flags, "--root", folder).code == 0
    assert samples(tmp_path / "ds")[0]["__key__"] == str(path)


@pytest.mark.parametrize(
    ("data", "args", "told"),
    [
        (b"a,b\n1,2\n", (), "--source-kind"),
        (b"", ("--source-kind", "csv"), "no"),
        (b"a,b\n1\n", ("--source-kind", "csv"), "line 2"),
    ],
)
def test_what_is_refused(piped: Piped, tmp_path: Path, data: bytes, args: tuple[str, ...], told: str) -> None:
    done = piped(data, tmp_path / "ds", *args)
    assert done.code in (2, 3)
    assert told in done.err


def test_it_is_the_one_source(piped: Piped, tmp_path: Path) -> None:
    done = piped(b"", "x.csv", tmp_path / "ds")
    assert done.code == 2
    assert "standard input (-) is the one SOURCE" in done.err


def test_a_pipe(tmp_path: Path) -> None:
    words = [*PROGRAM, "pack", "-", str(tmp_path / "ds"), "--source-kind", "csv"]
    subprocess.run(words, input=b"a\n1\n", capture_output=True, timeout=120, check=True)
    assert samples(tmp_path / "ds") == [{"__key__": "stdin#0", "a": 1}]

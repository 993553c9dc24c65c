"""`toolkit pack - DATASET`: what is piped in is packed as a file called stdin."""

from __future__ import annotations

import gzip
import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tfrecords
from command import PROGRAM, Cli, Ended
from kills import KILL_AT
from pictures import make_folder
from sources import tars

import toolkit
from toolkit.storage.scratch import spooled

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


_PACK = """
from toolkit.cli.main import run
sys.exit(run(words))
"""


@pytest.mark.parametrize(("step", "at"), [("fsync", 4), ("replace", 1)])
def test_a_pack_that_was_killed_is_gone_on_with(step: str, at: int, tmp_path: Path) -> None:
    spools = tmp_path / "spools"
    spools.mkdir()
    environment = {**os.environ, "TMPDIR": str(spools)}
    data = b"a\n" + b"".join(b"%d\n" % number for number in range(20_000))

    def words(name: str) -> list[str]:
        return ["pack", "-", str(tmp_path / name), "--source-kind", "csv", "--shard-size", "64KiB"]

    command = [sys.executable, "-c", KILL_AT + _PACK, step, str(at), *words("ds")]
    assert subprocess.run(command, input=data, env=environment, capture_output=True, timeout=120).returncode == -9
    for folder in spools.iterdir():
        os.utime(folder, (0, 0))
    for name in ("ds", "whole"):
        subprocess.run(
            [*PROGRAM, *words(name)], input=data, env=environment, capture_output=True, timeout=120, check=True
        )
    assert toolkit.open(tmp_path / "ds").pin == toolkit.open(tmp_path / "whole").pin
    assert list(spools.iterdir()) == []


def test_what_is_piped_in_is_not_left_behind_when_it_is_interrupted(tmp_path: Path) -> None:
    spools = tmp_path / "spools"
    spools.mkdir()
    command = [*PROGRAM, "pack", "-", str(tmp_path / "ds"), "--source-kind", "csv"]
    environment = {**os.environ, "TMPDIR": str(spools)}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as process:
        while not list(spools.rglob("stdin")):
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    assert list(spools.iterdir()) == []
    assert not (tmp_path / "ds").exists()


def test_what_another_process_holds_is_not_taken_away(piped: Piped, tmp_path: Path) -> None:
    with spooled(io.BytesIO(b"a\n1\n"), "stdin") as path:
        os.utime(os.path.dirname(path), (0, 0))
        assert piped(b"a\n2\n", tmp_path / "ds", "--source-kind", "csv").code == 0
        assert Path(path).read_bytes() == b"a\n1\n"
    assert not os.path.exists(os.path.dirname(path))

"""Names from strangers are printed as text: no command sends a terminal anything else."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command import PROGRAM, Cli, Ended, encoded, put

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e\x7f\u2028"
CLASS, COLUMN = f"cat{EVIL}", f"text{EVIL}"
UNSAFE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\udc80-\udcff]")


@pytest.fixture
def images(tmp_path: Path) -> Path:
    for number in range(3):
        put(tmp_path, f"images/{CLASS}/{number}{EVIL}.jpg", encoded(20, 20, seed=number))
        put(tmp_path, f"images/花 é 👩\u200d👩/{number}.jpg", encoded(20, 20, seed=9 + number))
    return tmp_path / "images"


def check(ended: Ended, *, code: int = 0) -> None:
    assert ended.code == code, ended.err
    for text in (ended.out, ended.err):
        assert UNSAFE.search(text) is None, repr(text)


def test_no_command_prints_what_names_say(cli: Cli, images: Path, tmp_path: Path) -> None:
    dataset = tmp_path / f"ds{EVIL}"
    packed = cli("pack", images, dataset, "--progress")
    check(packed)
    assert "ds\\x1b]0;owned\\x07" in packed.out
    commands = (
        ["inspect", dataset],
        ["inspect", dataset, "--labels"],
        ["inspect", dataset, "--json"],
        ["inspect", dataset, "--labels", "--json"],
        ["head", dataset],
        ["query", dataset, "select * from train"],
        ["query", dataset, "select * from train", "--json"],
        ["query", dataset, "select * from train", "--format", "jsonl"],
        ["verify", dataset, "--full", "--progress"],
        ["verify", dataset, "--json"],
        ["gc", dataset],
    )
    for command in commands:
        ended = cli(*command)
        check(ended)
        if "inspect" in command or "head" in command:
            assert "花 é 👩\u200d👩" in ended.out
            assert "cat\\x1b]0;owned" in ended.out or "cat\\u001b]0;owned" in ended.out
    names = [
        one["name"]
        for one in json.loads(cli("inspect", dataset, "--labels", "--json").out)["columns"]["label"]["classes"]
    ]
    assert CLASS in names
    first = json.loads(cli("head", dataset, "-n", "1").out)
    assert first["label"]["name"] == CLASS
    assert first["__key__"].endswith(f"0{EVIL}.jpg")


def test_errors_reports_and_other_names(cli: Cli, images: Path, tmp_path: Path) -> None:
    put(images, f"{CLASS}/bad{EVIL}\n.jpg", b"no image")
    refused = cli("pack", images, tmp_path / "ds")
    check(refused, code=3)
    assert "bad\\x1b]0;owned" in refused.err
    assert "\\n.jpg" in refused.err
    check(cli("pack", images, tmp_path / "ds", "--json"), code=3)
    check(cli("pack", images, tmp_path / "ds", "--debug"), code=3)
    check(cli("pack", images, tmp_path / "ds", "--max-rejects", "1", "--json"))
    for report in (tmp_path / "ds/reports").iterdir():
        text = report.read_text()
        assert UNSAFE.search(text) is None, report
        for line in text.splitlines() if report.suffix == ".jsonl" else [text]:
            assert f"bad{EVIL}" in json.loads(line)["key"] if report.suffix == ".jsonl" else json.loads(line)
    check(cli("inspect", tmp_path / f"no{EVIL}"), code=2)
    check(cli(f"no{EVIL}"), code=2)
    check(cli("inspect", tmp_path / "ds", "--split", EVIL), code=2)


def test_column_names_and_values(cli: Cli, tmp_path: Path) -> None:
    rows = pa.table({COLUMN: ["花", EVIL], "id": [1, 2]})
    (tmp_path / "rows").mkdir()
    pq.write_table(rows, tmp_path / f"rows/a{EVIL}.parquet")
    check(cli("pack", tmp_path / "rows", tmp_path / "ds", "--dry-run"))
    check(cli("pack", tmp_path / "rows", tmp_path / "ds"))
    for command in (
        ["inspect"],
        ["inspect", "--json"],
        ["head"],
        ["verify"],
        ["bench", "--repeats", "1", "--epochs", "1"],
    ):
        check(cli(command[0], tmp_path / "ds", *command[1:]))
    values = [json.loads(line)[COLUMN] for line in cli("head", tmp_path / "ds").out.splitlines()]
    assert values == ["花", EVIL]


def test_foreign_names_in_gc(cli: Cli, images: Path, tmp_path: Path) -> None:
    assert cli("pack", images, tmp_path / "ds").code == 0
    put(tmp_path, f"ds/reports/mine{EVIL}", b"")
    put(tmp_path, f"ds/shards/{EVIL}-000000-0123456789abcdef.arrow", b"")
    put(tmp_path, os.fsdecode(b"ds/shards/\xff\x1b-000000-0123456789abcdef.arrow"), b"")
    for options in ([], ["--json"]):
        check(cli("gc", tmp_path / "ds", *options))


def test_a_terminal_gets_only_the_styles_of_tables(images: Path, tmp_path: Path) -> None:
    assert subprocess.run([*PROGRAM, "pack", images, tmp_path / "ds"], capture_output=True).returncode == 0
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "200"}
    with subprocess.Popen(
        [*PROGRAM, "inspect", tmp_path / "ds"], stdout=theirs, stderr=theirs, env=environment
    ) as process:
        os.close(theirs)
        shown = b""
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            shown += piece
    os.close(ours)
    assert process.returncode == 0
    text = shown.decode()
    assert re.search(r"\x1b\[1m", text), "tables have bold headers"
    assert UNSAFE.search(re.sub(r"\x1b\[[0-9;]*m|\r\n", "", text)) is None
    assert "cat\\x1b]0;owned" in text

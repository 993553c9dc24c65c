"""`toolkit query` as a program: tables, CSV, JSON, files, notes and exit codes."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from command import PROGRAM, Cli, program

COUNTS = "select label, count(*) as n from train group by label order by n desc"


def test_a_table(cli: Cli, packed: Path) -> None:
    ended = cli("query", packed, COUNTS)
    assert (ended.code, ended.err) == (0, "")
    assert [line.split() for line in ended.out.splitlines()] == [["label", "n"], ["daisy", "7"], ["rose", "3"]]


def test_star_tells_what_it_leaves_out(cli: Cli, packed: Path) -> None:
    ended = cli("query", packed, "select * from val limit 1")
    assert ended.out.splitlines()[1].split() == ["val/daisy/0.jpg", "daisy"]
    assert ended.err == "note: * leaves out image: large columns are read when the query names them\n"
    assert cli("query", packed, "select * from val limit 1", "--quiet").err == ""
    assert cli("query", packed, "select *, image from val limit 1").err == ""


def test_a_table_is_cut_after_rows(cli: Cli, packed: Path) -> None:
    sql = "select __key__ from samples"
    ended = cli("query", packed, sql, "--rows", "3")
    assert len(ended.out.splitlines()) == 1 + 3
    assert ended.err == "note: these are the first 3 rows: --rows 0 shows all, --output FILE keeps them\n"
    for rows in ("0", "14"):
        ended = cli("query", packed, sql, "--rows", rows)
        assert (len(ended.out.splitlines()), ended.err) == (1 + 14, "")


def test_values_of_each_kind_in_a_table(cli: Cli, packed: Path) -> None:
    sql = "select null as a, cast('nan' as double) as b, __digest__, image, array[1, 2] as c, "
    sql += '"__image.width__" as w from train limit 1'
    ended = cli("query", packed, sql)
    words = ended.out.splitlines()[1].split()
    assert words[:2] == ["null", "nan"]
    assert len(words[2]) == 32
    assert "bytes>, path: 0.jpg}" in ended.out
    assert ended.out.splitlines()[1].endswith("[1, 2]  40")


def test_json_is_one_object_with_all_rows(cli: Cli, packed: Path) -> None:
    ended = cli("query", packed, "select *, cast('nan' as double) as x from train", "--json", "--rows", "1")
    document = json.loads(ended.out)
    assert document["schema"] == "toolkit.query/1"
    assert (document["root"], len(document["pin"])) == (str(packed), 64)
    assert document["columns"] == {"__key__": "String", "label": "String", "x": "Float64"}
    assert document["left_out"] == ["image"]
    assert document["rows"][0] == {"__key__": "train/daisy/0.jpg", "label": "daisy", "x": None}
    assert len(document["rows"]) == 10


def test_csv_and_json_lines_on_stdout(cli: Cli, packed: Path) -> None:
    assert cli("query", packed, COUNTS, "--format", "csv").out == "label,n\ndaisy,7\nrose,3\n"
    ended = cli("query", packed, COUNTS, "--format", "jsonl")
    assert [json.loads(line) for line in ended.out.splitlines()] == [
        {"label": "daisy", "n": 7},
        {"label": "rose", "n": 3},
    ]


@pytest.mark.parametrize("form", ["csv", "jsonl", "arrow", "parquet"])
def test_a_file(cli: Cli, packed: Path, tmp_path: Path, form: str) -> None:
    path = tmp_path / f"counts.{form}"
    path.write_text("old")
    ended = cli("query", packed, COUNTS, "--output", path)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == f"{path}: {path.stat().st_size:,} bytes\n"
    if form == "parquet":
        assert pq.read_table(path).to_pylist() == [{"label": "daisy", "n": 7}, {"label": "rose", "n": 3}]
    document = json.loads(cli("query", packed, COUNTS, "-o", tmp_path / "x", "--format", form, "--json").out)
    assert document["bytes"] == (tmp_path / "x").stat().st_size
    assert "rows" not in document
    assert [name for name in os.listdir(tmp_path) if name.startswith(".")] == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--format", "arrow"], "--format arrow isn't for stdout: say --output FILE"),
        (["--format", "csv", "--json"], "--json and --format contradict each other"),
        (["--format", "table", "--output", "x.csv"], "--format table is for stdout"),
        (["--format", "cvs"], "'cvs' is not one of table, csv, jsonl, arrow, parquet. Did you mean 'csv'?"),
        (["--output", "x.docx"], "the name 'x.docx' doesn't say a format"),
        (["--output", "s3://bucket/x.csv"], "is a URL"),
        (["--rows", "-1"], "-1 is less than 0"),
    ],
)
def test_options_that_cannot_be(cli: Cli, packed: Path, options: list[str], said: str) -> None:
    ended = cli("query", packed, COUNTS, *options)
    assert (ended.code, ended.out) == (2, "") or "--json" in options
    assert ended.code == 2
    assert said in ended.err


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("select * from read_csv('/etc/passwd')", "a query reads the dataset's own tables, and no files"),
        ("drop table train", "DROP: a query reads, and does nothing else"),
        ("select lable from train", "Did you mean 'label'?"),
        ("select label from tarin", "Did you mean 'train'?"),
        ("select label, count(*)", "there are several splits: say FROM and one of train, val, samples"),
        ("select label from train wehre label = 'rose'", "query: "),
    ],
)
def test_queries_that_cannot_be(cli: Cli, packed: Path, sql: str, said: str) -> None:
    ended = cli("query", packed, sql)
    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err
    assert len(ended.err.splitlines()) == 1


def test_a_damaged_shard_is_exit_code_4_and_no_file(cli: Cli, packed: Path, tmp_path: Path) -> None:
    shard = next((packed / "shards").glob("train-*"))
    data = bytearray(shard.read_bytes())
    data[data.index(b"train/daisy/3.jpg")] ^= 1
    shard.write_bytes(data)
    for options in ([], ["--output", tmp_path / "keys.csv"], ["--output", tmp_path / "keys.parquet"]):
        ended = cli("query", packed, "select __key__ from train", *options)
        assert (ended.code, ended.out) == (4, "")
        assert "have another CRC32C" in ended.err
    assert sorted(os.listdir(tmp_path)) == ["ds"]
    assert cli("query", packed, "select count(*) as n from val").code == 0


def test_csv_sends_a_terminal_nothing_but_text(cli: Cli, packed: Path) -> None:
    sql = "select '\x1b]0;owned\x07' as a"
    assert cli("query", packed, sql, "--format", "csv").out == "a\n\x1b]0;owned\x07\n"
    main, end = pty.openpty()
    try:
        done = subprocess.run(
            [*PROGRAM, "query", packed, sql, "--format", "csv"], stdout=end, stderr=subprocess.PIPE, timeout=60
        )
        assert done.returncode == 0
        assert b"\\x1b]0;owned\\x07" in os.read(main, 1000)
    finally:
        os.close(main)
        os.close(end)


def test_ctrl_c_ends_a_long_query(packed: Path) -> None:
    many = ", ".join(f"samples s{i}" for i in range(9))  # 14 ** 9 rows
    sql = (
        f"select count(*) from (select s0.*, s8.__key__ as k from {many} where s0.__key__ < s8.__key__) where k > label"
    )
    running = subprocess.Popen([*PROGRAM, "query", packed, sql], stderr=subprocess.PIPE, start_new_session=True)
    try:
        assert running.stderr is not None
        assert running.stderr.readline().startswith(b"note: * leaves out image")  # now polars is asked
        time.sleep(0.5)
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=60)
    finally:
        running.kill()
    assert (running.returncode, err) == (130, b"interrupted\n")


def test_as_a_program(packed: Path) -> None:
    ended = program("query", packed, COUNTS, "--format", "csv")
    assert (ended.code, ended.out, ended.err) == (0, "label,n\ndaisy,7\nrose,3\n", "")

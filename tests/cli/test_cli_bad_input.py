"""Damaged and contradictory input, from the command line: what is said, with which exit code, and nothing committed."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tfrecords
from command import Cli, encoded, put, unprivileged
from sources import tars

TAR = tars.tar_bytes(tars.samples(20))
RECORDS = tfrecords.many(10)
FIRST = len(tfrecords.frame(RECORDS[0]))
TFRECORD = b"".join(map(tfrecords.frame, RECORDS))


def flipped(data: bytes, at: int) -> bytes:
    damaged = bytearray(data)
    damaged[at] ^= 1
    return bytes(damaged)


@pytest.mark.parametrize(
    ("name", "data", "code", "says"),
    [
        (
            "b.tar",
            TAR[: len(TAR) // 2],
            2,
            r"b\.tar', byte 76288: the file ends within .* last good member .*--exclude",
        ),
        ("b.tar", TAR[:4700], 2, r"b\.tar', byte 4096: the file ends within the 12 bytes of 'a/0000\.txt'.*--exclude"),
        (
            "b.tar",
            flipped(TAR, TAR.index(b"a/0010.jpg")),
            2,
            r"b\.tar', byte 71680: .*check sum differs; the last good",
        ),
        ("b.tar", b"x" * 5000, 2, r"b\.tar' is no tar: .* at byte 0\. Make it again, or --exclude it"),
        ("b.tar", b"", 2, r"b\.tar' is empty: no tar\. Make it again"),
        ("b.tar", tars.tar_bytes([("../x.jpg", tars.JPEG)]), 3, r"\n  x \(.*\): its member '\.\./x\.jpg' leads out"),
        ("b.tar", tars.tar_bytes([("/etc/x.jpg", tars.JPEG)]), 3, r"\n  etc/x \(.*\): its member '/etc/x\.jpg' leads"),
        (
            "b.tar.gz",
            gzip.compress(TAR, mtime=0)[:-500],
            2,
            r"b\.tar\.gz': .* cut short near byte \d+ of the file\. Get",
        ),
        (
            "b.tfrecord",
            flipped(TFRECORD, FIRST),
            2,
            rf"b\.tfrecord': record 1 at byte {FIRST}: the length doesn't fit its",
        ),
        ("b.tfrecord", flipped(TFRECORD, FIRST + 30), 3, r"\n  b\.tfrecord#1: the payload doesn't fit its CRC"),
        (
            "b.tfrecord",
            TFRECORD[:-50],
            2,
            r"b\.tfrecord': record 9 at byte \d+: the file is cut off\..* Leave the file out",
        ),
        ("b.tfrecord", TFRECORD[: FIRST + 5], 2, r"b\.tfrecord': record 1 at byte \d+: the file is cut off\."),
    ],
)
@pytest.mark.parametrize("beside", [True, False])
def test_tar_and_tfrecord(cli: Cli, tmp_path: Path, name: str, data: bytes, code: int, says: str, beside: bool) -> None:
    put(tmp_path, f"in/{name}", data)
    if beside:
        good = tars.tar_bytes(tars.samples(3, start=100)) if "tar" in name else TFRECORD
        put(tmp_path, "in/a.tar" if "tar" in name else "in/a.tfrecord", good)
    ended = cli("pack", tmp_path / "in", tmp_path / "ds")
    assert (ended.code, ended.out) == (code, "")
    assert re.search(says, ended.err), ended.err
    refused(tmp_path / "ds", code)


def page(path: Path) -> None:
    path.write_bytes(flipped(path.read_bytes(), 200))


def footer(path: Path) -> None:
    path.write_bytes(flipped(path.read_bytes(), -100))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-2000])


def other_type(path: Path) -> None:
    pq.write_table(pa.table({"n": ["x"], "s": ["y"]}), path)


def other_column(path: Path) -> None:
    pq.write_table(pa.table({"n": [1], "z": ["y"]}), path)


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (page, r"b\.parquet', row group 0, column 'n': can't be read .*CRC.* damaged\. Write it anew, or .*--exclude"),
        (footer, r"b\.parquet' has no readable Parquet footer .*--exclude 'b\.parquet'"),
        (cut, r"b\.parquet' has no readable Parquet footer .* it is cut short, damaged or no Parquet file\."),
        (
            other_type,
            r"column 'n' is int64 in '.*/a\.parquet' and is string in '.*/b\.parquet': .*--exclude.*--columns",
        ),
        (other_column, r"column 's' is string in '.*/a\.parquet' and isn't in '.*/b\.parquet': .*the same columns"),
    ],
)
def test_parquet(cli: Cli, tmp_path: Path, damage: Callable[[Path], None], says: str) -> None:
    (tmp_path / "in").mkdir()
    table = pa.table({"n": range(1000), "s": [f"s{i}" * 10 for i in range(1000)]})
    pq.write_table(table, tmp_path / "in/a.parquet")
    pq.write_table(table, tmp_path / "in/b.parquet", row_group_size=300, write_page_checksum=True)
    damage(tmp_path / "in/b.parquet")
    ended = cli("pack", tmp_path / "in", tmp_path / "ds")
    assert (ended.code, ended.out) == (2, "")
    assert re.search(says, ended.err), ended.err
    refused(tmp_path / "ds", 2)


@pytest.mark.parametrize("kind", ["jpg", "parquet", "tar", "tfrecord"])
def test_a_folder_in_the_middle_that_cannot_be_read(cli: Cli, kind: str) -> None:
    with unprivileged() as root:
        for folder in ("a", "b", "c"):
            if kind == "parquet":
                (root / "in" / folder).mkdir(parents=True)
                pq.write_table(pa.table({"n": [1]}), root / "in" / folder / "x.parquet")
            else:
                data = {"jpg": encoded(9, 9), "tar": TAR, "tfrecord": TFRECORD}[kind]
                put(root, f"in/{folder}/x.{kind}", data)
        (root / "in/b").chmod(0)
        ended = cli("pack", root / "in", root / "ds")
        assert (ended.code, ended.out) == (5, "")
        assert re.search(r"/in/b': [Pp]ermission denied", ended.err), ended.err
        assert not (root / "ds").exists()


def refused(dataset: Path, code: int) -> None:
    """Check that nothing was committed, and that only what a next run can go on with is left."""
    assert not (dataset / "manifest.json").exists()
    left = {path.name for path in dataset.iterdir()} if dataset.exists() else set()
    assert left <= {".journal", ".lock", "shards", *(["reports"] if code == 3 else [])}

"""Which files of a folder are read, whatever they are called; what is passed over is named; links and pipes."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import json
import lzma
import os
import shutil
import signal
import socket
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tfrecords
import zstandard
from command import program
from sources import tars

import toolkit
from toolkit.errors import SourceError, StorageError
from toolkit.pack.job import KeyConflict, PackJob, PackResult
from toolkit.pack.run import pack

KINDS = ("parquet", "roxxel", "text", "tfrecord", "webdataset")


def packed(source: Path, dataset: Path, **options: Any) -> PackResult:
    return pack(PackJob(source=str(source), dataset=str(dataset), **options))


def keys(dataset: Path) -> set[str]:
    opened = toolkit.open(dataset)
    return {opened[i]["__key__"] for i in range(len(opened))}


def write_one(kind: str, path: Path) -> Path:
    """Write a file of one sample."""
    path.parent.mkdir(parents=True, exist_ok=True)
    match kind:
        case "parquet":
            pq.write_table(pa.table({"n": [1]}), path)
        case "roxxel":
            data = bytes([1, 0, 2, 0])
            footer = (1).to_bytes(8, "little") + (4).to_bytes(8, "little") + b"uint16\0\0" + b"ROXXEL02"
            path.write_bytes(data + (4).to_bytes(8, "little") + footer)
        case "text":
            path.write_bytes(b'{"text": "a"}\n')
        case "tfrecord":
            path.write_bytes(tfrecords.frame(tfrecords.example(n=[1])))
        case "webdataset":
            path.write_bytes(tars.tar_bytes([("k.txt", b"a")]))
    return path


SUFFIX = {"parquet": ".parquet", "roxxel": ".rox", "text": ".jsonl", "tfrecord": ".tfrecord", "webdataset": ".tar"}


def test_every_parquet_file_is_found_however_it_is_called(tmp_path: Path) -> None:
    names = ["a.parquet", "b.PARQUET", "c.parq", "f.parquet.snappy", "g.snappy.parquet", "part-00000", "H.Pq"]
    for n, name in enumerate(names):
        (tmp_path / "in").mkdir(exist_ok=True)
        pq.write_table(pa.table({"n": [n]}), tmp_path / "in" / name)
    (tmp_path / "in/README.md").write_text("about")
    (tmp_path / "in/_SUCCESS").write_text("")
    (tmp_path / "in/x.crc").write_bytes(b"PAR1 but no end")
    result = packed(tmp_path / "in", tmp_path / "out")
    assert keys(tmp_path / "out") == {f"{name}#0" for name in names}
    assert result.skipped_names == {"hidden": ("_SUCCESS",), "other_kinds": ("README.md", "x.crc")}
    assert (result.skipped["hidden"], result.skipped["other_kinds"]) == (1, 2)


def test_every_tar_is_found_however_it_is_called_and_compressed(tmp_path: Path) -> None:
    compress = {
        "a.tar": bytes,
        "b.TAR": bytes,
        "c.tar.bz2": bz2.compress,
        "d.tar.xz": lzma.compress,
        "e.tgz": gzip.compress,
        "f.tar.GZ": gzip.compress,
        "g": bytes,
        "h.tar.zst": zstandard.ZstdCompressor().compress,
        "i": lzma.compress,
        "j.TBZ2": lambda data: bz2.compress(data[:700]) + bz2.compress(data[700:]),
        "k.txz": lambda data: lzma.compress(data[:700]) + bytes(8) + lzma.compress(data[700:]),
    }
    (tmp_path / "in").mkdir()
    for name, make in compress.items():
        (tmp_path / "in" / name).write_bytes(make(tars.tar_bytes([(f"{name[0]}.txt", name.encode())])))
    (tmp_path / "in/README").write_text("about")
    (tmp_path / "in/z.zip").write_bytes(b"PK\x03\x04 and so on")
    result = packed(tmp_path / "in", tmp_path / "out")
    assert keys(tmp_path / "out") == {name[0] for name in compress}
    assert result.skipped_names == {"other_kinds": ("README", "z.zip")}


@pytest.mark.parametrize("make", [bz2.compress, lzma.compress])
def test_a_damaged_compressed_tar_is_told(tmp_path: Path, make: Any) -> None:
    data = make(tars.tar_bytes(tars.samples(40)))
    (tmp_path / "cut.tar").write_bytes(data[: len(data) // 2])
    with pytest.raises(SourceError, match=r"cut\.tar.*cut short"):
        packed(tmp_path / "cut.tar", tmp_path / "out")
    at = len(data) // 2
    (tmp_path / "flip.tar").write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    with pytest.raises(SourceError, match=r"flip\.tar.*damaged|flip\.tar.*check sum"):
        packed(tmp_path / "flip.tar", tmp_path / "out")


def test_an_xz_file_that_asks_for_much_memory_is_refused(tmp_path: Path) -> None:
    huge = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 1 << 30}]
    (tmp_path / "x.tar.xz").write_bytes(_relabelled(lzma.compress(tars.tar_bytes([("a.txt", b"a")]), preset=0), huge))
    with pytest.raises(SourceError, match=r"x\.tar\.xz.*Memory usage limit"):
        packed(tmp_path / "x.tar.xz", tmp_path / "out")


def _relabelled(data: bytes, filters: list[dict[str, int]]) -> bytes:
    """Return xz data whose block header asks for the dictionary of `filters`, without the memory that takes here."""
    size = (data[12] + 1) * 4
    header = bytearray(data[12 : 12 + size])
    place = header.index(b"\x21\x01") + 2
    wanted = filters[0]["dict_size"].bit_length() - 1
    header[place] = 2 * (wanted - 12)
    header[-4:] = zlib.crc32(header[:-4]).to_bytes(4, "little")
    return data[:12] + bytes(header) + data[12 + size :]


@pytest.mark.parametrize("kind", KINDS)
def test_capitals_in_a_name_and_other_kinds_beside(kind: str, tmp_path: Path) -> None:
    write_one(kind, tmp_path / f"in/a{SUFFIX[kind].upper()}")
    (tmp_path / "in/below").mkdir()
    (tmp_path / "in/below/photo.heic").write_bytes(b"something else")
    (tmp_path / "in/.hidden").mkdir()
    result = packed(tmp_path / "in", tmp_path / "out", source_kind=kind)
    assert result.samples == 1
    assert result.skipped_names == {"hidden": (".hidden",), "other_kinds": ("below/photo.heic",)}


def test_what_is_passed_over_is_printed_reported_and_in_json(tmp_path: Path) -> None:
    write_one("parquet", tmp_path / "in/a.parquet")
    for name in ("b.csv", "c.csv", "d.csv", "e\x1b[31m.csv"):
        (tmp_path / "in" / name).write_text("")
    text = program("pack", tmp_path / "in", tmp_path / "out")
    assert text.code == 0
    assert "passed over: 4 files of other kinds (b.csv, c.csv, d.csv, …)" in text.out
    (provenance,) = (tmp_path / "out/reports").glob("*.provenance.json")
    names = json.loads(provenance.read_text())["skipped_names"]
    assert names == {"other_kinds": ["b.csv", "c.csv", "d.csv", "e\x1b[31m.csv"]}
    document = json.loads(program("pack", tmp_path / "in", tmp_path / "j", "--json").out)
    assert (document["skipped"]["other_kinds"], document["skipped_names"]) == (4, names)
    planned = json.loads(program("pack", tmp_path / "in", tmp_path / "k", "--json", "--dry-run").out)
    assert planned["skipped_names"] == names
    assert "\x1b" not in program("pack", tmp_path / "in", tmp_path / "l", "--exclude", "[bcd]*").out


def test_files_left_out_by_patterns_are_counted(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        write_one("parquet", tmp_path / f"in/{name}.parquet")
    result = packed(tmp_path / "in", tmp_path / "out", include=("[ab].*",), exclude=("b.*",))
    assert (result.samples, result.skipped_names) == (1, {"excluded": ("b.parquet", "c.parquet")})


@pytest.mark.parametrize("kind", ["parquet", "text", "tfrecord", "webdataset"])
def test_a_file_that_holds_no_sample_is_named(kind: str, tmp_path: Path) -> None:
    name = {"parquet": "parquet", "text": "jsonl", "tfrecord": "tfrecord", "webdataset": "tar"}[kind]
    (tmp_path / "in").mkdir()
    write_one(kind, tmp_path / f"in/a.{name}")
    empty = tmp_path / f"in/b.{name}"
    empty.write_bytes(bytes(1 << 20) if kind == "webdataset" else b"")  # a tar that was never downloaded, say
    if kind == "parquet":
        pq.write_table(pq.read_table(tmp_path / "in/a.parquet").slice(0, 0), empty)
    result = packed(tmp_path / "in", tmp_path / "out")
    assert (result.samples, result.skipped_names) == (1, {"empty": (empty.name,)})
    assert "1 file without a sample (b." in program("pack", tmp_path / "in", tmp_path / "out2").out


def test_text_files_of_blank_lines_are_named_compressed_or_not(tmp_path: Path) -> None:
    blank = b"\xef\xbb\xbf\n \r\n" + b" \n" * 200_000
    (tmp_path / "in").mkdir()
    for name, data in (
        ("bom.ndjson", b"\xef\xbb\xbf"),
        ("blank.jsonl", blank),
        ("blank.json.xz", lzma.compress(blank)),
        ("empty.jsonl.gz", gzip.compress(b"")),
        ("late.jsonl", blank + b'{"text": "a"}'),
        ("late.jsonl.bz2", bz2.compress(blank + b'{"text": "b"}\n')),
        ("note.txt.gz", gzip.compress(b"")),  # a document without text is one
    ):
        (tmp_path / "in" / name).write_bytes(data)
    result = packed(tmp_path / "in", tmp_path / "out")
    named = ("blank.json.xz", "blank.jsonl", "bom.ndjson", "empty.jsonl.gz")
    assert (result.samples, result.skipped_names) == (3, {"empty": named})


def test_features_of_hugging_face_that_are_nested_too_deeply_are_none(tmp_path: Path) -> None:
    table = pa.table({"n": [1]}).replace_schema_metadata({"huggingface": "[" * 200_000})
    pq.write_table(table, tmp_path / "a.parquet")
    assert packed(tmp_path / "a.parquet", tmp_path / "out").samples == 1


def special_files(folder: Path) -> None:
    """Make pipes, a socket and a link to a device."""
    os.mkfifo(folder / "pipe.tar")
    os.mkfifo(folder / "zz")
    os.symlink("/dev/zero", folder / "device")
    with contextlib.chdir(folder), socket.socket(socket.AF_UNIX) as one:  # its path may have 107 characters
        one.bind("socket.parquet")


@pytest.mark.parametrize("kind", [*KINDS, None])
def test_pipes_sockets_and_devices_in_a_folder_are_passed_over_by_name(kind: str | None, tmp_path: Path) -> None:
    write_one(kind or "parquet", tmp_path / f"in/a{SUFFIX[kind or 'parquet']}")
    special_files(tmp_path / "in")
    with at_most(60):
        result = packed(tmp_path / "in", tmp_path / "out", source_kind=kind, follow_links=True)
    assert result.samples == 1
    assert result.skipped_names == {"not_regular": ("device", "pipe.tar", "socket.parquet", "zz")}


@contextlib.contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise TimeoutError out of what waits longer."""

    def late(*_: object) -> None:
        raise TimeoutError(f"{seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("kind", [*KINDS, None])
def test_a_pipe_socket_or_device_as_input_is_refused_at_once(kind: str | None, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    special_files(tmp_path / "in")
    for name, what in (("pipe.tar", "pipe"), ("zz", "pipe"), ("device", "device"), ("socket.parquet", "socket")):
        with at_most(60), pytest.raises(SourceError, match=f"{name}.* is a .*{what}"):
            packed(tmp_path / "in" / name, tmp_path / "out", source_kind=kind)
    assert program("pack", tmp_path / "in/zz", tmp_path / "out").code == 2


@pytest.mark.parametrize("kind", KINDS)
def test_a_link_out_of_the_source_is_refused_unless_links_are_followed(kind: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"source_kind": kind}
    suffix = SUFFIX[kind]
    write_one(kind, tmp_path / f"in/a{suffix}")
    write_one(kind, tmp_path / f"away/below/b{suffix}")
    (tmp_path / f"in/inside{suffix}").symlink_to(f"a{suffix}")
    rename = {"key_conflict": KeyConflict.SUFFIX}
    assert packed(tmp_path / "in", tmp_path / "one", **options, **rename).samples == 2
    (tmp_path / f"in/b{suffix}").symlink_to(tmp_path / f"away/below/b{suffix}")
    with pytest.raises(SourceError, match=r"'b.*' is a link that leads out of the source, to .*--follow-links"):
        packed(tmp_path / "in", tmp_path / "two", **options, **rename)
    assert packed(tmp_path / "in", tmp_path / "three", exclude=("b.*",), **options, **rename).samples == 2
    assert packed(tmp_path / "in", tmp_path / "four", follow_links=True, **options, **rename).samples == 3
    (tmp_path / f"in/b{suffix}").unlink()
    (tmp_path / "in/folder").symlink_to(tmp_path / "away")
    with pytest.raises(SourceError, match="'folder' is a link that leads out of the source"):
        packed(tmp_path / "in", tmp_path / "five", **options, **rename)
    assert packed(tmp_path / "in", tmp_path / "none", exclude=("folder",), **options, **rename).samples == 2
    assert packed(tmp_path / "in", tmp_path / "six", follow_links=True, **options, **rename).samples == 3
    shutil.move(tmp_path / "in", tmp_path / "real")
    (tmp_path / "real/folder").unlink()
    (tmp_path / "in").symlink_to(tmp_path / "real")  # what is given may be a link itself
    assert packed(tmp_path / "in", tmp_path / "seven", **options, **rename).samples == 2


def test_a_link_from_one_given_folder_to_another_leads_nowhere_else(tmp_path: Path) -> None:
    write_one("parquet", tmp_path / "a/x.parquet")
    write_one("parquet", tmp_path / "b/y.parquet")
    (tmp_path / "a/y.parquet").symlink_to(tmp_path / "b/y.parquet")
    job = PackJob(
        source=str(tmp_path / "a"),
        more_sources=(str(tmp_path / "b"),),
        dataset=str(tmp_path / "out"),
        key_conflict=KeyConflict.SUFFIX,
    )
    assert pack(job).samples == 3


def test_a_broken_link_is_named_and_one_called_as_an_input_is_an_error(tmp_path: Path) -> None:
    write_one("parquet", tmp_path / "in/a.parquet")
    (tmp_path / "in/gone").symlink_to("nowhere")
    assert packed(tmp_path / "in", tmp_path / "out").skipped_names == {"broken_links": ("gone",)}
    (tmp_path / "in/b.parquet").symlink_to("nowhere")
    with pytest.raises(StorageError, match=r"b\.parquet"):
        packed(tmp_path / "in", tmp_path / "two")

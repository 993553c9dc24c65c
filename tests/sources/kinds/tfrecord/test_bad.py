"""TFRecord files that are damaged, cut off, huge, or hold anything at all: nothing is lost unseen."""

from __future__ import annotations

import gzip
import os
import struct
import subprocess
import sys
import textwrap
import threading
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pictures import encode, picture
from tfrecords import example, frame, job, many, masked_crc, packed, rejected, sequence, write

import toolkit
from toolkit.errors import SourceError, UsageError
from toolkit.format.schema import Kind
from toolkit.pack.run import pack, plan
from toolkit.sources.kinds.tfrecord.source import TFRecordSource
from toolkit.sources.options import Missing, SourceOptions
from toolkit.sources.tfrecords import example as tfrecord_example

JPEG = encode(picture(1), quality=80)
PNG = encode(picture(2), "PNG")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "in" / "a.tfrecord"


def test_damaged_payload_is_rejected_alone(file: Path) -> None:
    payloads = many(6)
    frames = [bytearray(frame(payload)) for payload in payloads]
    frames[2][20] ^= 1
    frames[4][-1] ^= 0x80
    write(file, []).write_bytes(b"".join(frames))
    result, rejects = rejected(file)
    assert [key for key, _ in rejects] == ["a.tfrecord#2", "a.tfrecord#4"]
    assert {reason for _, reason in rejects} == {"the payload doesn't fit its CRC"}
    assert result.rejects[0].source == f"{file}#2"
    opened = toolkit.open(result.dataset)
    assert [opened[i]["i"] for i in range(4)] == [0, 1, 3, 5]


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_damaged_length_ends_the_pack(file: Path, compress: Callable[[bytes], bytes]) -> None:
    payloads = many(6)
    data = bytearray(b"".join(map(frame, payloads)))
    offset = sum(len(payload) + 16 for payload in payloads[:3])
    data[offset + 1] ^= 1
    write(file, []).write_bytes(compress(bytes(data)))
    with pytest.raises(SourceError, match=rf"a\.tfrecord'?: record 3 at byte {offset}.*fit its CRC.*--exclude 'a\.tf"):
        pack(job(file, file.parent.with_name("packed")))


def test_every_cut_is_found(file: Path) -> None:
    data = frame(example(a=[1])) + frame(example(a=[2]))
    middle = len(data) // 2
    source = TFRecordSource(SourceOptions(paths=(str(file),), slice_bytes=1 << 20))
    for whole in (data, gzip.compress(data), zlib.compress(data)):
        for cut in range(1, len(whole)):
            write(file, []).write_bytes(whole[:cut])
            if whole is data and cut == middle:
                assert source.survey().slices[0].samples == 1
                continue
            with pytest.raises(SourceError, match=r"cut off|cut short|fit its CRC|no TFRecord"):
                source.survey()


def test_every_flipped_byte_is_found(file: Path) -> None:
    data = frame(example(a=[1])) + frame(example(a=[2]))
    source = TFRecordSource(SourceOptions(paths=(str(file),), slice_bytes=1 << 20))
    for place in range(len(data)):
        damaged = bytearray(data)
        damaged[place] ^= 0x10
        write(file, []).write_bytes(damaged)
        try:
            survey = source.survey()
        except SourceError:
            continue
        rejects = [reject for rows in source.read(survey, survey.slices[0]) for reject in rows.rejects]
        assert len(rejects) == 1


def test_huge_record_is_skipped_unread(file: Path) -> None:
    length = struct.pack("<Q", 3 << 30)
    write(file, [example(a=[1])])
    with open(file, "r+b") as out:
        out.seek(0, os.SEEK_END)
        out.write(length + masked_crc(length))
        out.seek((3 << 30) + 4, os.SEEK_CUR)  # a hole
        out.write(frame(example(a=[2])))
    tracemalloc.start()
    result, rejects = rejected(file)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert rejects == [
        (
            "a.tfrecord#1",
            "record: 3221225472 bytes are more than a value may have (268435456); --max-value-bytes says how many",
        )
    ]
    assert result.samples == 2
    assert peak < 64 << 20


def test_length_beyond_the_file(file: Path) -> None:
    length = struct.pack("<Q", 1 << 60)
    write(file, []).write_bytes(frame(example(a=[1])) + length + masked_crc(length) + b"few bytes")
    with pytest.raises(SourceError, match=r"record 1 at byte .*cut off"):
        plan(job(file, file.parent.with_name("packed")))


def test_conflicting_types_name_both_places(tmp_path: Path) -> None:
    write(tmp_path / "in/a.tfrecord", [example(v=[1], w=[1])])
    write(tmp_path / "in/b.tfrecord", [example(v=[1], w=[1]), example(v=[1.0], w=[1]), example(v=[b"x"], w=[1])])
    with pytest.raises(SourceError, match=r"'v' is int64 in a\.tfrecord#0 and float in b\.tfrecord#1"):
        pack(job(tmp_path / "in", tmp_path / "out"))
    assert pack(job(tmp_path / "in", tmp_path / "out", columns=("w",))).samples == 4
    write(tmp_path / "in/b.tfrecord", [sequence({"w": [1]}, {"v": [[1]]})])
    with pytest.raises(SourceError, match=r"int64 in a\.tfrecord#0 and a feature list of empty in b\.tfrecord#0"):
        pack(job(tmp_path / "in", tmp_path / "out2"))


def test_payloads_that_are_no_example(file: Path) -> None:
    write(file, [example(a=[1]), b"\xff\xff\xff\xff", example(a=[2])])
    _, rejects = rejected(file)
    assert rejects == [("a.tfrecord#1", "the payload is no tf.train.Example")]
    for payloads, says in (([b"\xff\xff"], "--tfrecord-raw"), ([b""], "--tfrecord-raw"), ([], "they are empty")):
        write(file, payloads)
        with pytest.raises(SourceError, match=says):
            pack(job(file, file.parent.with_name("other")))


def test_image_that_is_none(file: Path) -> None:
    write(file, [example(i=[b""]), example(i=[JPEG]), example(i=[b"not an image"])])
    result, rejects = rejected(file)
    assert [key for key, _ in rejects] == ["a.tfrecord#0", "a.tfrecord#2"]
    assert all(reason.startswith("i: ") for _, reason in rejects)
    assert result.samples == 1


def test_duplicate_keys(file: Path) -> None:
    write(file, [example(k=[b"a"], v=[1]), example(k=[b"a"], v=[2])])
    with pytest.raises(SourceError, match="occurs twice"):
        pack(job(file, file.parent.with_name("packed"), key="k"))


def test_file_changed_since_the_survey(file: Path) -> None:
    write(file, many(5))
    source = TFRecordSource(SourceOptions(paths=(str(file),), slice_bytes=1 << 20))
    survey = source.survey()
    write(file, many(6))
    with pytest.raises(SourceError, match="was changed during"):
        list(source.read(survey, survey.slices[0]))


def test_without_protobuf(file: Path) -> None:
    write(file, [example(a=[1])])
    tfrecord_example.parser.cache_clear()
    with (
        mock.patch.dict(sys.modules, {"google.protobuf": None, "google.protobuf.descriptor_pb2": None}),
        pytest.raises(UsageError, match=r"pip install 'toolkit\[tfrecord\]'; or give --tfrecord-raw"),
    ):
        plan(job(file, file.parent.with_name("packed")))
    with mock.patch.dict(sys.modules, {"google.protobuf": None, "google.protobuf.descriptor_pb2": None}):
        assert len(packed(file, tfrecord_raw=True)[0]) == 1


def test_file_name_that_is_not_utf8(tmp_path: Path) -> None:
    write(Path(os.fsdecode(os.fsencode(tmp_path / "x/in") + b"/\xff.tfrecord")), many(2))
    samples, _ = packed(tmp_path / "x/in")
    assert samples[1]["__key__"] == "\\xff.tfrecord#1"


@settings(max_examples=100, deadline=None)
@given(payloads=st.lists(st.binary(max_size=30), max_size=4), place=st.integers(0, 60), value=st.integers(0, 255))
def test_any_payload_is_a_row_or_a_reject(payloads: list[bytes], place: int, value: int, tmp_path_factory: Any) -> None:
    whole = sequence({"a": [1], "b": [b"text"]}, {"c": [[1.0, 2.0]]})
    changed = bytearray(whole)
    changed[place % len(whole)] = value
    path = write(tmp_path_factory.mktemp("any") / "a.tfrecord", [whole, *payloads, bytes(changed)])
    for missing in Missing:
        source = TFRecordSource(SourceOptions(paths=(str(path),), slice_bytes=100, missing=missing))
        try:
            survey = source.survey()
        except SourceError as error:
            assert "A column has one type" in str(error)  # noqa: PT017 - only one kind of error is fine
            continue
        pieces = [piece for part in survey.slices for piece in source.read(survey, part)]
        found = sum(piece.batch.num_rows + len(piece.rejects) for piece in pieces)
        assert found == sum(part.samples or 0 for part in survey.slices)
        assert found + survey.skipped["lacking_features"] == len(payloads) + 2


# --- at large ------------------------------------------------------------------------------------------------

_VALUES = {
    bytes: st.binary(max_size=20),
    float: st.floats(width=32, allow_nan=False),
    int: st.integers(-(1 << 63), (1 << 63) - 1),
}


@st.composite
def _records(draw: st.DrawFn) -> list[dict[str, Any]]:
    kinds = draw(st.dictionaries(st.text(min_size=1, max_size=5), st.sampled_from([bytes, float, int]), min_size=1))
    kinds = {name: kind for name, kind in kinds.items() if not name.startswith("__")} or {"a": int}
    record = st.fixed_dictionaries(
        {},
        optional={
            name: st.lists(_VALUES[kind], max_size=3).map(lambda v, k=kind: (v, k)) for name, kind in kinds.items()
        },
    )
    return draw(st.lists(record, min_size=1, max_size=20))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    records=_records(),
    compress=st.sampled_from([bytes, gzip.compress, zlib.compress]),
    slice_bytes=st.integers(1, 2000),
)
def test_random_features(
    records: list[dict[str, Any]], compress: Callable[[bytes], bytes], slice_bytes: int, tmp_path_factory: Any
) -> None:
    path = write(tmp_path_factory.mktemp("random") / "r.tfrecord", [example(**record) for record in records])
    path.write_bytes(compress(path.read_bytes()))
    source = TFRecordSource(SourceOptions(paths=(str(path),), slice_bytes=slice_bytes, missing=Missing.NULL))
    if not any(records):
        with pytest.raises(SourceError, match="--tfrecord-raw"):
            source.survey()
        return
    survey = source.survey()
    rows = [row for part in survey.slices for piece in source.read(survey, part) for row in piece.batch.to_pylist()]
    assert sum(part.samples or 0 for part in survey.slices) == len(rows) == len(records)
    assert [column.name for column in survey.columns] == sorted({name for record in records for name in record})
    for record, row in zip(records, rows, strict=True):
        for column in survey.columns:
            expected = record.get(column.name, (None, None))[0]
            if expected is not None and column.kind is not Kind.VALUE:
                (expected,) = expected
            got = row[column.name]
            if expected is not None and "string" in str(survey.types[column.name]):
                got = [value.encode() for value in got] if column.kind is Kind.VALUE else got.encode()
            assert got == expected


_SURVEY = """
    import os, sys
    from toolkit.sources.kinds.tfrecord.source import TFRecordSource
    from toolkit.sources.options import SourceOptions

    def resident():  # tracemalloc doesn't see what protobuf's arenas give back
        return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def source(path):
        return TFRecordSource(SourceOptions(paths=(path,), slice_bytes=1 << 20))

    source(sys.argv[1]).survey()  # modules, tables
    before = resident()
    survey = source(sys.argv[2]).survey()
    print(sum(part.samples for part in survey.slices), resident() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_of_many_tiny_records(file: Path) -> None:
    one = frame(example(i=[1], t=[b"text"]))
    few = write(file, [])
    few.write_bytes(one)
    many_of_them = few.with_name("b.tfrecord")
    many_of_them.write_bytes(one * 200_000)
    command = [sys.executable, "-c", textwrap.dedent(_SURVEY), str(few), str(many_of_them)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    samples, grown = map(int, done.stdout.split())
    assert samples == 200_000
    assert grown < 16 << 20


def test_slices_are_read_from_several_threads(file: Path) -> None:
    write(file, many(400))
    source = TFRecordSource(SourceOptions(paths=(str(file),), slice_bytes=10_000))
    survey = source.survey()
    found: dict[int, list[int]] = {}

    def work(part: Any) -> None:
        found[part.number] = [i for rows in source.read(survey, part) for i in rows.batch.column("i").to_pylist()]

    threads = [threading.Thread(target=work, args=(part,)) for part in survey.slices]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [i for number in sorted(found) for i in found[number]] == list(range(400))

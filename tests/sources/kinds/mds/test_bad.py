"""MDS datasets that are damaged, don't fit together, or claim what isn't there."""

from __future__ import annotations

import hashlib
import json
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from mds_shards import changed, encoded, entry, numbers, packed, samples, shard, write, write_index
from waiting import tick

import toolkit
from toolkit.errors import NotFoundError, SourceError
from toolkit.format.kinds import Kind
from toolkit.sources.detect import find_kind
from toolkit.sources.kinds.mds.index import looks_like_index, looks_like_shard, read_index
from toolkit.sources.pictures import png_of

COLUMNS = {"n": "int", "text": "str"}


def rehashed(folder: Path, content: bytes, count: int, columns: dict[str, str] = COLUMNS, name: str = "a.mds") -> Path:
    """A dataset of one shard, whatever it holds, with an index that fits it."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(content)
    return write_index(folder, [entry(name, content, count, columns)])


def refused(folder: Path, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        packed(folder, folder.with_name("ds"))


def test_an_index_that_is_cut_short(tmp_path: Path) -> None:
    folder = numbers(tmp_path / "in", 3, 2)
    whole = (folder / "index.json").read_bytes()
    for length in (20, len(whole) // 2, len(whole) - 1):
        (folder / "index.json").write_bytes(whole[:length])
        assert find_kind([str(folder)]) == "mds"
        refused(folder, r"index\.json' can't be understood \(.*: it is cut short")


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ({"shards": [], "version": 1}, "of version 1 of MDS, and version 2 is read"),
        ({"version": 2, "shards": {}}, "can't be understood"),
        ({"shards": [{"format": "mds"}], "version": 2}, r"can't be understood .*shards\[0\]"),
        ({"shards": [], "version": 2}, "nothing would be packed|no table|holds no samples"),
    ],
)
def test_an_index_that_says_something_else(index: dict[str, Any], message: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/index.json").write_text(json.dumps(index))
    assert find_kind([str(tmp_path / "in")]) == "mds"
    refused(tmp_path / "in", message)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"version": 1}, "shard 0 is of version 1"),
        ({"format": "json"}, "shard 0 is of the format 'json'"),
        ({"column_names": ["n"]}, "shard 0 has 1 column names, 2 encodings and 2 sizes"),
        ({"column_names": [], "column_encodings": [], "column_sizes": []}, "shard 0 has 0 column names"),
        ({"column_names": ["n", "n"]}, "two columns called 'n'"),
        ({"column_sizes": [4, None]}, "column 'n': values of 'int' have 8 bytes, and the index says 4"),
        ({"column_sizes": [-8, None]}, "can't be understood"),
        ({"samples": -1}, "can't be understood"),
        ({"samples": (1 << 32) - 1}, "is said to hold 4294967295 samples in .* bytes, and they take"),
        ({"zip_data": {"basename": "a", "bytes": 1, "hashes": {}}}, "doesn't say how it is compressed"),
    ],
)
def test_shards_that_can_not_be(values: dict[str, Any], message: str, tmp_path: Path) -> None:
    refused(changed(numbers(tmp_path / "in", 3), **values), message)


@pytest.mark.parametrize("name", ["../a.mds", "/etc/passwd", "a/../../b.mds", "a//b.mds", ".", "", "a\0b", "a/./b"])
def test_paths_stay_in_the_folder(name: str, tmp_path: Path) -> None:
    folder = changed(numbers(tmp_path / "in", 3), raw_data={"basename": name, "bytes": 100, "hashes": {}})
    (tmp_path / "a.mds").write_bytes(bytes(100))
    refused(folder, "is no path below the index's folder|can't be the name of a file")


def test_links_stay_in_the_folder_unless_they_may_lead_out(tmp_path: Path) -> None:
    folder = numbers(tmp_path / "in", 3)
    os.rename(folder / "shard.00000.mds", tmp_path / "elsewhere.mds")
    os.symlink(tmp_path / "elsewhere.mds", folder / "shard.00000.mds")
    refused(folder, "link that leads out of")
    assert packed(folder, tmp_path / "ds", follow_links=True).samples == 3


def test_a_shard_that_is_missing_is_named(tmp_path: Path) -> None:
    folder = numbers(tmp_path / "in", 3, 2)
    (folder / "shard.00001.mds").unlink()
    refused(folder, r"lists a shard of 2 samples that isn't there: no 'shard\.00001\.mds' in")
    result = packed(folder, tmp_path / "ds", exclude=("shard.00001.mds",))
    assert (result.samples, result.skipped["excluded"]) == (3, 1)


def test_a_shard_that_is_listed_twice(tmp_path: Path) -> None:
    folder = numbers(tmp_path / "in", 3)
    one = json.loads((folder / "index.json").read_text())["shards"][0]
    refused(write_index(folder, [one, one]), r"shard 1: 'shard\.00000\.mds' is that of shard 0 too")


def test_files_that_are_not_listed_are_counted(tmp_path: Path) -> None:
    folder = numbers(tmp_path / "in", 3)
    (folder / "shard.00007.mds").write_bytes(b"x")
    (folder / "notes.txt").write_text("x")
    (folder / "more").mkdir()
    (folder / "more/.hidden").write_text("x")
    result = packed(folder, tmp_path / "ds")
    assert {why: count for why, count in result.skipped.items() if count} == {
        "unlisted_shards": 1,
        "other_kinds": 1,
        "hidden": 1,
    }
    assert result.skipped_names["unlisted_shards"] == ("shard.00007.mds",)


def test_sizes_and_hashes_are_checked(tmp_path: Path) -> None:
    folder = numbers(tmp_path / "in", 3, 2)
    content = (folder / "shard.00001.mds").read_bytes()
    (folder / "shard.00001.mds").write_bytes(content[:-1])
    refused(folder, r"shard\.00001\.mds' has \d+ bytes, and the index says")
    (folder / "shard.00001.mds").write_bytes(content[:-1] + b"?")
    refused(folder, r"shard\.00001\.mds': its sha1 is [0-9a-f]{40}, and the index says '[0-9a-f]{40}'\. The shard is")
    # A hash that nobody here knows isn't one that is wrong.
    (folder / "shard.00001.mds").write_bytes(content)
    told = {"basename": "shard.00001.mds", "bytes": len(content), "hashes": {"crc99": "00", "shake_128": "00"}}
    assert packed(changed(folder, 1, raw_data=told), tmp_path / "ds").samples == 5


@pytest.mark.parametrize("name", ["md5", "sha256", "blake2b", "xxh32", "xxh64", "xxh128", "xxh3_64"])
def test_every_known_hash_is_checked(name: str, tmp_path: Path) -> None:
    folder = numbers(tmp_path / "in", 3)
    size = (folder / "shard.00000.mds").stat().st_size
    changed(folder, raw_data={"basename": "shard.00000.mds", "bytes": size, "hashes": {name: "00"}})
    refused(folder, f"its {name} is")


def test_a_compressed_shard_that_is_not_what_it_is_said_to_be(tmp_path: Path) -> None:
    import gzip

    folder = numbers(tmp_path / "in", 3)
    content = (folder / "shard.00000.mds").read_bytes()
    (folder / "shard.00000.mds").unlink()

    def zipped(data: bytes, compression: str | None = "gz:9", hashes: dict[str, str] | None = None) -> Path:
        (folder / "a.gz").write_bytes(data)
        told = {"basename": "a.gz", "bytes": len(data), "hashes": hashes or {}}
        return changed(folder, zip_data=told, compression=compression)

    assert packed(zipped(gzip.compress(content)), tmp_path / "ds").samples == 3
    refused(zipped(gzip.compress(content)[:-9]), "cut short")
    refused(zipped(gzip.compress(content) + b"x"), "cut short|damaged")
    refused(zipped(gzip.compress(content[:-1] + b"?")), "its sha1 is")
    refused(zipped(content), "the index says that it is gz:9|the index says that it is gz, and it isn't")
    refused(zipped(gzip.compress(content), "lz4"), "compressed as 'lz4', and br, bz2, gz, snappy, zstd are read")
    refused(zipped(gzip.compress(content), hashes={"md5": "00"}), "its md5 is")
    raw = {"basename": "shard.00000.mds", "bytes": len(content), "hashes": {}}
    changed(folder, raw_data=raw)
    refused(zipped(gzip.compress(content + b"more")), "doesn't hold the .* bytes that the index says")
    refused(zipped(gzip.compress(content[:-3])), "ends before byte|doesn't hold")
    refused(zipped(gzip.compress(content[:10])), "ends within the table of offsets")
    assert packed(zipped(gzip.compress(content)), tmp_path / "ds").samples == 3


def test_brotli_and_snappy_that_are_damaged(tmp_path: Path) -> None:
    folder = numbers(tmp_path / "in", 3)
    content = (folder / "shard.00000.mds").read_bytes()
    (folder / "shard.00000.mds").unlink()

    def zipped(compression: str, data: bytes) -> Path:
        (folder / "a.zip").write_bytes(data)
        told = {"basename": "a.zip", "bytes": len(data), "hashes": {}}
        return changed(folder, zip_data=told, compression=compression)

    for name, codec in (("br", "brotli"), ("snappy", "snappy")):
        data = pa.compress(content, codec=codec, asbytes=True)
        assert packed(zipped(name, data), tmp_path / "ds").samples == 3
        for damaged in (data[:-4], data[: len(data) // 2], b"\xff" * 40):
            refused(zipped(name, damaged), "damaged or cut short|bytes in snappy")
        refused(zipped(name, b""), "damaged|its sha1 is|holds 0 samples")
    refused(zipped("snappy", b"\xff\xff\xff\xff\x0f" + bytes(9)), "4294967295 bytes in snappy, which is read up to")


def test_counts_and_offsets_that_lie(tmp_path: Path) -> None:
    whole = (numbers(tmp_path / "first", 3) / "shard.00000.mds").read_bytes()
    begins = struct.unpack_from("<5I", whole)[1:]

    def with_offset(number: int, value: int) -> bytes:
        data = bytearray(whole)
        data[4 + 4 * number : 8 + 4 * number] = struct.pack("<I", value)
        return bytes(data)

    for content, message in (
        (struct.pack("<I", 4) + whole[4:], "it holds 4 samples, and the index says 3"),
        (with_offset(0, 5), "sample 0 is said to begin at byte 5, within the table of offsets"),
        (with_offset(1, begins[0] - 1), "sample 0 is said to end before it begins"),
        (with_offset(2, begins[3] + 1), "sample 2 is said to end before it begins"),
        (with_offset(3, len(whole) + 1), "samples are said to reach to byte"),
        (with_offset(3, (1 << 32) - 1), "samples are said to reach to byte 4294967295"),
        (whole + b"more", "samples are said to end at byte"),
    ):
        refused(rehashed(tmp_path / "in", content, 3), message)


def test_a_sample_whose_values_do_not_fit_is_rejected_alone(tmp_path: Path) -> None:
    good = [encoded({"n": struct.pack("<q", i), "text": b"text"}, COLUMNS) for i in range(6)]
    good[1] = struct.pack("<I", 5) + good[1][4:]  # a text of one more byte
    good[2] = struct.pack("<I", (1 << 32) - 1) + good[2][4:]
    good[3] = good[3][:2]
    good[4] = good[4][:-1] + b"\xff"
    folder = rehashed(tmp_path / "in", shard(good, COLUMNS), 6)
    result = packed(folder, tmp_path / "ds", max_rejects=4)
    assert [(reject.key, reject.reason) for reject in result.rejects] == [
        ("a.mds#1", "its values are said to take 13 bytes, and it has 12 for them"),
        ("a.mds#2", "its values are said to take 4294967303 bytes, and it has 12 for them"),
        ("a.mds#3", "a sample of 2 bytes that ends within the sizes of its values"),
        ("a.mds#4", "column 'text': text is not valid UTF-8"),
    ]
    assert "a.mds, sample 1" in result.rejects[0].source
    assert [sample["n"] for sample in samples(tmp_path / "ds")] == [0, 5]


BAD_VALUES: dict[str, tuple[str, bytes, str]] = {
    "no number": ("str_int", b"12a", "'12a' is no number"),
    "no UTF-8": ("str_int", b"\xff", "not UTF-8 text at byte 0"),
    "beyond int64": ("str_int", b"9223372036854775808", "doesn't fit 64 bits: pack the column as text"),
    "a long number": ("str_float", b"1" * 5000, "a text of 5000 bytes where a number has to be"),
    "no JSON": ("json", b"{", "no valid JSON"),
    "no JPEG": ("jpeg", b"no picture", "not an image"),
    "no array": ("ndarray", b"", "ends within its header"),
    "an array without a shape": ("ndarray", b"\x08", "ends within its header"),
    "an array of no type": ("ndarray", b"\x07\x04\x01\0", "unknown type 7"),
    "half a shape": ("ndarray", b"\x08\x08\x01", "ends within its shape"),
    "too few values": ("ndarray:int16", b"\x04\x03\0\0\0\0", "an array of 4 bytes for the shape"),
    "a bomb of a shape": ("ndarray", b"\x42" + b"\x0f" + b"\xff" * 24, "an array of 0 bytes for the shape"),
    "half a picture": ("pil", struct.pack("<III", 2, 2, 3) + b"RGB" + bytes(11), "of 11 bytes for 2 x 2 pixels of RGB"),
    "a bomb of a picture": ("pil", struct.pack("<III", 1 << 31, 1 << 31, 1) + b"L", "of 0 bytes for 2147483648 x"),
    "a mode of no end": ("pil", struct.pack("<III", 1, 1, 1 << 30) + b"L", "ends within its header"),
    "a mode that PNG lacks": ("pil", struct.pack("<III", 1, 1, 4) + b"CMYK" + bytes(4), "mode 'CMYK', which PNG can't"),
    "numbers that PNG lacks": ("pil", struct.pack("<III", 1, 1, 1) + b"I" + b"\xff" * 4, "values beyond 16 bits"),
    "no pixels": ("pil", struct.pack("<III", 0, 5, 1) + b"L", "has none"),
    "a list of no end": ("list[jpeg]", bytes(4) + b"\xff" * 4, "said to hold 4294967295 values"),
    "a list of large values": ("list[jpeg]", bytes(4) + b"\x01\0\0\0" + b"\xff" * 4, "said to take 4294967295"),
    "an empty jpegarray": ("jpegarray", bytes(4), "a jpegarray without a picture"),
}


GOOD_VALUES = {
    "str_int": b"1",
    "str_float": b"1",
    "json": b"1",
    "jpeg": png_of(np.zeros((1, 1), np.uint8)),
    "ndarray": b"\x08\x04\x01\x07",
    "ndarray:int16": b"\x04\x01\x07\0",
    "pil": struct.pack("<III", 1, 1, 1) + b"L\0",
    "list[jpeg]": bytes(8),
    "jpegarray": b"\x01\0\0\0\x01\0\0\0x",
}


@pytest.mark.parametrize("what", BAD_VALUES)
def test_a_value_that_is_none_of_its_encoding_is_rejected(what: str, tmp_path: Path) -> None:
    encoding, value, reason = BAD_VALUES[what]
    folder = write(tmp_path / "in", [[{"x": GOOD_VALUES[encoding]}, {"x": value}], []], {"x": encoding})
    result = packed(folder, tmp_path / "ds", max_rejects=1)
    assert result.samples == 1
    (reject,) = result.rejects
    assert reject.key == "shard.00000.mds#1"
    assert reject.reason.startswith("column 'x': ")
    assert reason in reject.reason


def test_an_encoding_that_nobody_knows(tmp_path: Path) -> None:
    folder = numbers(tmp_path / "in", 3)
    for encoding in ("mystery", "ndarray:complex64", "ndarray:int8:0", "ndarray::3", "ndarray:", "ndarray:int8:1e3"):
        changed(folder, column_encodings=["int", encoding])
        refused(folder, f"column 'text' .*its encoding '{encoding}' is none that is known.*--columns n$")
        assert packed(folder, tmp_path / "ds", columns=("n",)).samples == 3


def test_a_value_that_is_too_large_is_rejected_and_not_read(tmp_path: Path) -> None:
    rows = [{"n": struct.pack("<q", i), "text": b"x" * (1000 if i == 1 else 10)} for i in range(3)]
    folder = write(tmp_path / "in", [rows], COLUMNS)
    result = packed(folder, tmp_path / "ds", max_value_bytes=100, max_rejects=1)
    assert result.rejects[0].reason.startswith("column 'text': 1000 bytes are more than a value may have (100)")
    # Of a column that isn't packed the size doesn't matter.
    assert packed(folder, tmp_path / "ds", max_value_bytes=100, columns=("n",)).samples == 3


def test_columns_must_agree(tmp_path: Path) -> None:
    folder = numbers(tmp_path / "in", 3, 2)
    changed(folder, 1, column_encodings=["int64", "bytes"])
    refused(folder, "column 'text' is string in .* and is binary in")
    assert packed(folder, tmp_path / "ds", columns=("n",)).samples == 5


def test_splits_that_are_not_there(tmp_path: Path) -> None:
    numbers(tmp_path / "in/train", 3)
    with pytest.raises(NotFoundError, match=r"splits of the dataset are train, not 'trian'\. Did you mean"):
        packed(tmp_path / "in", tmp_path / "ds", split="trian")
    with pytest.raises(SourceError, match=r"is one folder with index\.json"):
        packed(tmp_path / "in/train/shard.00000.mds", tmp_path / "ds", source_kind="mds")
    (tmp_path / "none").mkdir()
    with pytest.raises(SourceError, match=r"no index\.json of an MDS dataset"):
        packed(tmp_path / "none", tmp_path / "ds", source_kind="mds")


def test_classes_are_those_of_all_splits(tmp_path: Path) -> None:
    for split, words in (("train", (b"a", b"b")), ("val", (b"b",))):
        write(tmp_path / "in" / split, [[{"label": word} for word in words]], {"label": "str"})
    packed(tmp_path / "in", tmp_path / "ds", split="val")
    assert toolkit.open(tmp_path / "ds").classes == ("a", "b")
    assert len(samples(tmp_path / "ds")) == 1


def test_a_file_that_changes_is_noticed(tmp_path: Path) -> None:
    from toolkit.sources.make import make_source
    from toolkit.sources.options import SourceOptions

    folder = numbers(tmp_path / "in", 3)
    _, source = make_source("mds", SourceOptions(paths=(str(folder),), slice_bytes=1 << 20))
    survey = source.survey()
    content = (folder / "shard.00000.mds").read_bytes()
    tick(tmp_path)
    (folder / "shard.00000.mds").write_bytes(content)
    with pytest.raises(SourceError, match="was changed during the pack"):
        list(source.read(survey, survey.slices[0]))


def test_large_shards_are_read_in_pieces(tmp_path: Path) -> None:
    rows = [{"n": struct.pack("<q", i), "text": b"x" * 100_000} for i in range(100)]
    folder = write(tmp_path / "in", [rows], COLUMNS)
    packed(folder, tmp_path / "ds", shard_size=1 << 22)
    found = samples(tmp_path / "ds")
    assert [sample["n"] for sample in found] == list(range(100))
    assert [sample["__key__"] for sample in found] == [f"shard.00000.mds#{i}" for i in range(100)]
    assert packed(folder, tmp_path / "few", limit=3).samples == 3


def test_what_looks_like_an_index_or_a_shard(tmp_path: Path) -> None:
    folder = numbers(tmp_path / "in", 3)
    assert looks_like_index(str(folder / "index.json"))
    assert looks_like_shard(str(folder / "shard.00000.mds"))
    for content in (b"", b"{}", b'{"shardlist": []}', b'{"chunks": [{"shards"', b'[{"shards": 1}]', b"\0" * 99):
        (tmp_path / "index.json").write_bytes(content)
        assert not looks_like_index(str(tmp_path / "index.json"))
        assert not looks_like_shard(str(tmp_path / "index.json"))
    assert [one.samples for one in read_index(str(folder / "index.json"))] == [3]


def test_a_sample_without_a_byte_is_rejected(tmp_path: Path) -> None:
    columns = {"n": "int"}
    content = shard([struct.pack("<q", 1), b"", struct.pack("<q", 2)], columns)
    told = entry("a.mds", content, 3, columns)
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.mds").write_bytes(content)
    assert told["raw_data"]["hashes"] == {"sha1": hashlib.sha1(content).hexdigest()}
    result = packed(write_index(tmp_path / "in", [told]), tmp_path / "ds", max_rejects=1, kind={"n": Kind.SCALAR})
    assert result.samples == 2


def test_an_index_behind_a_link(tmp_path: Path) -> None:
    folder = numbers(tmp_path / "in", 3)
    away = (folder / "index.json").rename(tmp_path / "away.json")
    (folder / "index.json").symlink_to(away)
    refused(folder, r"index\.json' is a link that leads out of")
    assert packed(folder, tmp_path / "ds", follow_links=True).samples == 3


def test_hashes_that_nobody_knows_are_told(tmp_path: Path) -> None:
    folder = numbers(tmp_path / "in", 3)
    assert packed(folder, tmp_path / "ds").warnings == ()
    raw = json.loads((folder / "index.json").read_text())["shards"][0]["raw_data"]
    changed(folder, raw_data={**raw, "hashes": {**raw["hashes"], "sha512_256x": "0", "md17": "0"}})
    told = packed(folder, tmp_path / "ds").warnings
    assert told == ("hashes in index.json that aren't known here, and aren't checked: 'md17', 'sha512_256x'",)

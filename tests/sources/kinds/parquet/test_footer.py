"""Parquet footers that pyarrow can't be asked about: encrypted columns, names that aren't UTF-8, mutated bytes."""

from __future__ import annotations

import base64
import contextlib
import random
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe
import pytest
from command import program
from parquet_inputs import packed, values

from toolkit.errors import SourceError, ToolkitError
from toolkit.pack.job import OnExisting
from toolkit.sources.kinds.parquet.footer import Chunks, FooterError, read_chunks


class _Keys(pe.KmsClient):
    """Gives keys away, wrapped in nothing."""

    def __init__(self, _: object) -> None:
        pe.KmsClient.__init__(self)

    def wrap_key(self, key: bytes, _: str) -> bytes:
        return base64.b64encode(key)

    def unwrap_key(self, wrapped: bytes, _: str) -> bytes:
        return base64.b64decode(wrapped)


def write_encrypted(path: Path, **options: object) -> Path:
    configuration = pe.EncryptionConfiguration(footer_key="footer", **options)
    factory = pe.CryptoFactory(_Keys)
    properties = factory.file_encryption_properties(pe.KmsConnectionConfig(), configuration)
    table = pa.table({"a": [1, 2], "b": ["x", "y"], "c": [{"d": 1}, {"d": 2}]})
    with pq.ParquetWriter(path, table.schema, encryption_properties=properties) as writer:
        writer.write_table(table)
    return path


def footer_of(path: Path) -> bytes:
    data = path.read_bytes()
    return data[-8 - int.from_bytes(data[-8:-4], "little") : -8]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"plaintext_footer": True, "column_keys": {"k": ["b"]}}, r"has encrypted columns \('b'\)"),
        ({"plaintext_footer": True, "column_keys": {"k": ["b", "c.d"]}}, r"has encrypted columns \('b', 'c\.d'\)"),
        ({"plaintext_footer": True, "uniform_encryption": True}, "encrypted"),
        ({"plaintext_footer": False, "column_keys": {"k": ["b"]}}, "is encrypted"),
    ],
)
def test_encrypted_columns_are_told(tmp_path: Path, options: dict[str, object], message: str) -> None:
    path = write_encrypted(tmp_path / "x.parquet", **options)
    # In a process of its own: pyarrow's answer to such a file is to end the one it is in.
    done = program("pack", path, tmp_path / "out")
    assert done.code == 2, done.err
    with pytest.raises(SourceError, match=message):
        packed(path, tmp_path / "out")
    with pytest.raises(SourceError, match=message):
        packed(path, tmp_path / "out", columns=("a",))


def test_names_that_are_not_utf8_are_told(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"abcdef": [1, 2], "n": [{"ghijkl": 1}] * 2}), path, store_schema=False)
    good = path.read_bytes()
    at = len(good) - 8 - len(footer_of(path))
    for name in (b"abcdef", b"ghijkl"):
        places = [i for i in range(at, len(good)) if good.startswith(name, i)]
        assert len(places) > 1  # in the schema, and with each column chunk
        for chosen in (places, places[:1], places[-1:]):
            data = bytearray(good)
            for place in chosen:
                data[place + 2] = 0xFF
            path.write_bytes(data)
            if chosen == places[-1:]:  # the schema is good: the values may be read or not
                try:
                    packed(path, tmp_path / f"out{place}")
                except SourceError as error:
                    assert "UTF-8" in str(error)  # noqa: PT017
            else:
                with pytest.raises(SourceError, match=r"x\.parquet.*the name .*\\xff.* is not valid UTF-8"):
                    packed(path, tmp_path / "out")


def test_a_walk_ends_on_any_bytes(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"a": [1, 2, None], "b": ["x", "y", "z"], "c": [[1], [], [2]]}), path, row_group_size=1)
    good = footer_of(path)
    assert read_chunks(good).encrypted == ()
    rng = random.Random(0)
    for _ in range(3000):
        data = bytearray(good)
        for _ in range(rng.choice((1, 3))):
            data[rng.randrange(len(data))] = rng.randrange(256)
        del data[rng.choice((len(data), rng.randrange(len(data)))) :]
        with contextlib.suppress(FooterError):
            assert isinstance(read_chunks(bytes(data)), Chunks)


def mutated_packs(folder: Path, mutations: int) -> None:
    """Pack a file with flipped footer bytes, again and again. Raises what isn't an error of our own."""
    table = {"abcd": [1, 2, 3, 4], "text": ["x", "y", None, "z"], "l": [[1], [2, 3], None, []], "s": [{"a": 1}] * 4}
    path = folder / "x.parquet"
    pq.write_table(pa.table(table), path, row_group_size=2, write_page_checksum=True)
    good = path.read_bytes()
    start = len(good) - 8 - len(footer_of(path))
    for seed in range(mutations):
        rng = random.Random(seed)
        data = bytearray(good)
        for _ in range(rng.choice((1, 1, 3))):
            at = rng.randrange(start, len(good) - 8)
            data[at] = rng.choice((0, 255, 127, data[at] ^ 1 << rng.randrange(8), rng.randrange(256)))
        path.write_bytes(data)
        with contextlib.suppress(ToolkitError):
            packed(path, folder / "out", max_rejects=100, on_existing=OnExisting.OVERWRITE)


def test_no_footer_ends_the_process(tmp_path: Path) -> None:
    # pyarrow 26 calls abort() for 1 in 100 of these when it is asked for a chunk's size.
    code = (
        "import sys, pathlib; sys.path.insert(0, sys.argv[1])\n"
        "from sources.kinds.parquet.test_footer import mutated_packs\n"
        "mutated_packs(pathlib.Path(sys.argv[2]), 300)"
    )
    words = [sys.executable, "-c", code, str(Path(__file__).parents[3]), str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]


def test_a_footer_that_can_be_read_in_two_ways_is_told(tmp_path: Path) -> None:
    """Thrift takes a field's number modulo 2**16, and readers of a list that is called a set differ."""
    pq.write_table(pa.table({"a": [1, 2], "b": ["x", "y"]}), tmp_path / "good.parquet")
    footer, data = footer_of(tmp_path / "good.parquet"), (tmp_path / "good.parquet").read_bytes()
    row_groups = footer.index(b"\x19", footer.index(b"\x16\x04"))  # behind the number of rows
    path, refused = tmp_path / "x.parquet", 0
    for header in (b"\x09" + varint(2 * (4 + (1 << 16))), b"\x1a", b"\x29", b"\x09" + varint(2 * 4)):
        made = footer[:row_groups] + header + footer[row_groups + 1 :]
        path.write_bytes(data[: -8 - len(footer)] + made + len(made).to_bytes(4, "little") + b"PAR1")
        try:
            packed(path, tmp_path / "ds", on_existing=OnExisting.OVERWRITE)
        except SourceError:
            refused += 1
        else:
            assert values(tmp_path / "ds", "a") == [1, 2]
    assert refused >= 2


def varint(value: int) -> bytes:
    return bytes([value & 127 | 128]) + varint(value >> 7) if value > 127 else bytes([value])


def test_chunks_are_what_pyarrow_says_of_good_files(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    columns = {
        "a": list(range(1000)),
        "t": ["x" * (n % 7) for n in range(1000)],
        "l": [[n, n] for n in range(1000)],
        "s": [{"p": {"q": b"1"}, "r": None} for _ in range(1000)],
        "d": pa.array(["u", "v"] * 500).dictionary_encode(),
        "f": pa.array([b"1234"] * 1000, pa.binary(4)),
    }
    for options in ({}, {"row_group_size": 7}, {"use_dictionary": False}, {"version": "1.0", "compression": "zstd"}):
        pq.write_table(pa.table(columns), path, **options)
        found = read_chunks(footer_of(path))
        said = pq.read_metadata(path)
        assert found.encrypted == ()
        for i in range(said.num_row_groups):
            chunks = [said.row_group(i).column(j) for j in range(said.num_columns)]
            assert list(found.leaves) == [chunk.path_in_schema for chunk in chunks]
            assert found.nbytes[i].tolist() == [chunk.total_uncompressed_size for chunk in chunks]
            assert found.expands[i].tolist() == [
                chunk.has_dictionary_page and "BYTE_ARRAY" in chunk.physical_type for chunk in chunks
            ]
        assert [found.leaves[i] for i in found.of({"s", "a"})] == ["a", "s.p.q", "s.r"]

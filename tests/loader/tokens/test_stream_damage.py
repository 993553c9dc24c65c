"""Damage in the middle of a run: what came before is delivered, then an error that names the shard."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from token_oracle import Packed

from toolkit import TokenBatch
from toolkit.errors import CorruptShardError, LoaderError, StorageError
from toolkit.loader.tokens import run as run_module


def take_all(batches: Iterator[TokenBatch], into: list[TokenBatch]) -> None:
    into.extend(batches)


def flip(path: Path, offset: int) -> None:
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 1]))


def middle_of_ids(packed: Packed, shard: int) -> tuple[int, int]:
    """Return the offset in a shard's file of some id in its second record batch, and that id's token of the run."""
    index = packed.open().index
    batch = index.batch(index.shard(shard).batches[1])
    end = batch.body_offset + batch.body_bytes
    token = sum(len(doc) for doc in packed.docs[: batch.start + batch.rows])
    assert token == batch.token_start + batch.tokens
    # The ids are the last buffer of a body: 8 bytes from its end lie padding at the most.
    return end - 32, token - 16


@pytest.mark.parametrize("threads", [0, 2])
def test_a_flipped_bit_ends_the_stream_at_its_step(damaged: Packed, threads: int) -> None:
    ds = damaged.open()
    offset, token = middle_of_ids(damaged, 1)
    flip(Path(ds.files[1]), offset)
    iterator = iter(ds.tokens(seq_len=16, batch_size=4, threads=threads))
    got: list[TokenBatch] = []
    with pytest.raises(CorruptShardError, match="CRC32C") as caught:
        take_all(iterator, got)
    assert caught.value.shard == f"shards/{Path(ds.files[1]).name}"
    assert caught.value.column == "tokens"
    assert "verify --full" in str(caught.value)
    seen = np.concatenate([batch["tokens"].reshape(-1) for batch in got])
    np.testing.assert_array_equal(seen, damaged.run[: len(seen)])
    # The chunk that can't be trusted holds 8192 ids; all steps before it came.
    assert token - 8192 - 64 <= len(seen) <= token
    with pytest.raises(LoaderError, match="not complete"):
        next(iterator)


def test_a_damaged_end_of_a_document_is_no_document(damaged: Packed) -> None:
    ds = damaged.open()
    body = ds.index.batch(ds.index.shard(1).batches[0]).body_offset
    # A flip anywhere in the body's first chunk, where keys, digests and list offsets lie.
    flip(Path(ds.files[1]), body + 40)
    with pytest.raises(CorruptShardError):
        list(ds.tokens(seq_len=16, batch_size=4, documents=True))
    with pytest.raises(CorruptShardError):
        ds.tokens(seq_len=16, batch_size=4, pack="best")


def test_a_missing_shard_is_named_when_it_is_met(damaged: Packed) -> None:
    ds = damaged.open()
    os.unlink(ds.files[2])
    stream = ds.tokens(seq_len=64, batch_size=4)
    got: list[TokenBatch] = []
    with pytest.raises(CorruptShardError, match="it is missing"):
        take_all(iter(stream), got)
    assert abs(256 * len(got) - int(ds.index.shard_tokens()[:2].sum())) <= 256


def test_a_shard_rewritten_in_place_is_noticed(damaged: Packed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "_IDENTITY_SECONDS", 0.0)
    ds = damaged.open()
    stream = ds.tokens(seq_len=64, batch_size=4, epochs=None, threads=0)
    iterator = iter(stream)
    next(iterator)
    os.utime(ds.files[0], ns=(time.time_ns(), time.time_ns()))
    with pytest.raises(CorruptShardError, match="changed while it was open"):
        take_all(itertools.islice(iterator, 10**4), [])


def test_truncation_while_streaming_is_an_error_and_no_signal(damaged: Packed) -> None:
    program = f"""
        import os, toolkit
        from toolkit.errors import CorruptShardError
        from toolkit.loader.tokens import run
        run._IDENTITY_SECONDS = 1e9
        ds = toolkit.open({str(damaged.path)!r})
        stream = ds.tokens(seq_len=64, batch_size=4, epochs=None)
        iterator = iter(stream)
        next(iterator)
        os.truncate(ds.files[1], 4096)
        try:
            for _ in range(10**4):
                next(iterator)
        except CorruptShardError as error:
            print(error)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert Path(damaged.open().files[1]).name in done.stdout


@pytest.mark.parametrize("threads", [0, 2])
def test_any_error_comes_behind_the_steps_before_it(damaged: Packed, threads: int) -> None:
    """What the file system refuses isn't damage; the steps of the same fill that come before were lost with it."""
    ds = damaged.open()
    file = Path(ds.files[2])
    file.unlink()
    file.symlink_to(file)  # a circle
    got: list[TokenBatch] = []
    with pytest.raises(StorageError, match="Too many levels of symbolic links"):
        take_all(iter(ds.tokens(seq_len=64, batch_size=4, threads=threads)), got)
    assert abs(256 * len(got) - int(ds.index.shard_tokens()[:2].sum())) <= 256

"""Token datasets on disk: what docs/format.md says is what a stranger's reader and other libraries find."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pytest
import token_oracle as oracle
from crafted import Batch, Crafted, Shard
from format.pure_reader import PureReader
from token_oracle import Packed

import toolkit
from toolkit.checks.gc import gc
from toolkit.checks.inspect import inspect
from toolkit.checks.verify import verify


def test_the_pure_reader_gets_the_documents(tmp_path: Path) -> None:
    docs = oracle.write(tmp_path / "ds", oracle.documents(40, 300))
    reader = PureReader(tmp_path / "ds")
    assert [sample["tokens"] for sample in reader.samples("train")] == [doc.tolist() for doc in docs]
    assert sum(shard["tokens"] for shard in reader.shards("train")) == sum(map(len, docs))


def test_the_run_is_the_data_buffers_one_behind_the_other(packed: Packed) -> None:
    ds = packed.open()
    buffers = []
    for path, tokens in zip(ds.files, ds.index.shard_tokens().tolist(), strict=True):
        found = 0
        with pa.memory_map(path) as file:
            reader = pa.ipc.open_file(file)
            for number in range(reader.num_record_batches):
                column = reader.get_batch(number).column("tokens")
                assert column.null_count == column.values.null_count == 0
                buffers.append(column.values.to_numpy().copy())
                found += len(buffers[-1])
        assert found == tokens
    np.testing.assert_array_equal(np.concatenate(buffers), packed.run)


def with_empty_batches(packed: Packed, path: Path) -> None:
    """Record batches without rows, and with no bytes in any buffer, around all others; and a shard of nothing else."""
    crafted = Crafted.of(packed.path)
    for table in crafted.splits["train"]:
        for shard in table.shards:
            around = []
            for batch in shard.batches:
                around += [_empty(crafted, bare=True), _empty(crafted, bare=False), batch]
            shard.batches = [*around, _empty(crafted, bare=True)]
        first = table.shards[0]
        nothing = Shard("shards/train-000000-nothing.arrow", first.schema, [_empty(crafted, bare=True)])
        table.shards = [nothing, *table.shards]
    crafted.write(path)


def _empty(crafted: Crafted, *, bare: bool) -> Batch:
    batch = Batch.of(pa.RecordBatch.from_pylist([], crafted.schema))
    if bare:
        batch.body, batch.buffers = bytearray(), [[0, 0] for _ in batch.buffers]
    return batch


STREAMS: list[dict[str, Any]] = [
    {},
    {"shuffle": "block", "block_size": 16, "targets": True},
    {"targets": True, "documents": True, "mask_documents": True},
    {"pack": "best"},
    {"pack": "first", "shuffle": "block", "group_documents": 50, "targets": True},
]


def test_record_batches_without_rows_are_passed_over(packed: Packed, tmp_path: Path) -> None:
    with_empty_batches(packed, tmp_path / "crafted")
    ds, good = toolkit.open(tmp_path / "crafted"), packed.open()
    assert ds.index.batches > 2 * good.index.batches
    assert [one["tokens"] for one in ds] == [doc.tolist() for doc in packed.docs]
    for options in STREAMS:
        batches = [one.tokens(seq_len=400, batch_size=16, threads=1, **options) for one in (ds, good)]
        for mine, theirs in zip(*batches, strict=True):
            assert mine.keys() == theirs.keys()
            for name in mine:
                np.testing.assert_array_equal(mine[name], theirs[name])
    assert inspect(tmp_path / "crafted").tokens == inspect(packed.path).tokens
    assert verify(tmp_path / "crafted", full=True, jobs=1).findings == ()
    assert [one["tokens"] for one in PureReader(tmp_path / "crafted").samples("train")] == [
        doc.tolist() for doc in packed.docs
    ]


def test_the_manifest_says_what_ids_mean(tmp_path: Path) -> None:
    toolkit.pack_tokens(["text"], tmp_path / "ds", tokenizer="bytes", eos=True)
    (column,) = json.loads((tmp_path / "ds/manifest.json").read_text())["columns"]
    assert column == {
        "name": "tokens",
        "kind": "tokens",
        "arrow_type": "large_list<item: uint16 not null>",
        "tokens": {"vocabulary": 257, "eos": 256, "tokenizer": "bytes"},
    }


def test_shards_open_elsewhere(packed: Packed) -> None:
    import polars as pl

    frame = pl.concat([pl.read_ipc(path) for path in packed.open().files])
    assert frame["tokens"].list.len().to_list() == [len(doc) for doc in packed.docs]
    assert frame["tokens"].list.sum().sum() == int(packed.run.sum())


def test_a_tokenizer_is_kept_with_the_versions_that_name_it(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers", reason="pip install 'toolkit[tokens]'")
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "b": 1, "[UNK]": 2}, unk_token="[UNK]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.save(str(tmp_path / "tokenizer.json"))
    toolkit.pack_tokens(["a b a"], tmp_path / "ds", tokenizer=tmp_path / "tokenizer.json")
    encoding = toolkit.open(tmp_path / "ds").columns[0].tokens
    assert encoding is not None
    table = tmp_path / f"ds/tables/{encoding.tokenizer_table}.arrow"
    assert hashlib.sha256(table.read_bytes()).hexdigest() == encoding.tokenizer_table
    with pa.memory_map(str(table)) as file:
        kept = pa.ipc.open_file(file).read_all().column("file").to_pylist()
    assert kept == [(tmp_path / "tokenizer.json").read_bytes()]
    assert PureReader(tmp_path / "ds").tokenizer("tokens") == kept[0]
    assert gc(str(tmp_path / "ds")).files == ()

"""More shards than one shard table has: packed by toolkit itself, the rows on both sides of the border."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow.compute as pc
import pytest

import toolkit
from toolkit.checks.gc import gc
from toolkit.checks.verify import verify
from toolkit.errors import CorruptTableError
from toolkit.format.manifest import MOST_SHARDS, TableRef
from toolkit.pack.job import OnExisting, PackJob, PackResult
from toolkit.pack.run import pack

SHARDS = MOST_SHARDS + 3
DOCUMENT = 5  # tokens of each document, with its end
BORDER = MOST_SHARDS  # the first row of the second table, when every row is a shard


@contextlib.contextmanager
def every_row_a_shard() -> Iterator[None]:
    """Allow shards of one row, and don't wait for the disk with each of them."""
    with (
        mock.patch("toolkit.pack.job._LEAST_SHARD_SIZE", 1),
        mock.patch("toolkit.storage.background.os.fsync", return_value=None),
    ):
        yield


def pack_tiny(source: Path, dataset: Path, **options: Any) -> PackResult:
    with every_row_a_shard():
        return pack(PackJob(source=str(source), dataset=str(dataset), shard_size=1, **options))


def lines(path: Path, first: int, count: int) -> Path:
    path.write_text("".join(json.dumps({"text": f"{row:04x}"}) + "\n" for row in range(first, first + count)))
    return path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("many")
    pack_tiny(lines(root / "rows.jsonl", 0, SHARDS), root / "rows")
    return root


def rows_of(ds: toolkit.Dataset, rows: list[int]) -> list[int]:
    return [int(ds[row]["text"], 16) for row in rows]


def test_what_is_packed_into_two_tables_is_read_across_the_border(made: Path) -> None:
    ds = toolkit.open(made / "rows")
    refs = ds.manifest.splits["train"].tables
    assert [(ref.shards, ref.batches, ref.rows) for ref in refs] == [(MOST_SHARDS,) * 3, (3, 3, 3)]
    assert sum(ref.bytes for ref in refs) == sum(Path(file).stat().st_size for file in ds.files)
    edge = [0, BORDER - 2, BORDER - 1, BORDER, BORDER + 1, SHARDS - 1]
    assert rows_of(ds, edge) == edge
    assert rows_of(ds, edge[::-1]) == edge[::-1]
    assert [int(sample["text"], 16) for sample in ds[BORDER - 3 : BORDER + 2]] == list(range(BORDER - 3, BORDER + 2))
    assert [index for index in range(SHARDS) if ds.index.shard(index).batches != range(index, index + 1)] == []
    seen = [int(text, 16) for batch in ds.loader(batch_size=64, shuffle="full") for text in batch["text"]]
    assert sorted(seen) == list(range(SHARDS))
    assert ds.filter(pc.field("text") >= f"{BORDER - 1:04x}").keys() == ds[BORDER - 1 :].keys()
    joined = toolkit.concat([ds[BORDER - 1 :], ds, ds[:1]])
    assert rows_of(joined, [0, 1, 4, 4 + BORDER - 1, 4 + BORDER, 4 + SHARDS]) == [
        *(BORDER - 1, BORDER, 0, BORDER - 1, BORDER, 0)
    ]


def test_a_row_needs_its_own_table_and_no_other(made: Path, tmp_path: Path) -> None:
    shutil.copytree(made / "rows", tmp_path / "ds")
    first, second = (tmp_path / f"ds/tables/{ref.sha256}.arrow" for ref in tables(tmp_path / "ds"))
    first.rename(tmp_path / "away")
    ds = toolkit.open(tmp_path / "ds")
    assert (len(ds), rows_of(ds, [BORDER, SHARDS - 1])) == (SHARDS, [BORDER, SHARDS - 1])
    with pytest.raises(CorruptTableError, match="is missing"):
        ds[BORDER - 1]
    (tmp_path / "away").rename(first)
    assert rows_of(ds, [BORDER - 1]) == [BORDER - 1], "it is asked for again"
    second.unlink()
    assert rows_of(toolkit.open(tmp_path / "ds"), [BORDER - 1]) == [BORDER - 1]


def tables(root: Path) -> tuple[TableRef, ...]:
    return toolkit.open(root).manifest.splits["train"].tables


def test_appended_collected_and_verified(made: Path, tmp_path: Path) -> None:
    shutil.copytree(made / "rows", tmp_path / "ds")
    old = toolkit.open(tmp_path / "ds")
    source = lines(tmp_path / "more.jsonl", SHARDS, 2)
    result = pack_tiny(source, tmp_path / "ds", on_existing=OnExisting.APPEND)
    ds = toolkit.open(tmp_path / "ds")
    assert (result.added, len(ds), ds.pin) == (2, SHARDS + 2, result.pin)
    assert [ref.shards for ref in tables(tmp_path / "ds")] == [MOST_SHARDS, 3, 2]
    assert tables(tmp_path / "ds")[:2] == old.manifest.splits["train"].tables
    edge = [BORDER - 1, BORDER, SHARDS - 1, SHARDS, SHARDS + 1]
    assert rows_of(ds, edge) == edge
    assert gc(str(tmp_path / "ds"), keep=[old.pin]).files == ()
    collected = gc(str(tmp_path / "ds"), delete=True)
    reports = [f"reports/{old.pin}.{what}" for what in ("provenance.json", "rejects.jsonl")]
    assert sorted(collected.files) == [f"manifests/{old.pin}.json", *reports]
    found = verify(tmp_path / "ds", full=True)
    assert (found.findings, found.shards, found.samples) == ((), SHARDS + 2, SHARDS + 2)
    assert rows_of(toolkit.open(tmp_path / "ds"), edge) == edge


def test_a_stream_of_tokens_goes_on_into_the_next_table(tmp_path: Path) -> None:
    with every_row_a_shard():
        texts = (f"{row:04x}" for row in range(SHARDS))
        toolkit.pack_tokens(texts, tmp_path / "tokens", tokenizer="bytes", eos=True, shard_size=1)
    ds = toolkit.open(tmp_path / "tokens")
    assert [ref.tokens for ref in ds.manifest.splits["train"].tables] == [MOST_SHARDS * DOCUMENT, 3 * DOCUMENT]
    run = [token for row in range(SHARDS) for token in (*f"{row:04x}".encode(), 256)]
    windows = [batch["tokens"].reshape(-1) for batch in ds.tokens(seq_len=10, batch_size=4, shuffle="none")]
    found = np.concatenate(windows).tolist()
    assert found[: len(run)] == run
    assert len(found) - len(run) < 40, "the last batch is filled up from the front"
    for row in (BORDER - 1, BORDER, SHARDS - 1):
        assert list(ds[row]["tokens"]) == run[DOCUMENT * row : DOCUMENT * (row + 1)]

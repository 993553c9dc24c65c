"""A run refuses what it can't gather before it touches memory; what it copies is tested in tests/loader/tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import token_oracle as oracle
from bodies import body_over, laid_out
from token_oracle import Packed

from toolkit._native.tokens.gather import TokenShard
from toolkit._native.tokens.run import TokenRun
from toolkit.format.reader import ShardReader
from toolkit.storage.local import LocalStore

IDS, ENDS = 8, 6  # buffers of a body: behind key (3), digest (2) and the list's validity


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Packed:
    path = tmp_path_factory.mktemp("native") / "ds"
    return Packed(path, oracle.write(path, oracle.documents(300, 340)))


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def gather(run: TokenRun, **changes: Any) -> Any:
    given: dict[str, Any] = {
        "starts": ints(0),
        "counts": ints(4),
        "places": ints(0),
        "tokens": np.zeros(16, np.uint8),
        "out_width": 4,
        "row_tokens": 4,
        **changes,
    }
    return run.gather(**given)


@pytest.mark.parametrize(
    "changes",
    [
        {"starts": ints(-1)},
        {"starts": ints(7)},
        {"starts": ints(2**62), "counts": ints(2**62)},
        {"counts": ints(-1)},
        {"counts": ints(5)},
        {"places": ints(1)},
        {"places": ints(-1)},
        {"counts": ints(1, 1)},
        {"places": ints()},
        {"out_width": 3},
        {"out_width": 0},
        {"out_width": 2, "targets": np.zeros(16, np.uint8)},
        {"tokens": np.zeros(15, np.uint8)},
        {"targets": np.zeros(12, np.uint8)},
        {"segments": np.zeros(4, np.int32)},
        {"segments": np.zeros(3, np.int32), "positions": np.zeros(4, np.int32)},
        {"row_tokens": 0},
        {"block": -1},
    ],
)
def test_ranges_are_checked_first(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"."):
        gather(TokenRun(ints(5, 5), 2), **changes)


def test_shards_are_asked_for_before_anything_is_copied() -> None:
    run = TokenRun(ints(3, 0, 2, 5), 2)
    assert (run.tokens, run.shards, run.open_shards) == (10, 4, 0)
    out = np.full(16, 7, np.uint8)
    assert gather(run, tokens=out) == ([0, 2], None)
    assert gather(run, starts=ints(5), tokens=out) == ([3], None)
    # The target of the last token lies in the next shard.
    assert gather(run, counts=ints(3), tokens=out, targets=out.copy()) == ([0, 2], None)
    assert gather(run, counts=ints(0), tokens=out) == ([], None)
    assert (out == 7).all()


def test_shards_that_do_not_fit_the_table_are_refused(packed: Packed) -> None:
    index = packed.open().index
    reader = ShardReader(LocalStore(str(packed.path)), index, 0, packed.open().stored.parts[0].shape)
    bodies = [reader.body(batch) for batch in index.shard(0).batches]
    good = TokenShard(bodies, IDS, ENDS, 2)
    tokens = index.shard_tokens()
    assert good.tokens == tokens[0]
    with pytest.raises(ValueError, match="the shard table says"):
        TokenRun(tokens[1:], 2).attach(0, good)
    with pytest.raises(ValueError, match="shard 1 of 1"):
        TokenRun(tokens[:1], 2).attach(1, good)
    with pytest.raises(ValueError, match="not one offset more than rows"):
        TokenShard(bodies, IDS, 7, 2)
    with pytest.raises(ValueError, match="2 or 4 bytes"):
        TokenShard(bodies, IDS, ENDS, 8)


def test_a_run_keeps_its_shards_alive_and_lets_go_of_them(packed: Packed) -> None:
    index = packed.open().index
    run = TokenRun(index.shard_tokens(), 2)
    reader = ShardReader(LocalStore(str(packed.path)), index, 0, packed.open().stored.parts[0].shape)
    bodies = [reader.body(batch) for batch in index.shard(0).batches]
    run.attach(0, TokenShard(bodies, IDS, ENDS, 2))
    del reader, bodies
    out = np.zeros(16, np.uint8)
    assert gather(run, tokens=out) == ([], None)
    assert out.view(np.int32).tolist() == packed.run[:4].tolist()
    assert run.take_touched() == [0]
    assert run.take_touched() == []
    run.close_shards()
    assert gather(run, tokens=out) == ([0], None)


def test_numbers_that_wrap_are_refused(tmp_path: Path) -> None:
    data, places = laid_out(np.zeros(2, "<i8").tobytes(), bytes(8))
    with pytest.raises(ValueError, match="not one offset more than rows"):
        TokenShard([body_over(tmp_path / "s", data, places, rows=2**61 - 1)], 1, 0, 4)
    with pytest.raises(ValueError, match=r"shards 0 to 1 have more than 2\*\*62 tokens"):
        TokenRun(ints(2**62, 2**62, 2**62, 2**62), 4)

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from command import Cli, encoded, put

from toolkit.checks.bench.case import FIGURES


def test_json(cli: Cli, packed: Path) -> None:
    ended = cli("bench", packed, "--json", "--repeats", "2", "--batch-size", "4", "--epochs", "3", "--crop", "32")
    assert (ended.code, ended.err) == (0, "")
    document = json.loads(ended.out)
    assert document["schema"] == "toolkit.bench/1"
    assert (document["split"], document["samples"], document["columns"]) == ("train", 10, ["image", "label"])
    assert document["cache"] == "warm"
    assert set(document["meaning"]) == set(FIGURES)
    assert document["environment"]["versions"]["numpy"]
    assert [case["threads"] for case in document["cases"]] == [1, 2]
    for case in document["cases"]:
        assert len(case["runs"]) == 2
        for run in case["runs"]:
            assert (run["samples"], run["batches"]) == (30, 9)
            assert run["samples_per_second"] == pytest.approx(30 / run["seconds"])
            assert 0 < run["first_batch_ms"] <= 1000 * run["seconds"]
            assert run["megabytes_per_second"] > 0
        assert case["figures"].pop("tokens_per_second") is None
        for name, figure in case["figures"].items():
            values = sorted(run[name] for run in case["runs"])
            assert figure == {"median": pytest.approx(sum(values) / 2), "min": values[0], "max": values[1]}


def test_for_people(cli: Cli, packed: Path) -> None:
    ended = cli("bench", packed, "--repeats", "1", "--threads", "2", "--split", "val", "--no-decode")
    assert (ended.code, ended.err) == (0, "")
    assert "split val, 4 samples" in ended.out
    assert "pipeline: none: encoded bytes" in ended.out
    for title in ("samples/s", "MB/s encoded", "first batch, ms", "CPU-s per 1000 samples", "peak anonymous memory"):
        assert f"\n{title}" in ended.out


@pytest.mark.parametrize("output", ["torch", "jax"])
def test_outputs(cli: Cli, packed: Path, output: str) -> None:
    pytest.importorskip(output)
    ended = cli(
        *("bench", packed, "--json", "--repeats", "1", "--threads", "1", "--output", output),
        *("--shuffle", "block", "--short-side", "20", "--crop", "16"),
    )
    assert ended.code == 0
    document = json.loads(ended.out)
    assert (document["output"], document["cases"][0]["runs"][0]["samples"]) == (output, 10)


def test_missing_labels_are_left_out(cli: Cli, tmp_path: Path) -> None:
    put(tmp_path, "source/a/1.jpg", encoded(30, 30))
    put(tmp_path, "source/bare.jpg", encoded(30, 30))
    assert cli("pack", tmp_path / "source", tmp_path / "ds").code == 0
    document = json.loads(cli("bench", tmp_path / "ds", "--json", "--repeats", "1", "--threads", "1").out)
    assert document["columns"] == ["image"]


def test_split_must_be_named(cli: Cli, tmp_path: Path) -> None:
    for split in ("val", "test"):
        put(tmp_path, f"source/{split}/a/1.jpg", encoded(30, 30))
    assert cli("pack", tmp_path / "source", tmp_path / "ds").code == 0
    ended = cli("bench", tmp_path / "ds")
    assert ended.code == 2
    assert "has the splits test, val: say which, with --split" in ended.err
    ended = cli("bench", tmp_path / "ds", "--split", "tset")
    assert ended.code == 2
    assert "Did you mean 'test'?" in ended.err


def test_damage_is_an_error(cli: Cli, packed: Path) -> None:
    shard = next((packed / "shards").glob("train-*"))
    data = bytearray(shard.read_bytes())
    data[data.index(b"\xff\xd8\xff\xe0") + 300] ^= 1
    shard.write_bytes(data)
    ended = cli("bench", packed, "--repeats", "1", "--threads", "1")
    assert (ended.code, ended.out) == (4, "")
    assert "CRC32C" in ended.err
    shard.unlink()
    assert cli("bench", packed, "--repeats", "1", "--threads", "1").code == 4


def test_undecodable_sample(cli: Cli, tmp_path: Path) -> None:
    put(tmp_path, "source/1.jpg", encoded(90, 70)[:3000])
    assert cli("pack", tmp_path / "source", tmp_path / "ds").code == 0
    ended = cli("bench", tmp_path / "ds", "--repeats", "1", "--threads", "1")
    assert ended.code == 1
    assert "1.jpg" in ended.err


def test_columns_that_can_be_loaded(cli: Cli, commit_samples: Callable[..., str], tmp_path: Path) -> None:
    samples = [{"__key__": str(i), "image": None, "label": i % 2} for i in range(4)]
    commit_samples(tmp_path / "ds", {"train": [samples]})
    few = ("--json", "--repeats", "1", "--threads", "1")
    assert cli("bench", tmp_path / "ds", *few).code != 0
    ended = cli("bench", tmp_path / "ds", *few, "--columns", "label")
    assert ended.code == 0, ended.err
    document = json.loads(ended.out)
    assert (document["columns"], document["cases"][0]["runs"][0]["samples"]) == (["label"], 4)
    ended = cli("bench", tmp_path / "ds", "--columns", "lable")
    assert (ended.code, "Did you mean 'label'?" in ended.err) == (2, True)

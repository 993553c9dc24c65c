from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command import Cli, encoded, put
from referenced import refer


def flip(shard: Path, what: bytes, after: int) -> None:
    data = bytearray(shard.read_bytes())
    data[data.index(what) + after] ^= 1
    shard.write_bytes(data)


def shard_of(dataset: Path, split: str) -> Path:
    return next((dataset / "shards").glob(f"{split}-*"))


@pytest.mark.parametrize("flags", [[], ["--quick"], ["--full"], ["--decode"], ["--full", "--decode"]])
def test_good(cli: Cli, packed: Path, flags: list[str]) -> None:
    ended = cli("verify", packed, *flags)
    assert (ended.code, ended.err) == (0, "")
    assert ended.last_line.startswith("ok: 2 shards, 14 samples, ")
    document = json.loads(cli("verify", packed, *flags, "--json").out)
    assert document["schema"] == "toolkit.verify/1"
    assert document["ok"] is True
    assert document["level"] == ("full" if "--full" in flags else "quick")
    assert document["decoded"] is ("--decode" in flags)
    assert (document["shards"], document["samples"], document["findings"]) == (2, 14, [])
    assert document["bytes"] == sum(path.stat().st_size for path in (packed / "shards").iterdir())


def test_flag_outranks_twin(cli: Cli, packed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLKIT_FULL", "1")
    assert "(full)" in cli("verify", packed).out
    assert "(quick)" in cli("verify", packed, "--quick").out


def test_flipped_bit(cli: Cli, packed: Path) -> None:
    shard = shard_of(packed, "val")
    flip(shard, b"\x89PNG", 30)
    assert cli("verify", packed).code == 0
    ended = cli("verify", packed, "--full")
    assert ended.code == 4
    assert f"integrity: shard shards/{shard.name}" in ended.out
    document = json.loads(cli("verify", packed, "--full", "--json").out)
    assert document["ok"] is False
    assert {finding["kind"] for finding in document["findings"]} == {"integrity"}
    assert {finding["shard"] for finding in document["findings"]} == {f"shards/{shard.name}"}


@pytest.mark.parametrize("damage", ["missing", "short"])
def test_quick_finds_files(cli: Cli, packed: Path, damage: str) -> None:
    shard = shard_of(packed, "train")
    if damage == "missing":
        shard.unlink()
    else:
        shard.write_bytes(shard.read_bytes()[:-1])
    ended = cli("verify", packed)
    assert ended.code == 4
    assert shard.name in ended.out
    assert ended.last_line.startswith("1 finding: ")


def undecodable(cli: Cli, tmp_path: Path) -> Path:
    data = encoded(90, 70)
    put(tmp_path, "source/a/good.jpg", data)
    put(tmp_path, "source/a/short.jpg", data[: len(data) // 2])
    assert cli("pack", tmp_path / "source", tmp_path / "ds").code == 0
    return tmp_path / "ds"


def test_undecodable_sample(cli: Cli, tmp_path: Path) -> None:
    dataset = undecodable(cli, tmp_path)
    assert cli("verify", dataset, "--full").code == 0
    ended = cli("verify", dataset, "--decode")
    assert ended.code == 1
    assert "a/short.jpg" in ended.out
    assert "a/good.jpg" not in ended.out
    document = json.loads(cli("verify", dataset, "--decode", "--json").out)
    assert [(f["kind"], f["key"], f["row"]) for f in document["findings"]] == [("sample", "a/short.jpg", 1)]


def test_integrity_outranks_samples(cli: Cli, tmp_path: Path) -> None:
    data = encoded(90, 70)
    put(tmp_path, "source/train/a/good.jpg", data)
    put(tmp_path, "source/val/a/short.jpg", data[: len(data) // 2])
    assert cli("pack", tmp_path / "source", tmp_path / "ds").code == 0
    flip(shard_of(tmp_path / "ds", "train"), b"\xff\xd8\xff\xe0", 300)
    ended = cli("verify", tmp_path / "ds", "--full", "--decode", "--json")
    assert ended.code == 4
    assert {finding["kind"] for finding in json.loads(ended.out)["findings"]} == {"integrity", "sample"}


def test_changed_manifest(cli: Cli, packed: Path) -> None:
    path = packed / "manifest.json"
    path.write_bytes(path.read_bytes().replace(b'"rows": 10', b'"rows": 11'))
    ended = cli("verify", packed)
    assert ended.code == 4
    assert "no committed version" in ended.err


def test_changed_table(cli: Cli, packed: Path) -> None:
    path = next((packed / "tables").iterdir())
    path.write_bytes(path.read_bytes() + b"\0")
    assert cli("verify", packed).code == 4


def test_a_missing_image_is_no_finding(cli: Cli, tmp_path: Path) -> None:
    pq.write_table(pa.table({"photo": [encoded(20, 10), None]}), tmp_path / "x.parquet")
    assert cli("pack", tmp_path / "x.parquet", tmp_path / "ds").code == 0
    ended = cli("verify", tmp_path / "ds", "--decode", "--json")
    assert ended.code == 0
    assert json.loads(ended.out)["findings"] == []


def test_against_the_source(cli: Cli, packed: Path, flowers: Path) -> None:
    ended = cli("verify", packed, "--against", flowers)
    assert (ended.code, ended.err) == (0, "")
    assert f"against {flowers} (imagefolder): 14 samples, 0 differ" in ended.out
    some = next(flowers.rglob("*.png"))
    some.write_bytes(some.read_bytes() + b"!")
    ended = cli("verify", packed, "--against", flowers)
    assert ended.code == 4
    assert "has other bytes, another label or another column in the source" in ended.out
    document = json.loads(cli("verify", packed, "--against", flowers, "--json").out)
    assert document["against"]["counts"] == {
        "missing": 0,
        "changed": 1,
        "split": 0,
        "rejected": 0,
        "new": 0,
        "again": 0,
    }
    assert [one["what"] for one in document["against"]["differences"]] == ["changed"]
    for setting, said in (
        ("limit=x", "--set limit=x: "),
        ("lmit=3", "Did you mean 'limit'"),
        ("jobs=2", "unknown key"),
    ):
        ended = cli("verify", packed, "--against", flowers, "--set", setting)
        assert (ended.code, said in ended.err) == (2, True), ended.err
    assert cli("verify", packed, "--against", flowers, "--set", "limit=3").code == 2
    assert "give it with --against" in cli("verify", packed, "--set", "limit=3").err


def test_roots(cli: Cli, packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    dataset, root = refer(packed, tmp_path / "ref", tmp_path / "files"), tmp_path / "moved"
    (tmp_path / "files").rename(root)
    for command in ("verify", "bench"):
        ended = cli(command, dataset)
        assert (ended.code, "--roots source=/path" in ended.err) == (2, True), ended.err
    assert cli("verify", dataset, "--full", "--roots", f"source={root}").code == 0
    assert f"root source: {root}" in cli("inspect", dataset, "--roots", f"source={root}").out
    assert "NOT FOLLOWED" in cli("inspect", dataset).out
    assert cli("bench", dataset, "--roots", f"source={root}", "--repeats", 1, "--threads", 1).code == 0
    assert cli("head", dataset, "--split", "val").code == 0
    for given, said in (("source", "is not NAME=PATH"), ("a=", "is not NAME=PATH"), ("sauce=/", "no root 'sauce'")):
        ended = cli("verify", dataset, "--roots", given)
        assert (ended.code, said in ended.err) == (2, True), ended.err
    twice = cli("verify", dataset, "--roots", "source=/", "--roots", "source=/etc")
    assert "'source' is given twice" in twice.err
    (root / "val/rose/p.png").write_bytes(b"another")
    document = json.loads(cli("verify", dataset, "--json", "--roots", f"source={root}").out)
    assert [one["place"] for one in document["findings"]] == ["reference"]
    assert cli("verify", dataset, "--roots", f"source={root}").code == 4
    monkeypatch.setenv("TOOLKIT_ROOTS", f"source={root}")
    assert cli("verify", dataset).code == 4

"""`toolkit index`: as a pack, with images where they are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command import Cli, encoded, put

import toolkit
from toolkit.options.option import flag_of
from toolkit.pack.index.job import PACK_ONLY


def test_index(cli: Cli, flowers: Path, tmp_path: Path) -> None:
    ended = cli("index", flowers, tmp_path / "ds")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("indexed 14 samples (train 10, val 4) into 2 shards")
    assert f"values stay in {flowers} (root source)" in ended.out
    assert "UNHASHED" not in ended.out
    pin = toolkit.open(tmp_path / "ds", split="train").pin
    assert ended.last_line.startswith("samples=14 shards=2 bytes=")
    assert ended.last_line.endswith(f"pin={pin}")
    again = cli("index", flowers, tmp_path / "ds")
    assert again.code == 2
    assert "already holds a dataset" in again.err
    assert cli("index", flowers, tmp_path / "ds", "--on-existing", "overwrite", "-q").last_line.endswith(f"pin={pin}")


def test_json_and_the_word_unhashed(cli: Cli, flowers: Path, tmp_path: Path) -> None:
    document = json.loads(cli("index", flowers, tmp_path / "a", "--json").out)
    assert document["schema"] == "toolkit.index/1"
    assert (document["trust"], document["roots"]) == ("hash", {"source": str(flowers)})
    assert document["options"]["trust"] == "hash"
    assert not PACK_ONLY & document["options"].keys()
    ended = cli("index", flowers, tmp_path / "b", "--trust", "stat")
    assert "\nUNHASHED: no file was read; " in ended.out
    assert json.loads(cli("index", flowers, tmp_path / "c", "--trust", "stat", "--json").out)["trust"] == "stat"


def test_dry_run_and_abort(cli: Cli, flowers: Path, tmp_path: Path) -> None:
    ended = cli("index", flowers, tmp_path / "ds", "--dry-run")
    assert ended.code == 0
    assert ended.last_line.startswith("dry_run=true samples=14 ")
    assert not (tmp_path / "ds").exists()
    document = json.loads(cli("index", flowers, tmp_path / "ds", "--dry-run", "--json").out)
    assert document["schema"] == "toolkit.index-plan/1"
    ended = cli("index", "--abort", tmp_path / "ds")
    assert ended.code == 2
    assert "no unfinished pack to give up" in ended.err


def test_a_config(cli: Cli, flowers: Path, tmp_path: Path) -> None:
    (tmp_path / "index.yaml").write_text(f"source: {flowers}\ndataset: ds\ntrust: stat\nexclude: ['val/*']\n")
    ended = cli("index", "--config", tmp_path / "index.yaml", "--set", "split=train", "--json")
    document = json.loads(ended.out)
    assert (document["samples"], document["trust"]) == (10, "stat")
    (tmp_path / "index.yaml").write_text(f"source: {flowers}\ndataset: ds\nimage_encoding: raw\n")
    ended = cli("index", "--config", tmp_path / "index.yaml")
    assert ended.code == 2
    assert "unknown key 'image_encoding'" in ended.err
    assert cli("pack", "--set", "trust=stat", flowers, tmp_path / "x").code == 2


@pytest.mark.parametrize("name", sorted(PACK_ONLY))
def test_what_only_a_pack_can_is_refused_by_name(cli: Cli, flowers: Path, tmp_path: Path, name: str) -> None:
    for args in ((flag_of(name), "x"), (f"{flag_of(name)}=x",)):
        ended = cli("index", flowers, tmp_path / "ds", *args)
        assert ended.code == 2
        assert f"{flag_of(name)} means nothing for values that stay where they are: pack them" in ended.err


def test_rejects(cli: Cli, tmp_path: Path) -> None:
    put(tmp_path / "in", "a/1.jpg", b"no picture")
    ended = cli("index", tmp_path / "in", tmp_path / "ds")
    assert ended.code == 3
    assert "1 sample rejected, 0 allowed" in ended.err
    assert not (tmp_path / "ds/manifest.json").exists()


def test_no_key_is_a_warning(cli: Cli, flowers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    ended = cli("index", flowers, tmp_path / "ds")
    assert ended.code == 0
    assert "warning: your key can't be kept" in ended.err
    ds = toolkit.open(tmp_path / "ds", split="val", roots=flowers)
    assert ds[0]["image"] == (flowers / "val/daisy/0.jpg").read_bytes()


def test_several_patterns_behind_one_pair(cli: Cli, tmp_path: Path) -> None:
    for name in ("images/a.jpg", "masks/a.png"):
        put(tmp_path / "in", name, encoded(9, 9, "PNG" if name.endswith("png") else "JPEG"))
    args = ("--pair", "image=images/{}.jpg", "mask=masks/{}.png", "--kind", "mask=image")
    ended = cli("index", tmp_path / "in", tmp_path / "ds", *args)
    assert ended.code == 0, ended.err
    sample = toolkit.open(tmp_path / "ds")[0]
    assert sample["mask"] == (tmp_path / "in/masks/a.png").read_bytes()

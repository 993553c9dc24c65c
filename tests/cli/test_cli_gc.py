from __future__ import annotations

import json
from pathlib import Path

from command import Cli, encoded, put


def test_older_versions_are_listed_then_removed(cli: Cli, flowers: Path, packed: Path, tmp_path: Path) -> None:
    old = json.loads((packed / "manifest.json").read_bytes())
    assert old["parent"] is None
    put(tmp_path, "src/a/1.jpg", encoded(20, 20))
    assert cli("pack", tmp_path / "src", packed, "--on-existing", "overwrite").code == 0
    listed = cli("gc", packed)
    assert listed.code == 0
    assert listed.last_line.endswith("deleted=false")
    names = listed.out.splitlines()[:-1]
    assert all((packed / name).exists() for name in names)
    document = json.loads(cli("gc", packed, "--json").out)
    assert (document["schema"], document["deleted"], document["files"]) == ("toolkit.gc/1", False, names)
    removed = cli("gc", packed, "--delete")
    assert removed.last_line == listed.last_line.replace("false", "true")
    assert not any((packed / name).exists() for name in names)
    assert cli("verify", packed, "--full").code == 0
    assert cli("gc", packed).last_line == "files=0 bytes=0 deleted=false"


def test_a_pin_that_is_not_there_removes_nothing(cli: Cli, packed: Path) -> None:
    ended = cli("gc", packed, "--keep", "0" * 12, "--delete")
    assert ended.code == 4
    assert "no version with the pin" in ended.err
    ended = cli("gc", packed, "--keep", "", "--delete")  # a variable that isn't set, say
    assert ended.code == 2
    assert "'' has an empty part" in ended.err


def test_head_prints_a_sample_a_line(cli: Cli, packed: Path) -> None:
    ended = cli("head", packed, "--split", "train", "-n", "3")
    assert ended.code == 0
    samples = [json.loads(line) for line in ended.out.splitlines()]
    assert [sample["__key__"] for sample in samples] == ["train/daisy/0.jpg", "train/daisy/1.jpg", "train/daisy/2.jpg"]
    assert samples[0]["label"] == {"id": 0, "name": "daisy"}
    assert samples[0]["image"]["bytes"] > 0
    assert cli("head", packed, "--split", "tain").code == 2
    assert cli("head", packed, "--split", "val", "-n", "100").out.count("\n") == 4


def test_append_says_what_came_and_what_there_is(cli: Cli, packed: Path, tmp_path: Path) -> None:
    put(tmp_path, "src/train/rose/new.jpg", encoded(20, 20))
    ended = cli("pack", tmp_path / "src", packed, "--on-existing", "append")
    assert ended.code == 0
    assert "appended 1 sample; the dataset now has 15 samples (train 11, val 4)" in ended.out
    assert ended.last_line.startswith("samples=15 ")
    put(tmp_path, "other/train/lily/new2.jpg", encoded(20, 20))
    refused = cli("pack", tmp_path / "other", packed, "--on-existing", "append")
    assert refused.code == 2
    assert "--extend-classes" in refused.err
    assert cli("pack", tmp_path / "other", packed, "--on-existing", "append", "--extend-classes").code == 0
    assert cli("pack", tmp_path / "other", tmp_path / "fresh", "--extend-classes").code == 2


def test_what_is_not_of_the_format_is_named_and_stays(cli: Cli, packed: Path, tmp_path: Path) -> None:
    put(packed, "reports/notes.md", b"mine")
    ended = cli("gc", packed, "--delete")
    assert (ended.code, ended.last_line) == (0, "files=0 bytes=0 deleted=true")
    assert "note: 1 left alone, which are no files of the format: 'reports/notes.md'" in ended.err
    assert json.loads(cli("gc", packed, "--json").out)["foreign"] == ["reports/notes.md"]
    (packed / "reports").rename(tmp_path / "reports")
    (packed / "reports").symlink_to(tmp_path / "reports")
    refused = cli("gc", packed, "--delete")
    assert refused.code == 2
    assert "reports' is a symbolic link" in refused.err
    assert (tmp_path / "reports/notes.md").exists()

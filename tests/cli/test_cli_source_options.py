from __future__ import annotations

from pathlib import Path

import pytest
from command import Cli


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--source-kind", "parket"], "Did you mean 'parquet'"),
        (["--kind", "image=imag"], "Did you mean 'image'"),
        (["--kind", "image"], "is not NAME=VALUE"),
        (["--map", "a=b,a=c"], "'a' is given twice"),
        (["--missing", "nul"], "Did you mean 'null'"),
        (["--max-rejects", "101%"], "more than all samples"),
        (["--max-rejects", "x"], "is not a whole number"),
        (["--user-metadata", "k"], "is not NAME=VALUE"),
        (["--exclude", ""], "'' has an empty part"),
        (["--include", " "], "' ' has an empty part"),
        (["--exclude", "a,,b"], "'a,,b' has an empty part"),
        (["--set", "exclude="], "exclude"),
        (["--map", ""], "'' has an empty part"),
        (["--splits", "train=a,"], "'train=a,' has an empty part"),
        (["--map", "a=b"], "--map means nothing for a source of kind imagefolder"),
        (["--key", "id"], "--key means nothing for a source of kind imagefolder"),
        (["--tfrecord-raw"], "--tfrecord-raw means nothing for a source of kind imagefolder"),
    ],
)
def test_options_that_cannot_be(cli: Cli, flowers: Path, tmp_path: Path, flags: list[str], says: str) -> None:
    ended = cli("pack", flowers, tmp_path / "ds", *flags)
    assert ended.code == 2
    assert says in ended.err
    assert not (tmp_path / "ds").exists()


def test_user_metadata_is_part_of_the_pin(cli: Cli, flowers: Path, tmp_path: Path) -> None:
    plain = cli("pack", flowers, tmp_path / "a")
    named = cli("pack", flowers, tmp_path / "b", "--user-metadata", "owner=me,note=x=y")
    assert plain.last_line.split("pin=")[1] != named.last_line.split("pin=")[1]
    assert '"note": "x=y"' in (tmp_path / "b/manifest.json").read_text()


def test_a_share_of_rejects(cli: Cli, flowers: Path, tmp_path: Path) -> None:
    import shutil

    source = Path(shutil.copytree(flowers, tmp_path / "src"))
    (source / "train/rose/bad.jpg").write_bytes(b"nothing")
    assert cli("pack", source, tmp_path / "ds", "--max-rejects", "6%").code == 3
    ended = cli("pack", source, tmp_path / "ds", "--max-rejects", "7%")
    assert ended.code == 0
    assert "samples=14" in ended.last_line

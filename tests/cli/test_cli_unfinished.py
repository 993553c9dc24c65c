"""What a refused, interrupted or unsaid pack leaves, and that the advice it gives can be followed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from command import PROGRAM, Cli, Ended, encoded, program, put
from pictures import make_folder
from waiting import PATIENCE

import toolkit


@pytest.fixture
def more(flowers: Path, tmp_path: Path) -> Path:
    """A source of new samples, and one that the dataset has already."""
    put(tmp_path, "more/train/daisy/new.jpg", encoded(9, 9))
    shutil.copy(flowers / "train/daisy/0.jpg", tmp_path / "more/train/daisy/0.jpg")
    return tmp_path / "more"


@pytest.fixture
def refused(cli: Cli, packed: Path, more: Path) -> Ended:
    ended = cli("pack", more, packed, "--on-existing", "append")
    assert ended.code == 2
    assert "'train/daisy/0.jpg' occurs twice: in the dataset already" in ended.err
    return ended


def test_the_advice_of_a_refused_append_can_be_followed(cli: Cli, packed: Path, more: Path, refused: Ended) -> None:
    assert "--key-conflict suffix" in refused.err
    ended = cli("pack", more, packed, "--on-existing", "append", "--key-conflict", "suffix")
    assert (ended.code, ended.err) == (0, "")
    assert "samples=16" in ended.last_line
    assert not (packed / ".journal").exists()


def test_gc_after_a_refused_append(cli: Cli, packed: Path, refused: Ended) -> None:
    ended = cli("gc", packed, "--delete")
    assert ended.code == 0, ended.err
    assert "files=0" not in ended.last_line  # the refused shard
    assert cli("verify", packed, "--full").code == 0
    assert not (packed / ".journal").exists()


def test_another_append_after_a_refused_one(cli: Cli, packed: Path, tmp_path: Path, refused: Ended) -> None:
    put(tmp_path, "other/train/rose/x.jpg", encoded(9, 9))
    ended = cli("pack", tmp_path / "other", packed, "--on-existing", "append")
    assert ended.code == 0, ended.err
    assert "samples=15" in ended.last_line


def test_the_same_append_once_its_input_is_mended(cli: Cli, packed: Path, more: Path, refused: Ended) -> None:
    (more / "train/daisy/0.jpg").unlink()
    ended = cli("pack", more, packed, "--on-existing", "append")
    assert ended.code == 0, ended.err
    assert "samples=15" in ended.last_line
    assert sorted(path.name for path in packed.iterdir() if path.name.startswith(".")) == [".lock"]


def test_where_nothing_can_be_packed_no_journal_is_left(cli: Cli, packed: Path, tmp_path: Path) -> None:
    put(tmp_path, "bad/train/daisy/bad.jpg", b"no image")
    assert cli("pack", tmp_path / "bad", packed, "--on-existing", "append").code == 3
    assert not (packed / ".journal").exists()
    assert cli("gc", packed).code == 0


# --- --abort ----------------------------------------------------------------------------------------------------


@pytest.fixture
def rejected(cli: Cli, more: Path, packed: Path) -> Path:
    """The dataset with an unfinished append beside it: one of its samples is rejected."""
    (more / "train/daisy/0.jpg").write_bytes(b"no image")
    assert cli("pack", more, packed, "--on-existing", "append").code == 3
    assert (packed / ".journal").exists()
    return packed


@pytest.mark.parametrize("with_source", [True, False])
def test_abort_gives_an_append_up(cli: Cli, rejected: Path, more: Path, flowers: Path, with_source: bool) -> None:
    before = toolkit.open(rejected, split="val").pin
    for args in (("gc", rejected), ("pack", flowers / "val", rejected, "--on-existing", "append")):
        ended = cli(*args)
        assert ended.code == 2
        assert f"toolkit pack --abort {rejected}" in ended.err
    ended = cli("pack", *([more] if with_source else []), rejected, "--abort")
    assert (ended.code, ended.last_line) == (0, f"aborted=true shards=1 pin={before}")
    assert "note: its 1 finished shard stay" in ended.err
    assert not (rejected / ".journal").exists()
    assert cli("gc", rejected, "--delete").code == 0
    assert cli("verify", rejected, "--full").code == 0
    assert toolkit.open(rejected, split="val").pin == before
    ended = cli("pack", "--abort", rejected)
    assert (ended.code, "has no unfinished pack to give up" in ended.err) == (2, True)


def test_abort_of_a_first_pack_leaves_nothing(cli: Cli, tmp_path: Path) -> None:
    put(tmp_path, "src/a/1.jpg", encoded(9, 9))
    put(tmp_path, "src/a/2.jpg", b"no image")
    assert cli("pack", tmp_path / "src", tmp_path / "ds").code == 3
    ended = cli("pack", "--abort", tmp_path / "ds", "--json")
    document = json.loads(ended.out)
    assert (document["schema"], document["shards"], document["pin"]) == ("toolkit.pack-abort/1", 1, None)
    assert not (tmp_path / "ds").exists()
    for missing in (tmp_path / "ds", tmp_path / "src"):
        assert cli("pack", "--abort", missing).code == 2
    assert sorted(path.name for path in (tmp_path / "src").iterdir()) == ["a"]


def test_abort_of_a_damaged_journal(cli: Cli, rejected: Path) -> None:
    (rejected / ".journal/job.json").write_bytes(b"\xff")
    assert cli("pack", "--abort", rejected).code == 0
    assert cli("gc", rejected).code == 0


# --- interrupts, and pins that nobody heard ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (0, "kept: 0 of 4 shards. The same command begins anew"),
        (90, "of 4 shards. The same command goes on where it was"),
    ],
)
def test_an_interrupt_says_what_is_kept(tmp_path: Path, after: int, said: str) -> None:
    make_folder(tmp_path / "src", {"ant": 130})
    code = (
        "import os, signal, sys\n"
        "from toolkit.cli.main import main\n"
        "from toolkit.sources.kinds.imagefolder import source\n"
        "real, seen = source.read_images, [0]\n"
        "def read(entries, *rest):\n"
        "    seen[0] += len(entries)\n"
        f"    if seen[0] > {after}:\n"
        "        raise KeyboardInterrupt\n"
        "    return real(entries, *rest)\n"
        "source.read_images = read\n"
        "main()\n"
    )
    args = ["pack", str(tmp_path / "src"), str(tmp_path / "ds"), "--shard-size", "64KiB", "--jobs", "1"]
    done = subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True, timeout=60)
    assert done.returncode == 130
    assert done.stderr.startswith("interrupted; nothing was committed; kept: ")
    assert said in done.stderr
    assert program(*args).code == 0


def test_a_pin_that_nobody_heard_is_said_again(flowers: Path, tmp_path: Path) -> None:
    args = ("pack", str(flowers), str(tmp_path / "ds"), "-q")
    reader, writer = os.pipe()
    os.close(reader)  # as in `toolkit pack … | true`
    done = subprocess.run([*PROGRAM, *args], stdout=writer, stderr=subprocess.PIPE, timeout=PATIENCE)
    os.close(writer)
    assert done.returncode == 141
    pin = toolkit.open(tmp_path / "ds", split="val").pin
    said = program(*args)
    assert (said.code, said.last_line.split("pin=")[1]) == (0, pin)
    assert program(*args).code == 2  # it was heard

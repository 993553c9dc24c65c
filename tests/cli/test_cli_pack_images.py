"""`toolkit pack --verify-images --image-encoding --short-side`, their twins and keys."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command import Cli, encoded, put
from PIL import Image

import toolkit


def sizes(dataset: Path) -> set[tuple[int, ...]]:
    ds = toolkit.open(dataset, split="val")
    return {ds[i]["image"].shape for i in range(len(ds))}


def test_raw_of_a_size(cli: Cli, flowers: Path, tmp_path: Path) -> None:
    ended = cli("pack", flowers, tmp_path / "ds", "--image-encoding", "raw", "--short-side", "30", "--json")
    assert (ended.code, ended.err) == (0, "")
    options = json.loads(ended.out)["options"]
    assert (options["verify_images"], options["image_encoding"], options["short_side"]) == ("header", "raw", 30)
    assert sizes(tmp_path / "ds") == {(36, 30, 3), (37, 30, 3), (40, 30, 3)}


def test_twins_and_keys(cli: Cli, flowers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pack.yaml").write_text(
        f"source: {flowers}\ndataset: {tmp_path / 'ds'}\n"
        "image_encoding: jpeg:70\nshort_side: 20\nverify_images: decode\n"
    )
    command = ("pack", "--config", tmp_path / "pack.yaml", "--dry-run", "--json")

    def options(*flags: object) -> tuple[object, ...]:
        found = json.loads(cli(*command, *flags).out)["options"]
        return found["image_encoding"], found["short_side"], found["verify_images"]

    assert options() == ("jpeg:70", 20, "decode")
    monkeypatch.setenv("TOOLKIT_IMAGE_ENCODING", "raw")
    monkeypatch.setenv("TOOLKIT_SHORT_SIDE", "21")
    monkeypatch.setenv("TOOLKIT_VERIFY_IMAGES", "off")
    assert options() == ("raw", 21, "off")
    assert options("--image-encoding", "jpeg:1", "--verify-images", "header") == ("jpeg:1", 21, "header")


def test_a_dry_run_says_how_images_would_be_stored(cli: Cli, flowers: Path, tmp_path: Path) -> None:
    command = ("pack", flowers, tmp_path / "ds", "--dry-run")
    assert "columns: image (image, keep), label (label);" in cli(*command).out
    ended = cli(*command, "--image-encoding", "jpeg:90", "--short-side", "256")
    assert ended.code == 0
    assert "columns: image (image, jpeg:90), label (label);" in ended.out
    assert "images: resized where their shorter side has more than 256 pixels" in ended.out
    document = json.loads(cli(*command, "--image-encoding", "raw", "--json").out)
    assert document["encodings"] == {"image": "raw"}
    assert not (tmp_path / "ds").exists()


def test_images_that_cannot_be_decoded(cli: Cli, tmp_path: Path) -> None:
    put(tmp_path, "src/a.jpg", encoded(40, 30))
    put(tmp_path, "src/cut.jpg", encoded(60, 50)[:-900])
    assert cli("pack", tmp_path / "src", tmp_path / "header").code == 0
    assert cli("verify", tmp_path / "header", "--decode").code == 1
    for flags in (["--verify-images", "decode"], ["--image-encoding", "raw"]):
        ended = cli("pack", tmp_path / "src", tmp_path / flags[1], *flags)
        assert ended.code == 3
        assert "cut.jpg: column 'image': the JPEG data end too early" in ended.err
    ended = cli("pack", tmp_path / "src", tmp_path / "raw", *flags, "--max-rejects", "1")
    assert ended.code == 0
    pin = ended.last_line.rpartition("=")[2]
    reject = json.loads((tmp_path / f"raw/reports/{pin}.rejects.jsonl").read_text())
    assert (reject["source"], reject["key"]) == ("src/cut.jpg", "cut.jpg")
    assert cli("verify", tmp_path / "raw", "--full", "--decode").code == 0


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--short-side", "9"], "--short-side needs --image-encoding jpeg:QUALITY or raw"),
        (["--image-encoding", "jpeg"], "a quality from 1 to 100 belongs to it, as in jpeg:90"),
        (["--image-encoding", "kep"], "Did you mean 'keep'?"),
        (["--image-encoding", "raw", "--short-side", "0"], "0 is less than 1"),
        (["--verify-images", "head"], "Did you mean 'header'?"),
    ],
)
def test_refused(cli: Cli, flowers: Path, tmp_path: Path, flags: list[str], says: str) -> None:
    ended = cli("pack", flowers, tmp_path / "ds", *flags)
    assert (ended.code, ended.out) == (2, "")
    assert says in ended.err
    assert not (tmp_path / "ds").exists()


def test_a_config_that_contradicts_itself(cli: Cli, tmp_path: Path) -> None:
    config = tmp_path / "pack.yaml"
    for text, says in (
        ("short_side: 9\n", "--short-side needs"),
        ("verify_images: off\n", "expected one of header, decode, off, got false; put the word in quotes"),
        ("image_encoding: jpeg:0\n", "expected keep, jpeg:QUALITY as in jpeg:90, or raw, got 'jpeg:0'"),
    ):
        config.write_text(f"source: s\ndataset: d\n{text}")
        ended = cli("config", "check", config)
        assert ended.code == 2
        assert says in ended.err


def test_the_usual_limit_on_pixels(cli: Cli, tmp_path: Path) -> None:
    """A PNG of 21 kB used to become 537 MB of pixels, by way of 2.1 GB."""
    put(tmp_path, "src/a.jpg", encoded(60, 50))
    Image.new("1", (13_000, 12_900)).save(tmp_path / "src" / "bomb.png")
    assert (tmp_path / "src" / "bomb.png").stat().st_size < 30_000
    ended = cli("pack", tmp_path / "src", tmp_path / "ds", "--image-encoding", "raw", "--max-rejects", "1", "--json")
    assert "13000 x 12900 pixels, more than max_pixels=134217728" in str(json.loads(ended.out)["rejects"])
    assert "--max-pixels" in ended.out


def test_max_pixels_of_pack_and_verify(cli: Cli, tmp_path: Path) -> None:
    put(tmp_path, "src/a.jpg", encoded(60, 50))
    put(tmp_path, "src/b.png", encoded(60, 50, "PNG"))
    put(tmp_path, "src/c.png", encoded(6, 5, "PNG"))
    command = ("pack", tmp_path / "src", tmp_path / "ds", "--verify-images", "decode")
    ended = cli(*command, "--max-pixels", "2999", "--max-rejects", "2", "--json")
    document = json.loads(ended.out)
    assert (document["samples"], document["options"]["max_pixels"]) == (1, 2999)
    assert str(document["rejects"]).count("60 x 50 pixels, more than max_pixels=2999") == 2
    assert cli(*command, "--on-existing", "overwrite", "--max-pixels", "3000").code == 0
    assert cli("verify", tmp_path / "ds", "--decode").code == 0
    ended = cli("verify", tmp_path / "ds", "--decode", "--max-pixels", "2999")
    assert ended.code == 1
    assert ended.out.count("more than max_pixels=2999") == 2
    assert cli(*command, "--max-pixels", "3000000000").code == 2

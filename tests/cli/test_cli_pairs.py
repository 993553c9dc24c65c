"""--pair: patterns behind one flag, behind several, between commas, in YAML and in Python."""

from __future__ import annotations

from pathlib import Path

from command import Cli, encoded, put

import toolkit
from toolkit.cli.flags import gathered


def test_the_command_takes_patterns_as_people_write_them(cli: Cli, tmp_path: Path) -> None:
    source = tmp_path / "in"
    for stem in "abc":
        for name in (f"images/{stem}.jpg", f"masks/{stem}.png"):
            put(source, name, encoded(8, 8, "PNG" if name.endswith("png") else "JPEG"))
        put(source, f"texts/{stem}.txt", stem.encode())
    patterns = ["images/{}.jpg", "mask=masks/{}.png", "caption=texts/{}.txt"]
    ways = [
        [str(source), "DS", "--pair", *patterns],
        ["--pair", *patterns, "--jobs", "1", str(source), "DS"],
        [str(source), "DS", *(part for one in patterns for part in ("--pair", one))],
        [f"--pair={','.join(patterns)}", str(source), "DS"],
    ]
    config = tmp_path / "pack.yaml"
    config.write_text("pair:\n  image: images/{}.jpg\n  mask: ['masks/{}.png']\n  caption: texts/{}.txt\n")
    ways.append([str(source), "DS", "--config", str(config)])
    pins = set()
    for number, way in enumerate(ways):
        done = cli("pack", *[str(tmp_path / f"ds{number}") if word == "DS" else word for word in way])
        assert done.code == 0, done.err
        pins.add(done.last_line.rpartition("pin=")[2])
    named = {"image": patterns[0], "mask": "masks/{}.png", "caption": "texts/{}.txt"}
    pins.add(toolkit.pack(source, tmp_path / "python", pair=named).pin)
    assert len(pins) == 1


def test_only_patterns_are_gathered() -> None:
    def of(*words: str) -> list[str]:
        return gathered(words, "--pair", lambda text: "{}" in text)

    assert of("a", "b") == ["a", "b"]
    assert of("a", "--pair", "x{}", "y{}", "b", "z{}") == ["--pair", "x{},y{}", "a", "b", "z{}"]
    assert of("--pair=x{}", "y{}", "--json", "--pair", "no") == ["--pair", "x{},y{},no", "--json"]
    assert of("--pair", "x{}", "--", "--pair", "y{}") == ["--pair", "x{}", "--", "--pair", "y{}"]
    assert of("a", "--pair") == ["a", "--pair"]
    assert of("--pair", "x{}", "--y={}") == ["--pair", "x{}", "--y={}"]

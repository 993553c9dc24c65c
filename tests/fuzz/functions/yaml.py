"""Configs: what is read equals what yaml.safe_load reads; what is refused is a ToolkitError, said with its line."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import yaml
from fuzz.inputs import File, refused, same
from typer.main import get_command

from toolkit.cli.config_options import keys_of
from toolkit.cli.main import app
from toolkit.errors import ToolkitError, UsageError
from toolkit.options.load import load_config, read_settings
from toolkit.options.tree import read_tree

_KEYS = keys_of(get_command(app).commands["pack"])  # type: ignore[attr-defined]
_CONFIG = File("config.yaml")
_LONGEST = 4000  # PyYAML is slow


def _tree(text: str) -> str:
    try:
        tree = read_tree(text, "config.yaml")
    except UsageError as error:
        return refused(error, r"config\.yaml(:\d+)?: .")
    assert same(tree.value, yaml.safe_load(text)), (text, tree.value)
    assert all(0 < line <= len(re.split("\r\n|[\n\r\x85\u2028\u2029]", text)) for line in tree.lines.values())
    return ""


def _settings(data: bytes) -> str:
    try:
        settings = load_config(_CONFIG.write(data), _KEYS)
    except ToolkitError as error:
        return refused(error, r"[^:]*/config\.yaml").replace(_CONFIG.path, "")
    for name, setting in settings.items():
        assert _KEYS[name].value.fault(setting.value) is None
    return "config"


def fuzz(data: bytes) -> object:
    """Use one input."""
    data = data[:_LONGEST]
    said = _settings(data)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        assert "not UTF-8" in said, said
        return "not UTF-8"
    refused = _tree(text)
    assert not refused or said.rpartition(": ")[2] == refused.rpartition(": ")[2], (said, refused)
    for line in text.splitlines()[:4]:
        with contextlib.suppress(UsageError):
            read_settings([line], _KEYS)
    return re.sub(r"[0-9]|'.*?'|\".*?\"", "", said)[:30]


def seeds() -> list[bytes]:
    """Return the configs of the repository, and documents of all that YAML has."""
    folder = Path(__file__).resolve().parents[3] / "configs"
    odd = [
        "a: &x 1\nb: *x\n", "a: !!python/object:os.system {}\n", "a: 1\na: 2\n", "? [a]\n: b\n", "<<: {a: 1}\n",
        "--- 1\n--- 2\n", "a: 2024-02-30\nb: 2024-02-03 04:05:06.7 +08:09\n", "a: 0x1F\nb: 0o17\nc: 017\nd: 1_0\n"
        "e: 1:30\nf: .inf\ng: -.nan\nh: ~\ni: yes\nj: 0b1\nk: 1e3\nl: 1.e+3\n", "a: |+2\n    x\n\nb: >-\n  y\n  z\n",
        "{a: [1, {b: c}], 'd''': \"\\x41\\u00e9\\U0001F600\\\n  x\"}\n", "%YAML 1.1\n---\na: b # c\n...\n", "a:\t1\n",
        "= : =\n", "map: {image: jpg, label: cls}\nshuffle_seed: 7\nmax_rejects: 1%\ncolumns: [a, b]\n",
        "\x85a: 1\u2028", "!!binary aGk=\n", "- - - 1\n  - 2\n- [\n", "1: {2: 3, null: 4, true: 5, 1.5: 6}\n",
    ]  # fmt: skip
    return [path.read_bytes() for path in sorted(folder.glob("pack_*.yaml"))] + [text.encode() for text in odd]
